"""What is known of a run before it is made: the run nearest to it, its time, what fits new data, the accuracy to expect."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from statistics import median
from typing import NamedTuple, cast

import numpy as np

from dpcl_core import checks, paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.fields import flat
from dpcl_core.figures import curves
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicSizes, of_spec
from dpcl_core.methods.features.cosine import forecast
from dpcl_core.metrics import grouped
from dpcl_core.papers import measured, questions
from dpcl_core.privacy.noise_forecast import COSTLY, NEAR_CHANCE
from dpcl_core.spec import DataSpec, LabelSetting, RunSpec

# How much a difference weighs, by setting; any other weighs one.
_WEIGHTS = {"method": 60, "scenario.kind": 40, "data.backbone": 20, "labels": 10}
_OF_NO_CURVE = ("privacy.epsilons", "privacy.delta", "privacy.noise", "seeds", "tuned")  # they leave the curve of a budget
_PASSES = ("epochs", "rounds", "steps", "local_steps")  # settings that a training takes in proportion to
_LEAST_SECONDS, _LEAST_SHARE = 2.0, 0.05  # of a run, whatever its size; of the run that it is compared with
_NOT_LONG = 600.0  # seconds: with more, other data bring fewer models
_FEATURES_A_SECOND = 100.0  # of a network whose speed was not measured
_CLASS_SIZE = 100  # of data of which nothing is known


@dataclass(frozen=True, slots=True)
class _Timed:
    """A run of which the duration on the processor is known. `work`: in units that only runs of one method share."""

    spec: RunSpec
    seconds: float
    work: float


def nearest(spec: RunSpec) -> measured.Measured | None:
    """The recorded run on the same data, with a curve, that differs least; None where none was recorded on them.

    A run of another method, stream or network is farther away than one with any number of other settings.
    """
    wanted = _flat(spec)
    on_them = (run for run in measured.all_recorded() if run.spec.data.dataset == spec.data.dataset)
    alike = [run for run in on_them if run.models and run.models[0].curves]

    def distance(run: measured.Measured) -> int:
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


def _accuracies(run: measured.Measured) -> pd.DataFrame:
    """The recorded curves, as `runs.frames` has accuracies."""
    table = pd.DataFrame(run.curve_rows("AA"), columns=["epsilon", "seed", "after_task", "accuracy"])
    table.insert(3, "on_task", 0)
    return table


def rough_seconds(spec: RunSpec) -> float:
    """About how long a run takes on the processor: an order of magnitude, from recorded runs in proportion to the work.

    From those of the same method, data and network as far as there are any; of several, the one with most nearly as much
    work.
    """
    return _rough(spec, _timed())


def _rough(spec: RunSpec, known: Sequence[_Timed]) -> float:
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
    # With what stream, method and labels need: a stream has more tasks than one, and the data stay.
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
    apart = {"params.": "method", "scenario.": "scenario.kind"}
    own = tuple(prefix for prefix, key in apart.items() if one[key] != other[key])
    keys = (key for key in {**one, **other} if key == "scenario.kind" or not own or not key.startswith(own))
    return (key for key in keys if one.get(key) != other.get(key))


def _flat(spec: RunSpec) -> dict[str, object]:
    return {key: value for key, value in flat(spec.jsonable()).items() if key not in _OF_NO_CURVE}


@cache
def _timed() -> tuple[_Timed, ...]:
    """The records of the processor, and the presets whose duration is measured."""
    known = [(run.spec, run.seconds) for run in measured.all_recorded() if run.device == "cpu"]
    for name in presets.names():
        if (seconds := presets.about(name).seconds) is not None:
            known.append((presets.load(name), seconds))
    return tuple(_Timed(spec, seconds, _work(spec)) for spec, seconds in known if seconds > 0)


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


# Which ε, which method, are the data too few: the accuracy to expect from public numbers alone, by recorded runs.
#
# A recorded run on other data is carried over to the asked numbers in two steps. Its accuracy above guessing is multiplied
# by the measured share that noise of the asked ratio leaves, over that at its own ratio (`privacy.noise_forecast`). Then
# runs of the method are averaged, those with a like ratio and a like number of classes and tasks counting most. How far
# this is off is measured by leaving out each dataset in turn: the interval holds nine in ten errors on the dataset where
# they are largest. With an interval made without a dataset, `SHARE` of its runs and more lay within it, for each of six.


BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS = ("cosine", "peft-ensemble", "naive", "non-cl")
SHARE = 0.8  # of the runs on a dataset that was left out lie within the interval
_HELD = 0.9  # of the errors on the dataset where they are largest
_RATIOS = (0.05, 0.2, 0.45, 1.1, 1.9, 4.0, 7.0, 30.0)  # noise to signal: the middles of the table in `noise_forecast`
_LEFT = (1.0, 0.94, 0.81, 0.44, 0.22, 0.08, 0.02, 0.0)  # the median share of accuracy above chance that is left
_LEAST_LEFT = 0.1  # a run with less says nothing of what could have been learned
_WIDTHS = (1.0, 1.0, 2.0)  # of closeness in the logarithms of ratio, classes and tasks


@dataclass(frozen=True, slots=True)
class Sizes:
    """Public numbers of a run. `n_features`: numbers of an example, as its network gives them."""

    n_people: int
    n_classes: int
    n_tasks: int
    network: str
    n_features: int
    labels: LabelSetting
    delta: float

    def ratio(self, epsilon: float) -> float:
        """Length of the noise on a class's sum over the longest that the sum can be, for the cosine classifier."""
        raw = {
            "method": "cosine", "data": {"dataset": "digits", "backbone": self.network}, "labels": self.labels,
            "scenario": {"kind": "class-incremental", "tasks": self.n_tasks}, "seeds": [0],
            "privacy": {"epsilons": [epsilon], "delta": self.delta},
        }  # fmt: skip
        spec, facts = checks.parse(raw), PublicSizes(self.n_people, self.n_tasks, self.n_classes)
        n_features = methods.axes_by_epsilon(spec, facts).get(epsilon, self.n_features)
        in_task = self.n_classes / self.n_tasks
        return forecast(spec, epsilon, n_features=n_features, classes_per_task=in_task, facts=facts).ratio


@dataclass(frozen=True, slots=True)
class Known:
    """A budget of a recorded run: its ratio, and the share of what can be gained over guessing that it reached."""

    method: str
    dataset: str
    network: str
    ratio: float
    n_classes: int
    n_tasks: int
    gain: float


class Expected(NamedTuple):
    """Accuracy to expect, in [0, 1], and its interval."""

    accuracy: float
    low: float
    high: float


def sizes_of(spec: RunSpec) -> Sizes | None:
    """The public numbers of a run; None for one that the records say nothing of, or whose numbers are not known before.

    Of such a run every person has one row, in one task, and may be left out.
    """
    if spec.scenario.recurrence != "once" or spec.scenario.n_users is not None or spec.privacy.adjacency != "add-remove":
        return None
    try:
        facts, card, data = of_spec(spec), backbones.card(spec.data.backbone), datasets.card(spec.data.dataset)
    except BadInput:
        return None
    n_features = card.feature_dim or data.n_values
    if not n_features or card.is_language_model or not facts.n_people or data.rows_per_unit > 1 or data.kind == "tagged":
        return None
    return Sizes(facts.n_people, facts.n_classes, facts.n_tasks, card.name, n_features, spec.labels, spec.privacy.delta)


@cache
def known() -> tuple[Known, ...]:
    """What the records say of these methods, a finite budget each; with noise as printed."""
    found = []
    for run in (*measured.recorded(measured.OWN), *measured.all_recorded()):
        spec = run.spec
        is_other = getattr(spec.params, "noise_over_tasks", "fresh") != "fresh"
        if spec.method not in METHODS or is_other or (sizes := sizes_of(spec)) is None:
            continue
        for epsilon in sorted({model.epsilon for model in run.models if math.isfinite(model.epsilon)}):
            values, chance = list(run.by_seed(epsilon, "AA").values()), 1 / sizes.n_classes
            gain = (float(np.mean(values)) - chance) / (1 - chance)
            of = spec.method, spec.data.dataset, sizes.network, sizes.ratio(epsilon), sizes.n_classes, sizes.n_tasks
            found.append(Known(*of, gain))
    return tuple(found)


def expected(sizes: Sizes) -> dict[tuple[str, float], Expected]:
    """What to expect of each of `METHODS` at each of `BUDGETS`."""
    chance, off, found = 1 / sizes.n_classes, error(known()), {}
    for method, epsilon in product(METHODS, BUDGETS):
        at = Known(method, "", sizes.network, sizes.ratio(epsilon), sizes.n_classes, sizes.n_tasks, 0.0)
        if (gain := carried_over(at, known())) is not None:
            ends = np.clip([gain, gain - off, gain + off], 0, 1)
            found[method, epsilon] = Expected(*(chance + (1 - chance) * ends).tolist())
    return found


def carried_over(at: Known, records: Sequence[Known]) -> float | None:
    """The share of what can be gained over guessing at these numbers, by runs of the method; None where there are none."""
    alike = [one for one in records if one.method == at.method]
    if not alike:
        return None
    rows = [(math.log(one.ratio), math.log(one.n_classes), math.log(one.n_tasks)) for one in [at, *alike]]
    apart = (np.array(rows[1:]) - rows[0]) / _WIDTHS
    weights = np.exp(-((apart**2).sum(axis=1) + np.array([one.network != at.network for one in alike])) / 2) + 1e-9
    gains = [min(1.0, one.gain * _left(at.ratio) / max(_left(one.ratio), _LEAST_LEFT)) for one in alike]
    return float(np.average(gains, weights=weights))


@cache
def error(records: tuple[Known, ...]) -> float:
    """How far a gain that is carried over from other datasets may be off; 1 where no two datasets have a method."""
    gains = ((one, carried_over(one, [other for other in records if other.dataset != one.dataset])) for one in records)
    off = grouped((one.dataset, abs(one.gain - gain)) for one, gain in gains if gain is not None)
    return max((float(np.quantile(errors, _HELD, method="higher")) for errors in off.values()), default=1.0)


def _left(ratio: float) -> float:
    return float(np.interp(math.log(ratio), np.log(_RATIOS), _LEFT))


def advice(sizes: Sizes) -> str:
    """Whether the data are too few, and from which ε on they are not."""
    ratios, said = {epsilon: sizes.ratio(epsilon) for epsilon in BUDGETS}, []
    if hopeless := [epsilon for epsilon, ratio in ratios.items() if ratio >= NEAR_CHANCE]:
        wanted = _people(sizes, hopeless[-1])
        said.append(f"Too few for ε = {hopeless[-1]:g} or less: expect little more than guessing ({wanted} would do).")
    if costly := [epsilon for epsilon, ratio in ratios.items() if COSTLY <= ratio < NEAR_CHANCE]:
        budgets, wanted = " and ".join(f"{epsilon:g}" for epsilon in costly), _people(sizes, costly[0])
        said.append(f"Few for ε = {budgets}: noise may take half of what can be learned ({wanted} would do).")
    if enough := [epsilon for epsilon, ratio in ratios.items() if ratio < COSTLY]:
        said.append(f"Enough for ε = {enough[0]:g}{' and more' if len(enough) > 1 else ''}.")
    return " ".join(said)


def _people(sizes: Sizes, epsilon: float) -> str:
    """About the smallest number of examples with which noise is below the signal, rounded up to two digits."""
    while sizes.ratio(epsilon) >= COSTLY:
        sizes = replace(sizes, n_people=math.ceil(1.05 * sizes.n_people))
    unit = 10 ** max(0, math.floor(math.log10(sizes.n_people)) - 1)
    return f"about {math.ceil(sizes.n_people / unit) * unit:,} examples"
