"""Orderings that a paper claims, as pairs to compare, and whether our runs show them. No outcome is assumed.

Differences are formed seed by seed and count where their 95 % interval decides; with fewer than three seeds nothing does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpcl_core.figures.statistics import Interval, interval
from dpcl_core.papers import effects
from dpcl_core.papers.measured import Measured

State = Literal["found", "not found", "cannot tell", "not run"]
ALIKE_POINTS = 2.0  # "no change": the whole interval is within this many points of zero (our choice)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run of the experiment by its label, a budget, a prediction rule (None: the run's own)."""

    run: str
    epsilon: float
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """`first` is claimed to have the higher metric than `second`, or ("alike") the same one.

    `test`: method and variant of the printed p value on this comparison; None where the paper tests nothing.
    """

    statement: str
    first: Side
    second: Side
    metric: str = "AA"
    kind: Literal["higher", "alike"] = "higher"
    test: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of our runs on an ordering; the difference first - second in points, None where a side has not run.

    "not found": the interval shows the opposite. "cannot tell": it shows neither.
    """

    ordering: Ordering
    state: State
    difference: Interval | None


def judge(ordering: Ordering, runs: Mapping[str, Measured]) -> Judged:
    """Whether the runs (by label) show the ordering, its opposite, or neither clearly."""
    sides = [_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second)]
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return Judged(ordering, "not run", None)
    difference = interval([100 * (sides[0][seed] - sides[1][seed]) for seed in shared])
    return Judged(ordering, _state(ordering.kind, difference), difference)


def unpaired(ordering: Ordering, runs: Mapping[str, Measured]) -> Interval | None:
    """The difference in points with an interval that pairs no seeds (`effects.eq_23`); None with fewer than three seeds."""
    first, second = (_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second))
    shared = sorted(first.keys() & second.keys())
    return effects.unpaired([100 * first[seed] for seed in shared], [100 * second[seed] for seed in shared])


def _state(kind: Literal["higher", "alike"], difference: Interval) -> State:
    if difference.low is None or difference.high is None:
        return "cannot tell"
    if kind == "higher":
        return "found" if difference.low > 0 else "not found" if difference.high < 0 else "cannot tell"
    if difference.low >= -ALIKE_POINTS and difference.high <= ALIKE_POINTS:
        return "found"  # even where zero is left out: a difference, but one too small to matter
    return "not found" if difference.low > 0 or difference.high < 0 else "cannot tell"


def _values(side: Side, metric: str, runs: Mapping[str, Measured]) -> dict[int, float]:
    run = runs.get(side.run)
    return {} if run is None else run.by_seed(side.epsilon, metric, side.rule)
