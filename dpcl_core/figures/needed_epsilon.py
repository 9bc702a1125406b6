"""Which ε a wanted accuracy needs: the smallest measured budget that reached it, and where a monotone curve crosses it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, counted, epsilon_label, epsilon_text
from dpcl_core.figures.statistics import MIN_SEEDS, interval
from dpcl_core.privacy.statement import Standing, shown

_HEIGHT = 380
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

    @property
    def is_made_to_rise(self) -> bool:
        """Whether the curve differs from what was measured."""
        return any(abs(raw - mean) > _SAME for raw, mean in zip(self.measured, self.means, strict=True))

    @property
    def by_luck(self) -> int | None:
        """The place of the first budget that reached the score alone, not on the curve: a larger one came out worse."""
        place = next((place for place, raw in enumerate(self.measured) if raw >= self.wanted - _SAME), None)
        return None if place is None or self.means[place] >= self.wanted - _SAME else place


def needed(by_budget: Mapping[float, Sequence[float]], wanted: float) -> Needed | None:
    """The budget that the score `wanted` needs; None without a finite budget. `by_budget`: scores in [0, 1] by seed."""
    budgets = tuple(sorted(epsilon for epsilon, values in by_budget.items() if math.isfinite(epsilon) and len(values)))
    if not budgets:
        return None
    found = [interval(by_budget[epsilon]) for epsilon in budgets]
    means = isotonic([one.mean for one in found])
    lows = [one.low for one in found if one.low is not None]
    highs = [one.high for one in found if one.high is not None]
    ends = (isotonic(lows), isotonic(highs)) if len(lows) == len(budgets) else None
    return Needed(
        wanted=wanted,
        budgets=budgets,
        measured=tuple(one.mean for one in found),
        means=tuple(means),
        ends=None if ends is None else (tuple(ends[0]), tuple(ends[1])),
        n_seeds=min(one.n for one in found),
        reached=next((epsilon for epsilon, mean in zip(budgets, means, strict=True) if mean >= wanted - _SAME), None),
        crossing=_crossing(budgets, means, wanted),
        low=None if ends is None else _crossing(budgets, ends[1], wanted),
        high=None if ends is None else _crossing(budgets, ends[0], wanted),
    )


def isotonic(values: Sequence[float]) -> NDArray[np.float64]:
    """The nearest non-decreasing values in least squares: values in the wrong order share their mean (Ayer et al. 1955)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] >= mean:
            before, n = blocks.pop()
            mean, count = (before * n + mean * count) / (n + count), n + count
        blocks.append((mean, count))
    return np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])


def sentence(
    answer: Needed, *, score: str = "accuracy", standing: Standing = "bound", is_exact: bool = False,
    accounted: Mapping[float, float] | None = None,
) -> str:  # fmt: skip
    """The answer in words. `is_exact`: the budgets were computed one close to the next, so that hardly a gap is left.

    `accounted`: what the ledger adds up to, by requested budget; it is named where it is another number.
    """
    wanted, tried = f"{100 * answer.wanted:g} % {score}", "computed" if is_exact else "measured"
    labels = [epsilon_label(epsilon, standing) for epsilon in answer.budgets]
    spent = {epsilon: shown(total) for epsilon, total in (accounted or {}).items() if shown(total) != shown(epsilon)}
    notes = [f"accounted ε = {spent[epsilon]}" if epsilon in spent else "" for epsilon in answer.budgets]
    if answer.crossing == 0:
        first = f"{labels[0]} ({_listed(notes[0], _at(answer, 0, tried))})"
        text = f"The smallest budget {tried}, {first}, already reaches {wanted}; whether less would do is open"
    elif answer.reached is None:
        note = f" ({notes[-1]})" if notes[-1] else ""
        text = f"No budget {tried} reaches {wanted}: {labels[-1]}{note} gives {_at(answer, -1, tried)}"
    elif is_exact:
        text = f"{wanted} needs about ε = {_rough(answer.crossing)}, computed for budgets less than 5 % apart"
    else:
        place = answer.budgets.index(answer.reached)
        between = f"{epsilon_text(answer.budgets[place - 1])} and {epsilon_text(answer.reached)}"
        text = (
            f"The smallest budget measured that reaches {wanted} is {labels[place]} "
            f"({_listed(notes[place], _at(answer, place, tried))}); interpolated on log ε between {between}, "
            f"{'asking for ' if any(notes) else ''}about {_rough(answer.crossing)} would do"
        )
    if answer.is_made_to_rise:
        text = f"On a curve made to rise with ε, {text[0].lower()}{text[1:]}"
    parts = [f"{text}.", _uncertainty(answer)]
    if answer.by_luck is not None:
        measured = _percent(answer.measured[answer.by_luck], answer.wanted)
        early = f"{labels[answer.by_luck]} ({_listed(notes[answer.by_luck], measured)})"
        parts.append(f"Taken alone, {early} reaches it, but a larger ε came out worse.")
    return " ".join(parts)


def figure(
    answers: Mapping[str, Needed], sentences: Sequence[str], *, colours: Sequence[str], score: str = "accuracy",
    dark: bool = False,
) -> Picture:  # fmt: skip
    """The monotone curves with their 95 % bands, the wanted score, and the ε at which each curve crosses it.

    One answer, sentence and colour for each run; the sentences are the finding.
    """
    budgets = sorted({epsilon for answer in answers.values() for epsilon in answer.budgets})
    ticks = budgets if len(budgets) <= _FEW_POINTS else [tick for tick in _TICKS if budgets[0] <= tick <= budgets[-1]]
    axis = {
        "title": "privacy budget ε (smaller: stronger privacy)",
        "range": [math.log10(budgets[0]) - _PADDING, math.log10(budgets[-1]) + _PADDING],
        "tickvals": [math.log10(epsilon) for epsilon in ticks],
        "ticktext": [epsilon_text(epsilon) for epsilon in ticks],
        "showgrid": False,
        "zeroline": False,
    }
    margin = {"l": 52, "r": 16 if len(answers) == 1 else 40, "t": 12, "b": 44}
    drawn = theme.figure(dark, height=_HEIGHT, xaxis=axis, yaxis=theme.percent_axis(title=f"final {score}"), margin=margin)
    for (name, answer), colour in zip(answers.items(), colours, strict=True):
        _curve(drawn, name, answer, colour)
        if 0 < answer.crossing < math.inf:
            drawn.add_trace(_mark(name, answer, colour))
    wanted = next(iter(answers.values())).wanted
    theme.add_level(drawn, 100 * wanted, f"wanted {100 * wanted:g} %", x=0.0, above=wanted < _HIGH, dark=dark)
    if len(answers) > 1:
        _names(drawn, answers, colours, dark)
        sentences = [f"{name}: {said}" for name, said in zip(answers, sentences, strict=True)]
    return Picture(drawn, " ".join(sentences))


def _names(drawn: go.Figure, answers: Mapping[str, Needed], colours: Sequence[str], dark: bool) -> None:
    """Names at the ends of the curves, pushed apart where they end close together."""
    heights = theme.spread_labels([100 * answer.means[-1] for answer in answers.values()], _NAME_GAP, _NAME_GAP / 2, 100)
    for (name, answer), colour, height in zip(answers.items(), colours, heights, strict=True):
        drawn.add_annotation(
            x=math.log10(answer.budgets[-1]), y=height, text=name, font={"color": theme.readable(colour, dark)},
            showarrow=False, xanchor="left", xshift=8,
        )  # fmt: skip


def _curve(drawn: go.Figure, name: str, answer: Needed, colour: str) -> None:
    x = np.log10(answer.budgets)
    if answer.ends is not None:
        low, high = (100 * np.array(end) for end in answer.ends)
        band = go.Scatter(
            x=np.concatenate([x, x[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself", mode="lines",
            fillcolor=theme.translucent(colour, 0.15), line={"width": 0}, hoverinfo="skip", name="95 % interval over seeds",
        )  # fmt: skip
        drawn.add_trace(band)
    mode = "lines+markers" if len(x) <= _FEW_POINTS else "lines"
    line = theme.line(x, 100 * np.array(answer.means), name, colour, f"{name}, ε = %{{text}}: %{{y:.1f}} %", mode=mode)
    line.text = [epsilon_text(epsilon) for epsilon in answer.budgets]
    drawn.add_trace(line)


def _mark(name: str, answer: Needed, colour: str) -> go.Scatter:
    """A mark where the curve crosses the wanted score, with the range of ε that the intervals allow."""
    centre = math.log10(answer.crossing)
    low, high = (  # an open end is drawn to the end of the curve
        centre if end is None else math.log10(min(max(end, answer.budgets[0]), answer.budgets[-1]))
        for end in (answer.low, answer.high)
    )
    return go.Scatter(
        x=[centre], y=[100 * answer.wanted], mode="markers", name=name,
        marker={"color": colour, "symbol": "diamond", "size": 12},
        error_x={
            "type": "data", "symmetric": False, "array": [high - centre], "arrayminus": [centre - low],
            "color": colour, "thickness": 1.6, "width": 6,
        },
        hovertemplate=f"{name}: ε about {_rough(answer.crossing)}<extra></extra>",
    )  # fmt: skip


def _uncertainty(answer: Needed) -> str:
    """What the seeds' intervals allow, and where they leave an end open."""
    if answer.low is None or answer.high is None:
        return f"With {counted(answer.n_seeds, 'seed')} there is no interval: at least {MIN_SEEDS} are needed."
    first, last = epsilon_text(answer.budgets[0]), epsilon_text(answer.budgets[-1])
    if math.isinf(answer.low):
        return f"Nor does the upper end of the 95 % interval of {answer.n_seeds} seeds."
    if answer.high == 0:
        return f"So does the lower end of the 95 % interval of {answer.n_seeds} seeds."
    low = f"less than {first}" if answer.low == 0 else _rough(answer.low)
    high = f"more than {last}" if math.isinf(answer.high) else _rough(answer.high)
    open_ends = [word for word, is_open in (("below", answer.low == 0), ("above", math.isinf(answer.high))) if is_open]
    not_bracketed = f" (not bracketed {' or '.join(open_ends)})" if open_ends else ""
    return f"The 95 % intervals of {answer.n_seeds} seeds allow ε from {low} to {high}{not_bracketed}."


def _crossing(budgets: Sequence[float], rising: Sequence[float] | NDArray[np.float64], wanted: float) -> float:
    """Where a non-decreasing curve reaches `wanted`, linear in log ε; 0 at the first budget already, inf at none."""
    place = int(np.searchsorted(np.asarray(rising), wanted - _SAME, side="left"))
    if place == 0:
        return 0.0
    if place == len(budgets):
        return math.inf
    share = min(1.0, (wanted - rising[place - 1]) / (rising[place] - rising[place - 1]))
    return float(budgets[place - 1] * (budgets[place] / budgets[place - 1]) ** share)


def _rough(epsilon: float) -> str:
    """An estimated budget, in the two digits that it has."""
    return f"{epsilon:.2g}"


def _listed(note: str, score: str) -> str:
    return f"{note}; {score}" if note else score


def _at(answer: Needed, place: int, tried: str) -> str:
    """The score of a budget on the curve, and the one that was measured (or computed: `tried`) where that is another."""
    mean, raw = (_percent(values[place], answer.wanted) for values in (answer.means, answer.measured))
    return mean if mean == raw else f"{mean}, {tried}: {raw}"


def _percent(value: float, wanted: float) -> str:
    """With one decimal place, or as many as tell it from the wanted score."""
    text, places = "", 1
    while not text or (abs(value - wanted) > _SAME and float(text) == round(100 * wanted, places)):
        text, places = f"{100 * value:.{places}f}", places + 1
    return f"{text} %"
