"""Differences of two runs, paired by seed, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted, epsilon_label, epsilon_phrase
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, Verdict, step, verdict

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
    verdicts = paired(first, second, names, n_tested=n_tested)
    if not verdicts:
        return theme.nothing(f"{names[0]} and {names[1]} share no budget and seed, so no pair can be formed.", dark, 160)
    differences = _differences(first, second)
    budgets = sorted(verdicts)
    rows = {epsilon: epsilon_label(epsilon) for epsilon in budgets}
    inks, colour = theme.ink(dark), theme.colour_of_series(0, dark)
    intervals = [verdicts[epsilon].interval for epsilon in budgets]
    figure = theme.figure(
        dark,
        height=90 + 38 * len(budgets),
        xaxis={"title": f"points: left {names[1]} is better, right {names[0]}", "zeroline": False},
        yaxis={"type": "category", "categoryarray": [rows[e] for e in reversed(budgets)], "showgrid": False},
    )
    low, high = _ends(differences, intervals)
    if high - low < (least := step(n_tested)):
        middle, half = (low + high) / 2, max(least, _AROUND)
        figure.update_xaxes(range=[middle - half, middle + half])
    figure.add_vline(x=0, line={"color": inks.soft, "width": 1.5})
    figure.add_trace(
        go.Scatter(
            x=differences["points"],
            y=differences["epsilon"].map(rows),
            mode="markers",
            marker={"color": inks.soft, "size": 5, "symbol": "line-ns-open"},
            customdata=differences["seed"],
            name="single seeds",
            hovertemplate="seed %{customdata}: %{x:.1f} points<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[one.mean for one in intervals],
            y=[rows[epsilon] for epsilon in budgets],
            mode="markers",
            marker={"color": colour, "size": 10},
            error_x={"type": "data", "array": [one.half_width for one in intervals], "color": colour, "thickness": 2},
            name="mean and 95 % interval" if any(one.low is not None for one in intervals) else "mean",
            hovertemplate="mean %{x:.1f} points<extra></extra>",
        )
    )
    return Picture(figure, _summary(verdicts, names))


def _differences(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The shared budgets and seeds. Columns with epsilon, seed, points (first - second)."""
    merged = first.merge(second, on=["epsilon", "seed"], suffixes=("_first", "_second"))
    points = (100 * (merged["value_first"] - merged["value_second"])).round(_DECIMALS)
    return merged.assign(points=points + 0.0)  # no -0.0


def _ends(differences: pd.DataFrame, intervals: Sequence[Interval]) -> tuple[float, float]:
    """The smallest and the largest number that is drawn."""
    points = differences["points"].tolist()
    lows = [one.mean - one.half_width for one in intervals]
    highs = [one.mean + one.half_width for one in intervals]
    return min(*points, *lows), max(*points, *highs)


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
