"""Which ε, which method, are the data too few: the accuracy to expect from public numbers alone, by recorded runs.

A recorded run on other data is carried over to the asked numbers in two steps. Its accuracy above guessing is multiplied by
the measured share that noise of the asked ratio leaves, over that at its own ratio (`privacy.noise_forecast`). Then runs of
the method are averaged, those with a like ratio and a like number of classes and tasks counting most. How far this is off
is measured by leaving out each dataset in turn: the interval holds nine in ten errors on the dataset where they are
largest. With an interval made without a dataset, `SHARE` of its runs and more lay within it, for each of six.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import PublicSizes, of_spec
from dpcl_core.methods.features.cosine import forecast
from dpcl_core.papers import measured
from dpcl_core.privacy.noise_forecast import COSTLY, NEAR_CHANCE
from dpcl_core.spec import LabelSetting, RunSpec

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
    of = facts.n_people, facts.n_classes, facts.n_tasks, card.name, n_features
    return Sizes(*of, spec.labels, spec.privacy.delta)


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
    others = np.array([one.network != at.network for one in alike])
    weights = np.exp(-((apart**2).sum(axis=1) + others) / 2) + 1e-9
    gains = [min(1.0, one.gain * _left(at.ratio) / max(_left(one.ratio), _LEAST_LEFT)) for one in alike]
    return float(np.average(gains, weights=weights))


@cache
def error(records: tuple[Known, ...]) -> float:
    """How far a gain that is carried over from other datasets may be off; 1 where no two datasets have a method."""
    off: dict[str, list[float]] = {}
    for one in records:
        gain = carried_over(one, [other for other in records if other.dataset != one.dataset])
        if gain is not None:
            off.setdefault(one.dataset, []).append(abs(one.gain - gain))
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
