"""Figures of matching quality: against the truth, by matcher, and by level of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.explorers import matching
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, bold, capital
from dpcl_core.later import pd

# Entries of clients' lists on a map of public axes, and the margins of their matching. Simulation only.


Space = Literal["mean", "signature"]
Extent = tuple[float, float, float, float]
Side = Literal["top center", "bottom center", "middle right", "middle left"]
_AMBIGUOUS = 0.1  # a margin below it: the second prototype is nearly as close
_DEVIATIONS = 2.0  # of the noise, radius of an ellipse
_SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "pentagon", "hexagon", "star",
    "triangle-left", "triangle-right", "hexagram", "star-square", "star-diamond", "diamond-tall", "diamond-wide", "bowtie",
    "hourglass", "star-triangle-up",
)  # fmt: skip
_NOT_MATCHED = "No list has been matched yet."
_HEIGHT = 420
_NAMED = 40  # with more prototypes, crosses are small and names are shown on hover only
_MAP_PIXELS = (460, 380)  # of a map on a wide screen
_LETTER = (8, 15)  # a bold letter's width and height
_ARM, _CROSS_PIXELS = 7, 8  # of a cross, and from its middle to its name


def extent(entries: pd.DataFrame, prototypes: pd.DataFrame, space: Space) -> Extent:
    """The part of the map (left, right, bottom, top) that contains all these entries and prototypes, with a margin.

    It contains the noise ellipses as well, unless they are so wide that entries could not be separated.
    """
    sides: list[float] = []
    for axis in ("x", "y"):
        middles, wide = prototypes[f"{space}_{axis}"], _DEVIATIONS * np.sqrt(prototypes[f"{space}_{axis}{axis}"])
        coordinates = pd.concat([entries[f"{space}_{axis}"], middles])
        low, high = (float(coordinates.min()), float(coordinates.max())) if len(coordinates) else (0.0, 1.0)
        most = 0.6 * (high - low)
        low, high = max(low - most, min(low, *(middles - wide))), min(high + most, max(high, *(middles + wide)))
        room = 0.08 * (high - low) or 1.0
        sides += [low - room, high + room]
    return sides[0], sides[1], sides[2], sides[3]


def on_map(
    entries: pd.DataFrame, prototypes: pd.DataFrame, *, space: Space, by: Literal["group", "mode"] = "group",
    within: Extent | None = None, dark: bool = False,
) -> Picture:  # fmt: skip
    """One mark per entry of one round: colour by group (or true mode), shape by client, size by weight.

    Faint and hollow: ambiguous; a ring: not in the group of its mode. Crosses are prototypes, each in an ellipse of two
    standard deviations of its privacy noise. Columns as in `runs.frames.entries` and `.prototypes`; `within`: the shown
    part of the map, so that it stays the same over rounds.
    """
    if entries.empty:
        return theme.nothing(_NOT_MATCHED, dark, _HEIGHT)
    left, right, bottom, top = within if within is not None else extent(entries, prototypes, space)
    # No ticks, so that the browser does not recompute their margin with every change.
    quiet = {"showticklabels": False, "zeroline": False, "title": "", "automargin": False}
    down = {**quiet, "range": [bottom, top], "scaleanchor": "x"}
    chart = theme.Chart(dark, _HEIGHT, {**quiet, "range": [left, right]}, down, margin=(8, 8, 8, 8))
    for row in prototypes.itertuples():
        spread = [getattr(row, f"{space}_{part}") for part in ("xx", "xy", "yy")]
        if any(spread):
            colour = chart.colour(int(row.group))
            line, fill = {"color": colour, "width": 1.2, "dash": "dot"}, theme.translucent(colour, 0.08)
            x, y = ellipse(getattr(row, f"{space}_x"), getattr(row, f"{space}_y"), *spread)
            chart.add("scatter", x=x, y=y, mode="lines", line=line, fill="toself", fillcolor=fill)
    for kind, rows in entries.groupby(by):
        _marks(chart, rows, space, int(kind))
    wrong = entries[~entries["is_right"] & (entries["mode"] >= 0)]
    rings = {
        "symbol": "circle-open", "size": 13 + 10 * np.sqrt(wrong["weight"].clip(0, 1)), "color": chart.ink.text,
        "opacity": 0.8, "line": {"width": 1},
    }  # fmt: skip
    chart.marks(wrong[f"{space}_x"], wrong[f"{space}_y"], None, rings)
    crosses, names = prototypes[[f"{space}_x", f"{space}_y"]].to_numpy(dtype=float), prototypes["name"].tolist()
    is_named = len(names) <= _NAMED
    sides = label_sides(crosses, names, (left, right, bottom, top)) if is_named else [None] * len(names)
    size, width = (20, 3.5) if is_named else (7, 1.0)
    chart.marks(
        crosses[:, 0], crosses[:, 1], None,
        {"symbol": "cross-thin", "size": size, "line": {"color": chart.ink.text, "width": width}},
        "prototype of %{hovertext}", mode="markers+text", hovertext=names, textfont={"color": chart.ink.text},
        text=["" if side is None else bold(name) for name, side in zip(names, sides, strict=True)],
        textposition=[side or "top center" for side in sides],
    )  # fmt: skip
    return chart.picture(_finding(entries))


def label_sides(points: NDArray[np.float64], names: Sequence[str], within: Extent) -> list[Side | None]:
    """The side of its point [n, 2] where each name overlaps no other name and no cross; None: no side is free.

    Greedy, in the order of the names. Sizes are for a map on a wide screen; on a narrow one names are closer together.
    """
    left, right, bottom, top = within
    unit = max((right - left) / _MAP_PIXELS[0], (top - bottom) / _MAP_PIXELS[1])  # of the axes, in a pixel
    arm = unit * _ARM
    occupied = [(x - arm, x + arm, y - arm, y + arm) for x, y in points.tolist()]
    sides: list[Side | None] = []
    for (x, y), name in zip(points.tolist(), names, strict=True):
        wide, high, away = unit * _LETTER[0] * len(name), unit * _LETTER[1], unit * _CROSS_PIXELS
        corners: dict[Side, tuple[float, float]] = {
            "top center": (x - wide / 2, y + away),
            "bottom center": (x - wide / 2, y - away - high),
            "middle right": (x + away, y - high / 2),
            "middle left": (x - away - wide, y - high / 2),
        }
        for side, (low_x, low_y) in corners.items():
            box = (low_x, low_x + wide, low_y, low_y + high)
            if all(box[1] <= a or b <= box[0] or box[3] <= c or d <= box[2] for a, b, c, d in occupied):
                occupied.append(box)
                sides.append(side)
                break
        else:
            sides.append(None)
    return sides


def _finding(entries: pd.DataFrame) -> str:
    """The finding of one round's entries, in one sentence."""
    n, n_clients = len(entries), entries["client"].nunique()
    n_groups = entries.loc[entries["group"] >= 0, "group"].nunique()
    doubtful = int((entries["margin"] < _AMBIGUOUS).sum())
    rest = f"; {doubtful} {'is' if doubtful == 1 else 'are'} ambiguous." if doubtful else "; none is ambiguous."
    if not (n_known := int((entries["mode"] >= 0).sum())):
        return f"{n} entries of {n_clients} clients went into {n_groups} groups{rest}"
    return f"{int(entries['is_right'].sum())} of {n_known} entries of {n_clients} clients found their group{rest}"


def margins(entries: pd.DataFrame, *, regret: bool = False, dark: bool = False) -> Picture:
    """The margin of every entry, one column per client, clients from the least to the most certain.

    `regret`: instead, the relative increase of its list's cost if the entry were barred from its group, where matching is
    one to one.
    Columns as in `runs.frames.entries`, of one round.
    """
    value, title = ("regret", "extra cost, 1: as much again") if regret else ("margin", "margin, (d₂ − d₁)/(d₂ + d₁)")
    rows = entries.dropna(subset=[value])
    if rows.empty:
        return theme.nothing("Regret is shown only where matching is one to one." if regret else _NOT_MATCHED, dark, 300)
    order = rows.groupby("client")[value].mean().sort_values(kind="stable").index.tolist()
    place = {client: at for at, client in enumerate(order)}
    x = {
        "title": "clients, least certain first", "showgrid": False, "zeroline": False, "tickvals": list(place.values()),
        "ticktext": [f"{client + 1}" for client in order],
    }  # fmt: skip
    y = {"title": title, "rangemode": "tozero", **({} if regret else {"range": [-0.03, 1.03]})}
    chart = theme.Chart(dark, 300, x, y)
    for group, of in rows.groupby("group"):
        marker = {"color": chart.colour(int(group)) if group >= 0 else chart.ink.soft, "size": 9}
        marker["symbol"] = np.where(of["margin"] < _AMBIGUOUS, "circle-open", "circle")
        hover = "client %{customdata}, %{fullData.name}: %{y:.3f}"
        places = [place[client] for client in of["client"]]
        chart.marks(places, of[value], str(of["name"].iloc[0]), marker, hover, customdata=of["client"] + 1)
    if regret:
        least, free = rows.loc[rows[value].idxmin()], int((rows["regret"] <= 0).sum())
        finding = f"Client {int(least['client']) + 1} is the closest call: another group costs its list "
        finding += f"{100 * least['regret']:.2g} % more"
        finding += f"; for {free} {'entry' if free == 1 else 'entries'} it costs nothing." if free else "."
    else:
        chart.across("y", _AMBIGUOUS, width=1.5)
        below = int((rows["margin"] < _AMBIGUOUS).sum())
        finding = f"{below} of {len(rows)} matches {'was' if below == 1 else 'were'} close."
    return chart.picture(finding)


def ellipse(x: float, y: float, xx: float, xy: float, yy: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points on the two-standard-deviation ellipse of a normal distribution with this mean and covariance (xx, xy, yy)."""
    scales, axes = np.linalg.eigh(np.array([[xx, xy], [xy, yy]]))
    angle = np.linspace(0, 2 * math.pi, 48)
    drawn = _DEVIATIONS * (axes * np.sqrt(np.maximum(scales, 0.0))) @ np.stack([np.cos(angle), np.sin(angle)])
    return x + drawn[0], y + drawn[1]


def _marks(chart: theme.Chart, rows: pd.DataFrame, space: Space, group: int) -> None:
    """Adds the entries of one colour; a negative id is "none" or "not known"."""
    clients, weights, margins = (rows[name].to_numpy() for name in ("client", "weight", "margin"))
    shapes = zip(clients, margins < _AMBIGUOUS, strict=True)
    marker = {
        "color": chart.colour(group) if group >= 0 else chart.ink.soft, "line": {"width": 1.2},
        "symbol": [f"{_SYMBOLS[client % len(_SYMBOLS)]}{'-open' if open else ''}" for client, open in shapes],
        "size": 6 + 10 * np.sqrt(weights.clip(0, 1)), "opacity": 0.5 + 0.5 * margins.clip(0, 1),
    }  # fmt: skip
    hover = "client %{customdata[0]:.0f}: %{text}<br>weight %{customdata[1]:.2f}, margin %{customdata[2]:.2f}"
    chart.marks(
        rows[f"{space}_x"], rows[f"{space}_y"], None, marker, hover, text=rows["name"].where(rows["group"] >= 0, "no group"),
        customdata=np.stack([clients + 1, weights, margins], axis=1),
    )  # fmt: skip


_NEAR = 0.3  # of the axis: on a phone two names closer than this overlap
_UNKNOWN = "The true groups of these entries are unknown, so agreement cannot be measured."
_NOT_COMPARED = (
    "No agreement here: the true groups are unknown, or all entries are of one group, or the lists are too long to compare."
)
_BLUES = ((0.0, "#f3f8fc"), (1.0, "#6fafdc"))
_BLUES_DARK = ((0.0, "#18252e"), (1.0, "#236690"))
_CHANCE = 0.1  # an index below it is hardly above chance


def confusion(entries: pd.DataFrame, groups: Sequence[str], modes: Sequence[str], *, dark: bool = False) -> Picture:
    """Counts of entries by true mode (rows) and by the group they were matched to (columns).

    Columns as in `runs.frames.entries`, of one round; `groups`, `modes`: names in order of their ids.
    """
    rows = entries[entries["mode"] >= 0]
    if rows.empty:
        return theme.nothing(_UNKNOWN, dark, 260)
    ids, truth = rows["group"].to_numpy(), rows["mode"].to_numpy()
    x = {"type": "category", "title": "matched to", "showgrid": False}
    y = {"type": "category", "title": "really of", "autorange": "reversed", "showgrid": False}
    chart = theme.Chart(dark, min(460, 110 + 32 * max(3, len(modes))), x, y)
    counts = matching.confusion(ids, truth, len(groups), len(modes))
    names, scale, hover = [f"{name} " for name in groups], _BLUES_DARK if dark else _BLUES, "of %{y}, matched to %{x}: %{z}"
    chart.cells(counts, names, list(modes), scale, hover, texttemplate="%{z}")
    return chart.picture(
        f"{100 * rows['is_right'].mean():.0f} % of entries lie in the group of their mode (chance "
        f"{100 / max(len(groups), 1):.0f} %); adjusted Rand index {matching.adjusted_rand(ids, truth):.2f}."
    )


def matcher_bars(agreement: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Agreement with the truth on the same lists, one bar per matcher; the run's own matcher is highlighted.

    Columns matcher, is_own, agreement (several rows per matcher are averaged).
    """
    if agreement.empty:
        return theme.nothing(_NOT_COMPARED, dark, 260)
    means = agreement.groupby("matcher", sort=False)[["agreement", "is_own"]].mean()
    names, values, is_own = means.index.tolist(), means["agreement"], means["is_own"] > 0
    x = {
        "range": [min(-0.05, float(values.min()) - 0.02), 1.12], "title": "adjusted Rand index", "zeroline": True,
        "tickvals": [0, 0.5, 1],
    }  # fmt: skip
    y = {"type": "category", "autorange": "reversed", "showgrid": False}
    chart = theme.Chart(dark, 70 + 30 * len(names), x, y, bargap=0.35)
    colours = {"color": [chart.colour(0) if mine else chart.ink.soft for mine in is_own]}
    chart.add("bar", "%{y}: %{x:.3f}", x=values, y=names, orientation="h", marker=colours)
    texts = [f" {_number(value)}" for value in values]
    chart.add(  # numbers: right of zero even where a bar goes left
        "scatter", x=values.clip(lower=0), y=names, mode="text", textposition="middle right", cliponaxis=False,
        text=[bold(text) if mine else text for text, mine in zip(texts, is_own, strict=True)],
        textfont={"color": chart.ink.text},
    )  # fmt: skip
    best = float(values.max())
    if best < _CHANCE:
        return chart.picture(f"No matcher agrees with the truth much better than chance does (the most: {_number(best)}).")
    *more, last = [name for name in names if values[name] >= best - 0.005]
    first = f"{'; '.join(more)} and {last} agree best" if more else f"{last} agrees best"
    mine = [f"; {name}, which is used here, has {values[name]:.2f}" for name in names if is_own[name]]
    mine = [] if any(is_own[name] for name in (*more, last)) else mine[:1]
    return chart.picture(capital(f"{first} with the truth ({best:.2f}){''.join(mine)}."))


def agreement_by_noise(
    agreement: pd.DataFrame, required: Mapping[str, float], *, chosen: float | None = None, dark: bool = False
) -> Picture:
    """Agreement against the noise on a coordinate of every entry's mean, one line per matcher.

    Columns matcher, noise (ascending levels, 0 among them), agreement. `required`: the noise that a budget requires, by kind
    of trust; each is a vertical line. `chosen`: the level selected on the page.
    """
    rows = agreement.dropna(subset=["noise"])
    if rows.empty:
        return theme.nothing(_UNKNOWN, dark, 340)
    levels = sorted(float(level) for level in rows["noise"].unique())
    finite = {name: level for name, level in required.items() if math.isfinite(level) and level > 0}
    lowest = math.log10(min([*filter(None, levels), *finite.values()]))
    places = {level: math.log10(level) if level > 0 else lowest - 0.4 for level in levels}
    ends = [*places.values(), *map(math.log10, finite.values())]
    across = {
        "title": "noise on a coordinate of a mean", "showgrid": False, "zeroline": False, "tickvals": list(places.values()),
        "ticktext": [f"{level:g}" for level in levels], "range": [min(ends) - 0.12, max(ends) + 0.15],
    }  # fmt: skip
    y = {"title": "adjusted Rand index", "range": [-0.12, 1.08], "tickvals": [0, 0.5, 1]}
    chart = theme.Chart(dark, 360, across, y, legend_room=96, margin=(52, 16, 96, 48))
    chart.layout["legend"]["y"] = 1.1 if finite else 1.02  # above the names of the dashed lines
    if chosen is not None and chosen in places:
        chart.stripe(places[chosen])
    above: list[float] = []  # lines whose names are above the plot; of two close ones the second name is within it
    for name, level in finite.items():
        at = math.log10(level)
        is_near = any(abs(at - other) < _NEAR * (max(ends) - min(ends)) for other in above)
        above += [] if is_near else [at]
        chart.across("x", at, colour=chart.ink.text, width=1.5, dash="dash")
        chart.text(
            f"{name} {level:.2g}", at, 1.0, colour=chart.ink.text, size=12, yref="paper",
            yanchor="top" if is_near else "bottom", xanchor="right" if at > np.mean(ends) else "left",
        )  # fmt: skip
    by_matcher = rows.groupby("matcher", sort=False)
    at_noise = {str(name): of.groupby("noise")["agreement"].mean().to_dict() for name, of in by_matcher}
    for index, (matcher, by) in enumerate(at_noise.items()):
        x, levels_text = [places[level] for level in by], [f"{level:g}" for level in by]
        hover = ", noise %{customdata}: %{y:.2f}"
        chart.series(index, x, list(by.values()), matcher, hover, size=7, customdata=levels_text)
    return chart.picture(_best_at_noise(at_noise, levels, finite, chosen))


def _best_at_noise(
    at_noise: Mapping[str, Mapping[float, float]], levels: Sequence[float], required: Mapping[str, float],
    chosen: float | None,
) -> str:  # fmt: skip
    """Sentence on the best matcher at the selected noise, or at the largest that a budget requires."""
    wanted = max(required.values()) if required and chosen is None else chosen if chosen is not None else levels[-1]
    level = min(levels, key=lambda candidate: abs(math.log10(max(candidate, 1e-9)) - math.log10(max(wanted, 1e-9))))
    best = max(at_noise, key=lambda name: at_noise[name].get(level, -1.0))
    reached = at_noise[best][level]
    sentence = f"At noise {level:g} {best} agrees best with the truth: {reached:.2f}"
    if reached < _CHANCE:
        sentence = f"At noise {level:g} no matcher agrees with the truth much better than chance does"
    requirements = ", ".join(f"{name} {value:.2g}" for name, value in required.items())
    return f"{sentence}. The budget requires: {requirements}." if required else f"{sentence}."


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")
