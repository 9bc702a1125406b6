"""Presets by name: each a question, an expected duration and a complete spec, in `assets/presets/NAME.toml`.

An experiment of a paper has several runs: `[spec]` holds the first, each `[[also]]` another one as a label and its changed
settings. `run --preset` carries out the first, with `--all` all of them, as `reproduce` does. `[without.NETWORK]` holds the
changed settings of the first for a computer that lacks a network which is fetched.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from dpcl_core import checks, paths
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data import understood
from dpcl_core.data.card import Kind
from dpcl_core.errors import BadInput, unknown
from dpcl_core.privacy import budgets
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import PrivacySpec, RunSpec, ScenarioSpec, fields_of, validated

Shows = Literal["budgets", "forgetting", "streams", "labels", "adapting", "claims", "words", "matching", "no-privacy"]


@dataclass(frozen=True, slots=True)
class Preset:
    """The description of a preset. `seconds`: expected duration of `[spec]` on two CPU cores (None: not measured).

    `shows`: what its answer is about.

    `label` names the run of `[spec]` among those of an experiment; `seconds_in_all` is the duration of all runs.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    title: str
    question: str
    shows: Shows
    seconds: float | None
    live_demo: bool
    label: str = "main"
    seconds_in_all: float | None = None

    @property
    def asks_about_forgetting(self) -> bool:
        """Whether its answer says what was forgotten, beside what was learned."""
        return self.shows == "forgetting" or "forget" in f"{self.title} {self.question}".casefold()


@dataclass(frozen=True, slots=True)
class Also:
    """One more run of a preset: its label, and its changed settings in the form of `--set`."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    label: str
    set: tuple[str, ...]


def names() -> list[str]:
    """The names of the presets: live demos first, then by expected duration, unmeasured ones last."""
    described = [about(name) for name in known()]
    described.sort(key=lambda one: (not one.live_demo, one.seconds is None, one.seconds or 0.0, one.name))
    return [one.name for one in described]


def known() -> list[str]:
    """The names of the presets, in no order that means anything: no file is read."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


@cache
def about(name: str) -> Preset:
    """The description of a preset. Raises BadInput naming the known presets."""
    return validated(Preset, {"seconds": None, "name": name, **_document(name)["about"]}, f"preset {name}: about")


def raw(name: str, *, here: bool = False) -> dict[str, object]:
    """The raw settings of a preset, which `--set` can change; `here`: with the networks of this computer.

    Raises BadInput naming the known presets.
    """
    document = _document(name)
    for network, changes in document.get("without", {}).items() if here else ():
        if backbones.available(backbones.card(network)) is not None:
            return checks.apply_sets(document["spec"], changes["set"])
    return deepcopy(document["spec"])


def load(name: str, *, here: bool = False) -> RunSpec:
    """The spec of a preset; `here`: as in `raw`. Raises BadInput naming the known presets."""
    return checks.parse(raw(name, here=here))


def variants(name: str, sets: Sequence[str] = (), *, here: bool = False) -> dict[str, RunSpec]:
    """Every run of a preset by its label, the one of `[spec]` first, each changed by `sets`, in the form of `--set`.

    `here`: as in `raw`. Raises BadInput naming the known presets.
    """
    first = raw(name, here=here)
    specs = {about(name).label: checks.parse(checks.apply_sets(first, sets))}
    for said in _document(name).get("also", ()):
        also = validated(Also, said, f"preset {name}: also")
        if also.label in specs:
            raise BadInput(f"preset {name}", also.label, "must be the label of one run only")
        specs[also.label] = checks.parse(checks.apply_sets(first, [*also.set, *sets]))
    return specs


def _folder() -> Path:
    return paths.assets_dir() / "presets"


@cache
def _document(name: str) -> dict[str, Any]:
    """The document of a preset. Raises BadInput naming the known presets."""
    if name not in known():
        raise unknown("preset", name, known())
    return checks.read_toml((_folder() / f"{name}.toml").read_text(encoding="utf-8"))


# A run on the user's own data with nothing declared: its settings by public rules, and what they assume, in words.

_TASKS = _CLIENTS = 2
# The network of each kind: the first that can be used here. Without weights where the examples are numbers or words.
_NETWORKS: Mapping[Kind, tuple[str, ...]] = {
    "image": ("lite0", "convnext-cifar100", "pixels"),
    "sensor": ("pixels",),
    "text": ("minilm", "hashed-text"),
    "tagged": ("minilm", "hashed-text"),
    "table": ("pixels",),
    "embedding": ("pixels",),
}
_SHARES = (0.1, 0.2, 0.3, 0.5)


def settings(name: str) -> dict[str, object]:
    """Raw settings of a run of the cosine classifier on own:NAME in two tasks, with a list of labels learned privately.

    It has one model, as every budget and seed is a release of its own. Its tasks are the sources where the data have some,
    else groups of classes. Tagged sentences get a federated method. Raises BadInput as reading the data
    does, and for data of a single class.
    """
    facts, card = datasets.facts(name), datasets.card(name)
    kind, network = card.kind, usual_network(name)
    delta = min(checks.USUAL_DELTA, checks.default_delta(facts.n_train))
    privacy = PrivacySpec(epsilons=(PrivacySpec().usual_epsilon,), delta=delta)
    share = _label_share(privacy, facts.n_train // facts.n_classes, card.rows_per_unit)
    raw: dict[str, object] = {
        "data": {"dataset": name, "backbone": network}, "seeds": [0],
        "privacy": {"epsilons": list(privacy.epsilons), "delta": delta, "label_share": share},
    }  # fmt: skip
    if kind == "tagged":
        tasks = {"kind": "federated", "protocol": "domain-incremental", "clients": _CLIENTS}
        return {**raw, "method": "label-means", "labels": "prior-const", "scenario": tasks}
    raw |= {"method": "cosine", "labels": "dp-learned"}
    if len(facts.sources) > 1:
        return {**raw, "scenario": {"kind": "source-incremental", "order": facts.sources}}
    if facts.n_classes < _TASKS:
        allowed = f"must have {_TASKS} labels or more in its test part: choose another column as target, or add rows"
        raise BadInput(name, f"{facts.n_classes} label", allowed)
    if facts.n_classes % _TASKS:  # class-incremental tasks are equally large; these may differ by one class
        return {**raw, "scenario": {"kind": "i-blurry", "tasks": _TASKS, "disjoint_percent": 100}}
    return {**raw, "scenario": {"kind": "class-incremental", "tasks": _TASKS}}


def usual_network(dataset: str) -> str:
    """The first network for this kind of data that can be used here. Raises BadInput for an unknown dataset."""
    return next(one for one in _NETWORKS[datasets.card(dataset).kind] if backbones.available(backbones.card(one)) is None)


def streams(name: str, n_tasks: int) -> list[ScenarioSpec]:
    """The scenarios that own:NAME allows, in `n_tasks` tasks where their number can be chosen. Public facts alone."""
    facts, card = datasets.facts(name), datasets.card(name)
    found = []
    for kind, scenario in scenarios.CARDS.items():
        if scenario.needs_values and card.kind in ("text", "tagged"):
            continue
        if scenario.has_clients if card.has_people else card.kind == "tagged" and not scenario.has_clients:
            continue
        chosen: dict[str, object] = {"tasks": n_tasks} if "tasks" in fields_of(scenario.settings) else {}
        if kind == "source-incremental":
            chosen["order"] = facts.sources or None
        if scenario.has_clients:
            chosen["clients"] = _CLIENTS
        settings = validated(scenario.settings, {"kind": kind, **chosen})
        with suppress(BadInput):
            scenarios.number_of_tasks(settings, facts.n_classes, facts.sources)
            found.append(settings)
    return found


def _label_share(privacy: PrivacySpec, class_size: int, rows_per_unit: int) -> float:
    """The smallest share of epsilon for the list of labels with which a class of half the nominal size is on it more often
    than not; by public numbers alone."""
    from dpcl_core.privacy.labels import people_to_be_named

    of_row = budgets.for_a_row(privacy, rows_per_unit)
    epsilon = of_row.epsilons[privacy.epsilons.index(privacy.usual_epsilon)]
    for share in _SHARES:
        if people_to_be_named(replace(of_row, label_share=share), epsilon, _TASKS, class_size // 2) is not None:
            return share
    return _SHARES[-1]


def on_own(name: str, changes: Mapping[str, object]) -> RunSpec:
    """The settings of a run on own:NAME, with these changed by their dotted keys. Raises BadInput, as `check_run` does."""
    raw = settings(name)
    if "scenario.kind" in changes or "scenario" in changes:
        del raw["scenario"]  # what is assumed of one kind of stream means something else in another
    return checks.check_run(checks.parse(checks.changed(raw, changes))).spec


def assumed(spec: RunSpec) -> list[str]:
    """What a run on own data assumes, one sentence each, and what would make it better. Public facts alone."""
    name = spec.data.dataset
    found = understood.understand(name)
    features = "the embeddings" if found.kind == "embedding" else f"features of {spec.data.backbone}"
    if found.n_values:
        features = f"{found.n_values} numbers of each row"
    return [
        f"{name}: {found.kind}; method {spec.method} on {features}, {spec.scenario.kind} tasks, labels = {spec.labels}.",
        *found.assumed,
    ]
