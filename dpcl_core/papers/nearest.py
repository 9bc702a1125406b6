"""What is known of a run before it is made: the recorded run nearest to it, about how long it takes, what fits new data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, cast

from dpcl_core import checks, paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import DatasetCard
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import measured, questions
from dpcl_core.papers.measured import Measured
from dpcl_core.spec import DataSpec, RunSpec

if TYPE_CHECKING:
    import pandas as pd

# How much a difference weighs, by setting; any other weighs one.
_WEIGHTS = {"method": 60, "scenario.kind": 40, "data.backbone": 20, "labels": 10}
_OF_NO_CURVE = ("privacy.epsilons", "privacy.delta", "privacy.noise", "seeds", "tuned")  # they leave the curve of a budget
_PASSES = ("epochs", "rounds", "steps", "local_steps")  # settings that a training takes in proportion to
_LEAST_SECONDS, _LEAST_SHARE = 2.0, 0.05  # of a run, whatever its size; of the run that it is compared with
_NOT_LONG = 600.0  # seconds: with more, other data bring fewer models
_FEATURES_A_SECOND = 100.0  # of a network whose speed was not measured
_CLASS_SIZE = 100  # of data of which nothing is known


@dataclass(frozen=True, slots=True)
class _Known:
    """A run of which the duration on the processor is known. `work`: in units that only runs of one method share."""

    spec: RunSpec
    seconds: float
    work: float


def nearest(spec: RunSpec) -> Measured | None:
    """The recorded run on the same data, with a curve, that differs least; None where none was recorded on them.

    A run of another method, stream or network is farther away than one with any number of other settings.
    """
    wanted = _flat(spec)
    on_them = (run for run in measured.all_recorded() if run.spec.data.dataset == spec.data.dataset)
    alike = [run for run in on_them if run.models and run.models[0].curves]

    def distance(run: Measured) -> int:
        return sum(_WEIGHTS.get(key, 1) for key in _differing(wanted, _flat(run.spec)))

    return min(alike, key=distance, default=None)


def differences(spec: RunSpec, other: RunSpec) -> list[str]:
    """The settings, by dotted key, in which two runs' curves differ: what weighs most first."""
    return sorted(_differing(_flat(spec), _flat(other)), key=lambda key: -_WEIGHTS.get(key, 1))


def question_of(spec: RunSpec) -> str | None:
    """The preset whose recorded answer has a run with exactly these settings; None where there is none."""
    digest = spec.digest()
    found = (name for name in presets.names() if digest in questions.digests(name))
    return next((name for name in found if questions.recorded(questions.specs(name))), None)


def ghost(
    spec: RunSpec, example: tuple[RunSpec, pd.DataFrame], *, dark: bool = False
) -> tuple[Picture, Provenance, RunSpec] | None:
    """The curve of the nearest record in grey, its origin and its settings; None where there is none on these data.

    `example`: the settings of a further record and its accuracies as `runs.frames` has them, for data that no other is on.
    """
    from dpcl_core.figures import curves

    run = nearest(spec)
    if run is not None:
        of, title, table = run.spec, run.dataset_title, _accuracies(run)
    elif example[0].data.dataset == spec.data.dataset:
        of, title, table = example[0], datasets.called(spec.data.dataset), example[1]
    else:
        return None
    asked = table[table["epsilon"].isin(spec.privacy.epsilons)]
    table = table if asked.empty else asked
    standing, n_tasks = methods.standing(of), int(table["after_task"].max()) + 1
    picture = curves.accuracy_over_tasks(
        table, n_tasks=n_tasks, labels=of.labels, score=datasets.score(of.data.dataset), standing=standing, is_ghost=True,
        dark=dark,
    )  # fmt: skip
    budgets, n_seeds = tuple(sorted(set(table["epsilon"]))), table["seed"].nunique()
    source = Provenance(
        title, None, methods.card(of.method).title, of.labels, budgets, of.privacy.delta, (n_seeds,), standings=(standing,)
    )
    return picture, source, of


def _accuracies(run: Measured) -> pd.DataFrame:
    """The recorded curves, as `runs.frames` has accuracies."""
    import pandas as pd

    table = pd.DataFrame(run.curve_rows("AA"), columns=["epsilon", "seed", "after_task", "accuracy"])
    table.insert(3, "on_task", 0)
    return table


def rough_seconds(spec: RunSpec) -> float:
    """About how long a run takes on the processor: an order of magnitude, from recorded runs in proportion to the work.

    From those of the same method, data and network as far as there are any; of several, the one with most nearly as much
    work.
    """
    return _rough(spec, _known())


def _rough(spec: RunSpec, known: Sequence[_Known]) -> float:
    work = _work(spec)

    def is_alike(one: RunSpec, same: str) -> bool:
        of = {"m": one.method == spec.method, "d": one.data.dataset == spec.data.dataset}
        of |= {"b": one.data.backbone == spec.data.backbone, "f": _family(one) == _family(spec), "a": True}
        return all(of[letter] for letter in same)

    groups = ([one for one in known if is_alike(one.spec, same)] for same in ("mdb", "mb", "m", "fb", "f", "a"))
    group = next(group for group in groups if group)
    ratio = min((one.work / work for one in group), key=lambda ratio: abs(math.log(ratio)))
    closest = [one.seconds for one in group if one.work / work == ratio]
    return max(_LEAST_SECONDS, median(closest) * max(1 / ratio, _LEAST_SHARE))


def feature_seconds(data: DataSpec) -> float:
    """About how long a network takes on the processor to compute the features of these data; 0 where none does."""
    card = backbones.card(data.backbone)
    if card.name == "pixels" or card.is_language_model:
        return 0.0
    speeds = measured_resolutions(card.name)
    side = str(data.resolution or next(iter(card.resolutions), ""))
    return _n_train(data) / (speeds[side]["pictures_per_second"] if side in speeds else _FEATURES_A_SECOND)


@cache
def measured_resolutions(network: str) -> Mapping[str, Mapping[str, float]]:
    """Speed and accuracy of a network by resolution, from scripts/measure_resolutions.py; empty where none are recorded."""
    path = paths.assets_dir() / "axes" / f"{network}-resolutions.json"
    found = json.loads(path.read_text(encoding="utf-8"))["resolutions"] if path.exists() else {}
    return cast("Mapping[str, Mapping[str, float]]", found)


def fitting(raw: checks.Raw, dataset: str) -> dict[str, object]:
    """Changes by dotted key that settings need on other data: the dataset, its network, and fewer budgets and seeds where
    all would take long. Own data begin with one model, since every budget and seed is a release.
    """
    card = datasets.card(dataset)
    changes: dict[str, object] = {"data": {"dataset": dataset, "backbone": _network(dataset)}, "public_labels": None}
    spec = checks.parse(checks.changed(raw, changes))
    changes["privacy.delta"] = checks.default_delta(card.n_train or _CLASS_SIZE)
    usual, seeds = (spec.privacy.usual_epsilon,), spec.seeds
    steps = [({}, seeds), ({"privacy.epsilons": usual}, seeds[:3]), ({"privacy.epsilons": usual}, seeds[:1])]
    for budgets, some in steps[2:] if card.is_own else steps:
        fitted = changes | budgets | ({} if some == seeds else {"seeds": some})
        if rough_seconds(checks.parse(checks.changed(raw, fitted))) <= _NOT_LONG:
            break
    return _mended(raw, fitted, card)


def _mended(raw: checks.Raw, fitted: dict[str, object], card: DatasetCard) -> dict[str, object]:
    """The changes with those that stream, method and labels need: a stream has more tasks than one, and the data stay."""
    mended = checks.repair(checks.changed(raw, fitted))
    if "data.dataset" in mended:  # words of sentences: clients share them
        other: dict[str, object] = {"method": "label-means", "params": {}, "labels": "prior-const"}
        other["scenario"] = {"kind": "federated", "protocol": "domain-incremental"}
        mended = other | checks.repair(checks.changed(raw, fitted | other))
    elif mended.get("scenario.tasks") == 1:
        kind = "source-incremental" if len(card.sources) > 1 else "class-incremental"
        mended["scenario"] = {"kind": kind} | ({"tasks": card.n_classes} if kind == "class-incremental" else {})
        del mended["scenario.tasks"]
    return {key: value for key, value in fitted.items() if key not in mended} | mended


def _network(dataset: str) -> str:
    """The network for a dataset: that of the first question on it, if it is here, else the usual one of its kind."""
    asked = (presets.load(name, here=True).data for name in presets.names())
    networks = (data.backbone for data in asked if data.dataset == dataset)
    here = (name for name in networks if backbones.available(backbones.card(name)) is None)
    return next(here, None) or presets.usual_network(dataset)


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    """The settings with different values; those that a method or a stream has by itself count where both have it."""
    apart = {"params." if one["method"] != other["method"] else "", "scenario." if _kind(one) != _kind(other) else ""}
    own = tuple(prefix for prefix in apart if prefix)
    keys = (key for key in {**one, **other} if key == "scenario.kind" or not own or not key.startswith(own))
    return (key for key in keys if one.get(key) != other.get(key))


def _kind(settings: Mapping[str, object]) -> object:
    return settings["scenario.kind"]


def _flat(spec: RunSpec) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in spec.jsonable().items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, Mapping) else {key: value}
    return {key: value for key, value in flat.items() if key not in _OF_NO_CURVE}


@cache
def _known() -> tuple[_Known, ...]:
    """The records of the processor, and the presets whose duration is measured."""
    known = [(run.spec, run.seconds) for run in measured.all_recorded() if run.device == "cpu"]
    for name in presets.names():
        if (seconds := presets.about(name).seconds) is not None:
            known.append((presets.load(name), seconds))
    return tuple(_Known(spec, seconds, _work(spec)) for spec, seconds in known if seconds > 0)


def _work(spec: RunSpec) -> float:
    """The models of a run times their training examples times the passes over them."""
    passes = math.prod(float(getattr(spec.params, name, None) or 1) for name in _PASSES)
    every = getattr(spec.scenario, "tasks", None) or 1 if spec.scenario.recurrence == "every" else 1
    return max(1.0, spec.n_cells * _n_train(spec.data) * passes * every)


def _n_train(data: DataSpec) -> int:
    """The training examples, by the dataset's card and the settings."""
    n_train, n_classes, n_sources = _sizes(data.dataset)
    for cap, n_parts in ((data.train_per_class, n_classes), (data.train_per_source, n_sources)):
        n_train = n_train if cap is None else min(n_train, cap * n_parts)
    return n_train


@cache
def _sizes(dataset: str) -> tuple[int, int, int]:
    """Training examples, classes and sources of a dataset, by its card; a few hundred where there is none."""
    try:
        card = datasets.card(dataset)
    except BadInput:
        return 10 * _CLASS_SIZE, 10, 1
    return card.n_train or 10 * _CLASS_SIZE, card.n_classes or 10, max(1, len(card.sources) or len(card.members))


def _family(spec: RunSpec) -> str:
    return methods.card(spec.method).module.rpartition(".")[0]
