"""The cost of privacy: final accuracy and, in a second panel, forgetting against the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpcl_core.events import References
from dpcl_core.figures import theme
from dpcl_core.figures.curves import forgetting_so_far, mean_so_far
from dpcl_core.figures.picture import BREAK, Picture, capital, epsilon_label, epsilon_phrase, epsilon_text, run_label
from dpcl_core.figures.statistics import Interval, interval
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import LabelSetting

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
    series: Mapping[str, pd.DataFrame],
    *,
    colours: Sequence[str],
    labels: Sequence[LabelSetting],
    score: str = "accuracy",
    standings: Mapping[str, Standing] | None = None,
    references: References | None = None,
    dark: bool = False,
) -> Picture:
    """Final accuracy and average forgetting against ε, one colour per run; dots are trained models, bars 95 % over seeds.

    Columns of each frame: epsilon, seed, after_task, on_task (from 0), accuracy (in [0, 1]). Lines join finite budgets only:
    "no noise" is a separate column, not a point on the axis. `standings`: the kind of budget of runs that have no bound on
    all releases: hatched bars at their value, which no line joins with one another or with budgets that are bounds.
    `score`: the name of the score. `references`: levels to draw beside the accuracies.
    """
    standings = standings or {}
    finals = {name: _at_the_end(mean_so_far(frame)) for name, frame in series.items() if not frame.empty}
    colours = [colour for name, colour in zip(series, colours, strict=True) if name in finals]
    labels = [setting for name, setting in zip(series, labels, strict=True) if name in finals]
    if not finals:
        return theme.nothing("The trade-off appears when a model has learned its tasks.", dark, _HEIGHT)
    budgets = sorted({epsilon for final in finals.values() for epsilon in final})
    finite = [epsilon for epsilon in budgets if math.isfinite(epsilon)]
    column = (math.log10(finite[-1]) + _GAP) if finite else 0.0
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.62, 0.38], vertical_spacing=0.07)
    places = {name: place for place, name in enumerate(name for name in finals if standings.get(name, "bound") != "bound")}
    for name, colour, setting in zip(finals, colours, labels, strict=True):
        for row, by_epsilon in ((1, finals[name]), (2, _at_the_end(forgetting_so_far(series[name])))):
            claimed = {e: value for e, value in by_epsilon.items() if name in places and math.isfinite(e)}
            shift = (places.get(name, 0) - (len(places) - 1) / 2) * _BAR
            _bars(figure, row, run_label(name, standings.get(name, "bound")), claimed, shift, colour)
            rest = {e: value for e, value in by_epsilon.items() if e not in claimed}
            _points(figure, row, name, rest, column, colour, setting)
    right = 16 if len(finals) == 1 else 110
    kinds = sorted({standings[name] for name in places})
    below = _LINE * len(kinds)
    margin = {"l": 52, "r": right, "t": 12, "b": 44 + below}
    figure.update_layout(theme.layout(dark, height=_HEIGHT + below, margin=margin))
    low = math.log10(finite[0]) - 0.25 if finite else -0.5
    figure.update_xaxes(
        range=[low, max(column, math.log10(finite[-1]) if finite else 0.0) + 0.25],
        tickvals=[column if math.isinf(e) else math.log10(e) for e in budgets],
        ticktext=["no noise" if math.isinf(e) else epsilon_text(e) for e in budgets],
        showgrid=False,
        zeroline=False,
    )
    titles = ["privacy budget ε (smaller: stronger privacy)"]  # a line each: together they are wider than a phone
    titles += [f"{'or' if place else 'hatched:'} {_HATCHED[kind]}" for place, kind in enumerate(kinds)]
    figure.update_xaxes(title=BREAK.join(titles), row=2, col=1)
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(theme.percent_axis(title=f"final {score}"), row=1, col=1)
    figure.update_yaxes(title="points forgotten", rangemode="tozero", row=2, col=1)
    if references is not None:
        theme.add_references(figure, references, dark=dark, is_rising=True)
    if len(finals) > 1:
        _names(figure, finals, colours, column, dark)
    if finite and math.inf in budgets:
        figure.add_vline(x=column - _GAP / 2, line={"color": theme.ink(dark).soft, "width": 1, "dash": "dot"})
    finding = " ".join(
        _finding(name if len(finals) > 1 else "", final, score, standings.get(name, "bound"))
        for name, final in finals.items()
    )
    return Picture(figure, " ".join([finding, *(_NO_BOUND[kind] for kind in kinds)]))


def _names(
    figure: go.Figure, finals: Mapping[str, Mapping[float, Interval]], colours: Sequence[str], column: float, dark: bool
) -> None:
    """Names to the right of the upper panel, at the heights where the runs end."""
    ends = [max(final) for final in finals.values()]
    wanted = [100 * final[end].mean for final, end in zip(finals.values(), ends, strict=True)]
    heights = theme.spread_labels(wanted, 9, 4, 100)
    for name, colour, end, height in zip(finals, colours, ends, heights, strict=True):
        x = column if math.isinf(end) else math.log10(end)
        figure.add_annotation(
            x=x, y=height, text=name, font={"color": theme.readable(colour, dark)}, showarrow=False, xanchor="left",
            xshift=10, row=1, col=1,
        )  # fmt: skip


def _at_the_end(per_seed: pd.DataFrame) -> dict[float, Interval]:
    """The values after the last task reached, by budget, over the seeds."""
    ended = per_seed[per_seed["after_task"] == per_seed["after_task"].max()]
    return {float(epsilon): interval(values.tolist()) for epsilon, values in ended.groupby("epsilon")["value"]}


def _points(
    figure: go.Figure,
    row: int,
    name: str,
    by_epsilon: Mapping[float, Interval],
    column: float,
    colour: str,
    setting: LabelSetting,
) -> None:
    finite = sorted(epsilon for epsilon in by_epsilon if math.isfinite(epsilon))
    groups = [([math.log10(e) for e in finite], [by_epsilon[e] for e in finite], "lines+markers")] if finite else []
    if math.inf in by_epsilon:
        groups.append(([column], [by_epsilon[math.inf]], "markers"))
    for x, stats, mode in groups:
        figure.add_trace(
            go.Scatter(
                x=x,
                y=[100 * s.mean for s in stats],
                error_y={**_spread(stats), "color": colour, "thickness": 1.2, "width": 3},
                mode=mode,
                line={"color": colour, "width": 2, "dash": theme.DASHES[setting]},
                marker={"color": colour, "symbol": theme.MARKERS[setting], "size": 8},
                name=name,
                hovertemplate=f"{name}: %{{y:.1f}}<extra></extra>",
            ),
            row=row,
            col=1,
        )


def _bars(figure: go.Figure, row: int, name: str, by_epsilon: Mapping[float, Interval], shift: float, colour: str) -> None:
    """Budgets that are no bound on all that gets out: hatched bars, beside one another where several runs have them."""
    if not by_epsilon:
        return
    stats = [by_epsilon[epsilon] for epsilon in sorted(by_epsilon)]
    figure.add_trace(
        go.Bar(
            x=[math.log10(epsilon) + shift for epsilon in sorted(by_epsilon)],
            y=[100 * s.mean for s in stats],
            width=0.9 * _BAR,
            error_y={**_spread(stats), "color": colour, "thickness": 1.2, "width": 3},
            marker={
                "color": "rgba(0,0,0,0)",
                "line": {"color": colour, "width": 1.2},
                "pattern": {"shape": theme.CLAIMED_PATTERN, "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 6},
            },
            name=name,
            hovertemplate=f"{name}: %{{y:.1f}}<extra></extra>",
        ),
        row=row,
        col=1,
    )


def _spread(stats: Sequence[Interval]) -> dict[str, object]:
    return {"type": "data", "array": [100 * s.half_width for s in stats]}


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
