"""Orderings that a paper claims, as pairs to compare, and whether our runs show them. No outcome is assumed.

Differences are formed seed by seed and count where their 95 % interval decides; with fewer than three seeds nothing does.
Two comparisons are never decided, whatever the interval: of two runs that only guess, which says nothing about methods, and
of records that two editions of the code made, which share no draws that seeds could pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from dpcl_core.figures.statistics import Interval, interval, widened
from dpcl_core.papers import effects
from dpcl_core.papers.measured import Measured

State = Literal["found", "not found", "cannot tell", "both guess", "two editions", "not run"]
JUDGED: tuple[State, ...] = ("found", "not found", "cannot tell")  # two runs that can be compared
GUESS_POINTS = 0.5  # a run that ends at most this many points above chance only guesses (our choice)
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

    `test`: method and variant of the printed p value on this comparison; None where the paper tests nothing. `is_ours`: the
    paper draws no such comparison.
    """

    statement: str
    first: Side
    second: Side
    metric: str = "AA"
    kind: Literal["higher", "alike"] = "higher"
    test: tuple[str, str] | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of our runs on an ordering; the difference first - second in points, None where no seeds can be paired.

    "not found": the interval shows the opposite. "cannot tell": it shows neither. "both guess": neither run is better than
    guessing. "two editions": the sides were recorded by two editions of the code. "not run": a side has not run.
    """

    ordering: Ordering
    state: State
    difference: Interval | None


def judge(ordering: Ordering, runs: Mapping[str, Measured], chances: Mapping[str, float] | None = None) -> Judged:
    """Whether the runs (by label) show the ordering, its opposite, or neither clearly.

    `chances`: by label, what guessing gives on a run's test data, in [0, 1]; of a run without, it is not asked whether it
    only guesses.
    """
    sides = [_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second)]
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return Judged(ordering, "not run", None)
    first, second = ordering.first, ordering.second
    if runs[first.run].edition != runs[second.run].edition:
        return Judged(ordering, "two editions", None)
    difference = interval([100 * (sides[0][seed] - sides[1][seed]) for seed in shared])
    if all(_only_guesses(side, ordering.metric, runs[side.run], (chances or {}).get(side.run)) for side in (first, second)):
        return Judged(ordering, "both guess", difference)
    return Judged(ordering, _state(ordering.kind, difference), difference)


def unpaired(ordering: Ordering, runs: Mapping[str, Measured]) -> Interval | None:
    """The difference in points with an interval that pairs no seeds (`effects.eq_23`); None with fewer than three seeds."""
    first, second = (_values(side, ordering.metric, runs) for side in (ordering.first, ordering.second))
    shared = sorted(first.keys() & second.keys())
    return effects.unpaired([100 * first[seed] for seed in shared], [100 * second[seed] for seed in shared])


def _state(kind: Literal["higher", "alike"], difference: Interval) -> State:
    if difference.low is None or difference.high is None:
        return "cannot tell"
    if kind == "alike" and difference.low >= -ALIKE_POINTS and difference.high <= ALIKE_POINTS:
        return "found"  # even where zero is left out: a difference, but one too small to matter
    if abs(difference.mean) <= widened(difference).half_width:
        return "cannot tell"
    return "found" if kind == "higher" and difference.mean > 0 else "not found"


def _only_guesses(side: Side, metric: str, run: Measured, chance: float | None) -> bool:
    """Whether the run ends no better than guessing, on the mean of its seeds; False where chance is not known.

    Metrics other than the final accuracy also see what a run knew before it forgot: there, what it reached on each task
    right after learning it must be a guess too. That is its final accuracy less the backward transfer, which is a mean over
    all tasks but the last.
    """
    ends = run.by_seed(side.epsilon, "AA", side.rule)
    if chance is None or not ends:
        return False
    levels = [fmean(ends.values())]
    transfers = run.by_seed(side.epsilon, "BWT")
    if metric not in ("AA", "pooled") and transfers:
        n_tasks = max(sum(name.startswith("task") for name in model.metrics) for model in run.models)
        share = (n_tasks - 1) / n_tasks if n_tasks else 1.0
        levels.append(levels[0] - share * fmean(transfers.values()))
    return 100 * max(levels) <= 100 * chance + GUESS_POINTS


def _values(side: Side, metric: str, runs: Mapping[str, Measured]) -> dict[int, float]:
    run = runs.get(side.run)
    return {} if run is None else run.by_seed(side.epsilon, metric, side.rule)
