"""Confidence intervals over seeds and the verdict on a paired difference, by Student's t.

Scores come in steps, so seeds can agree by luck, and a spread of zero is no certainty. Seeds also share the test examples:
one example more or less in the test data moves the difference of all seeds by a step alike, which their spread cannot show.
The interval of a difference therefore reaches a step to both sides at least: one test example where their number is known,
and never less than what sentences print.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted, epsilon_label, epsilon_phrase, minus
from dpcl_core.later import pd
from dpcl_core.privacy.numerics import student_quantile

# Accuracy of an ensemble and of its members alone, by budget.


_NAMES = {"member": "each member alone, given the task", "ensemble": "the ensemble"}


def members_and_ensemble(rows: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Mean accuracy of the members and accuracy of the ensemble at every budget; bars span the seeds.

    Columns: epsilon, seed, member, ensemble (percent). After figure A.1 of the workshop version of Tobaben et al.
    """
    if rows.empty:
        return theme.nothing("No run here has recorded the accuracy of its members alone.", dark, 160)
    labels = [epsilon_label(epsilon) for epsilon in sorted(rows["epsilon"].unique())]
    x = {"type": "category", "categoryarray": labels, "showgrid": False}
    chart = theme.Chart(dark, 280, x, theme.percent_axis(title="accuracy after the last task"))
    groups = rows.groupby("epsilon")
    for place, (column, name) in enumerate(_NAMES.items()):
        low, mean, high = (getattr(groups[column], what)().to_numpy() for what in ("min", "mean", "max"))
        marker = {"size": 11, "color": chart.colour(place), "symbol": ("diamond", "circle")[place]}
        bars = {"type": "data", "symmetric": False, "array": high - mean, "arrayminus": mean - low}
        hover = f"{name}: %{{y:.1f}} %<extra>%{{x}}</extra>"
        chart.marks(labels, mean, name, marker, error_y=bars, hoverinfo=None, hovertemplate=hover)
    # The cost of noise for both, from the largest finite budget to no noise.
    means = groups[list(_NAMES)].mean()
    finite = [epsilon for epsilon in means.index if math.isfinite(epsilon)]
    if not finite or math.inf not in means.index:
        pairs = (f"at {epsilon_label(row.Index)} {row.member:.1f} and {row.ensemble:.1f} %" for row in means.itertuples())
        return chart.picture(f"Members alone and ensemble: {'; '.join(pairs)}.")
    gains = means.loc[math.inf] - means.loc[max(finite)]
    changes = {name: f"{abs(gain):.1f} points {'better' if gain >= 0 else 'worse'}" for name, gain in gains.items()}
    return chart.picture(
        f"Without noise members alone are {changes['member']} than at {epsilon_label(max(finite))}, "
        f"the ensemble {changes['ensemble']}."
    )


# t-tests between two curves of average accuracy after every task, as printed in papers; descriptive only.


CAVEAT = (
    "Descriptive only. Each point of a curve is an average that holds the tasks of the points before it, so they are no "
    "independent samples, and p is not the chance of an error. For a verdict look at the paired difference over seeds."
)
_NO_SPREAD = 1e-12  # accuracies have 16 digits: a smaller spread is rounding


def p_values(first: Sequence[float | None], second: Sequence[float | None]) -> pd.DataFrame:
    """Tests of acc_1..acc_n of two runs for every number n of tasks from 2 on (Lai et al. 2022, "p value" curves).

    `first` and `second`: average accuracy after each task, in [0, 1], None where nothing was evaluated; such a task is left
    out of both. A test of the differences by task; the values are descriptive (`CAVEAT`). Columns tasks, difference (of the
    means, in [-1, 1]), t, p (two-tailed; NaN: no test), note (why there is none). Raises BadInput where the curves differ in
    length or are shorter than two.
    """
    if len(first) != len(second):
        lengths = f"{len(first)} and {len(second)} tasks"
        raise BadInput("curves", lengths, "must be of the same length for a t-test; choose two runs with as many tasks")
    if len(first) < 2:
        raise BadInput("curves", counted(len(first), "task"), "must have two tasks for a t-test")
    tests = []
    for n in range(2, len(first) + 1):
        pairs = [(a, b) for a, b in zip(first[:n], second[:n], strict=True) if a is not None and b is not None]
        tests.append((n, *_tested(np.array(pairs, dtype=np.float64).reshape(-1, 2))))
    return pd.DataFrame(tests, columns=["tasks", "difference", "t", "p", "note"])


def _tested(values: NDArray[np.float64]) -> tuple[float, float, float, str]:
    """Difference, t, p and note of two curves [n, 2]."""
    from scipy.stats import ttest_rel  # takes long to load, for the few who ask

    if len(values) < 2:
        return math.nan, math.nan, math.nan, "fewer than two tasks were evaluated in both runs"
    first, second = values.T
    mean = float((first - second).mean())
    if (first - second).std(ddof=1) <= _NO_SPREAD:
        constant = "the difference is the same after every task, so there is no spread to hold it against"
        return mean, math.nan, math.nan, "the two curves are equal so far" if abs(mean) <= _NO_SPREAD else constant
    test = ttest_rel(first, second)
    return mean, float(test.statistic), float(test.pvalue), ""


# The curve of p values by number of tasks.


_LEVELS = (0.05, 0.01)
_SMALLEST = 1e-12  # smaller values are drawn here: a few tasks cannot support less


def p_value_curve(results: pd.DataFrame, *, names: tuple[str, str], dark: bool = False) -> Picture:
    """The p value by number of tasks on a logarithmic axis, with lines at 0.05 and 0.01; gaps where there is no test.

    Columns as of `p_values`.
    """
    is_tested = results["p"].notna()
    tests, untested = results[is_tested], results[~is_tested]
    numbers = f"{', '.join(map(str, untested['tasks'][:6]))}{' and more' if len(untested) > 6 else ''} tasks"
    missing = f"No test after {numbers}: {'; '.join(untested['note'].unique())}."
    if tests.empty:
        return theme.nothing(f"{names[0]} and {names[1]}: {missing[0].lower()}{missing[1:]}", dark, 200)
    drawn = results["p"].clip(lower=_SMALLEST)
    low = min(float(drawn.min()) / 2, _LEVELS[-1] / 4)
    powers = [10.0**-digits for digits in range(math.ceil(-math.log10(low)))]
    y = {
        "title": "p (two-tailed t-test)", "type": "log", "range": [math.log10(low), 0.08], "tickvals": powers,
        "ticktext": [f"{power:g}" for power in powers],
    }  # fmt: skip
    chart = theme.Chart(dark, 360, theme.task_axis(2, int(results["tasks"].max())), y, margin=(56, 52, 12, 40))
    for level in _LEVELS:
        chart.across("y", level, dash="dash")
        chart.text(f"{level:g}", 1, math.log10(level), size=12, xref="paper", xanchor="left", xshift=4)
    chart.line(
        results["tasks"], [None if math.isnan(p) else p for p in drawn], "", chart.colour(0),
        "%{x} tasks: p = %{y:.2g}, %{text}", size=6, mode="lines+markers" if len(results) <= 30 else "lines",
        connectgaps=False, text=[minus(f"{100 * difference:+.1f} points") for difference in results["difference"]],
    )  # fmt: skip
    last = tests.iloc[-1]
    ahead = f"{names[0] if last['difference'] > 0 else names[1]} is ahead by {abs(100 * last['difference']):.1f} points"
    where = f"{ahead} on average" if last["difference"] else "their means are equal"
    counts = " and ".join(f"below {level:g} at {(tests['p'] < level).sum()}" for level in _LEVELS)
    finding = f"After {last['tasks']} tasks p = {last['p']:.2g}: {where}. Of {len(results)} points, {counts}."
    return chart.picture(finding if untested.empty else f"{finding} {missing}")


MIN_SEEDS = 3  # with fewer an interval is almost meaningless: draw the dots instead
PRINTED = 0.1  # points: the last decimal place of a difference in a sentence
_MAX_SEEDS = 1000
_SAME = 1e-9  # points: rounding


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval; `low` and `high` are None with fewer than three values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float:
        """From the mean to either end; 0 without an interval."""
        return self.high - self.mean if self.high is not None else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A paired difference (in points), whether its sign is clear, and a sentence on it.

    Where the sign is not clear, the sentence says about how many seeds would be needed, up to 1,000.
    """

    interval: Interval
    is_clear: bool
    sentence: str


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of independent values."""
    n = len(values)
    mean = float(np.mean(values))
    if n < MIN_SEEDS:
        return Interval(mean, None, None, n)
    half = _half_width(float(np.std(values, ddof=1)), n)
    return Interval(mean, mean - half, mean + half, n)


def step(n_tested: float | None) -> float:
    """The least half width (points) of the interval of a difference of two scores on this many test examples."""
    return PRINTED if n_tested is None else max(PRINTED, 100 / n_tested)


def widened(difference: Interval, least: float = PRINTED) -> Interval:
    """The interval of a difference (points), which reaches at least so far to both sides."""
    if difference.low is None or difference.half_width >= least:
        return difference
    return replace(difference, low=difference.mean - least, high=difference.mean + least)


def p_value(difference: Interval, against: float = 0.0) -> float:
    """The two-sided p value of a difference of `against` points by Student's t, from the interval that verdicts use.

    It is at most 0.05 where, and only where, the widened 95 % interval leaves `against` out. 1 without an interval.
    """
    if difference.low is None:
        return 1.0
    from scipy.special import stdtr  # takes long to load, for the few who ask

    freedom = difference.n - 1
    error = widened(difference).half_width / student_quantile(freedom, 0.975)
    return 2 * float(stdtr(freedom, -abs(difference.mean - against) / error))


def verdict(differences: Sequence[float], first: str, second: str, *, n_tested: float | None = None) -> Verdict:
    """The verdict on paired differences first - second (points, one per seed, at least one), as the interval supports it.

    `n_tested`: how many test examples both scores are means over; None if unknown.
    """
    least = step(n_tested)
    mean = widened(interval(differences), least)
    seeds = counted(mean.n, "seed")
    better, worse = (first, second) if mean.mean >= 0 else (second, first)
    if mean.low is None or mean.high is None:
        sentence = f"Cannot tell from {seeds}: at least {MIN_SEEDS} seeds that both runs share are needed."
        return Verdict(mean, False, sentence)
    if max(map(abs, differences)) < _SAME:
        return Verdict(mean, False, f"{first} and {second} agree exactly in each of {seeds}.")
    size = abs(mean.mean)
    if size - mean.half_width > _SAME:
        between = f"{points_text(size - mean.half_width)} to {points_text(size + mean.half_width)}"
        return Verdict(mean, True, f"{better} is better than {worse} by {points_text(size)} points ({between}), {seeds}.")
    low, high = (minus(f"{end:+.1f}") for end in (mean.low, mean.high))
    range_text = f"the difference lies between {low} and {high} points ({seeds})"
    if mean.half_width <= least + _SAME:
        little = f"a difference of {least:.2g} points or less cannot be told with any number of seeds"
        return Verdict(mean, False, f"Cannot tell: {range_text}; {little}.")
    spread = float(np.std(differences, ddof=1))
    needed = mean.n + 1 + bisect_right(range(mean.n + 1, _MAX_SEEDS + 1), -size, key=lambda n: -_half_width(spread, n))
    advice = f"about {needed} seeds needed" if needed <= _MAX_SEEDS else f"more than {_MAX_SEEDS:,} seeds would be needed"
    return Verdict(mean, False, f"Cannot tell yet: {range_text}; {advice}.")


def points_text(points: float) -> str:
    """Points (not negative) with one decimal place; with one digit where that would print as zero."""
    return f"{points:.1f}" if points >= PRINTED / 2 else f"{points:.1g}"


def interval_factor(n: int) -> float | None:
    """Half width of the 95 % interval of n values of this standard deviation; None with fewer than three."""
    return _half_width(1.0, n) if n >= MIN_SEEDS else None


def _half_width(spread: float, n: int) -> float:
    return student_quantile(n - 1, 0.975) * spread / math.sqrt(n)


# Differences of two runs, paired by seed, with 95 % intervals.


_DECIMALS = 9  # of points: what is beyond is rounding of the two means, and no difference
_AROUND = 1.0  # points to both sides of differences that are closer together than a test example


def paired(
    first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str], *, n_tested: float | None = None
) -> dict[float, Verdict]:
    """The verdict at every shared budget, over the shared seeds.

    Columns of both: epsilon, seed, value (in [0, 1]; larger is better). `n_tested`: test examples behind each value.
    """
    by_epsilon = _differences(first, second).groupby("epsilon")["points"]
    return {float(epsilon): verdict(points.tolist(), *names, n_tested=n_tested) for epsilon, points in by_epsilon}


def paired_difference(
    first: pd.DataFrame, second: pd.DataFrame, *, names: tuple[str, str], n_tested: float | None = None, dark: bool = False
) -> Picture:
    """Difference first - second in points at every shared budget: single seeds as faint dots, mean with 95 % interval.

    Columns of both: epsilon, seed, value (in [0, 1]; larger is better). `n_tested`: test examples behind each value. The
    axis is never shorter than one test example, so that less does not look like a difference.
    """
    if not (verdicts := paired(first, second, names, n_tested=n_tested)):
        return theme.nothing(f"{names[0]} and {names[1]} share no budget and seed, so no pair can be formed.", dark, 160)
    differences = _differences(first, second)
    rows = {epsilon: epsilon_label(epsilon) for epsilon in sorted(verdicts)}
    intervals = [verdicts[epsilon].interval for epsilon in rows]
    x = {"title": f"points: left {names[1]} is better, right {names[0]}", "zeroline": False}
    points = differences["points"].tolist()
    low = min(*points, *(one.mean - one.half_width for one in intervals))
    high = max(*points, *(one.mean + one.half_width for one in intervals))
    if high - low < (least := step(n_tested)):
        middle, half = (low + high) / 2, max(least, _AROUND)
        x["range"] = [middle - half, middle + half]
    y = {"type": "category", "categoryarray": list(rows.values())[::-1], "showgrid": False}
    chart = theme.Chart(dark, 90 + 38 * len(rows), x, y)
    chart.across("x", 0, width=1.5, dash=None)
    tick = {"color": chart.ink.soft, "size": 5, "symbol": "line-ns-open"}
    chart.marks(
        points, differences["epsilon"].map(rows), "single seeds", tick, "seed %{customdata}: %{x:.1f} points",
        customdata=differences["seed"],
    )  # fmt: skip
    bars = theme.error_bars([one.half_width for one in intervals], chart.colour(0), 2)
    name = "mean and 95 % interval" if any(one.low is not None for one in intervals) else "mean"
    means, marker = [one.mean for one in intervals], {"color": chart.colour(0), "size": 10}
    chart.marks(means, list(rows.values()), name, marker, "mean %{x:.1f} points", error_x=bars)
    return chart.picture(_summary(verdicts, names))


def _differences(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The shared budgets and seeds. Columns with epsilon, seed, points (first - second)."""
    merged = first.merge(second, on=["epsilon", "seed"], suffixes=("_first", "_second"))
    points = (100 * (merged["value_first"] - merged["value_second"])).round(_DECIMALS)
    return merged.assign(points=points + 0.0)  # no -0.0


def _summary(verdicts: Mapping[float, Verdict], names: tuple[str, str]) -> str:
    """For one budget its sentence; for several, those with a clear sign, those without, those with too few seeds."""
    if len(verdicts) == 1:
        ((epsilon, only),) = verdicts.items()
        return f"{capital(epsilon_phrase(epsilon))}: {only.sentence}"
    known = {epsilon: one for epsilon, one in verdicts.items() if one.interval.low is not None}
    groups = (
        (f"{names[0]} is better", [e for e, v in known.items() if v.is_clear and v.interval.mean > 0]),
        (f"{names[1]} is better", [e for e, v in known.items() if v.is_clear and v.interval.mean < 0]),
        ("cannot tell", [e for e, v in known.items() if not v.is_clear]),
    )
    parts = [f"{what} {_listed(budgets)}" for what, budgets in groups if budgets]
    sentences = [f"{capital('; '.join(parts))} (95 % intervals, each budget on its own)."] if parts else []
    if few := [epsilon for epsilon in verdicts if epsilon not in known]:
        seeds = counted(max(verdicts[epsilon].interval.n for epsilon in few), "seed")
        sentences.append(
            f"Cannot tell {_listed(few)} from {seeds}: at least {MIN_SEEDS} seeds that both runs share are needed."
        )
    return " ".join(sentences)


def _listed(budgets: Sequence[float]) -> str:
    return ", ".join(epsilon_phrase(epsilon) for epsilon in sorted(budgets))
