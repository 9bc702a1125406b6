"""The cost of privacy: final accuracy and, in a second panel, forgetting against the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from dpcl_core.events import References
from dpcl_core.figures import theme
from dpcl_core.figures.curves import Series, forgetting_so_far, mean_so_far
from dpcl_core.figures.picture import BREAK, Picture, capital, counted, epsilon_label, epsilon_phrase, epsilon_text
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.later import pd
from dpcl_core.privacy.statement import Standing, shown_number

# Which ε a wanted accuracy needs: the smallest measured budget that reached it, and where a monotone curve crosses it.


_BUDGET = "privacy budget ε (smaller: stronger privacy)"
_FEW_POINTS = 32  # measured budgets get a mark and a tick up to this number, as many as a run has
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HIGH, _NAME_GAP = 0.9, 7.0  # above this the level's name goes below it; percentage points between names
_PADDING = 0.08  # decades left free at both ends
_SAME = 1e-9  # scores whose difference is rounding: the mean of 0.04, 0.05 and 0.06 is a little less than 0.05


@dataclass(frozen=True, slots=True)
class Needed:
    """The budget that a wanted score needs, from measured budgets (ascending, all finite) with their scores.

    A larger budget can only help but for luck, so means and the ends of their 95 % intervals over seeds are first made
    monotone in ε (isotonic regression, equal weights): `measured` are the means as they are, `means` the curve. `reached`:
    the smallest measured budget at which the curve reaches the score, None if none does; the mean measured there reaches it
    too, for the first of those that share a mean is never below it. `crossing`: where the curve crosses the score,
    interpolated on log ε between neighbouring budgets; `low`, `high`: the same for the upper and lower ends of the
    intervals, None with fewer than three seeds. Nothing is extrapolated: 0 is "at the smallest budget already", inf "not
    even at the largest".
    """

    wanted: float
    budgets: tuple[float, ...]
    measured: tuple[float, ...]
    means: tuple[float, ...]
    ends: tuple[tuple[float, ...], tuple[float, ...]] | None
    n_seeds: int
    reached: float | None
    crossing: float
    low: float | None
    high: float | None


def needed(by_budget: Mapping[float, Sequence[float]], wanted: float) -> Needed | None:
    """The budget that the score `wanted` needs; None without a finite budget. `by_budget`: scores in [0, 1] by seed."""
    budgets = tuple(sorted(epsilon for epsilon, values in by_budget.items() if math.isfinite(epsilon) and len(values)))
    if not budgets:
        return None
    found = [interval(by_budget[epsilon]) for epsilon in budgets]
    measured = tuple(one.mean for one in found)
    means, ends = _rising(measured), None
    if all(one.n >= MIN_SEEDS for one in found):
        ends = _rising([one.low or 0.0 for one in found]), _rising([one.high or 0.0 for one in found])
    return Needed(
        wanted=wanted,
        budgets=budgets,
        measured=measured,
        means=means,
        ends=ends,
        n_seeds=min(one.n for one in found),
        reached=next((epsilon for epsilon, mean in zip(budgets, means, strict=True) if mean >= wanted - _SAME), None),
        crossing=_crossing(budgets, means, wanted),
        low=None if ends is None else _crossing(budgets, ends[1], wanted),
        high=None if ends is None else _crossing(budgets, ends[0], wanted),
    )


def _rising(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest non-decreasing values in least squares: values in the wrong order share their mean (Ayer et al. 1955)."""
    return tuple(map(float, isotonic_regression(values).x))


def sentence(
    answer: Needed, *, score: str = "accuracy", standing: Standing = "bound", accounted: Mapping[float, float] | None = None
) -> str:
    """The answer in words, with the range of ε that the seeds' intervals allow.

    `accounted`: what the ledger adds up to, by requested budget; it is named where it is another number.
    """
    wanted = f"{100 * answer.wanted:g} % {score}"
    reached = answer.budgets[-1] if answer.reached is None else answer.reached
    spent = shown_number((accounted or {}).get(reached, reached))
    is_other = spent != shown_number(reached)
    tried = epsilon_label(reached, standing) + (f" (accounted ε = {spent})" if is_other else "")
    place = answer.budgets.index(reached)
    mean, raw = (_percent(values[place], answer.wanted) for values in (answer.means, answer.measured))
    gives = f"gives {mean}" if mean == raw else f"gives {mean}, measured {raw}"
    if answer.crossing == 0:
        return f"Even {tried} {gives}, so {wanted} needs no more ({_range(answer)})."
    if answer.reached is None:
        return f"No ε tried gives {wanted}: {tried} {gives} ({_range(answer)})."
    name = epsilon_label(answer.crossing, standing).partition("=")[0].strip()
    also = f" Measured: {tried} {gives}." if is_other else ""
    return f"{wanted} needs {name} of about {answer.crossing:.2g} ({_range(answer)}).{also}"


def figure(
    answers: Mapping[str, Needed], sentences: Sequence[str], *, colours: Sequence[str], score: str = "accuracy",
    dark: bool = False,
) -> Picture:  # fmt: skip
    """The monotone curves with their 95 % bands, the wanted score, and the ε at which each curve crosses it.

    One answer, sentence and colour for each run; the sentences are the finding.
    """
    budgets = sorted({epsilon for answer in answers.values() for epsilon in answer.budgets})
    ticks = budgets if len(budgets) <= _FEW_POINTS else [tick for tick in _TICKS if budgets[0] <= tick <= budgets[-1]]
    x = {
        "title": _BUDGET, "range": [math.log10(budgets[0]) - _PADDING, math.log10(budgets[-1]) + _PADDING],
        "tickvals": [math.log10(epsilon) for epsilon in ticks], "ticktext": [epsilon_text(epsilon) for epsilon in ticks],
        "showgrid": False, "zeroline": False,
    }  # fmt: skip
    margin = (52, 16 if len(answers) == 1 else 40, 12, 44)
    chart = theme.Chart(dark, 380, x, theme.percent_axis(title=f"final {score}"), margin=margin)
    for (name, answer), colour in zip(answers.items(), colours, strict=True):
        _draw(chart, name, answer, colour)
    wanted = next(iter(answers.values())).wanted
    chart.level(100 * wanted, f"wanted {100 * wanted:g} %", x=0.0, above=wanted < _HIGH)
    if len(answers) > 1:
        ends = [
            (name, math.log10(answer.budgets[-1]), 100 * answer.means[-1], colour)
            for (name, answer), colour in zip(answers.items(), colours, strict=True)
        ]
        chart.end_names(ends, _NAME_GAP, _NAME_GAP / 2, 100)
        sentences = [f"{name}: {said}" for name, said in zip(answers, sentences, strict=True)]
    return chart.picture(" ".join(sentences))


def _draw(chart: theme.Chart, name: str, answer: Needed, colour: str) -> None:
    """Adds a curve, and a mark where it crosses the wanted score, with the range of ε that the intervals allow."""
    x = np.log10(answer.budgets)
    if answer.ends is not None:
        low, high = (100 * np.array(end) for end in answer.ends)
        chart.band(x, low, high, colour)
    mode, hover = "lines+markers" if len(x) <= _FEW_POINTS else "lines", f"{name}, ε = %{{text}}: %{{y:.1f}} %"
    texts = [epsilon_text(epsilon) for epsilon in answer.budgets]
    chart.line(x, 100 * np.array(answer.means), name, colour, hover, mode=mode, text=texts)
    if 0 < answer.crossing < math.inf:
        centre = math.log10(answer.crossing)
        left, right = (  # an open end is drawn to the end of the curve
            centre if end is None else math.log10(min(max(end, answer.budgets[0]), answer.budgets[-1]))
            for end in (answer.low, answer.high)
        )
        bar = theme.error_bars([right - centre], colour, 1.6, below=[centre - left], width=6)
        marker, hover = {"color": colour, "symbol": "diamond", "size": 12}, f"{name}: ε about {answer.crossing:.2g}"
        chart.marks([centre], [100 * answer.wanted], name, marker, hover, error_x=bar)


def _range(answer: Needed) -> str:
    """The ε that the seeds' intervals allow; an open end is said to lie beyond the budgets tried."""
    if answer.low is None or answer.high is None:
        return f"no range: {counted(answer.n_seeds, 'seed')}, and it takes {MIN_SEEDS}"
    first, last = (epsilon_text(answer.budgets[place]) for place in (0, -1))
    ends = (answer.low, answer.high)
    shown = [f"under {first}" if end == 0 else f"over {last}" if math.isinf(end) else f"{end:.2g}" for end in ends]
    return " to ".join(dict.fromkeys(shown))


def _crossing(budgets: Sequence[float], rising: Sequence[float], wanted: float) -> float:
    """Where a non-decreasing curve reaches `wanted`, linear in log ε; 0 at the first budget already, inf at none."""
    place = int(np.searchsorted(np.asarray(rising), wanted - _SAME, side="left"))
    if place == 0:
        return 0.0
    if place == len(budgets):
        return math.inf
    share = min(1.0, (wanted - rising[place - 1]) / (rising[place] - rising[place - 1]))
    return float(budgets[place - 1] * (budgets[place] / budgets[place - 1]) ** share)


def _percent(value: float, wanted: float) -> str:
    """With one decimal place, or as many as tell it from the wanted score."""
    text, places = "", 1
    while not text or (abs(value - wanted) > _SAME and float(text) == round(100 * wanted, places)):
        text, places = f"{100 * value:.{places}f}", places + 1
    return f"{text} %"


_HEIGHT, _LINE = 440, 16  # of the figure, and of a line below it, in pixels
_BAR = 0.12  # decades that a hatched bar takes
_HATCHED = {
    "claimed": "ε only claimed, not verified",
    "replay": "ε of the replay alone, head not private",
    "none": "ε only asked for, no bound",
}
_NO_BOUND = {
    "claimed": "A claimed ε is no bound and is not comparable with one.",
    "replay": "An ε of the replay alone is no bound on the whole: the head is not private. It is not comparable with one.",
    "none": "An ε that is only asked for bounds nothing. It is not comparable with one that is a bound.",
}
_GAP = 0.45  # decades between the largest budget and the column without noise


def trade_off(
    runs: Sequence[Series], *, score: str = "accuracy", references: References | None = None, dark: bool = False
) -> Picture:
    """Final accuracy and average forgetting against ε, one colour per run; dots are trained models, bars 95 % over seeds.

    Lines join finite budgets only: "no noise" is a separate column, not a point on the axis. Budgets that do not bound all
    releases are hatched bars at their value, which no line joins with one another or with budgets that are bounds. `score`:
    the name of the score. `references`: levels to draw beside the accuracies.
    """
    runs = [run for run in runs if not run.rows.empty]
    finals = {run.name: _at_the_end(mean_so_far(run.rows)) for run in runs}
    if not runs:
        return theme.nothing("The trade-off appears when a model has learned its tasks.", dark, _HEIGHT)
    budgets = sorted({epsilon for final in finals.values() for epsilon in final})
    finite = [epsilon for epsilon in budgets if math.isfinite(epsilon)]
    column = (math.log10(finite[-1]) + _GAP) if finite else 0.0
    unbounded = [run.name for run in runs if run.standing != "bound"]
    kinds = sorted({run.standing for run in runs} - {"bound"})
    titles = [_BUDGET]  # a line each: together they are wider than a phone
    titles += [f"{'or' if place else 'hatched:'} {_HATCHED[kind]}" for place, kind in enumerate(kinds)]
    x = {
        "range": [math.log10(finite[0]) - 0.25 if finite else -0.5, column + 0.25], "showgrid": False,
        "tickvals": [column if math.isinf(e) else math.log10(e) for e in budgets], "zeroline": False,
        "ticktext": ["no noise" if math.isinf(e) else epsilon_text(e) for e in budgets], "title": BREAK.join(titles),
    }  # fmt: skip
    ys = [theme.percent_axis(title=f"final {score}"), {"title": "points forgotten", "rangemode": "tozero"}]
    below, right = _LINE * len(kinds), 16 if len(runs) == 1 else 110
    axes = theme.panels([0.62, 0.38], 0.07, x, ys)
    chart = theme.Chart(dark, _HEIGHT + below, margin=(52, right, 12, 44 + below), barmode="overlay", **axes)
    for run in runs:
        shift = (unbounded.index(run.name) - (len(unbounded) - 1) / 2) * _BAR if run.name in unbounded else 0.0
        for plot, by_epsilon in (("", finals[run.name]), ("2", _at_the_end(forgetting_so_far(run.rows)))):
            _add(chart, run, by_epsilon, column, shift, {"xaxis": f"x{plot}", "yaxis": f"y{plot}"})
    chart.references(references, is_rising=True)
    if len(runs) > 1:
        last = {run.name: max(finals[run.name]) for run in runs}
        places = {name: column if math.isinf(end) else math.log10(end) for name, end in last.items()}
        ends = [(run.name, places[run.name], 100 * finals[run.name][last[run.name]].mean, run.colour) for run in runs]
        chart.end_names(ends, 9, 4, 100, xshift=10)
    if finite and math.inf in budgets:
        chart.across("x", column - _GAP / 2)
    said = [_finding(run.name if len(runs) > 1 else "", finals[run.name], score, run.standing) for run in runs]
    return chart.picture(" ".join([*said, *(_NO_BOUND[kind] for kind in kinds)]))


def _at_the_end(per_seed: pd.DataFrame) -> dict[float, Interval]:
    """The values after the last task reached, by budget, over the seeds."""
    ended = per_seed[per_seed["after_task"] == per_seed["after_task"].max()]
    return {float(epsilon): interval(values.tolist()) for epsilon, values in ended.groupby("epsilon")["value"]}


def _add(
    chart: theme.Chart, run: Series, by_epsilon: Mapping[float, Interval], column: float, shift: float,
    plot: theme.Properties,
) -> None:  # fmt: skip
    """Adds a run's means with their intervals to one plot: a line or hatched bars, and a dot without noise.

    `column`: the place of what has no noise; `shift`: of the bars, so that those of several runs are beside one another.
    """
    finite = sorted(epsilon for epsilon in by_epsilon if math.isfinite(epsilon))
    x, colour, is_bound = [math.log10(epsilon) for epsilon in finite], run.colour, run.standing == "bound"
    look = {
        "line": {"color": colour, "width": 2, "dash": theme.DASHES[run.labels]},
        "marker": {"color": colour, "symbol": theme.MARKERS[run.labels], "size": 8},
    }
    if finite and not is_bound:
        name, x = run.label, [place + shift for place in x]
        pattern = {"shape": theme.CLAIMED_PATTERN, "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 6}
        marker = {"color": "rgba(0,0,0,0)", "line": {"color": colour, "width": 1.2}, "pattern": pattern}
        _means(chart, "bar", name, [by_epsilon[e] for e in finite], colour, x=x, width=0.9 * _BAR, marker=marker, **plot)
    elif finite:
        stats = [by_epsilon[e] for e in finite]
        _means(chart, "scatter", run.name, stats, colour, x=x, mode="lines+markers", **look, **plot)
    if math.inf in by_epsilon:
        _means(chart, "scatter", run.name, [by_epsilon[math.inf]], colour, x=[column], mode="markers", **look, **plot)


def _means(
    chart: theme.Chart, kind: Literal["bar", "scatter"], name: str, stats: Sequence[Interval], colour: str, **more: Any
) -> None:
    """Adds means with their intervals, in percent."""
    bars = theme.error_bars([100 * s.half_width for s in stats], colour, 1.2, width=3)
    chart.add(kind, f"{name}: %{{y:.1f}}", name=name, y=[100 * s.mean for s in stats], error_y=bars, **more)


def _finding(name: str, final: Mapping[float, Interval], score: str, standing: Standing) -> str:
    finite = sorted(epsilon for epsilon in final if math.isfinite(epsilon))
    parts = []
    if len(finite) > 1:
        first, last = 100 * final[finite[0]].mean, 100 * final[finite[-1]].mean
        verb = "rises" if last > first + 0.05 else "falls" if last < first - 0.05 else "stays"
        change = f"at {first:.1f} %" if verb == "stays" else f"from {first:.1f} to {last:.1f} %"
        label, *remarks = epsilon_label(finite[0], standing).split(", ")
        budgets = f"{label} to {epsilon_text(finite[-1])}" + "".join(f" ({remark})" for remark in remarks)
        parts.append(f"from {budgets} final {score} {verb} {change}")
    elif finite:
        parts.append(f"{epsilon_phrase(finite[0], standing)} final {score} is {100 * final[finite[0]].mean:.1f} %")
    if math.inf in final:
        what = "it" if parts else f"final {score}"
        parts.append(f"without noise {what} is {100 * final[math.inf].mean:.1f} %")
    text = "; ".join(parts)
    return f"{name}: {text}." if name else f"{capital(text)}."
