"""Parses and checks settings: returns a RunSpec, or raises BadInput with one sentence that says what to change."""

from __future__ import annotations

import math
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Literal

from dpcl_core.backbones import bundled
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import DatasetCard
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.fields import flat, in_toml
from dpcl_core.machine import lacking, memory_bytes
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.given_lists import for_training
from dpcl_core.methods.common.method import MethodCard, PublicSizes, check_public_labels, run_sizes
from dpcl_core.privacy import budgets
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios import federated
from dpcl_core.scenarios.catalog import ScenarioCard
from dpcl_core.spec import SMALLEST_DELTA, DataSpec, PrivacySpec, RunSpec, S, Settings, fields_of, validated

DEFAULT_METHOD = "cosine"
DEFAULT_SCENARIO = "class-incremental"
_MOST_FIXES = 8  # a method with another kind of data, stream, network and list of labels takes four
USUAL_DELTA = 1e-5  # one that many data allow
WORDS = 4  # of a tagged sentence that count, for a method that protects single rows
_PROMPT = 40  # tokens reserved for the task's name and the label after a text

# Dotted keys of all settings except those of a method or a scenario.
_SETTINGS = (
    *fields_of(RunSpec),
    *(f"data.{name}" for name in fields_of(DataSpec)),
    *(f"privacy.{name}" for name in fields_of(PrivacySpec)),
)

Raw = Mapping[str, object]


def parse(raw: Raw) -> RunSpec:
    """The RunSpec of a nested mapping from TOML or JSON; missing settings take the cards' defaults.

    Raises BadInput naming the first wrong setting by its dotted key.
    """
    method = methods.card(_text(raw.get("method", DEFAULT_METHOD), "method"))
    said = _table(raw.get("scenario", {}), "scenario")
    scenario = scenarios.card(_text(said.get("kind", DEFAULT_SCENARIO), "scenario.kind"))
    params = _settings(method.params, _table(raw.get("params", {}), "params"), "params")
    settings = federated.settings_of(scenario.name, has_clients=method.has_clients)
    stream = _settings(settings, {**said, "kind": scenario.name}, "scenario")
    return validated(RunSpec, {**raw, "method": method.name, "params": params, "scenario": stream}, known=_SETTINGS)


def _settings(model: type[S], given: Raw, table: str) -> S:
    return validated(model, given, table, [f"{table}.{name}" for name in fields_of(model)])


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedRun:
    """A run with the cards of all that its settings name, looked up once. `facts`: public sizes, before data are read."""

    spec: RunSpec
    method: MethodCard
    dataset: DatasetCard
    backbone: backbones.BackboneCard
    scenario: ScenarioCard
    facts: PublicSizes

    @property
    def gives_lists(self) -> bool:
        """Whether lists of labels that are read or learned are given to the method's learners."""
        return self.spec.labels in ("data", "dp-learned") and not self.method.learns_lists

    @property
    def rows_per_unit(self) -> int:
        return rows_per_unit(self.method, self.dataset)

    def with_lists(self, spec: RunSpec) -> RunSpec:
        """These settings of the run as its learners get them, where lists are given to them."""
        return for_training(spec, is_on_top=self.method.guarantee == "nominal") if self.gives_lists else spec

    @classmethod
    def of(cls, spec: RunSpec, facts: PublicSizes) -> ResolvedRun:
        """The run with its cards; checks nothing. Raises BadInput for an unknown name."""
        cards = methods.card(spec.method), datasets.card(spec.data.dataset), backbones.card(spec.data.backbone)
        return cls(spec, *cards, scenarios.card(spec.scenario.kind), facts)


def rows_per_unit(method: MethodCard, dataset: DatasetCard) -> int:
    """How many training rows a privacy unit has at most: of a person, or words of a sentence where no client holds it."""
    return WORDS if dataset.kind == "tagged" and not method.has_clients else dataset.rows_per_unit


def check_run(spec: RunSpec) -> ResolvedRun:
    """Checks that the run can be carried out on this computer, as far as cards and file headers show; looks up its names.

    Raises BadInput for an impossible combination, DataMissing for missing packages, data or weights.
    """
    dataset, method = datasets.card(spec.data.dataset), methods.card(spec.method)
    check_cards(spec, dataset)
    if dataset.scaled_by == "training" and method.guarantee == "proved" and any(map(math.isfinite, spec.privacy.epsilons)):
        allowed = (
            "is scaled by the mean and variance of its training examples, which this method's bound does not cover; use "
            f"{dataset.files_of}, or privacy.epsilons = [inf]"
        )
        raise BadInput("data.dataset", dataset.name, allowed, {"data.dataset": dataset.files_of})
    _check_accounted(spec.privacy, rows_per_unit(method, dataset))
    check_here(spec)
    facts = datasets.facts_of(spec.data)
    if (needed := datasets.needed_bytes(spec.data)) > (here := memory_bytes()):
        allowed = f"needs about {needed / 1e9:.2g} GB of memory, and this computer has {here / 1e9:.2g} GB: "
        raise BadInput("data.dataset", dataset.name, f"{allowed}bring fewer rows, or take some by data.train_per_class")
    try:
        n_tasks = scenarios.number_of_tasks(spec.scenario, facts.n_classes, facts.sources)
    except BadInput as error:
        if f"{facts.n_classes} classes" in error.allowed and (why := datasets.of_own_labels(dataset)):
            raise BadInput(error.field, error.value, f"{error.allowed}; {why}", error.fix) from error
        raise
    sizes = run_sizes(spec, facts, n_tasks)
    if sizes.n_users is not None or method.batch_size(spec.params):
        _check_streams(spec, int(sizes.task_size))
    run = ResolvedRun.of(spec, sizes)
    method.refuses(run.with_lists(spec), sizes)
    n_units = sizes.n_users or sizes.n_people
    if spec.privacy.delta >= 1 / n_units:
        units = "training examples" if sizes.n_users is None else "clients"
        allowed = f"must be below 1/{n_units} = {1 / n_units:.2g}, one over the number of {units}: with a larger δ, "
        allowed += "publishing one of them in full would be allowed"
        raise BadInput("privacy.delta", spec.privacy.delta, allowed, {"privacy.delta": default_delta(n_units)})
    if facts.classes is not None:
        public_classes(spec, spec.scenario.label_names(facts.classes))
    return run


def check_cards(spec: RunSpec, dataset: DatasetCard) -> None:
    """Raises BadInput where method, network, stream or list of labels do not go with such data, by their cards alone."""
    method, scenario = methods.card(spec.method), scenarios.card(spec.scenario.kind)
    _check_method(spec, method, scenario, dataset)
    _check_network(spec, backbones.card(spec.data.backbone), method, scenario, dataset)


def _check_method(spec: RunSpec, method: MethodCard, scenario: ScenarioCard, dataset: DatasetCard) -> None:
    """Raises BadInput where the method does not take these data, tasks or labels."""
    methods.check_kinds(spec, dataset)
    if scenario.name not in method.scenarios:
        allowed = f"{method.title} takes {', '.join(method.scenarios)}"
        raise BadInput("scenario.kind", scenario.name, allowed, {"scenario": {"kind": method.scenarios[0]}})
    if dataset.has_people and (method.guarantee == "nominal" or spec.scenario.n_users is not None):
        # By the group bound any method that protects a row can protect a person with several.
        proved = [card for card in methods.CARDS.values() if card.guarantee == "proved"]
        able = [card.name for card in proved if not card.has_clients]
        what = "protects clients" if spec.scenario.n_users is not None else "claims nothing of several rows of one person"
        allowed = f"{what}, and the data have a column of people: take {', '.join(able)}, with tasks of a single holder"
        # The settings of the method before are not those of another one.
        fix = {"method": able[0], "params": {}, "scenario": {"kind": "class-incremental"}}
        raise BadInput("method", spec.method, allowed, fix)
    if spec.labels not in method.labels:
        allowed = f"{method.title} takes {', '.join(method.labels)}"
        raise BadInput("labels", spec.labels, allowed, {"labels": method.labels[0]})
    if spec.labels in ("data", "dp-learned") and spec.public_labels is not None:
        allowed = "needs labels = prior or prior-const"
        raise BadInput("public_labels", ", ".join(spec.public_labels), allowed, {"labels": "prior-const"})


def _check_network(
    spec: RunSpec, backbone: backbones.BackboneCard, method: MethodCard, scenario: ScenarioCard, dataset: DatasetCard
) -> None:
    """Raises BadInput where the network does not read these data, or not for this method."""
    is_written = dataset.kind in ("text", "tagged")  # its values are what an encoder makes of it
    if scenario.needs_values and backbone.name != "pixels" and not is_written:
        allowed = f"must be pixels with scenario.kind = {scenario.name}, which rearranges the examples' own values"
        raise BadInput("data.backbone", backbone.name, allowed, _network("pixels"))
    reads_texts, is_adapted = spec.params.inputs == "text", spec.params.inputs == "images"
    if scenario.needs_values and is_adapted:
        allowed = f"must be head with scenario.kind = {scenario.name}, which rearranges values that no network has changed"
        raise BadInput("params.adapter", getattr(spec.params, "adapter", ""), allowed, {"params.adapter": "head"})
    fitting = _network(backbones.fitting(dataset.name, is_language_model=reads_texts))
    gives_none = "text" not in backbone.reads or (backbone.is_language_model and not is_adapted)
    if dataset.kind == "text" and not reads_texts and gives_none:
        able = [card.name for card in backbones.CARDS.values() if "text" in card.reads and not card.is_language_model]
        allowed = f"must be an encoder of texts for {method.title} on {dataset.title}: {', '.join(able)} or st:NAME"
        raise BadInput("data.backbone", backbone.name, allowed, fitting)
    protocol = spec.scenario.protocol if isinstance(spec.scenario, scenarios.Federated) else None
    is_together = protocol == "domain-incremental" or scenario.name in ("source-incremental", "permuted")
    if dataset.kind == "tagged" and not is_together and not method.has_clients:
        allowed = f"must be source-incremental or permuted with {dataset.name}: words of a sentence stay together"
        raise BadInput("scenario.kind", scenario.name, allowed, {"scenario": {"kind": "source-incremental"}})
    if dataset.kind == "tagged" and not is_together:
        allowed = f"must be domain-incremental with {dataset.name}, in a federated stream: words of a sentence stay together"
        fix = {"scenario": {"kind": "federated", "protocol": "domain-incremental"}}
        raise BadInput("scenario.protocol", protocol, allowed, fix)
    if backbone.is_language_model and not reads_texts and not is_adapted:
        raise BadInput("data.backbone", backbone.name, f"is a language model, which {method.title} does not train", fitting)
    if reads_texts and not backbone.is_language_model:
        able = [card.name for card in backbones.CARDS.values() if card.is_language_model]
        allowed = f"must be a language model, which {method.title} trains: {', '.join(able)} or hf:NAME"
        raise BadInput("data.backbone", backbone.name, allowed, fitting)
    if reads_texts and backbone.context and spec.params.text_length > backbone.context - _PROMPT:
        most = backbone.context - _PROMPT
        allowed = f"must be at most {most}: {backbone.name} reads {backbone.context} tokens, task name and label included"
        raise BadInput("params.length", spec.params.text_length, allowed, {"params.length": most})
    if refusal := backbones.refuses(backbone, dataset.name):
        raise BadInput("data.backbone", backbone.name, refusal, fitting)
    backbones.refuse_resolution(backbone, spec.data.resolution)
    bundled.refuse(backbone, dataset.name, spec.data.axes)


def check_here(spec: RunSpec) -> None:
    """Checks that packages, data and weights are on this computer. Raises DataMissing. Opens no file."""
    if missing := lacking(methods.card(spec.method).packages):
        raise DataMissing("method", spec.method, missing)
    if missing := datasets.available(datasets.card(spec.data.dataset)):
        raise DataMissing("data.dataset", spec.data.dataset, missing)
    if missing := backbones.available(backbones.card(spec.data.backbone)):
        raise DataMissing("data.backbone", spec.data.backbone, missing)


def _check_accounted(privacy: PrivacySpec, rows: int) -> None:
    """Raises BadInput for a delta below what the accountants resolve, once it is divided among the rows of a person."""
    finite = [epsilon for epsilon in privacy.epsilons if math.isfinite(epsilon)]
    if not finite or budgets.for_a_row(privacy, rows).delta >= SMALLEST_DELTA:
        return
    smallest = budgets.smallest_delta(max(finite), rows)
    if smallest < USUAL_DELTA:
        of_row = f", {SMALLEST_DELTA:g} of each of {rows} rows at epsilon {max(finite):g}" if rows > 1 else ""
        allowed = f"must be at least {smallest:.3g}{of_row}: the accountants resolve no smaller one"
        fix = {"privacy.delta": 10.0 ** math.ceil(math.log10(smallest) - 1e-9)}
        raise BadInput("privacy.delta", privacy.delta, allowed, fix)
    allowed = (
        f"must be smaller where a person or sentence has {rows} rows: at delta {privacy.delta:g} a row would have less than "
        f"{SMALLEST_DELTA:g}, and the accountants resolve no smaller one"
    )
    raise BadInput("privacy.epsilons", max(finite), allowed)


def repair(raw: Raw) -> dict[str, object]:
    """Changes by dotted key after which these settings can be carried out: the fixes of one refusal after another.

    A setting of the method or scenario whose refusal has no fix takes its default. Empty where nothing needs mending, and
    where another refusal on the way has no fix.
    """
    changes: dict[str, object] = {}
    for _ in range(_MOST_FIXES):
        try:
            check_run(parse(changed(raw, changes)))
        except BadInput as refused:
            fix = refused.fix or _default(changed(raw, changes), refused.field)
            if not fix or fix.items() <= changes.items():
                return {}
            # Without what the fix replaces, by itself or with its table.
            changes = {key: value for key, value in changes.items() if not {key, key.partition(".")[0]} & fix.keys()}
            changes |= fix
        else:
            return changes
    return {}


def _default(raw: Raw, key: str) -> dict[str, object]:
    """The change of a setting of the method or scenario to its default, or of all the method's where it has that already.

    None for other keys.
    """
    table, _, name = key.partition(".")
    if table == "params":
        model: type[Settings] = methods.card(str(raw.get("method", DEFAULT_METHOD))).params
    elif table == "scenario":
        kind = str(_table(raw.get("scenario", {}), table).get("kind", DEFAULT_SCENARIO))
        model = federated.settings_of(kind, has_clients=methods.card(str(raw.get("method", DEFAULT_METHOD))).has_clients)
    else:
        return {}
    field, given = fields_of(model).get(name), _table(raw.get(table, {}), table)
    if field is None:
        return {}
    default = field.default
    return {table: {}} if table == "params" and given.get(name, default) == default else {key: default}


def _network(name: str | None) -> dict[str, object]:
    """The change to another network, at its own resolution and axes; none without a name."""
    return {"data.backbone": name, "data.resolution": None, "data.axes": None} if name else {}


def _check_streams(spec: RunSpec, nominal_size: int) -> None:
    """Checks task sizes and label spaces of every seed's stream, from label columns, before features are computed.

    `nominal_size`: public number of training examples of a task; nothing is counted in the user's own data.

    Raises BadInput as the scenario does, for a task without a public label and for one smaller than a batch.
    """
    named = spec.scenario.is_task_given
    has_batches = methods.card(spec.method).batch_size(spec.params) > 0
    for seed in spec.seeds:
        stream = scenarios.preview(spec.data, spec.scenario, seed)
        if stream is None:
            continue
        public = public_classes(spec, stream.classes)
        if has_batches or named or spec.labels == "prior":  # with one list for all tasks a client's task may be empty
            check_public_labels(spec, zip(stream.tasks, stream.homes, strict=True), public)
        sizes = [nominal_size] * len(stream.tasks)
        if stream.counts is not None:  # None for the user's own data, where counts would be a release
            spaces = _competing(spec, stream.homes, public)
            sizes = [int(counts[space].sum()) for counts, space in zip(stream.counts, spaces, strict=True)]
        refuse_small_task(spec, zip(stream.tasks, sizes, strict=True))


def _competing(spec: RunSpec, homes: Sequence[Sequence[int]], public: Sequence[int]) -> list[list[int]]:
    """The labels learned in each task: all public ones, or with `labels = prior` those listed by then."""
    if spec.labels != "prior":
        return [list(public)] * len(homes)
    given = spec.params.is_task_given
    listed = [set(homes[task]) if given else set().union(*homes[: task + 1]) for task in range(len(homes))]
    return [sorted(space & set(public)) for space in listed]


def refuse_small_task(spec: RunSpec, tasks: Iterable[tuple[str, int]]) -> None:
    """Raises BadInput where the method's batch is larger than the smallest task.

    `tasks`: names and training examples with public labels.
    """
    batch = methods.card(spec.method).batch_size(spec.params)
    name, size = min(tasks, key=lambda task: task[1])
    if batch > size:
        which = " with public labels" if spec.public_labels is not None else ""
        allowed = f"must be at most {size}, the number of training examples of {name}{which}"
        raise BadInput("params.batch_size", batch, allowed, {"params.batch_size": size} if size else None)


def public_classes(spec: RunSpec, classes: Sequence[str]) -> tuple[int, ...]:
    """Indices of the classes assumed public, ascending. Raises BadInput for a name that the dataset does not have."""
    if spec.public_labels is None:
        return tuple(range(len(classes)))
    for name in spec.public_labels:
        if name not in classes:
            listed = ", ".join(classes[:12]) + (" ..." if len(classes) > 12 else "")
            raise BadInput("public_labels", name, f"must be classes of {spec.data.dataset}: {listed}")
    return tuple(index for index, name in enumerate(classes) if name in spec.public_labels)


def default_delta(n_people: int) -> float:
    """Largest power of ten below 1/(10 n)."""
    return 10.0 ** -math.ceil(math.log10(10 * n_people) + 1e-12)


def read_toml(text: str) -> dict[str, object]:
    """The nested mapping of a TOML text. Raises BadInput with the line where it breaks."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits, and tables inside tables
        reason = "its tables lie too deep" if isinstance(error, RecursionError) else error
        raise BadInput("spec", text.strip().splitlines()[0] if text.strip() else "", f"must be TOML: {reason}") from error


def apply_sets(raw: Raw, assignments: Sequence[str]) -> dict[str, object]:
    """`raw` with every `dotted.key=value` set; values are read as TOML, bare words as text. Raises BadInput."""
    return changed(raw, read_sets(assignments))


def read_sets(assignments: Sequence[str]) -> dict[str, object]:
    """The values of assignments by their dotted keys. Raises BadInput."""
    values: dict[str, object] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise BadInput("--set", assignment, "must be written dotted.key=value")
        values[key.strip()] = read_value(text.strip())
    return values


def changed(raw: Raw, values: Raw) -> dict[str, object]:
    """`raw` with values set by their dotted keys. Raises BadInput for a key inside something that is not a table."""
    result = deepcopy(dict(raw))
    for key, value in values.items():
        *tables, last = key.split(".")
        place = result
        for name in tables:
            inner = place.setdefault(name, {})
            if not isinstance(inner, dict):
                raise BadInput(key, value, f"{name} holds a value and has no settings inside")
            place = inner
        place[last] = deepcopy(value)
    return result


def to_toml(spec: RunSpec) -> str:
    """The spec as TOML; `parse(read_toml(...))` gives it back. Settings that are None are left out."""
    document = asdict(spec)
    top = {key: value for key, value in document.items() if not isinstance(value, dict)}
    lines = [f"{key} = {in_toml(value)}" for key, value in top.items() if value is not None]
    for name, table in document.items():
        if isinstance(table, dict) and table:
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {in_toml(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def command_line(spec: RunSpec, command: Literal["run", "audit"] = "run") -> str:
    """The exact command that runs this spec, or audits its method, independent of defaults."""
    return f"python -m dpcl_core {command} {as_sets(flat(asdict(spec)))}"


def as_sets(values: Mapping[str, object]) -> str:
    """Values by dotted key as they are written on a command line: `--set key=value ...`; without those that are None."""
    return " ".join(f"--set {shlex.quote(f'{key}={in_toml(value)}')}" for key, value in values.items() if value is not None)


def read_value(text: str) -> object:
    """The value of a setting as it is typed: TOML, else a bare word."""
    with suppress(ValueError, RecursionError):
        return tomllib.loads(f"v = {text}")["v"]
    return text  # --set method=cosine; also numbers of thousands of digits, and lists inside lists


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise BadInput(field, value, "must be a name")
    return value


def _table(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadInput(field, value, f"must be a table of settings, such as [{field}]")
    return value
