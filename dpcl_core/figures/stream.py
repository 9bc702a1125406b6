"""Preview of a stream: training examples by class and task, classes in the order of their home task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, bold, counted, minus
from dpcl_core.later import pd
from dpcl_core.lessons.text import Scale

_MAX_NAMES = 20  # classes; more names than this would not be readable beside their rows and are shown on hover only
_MAX_SIZES = 12  # tasks; more numbers than this would not fit above or below their bars, on a telephone at least
_BARS, _GAP = 36, 8  # pixels of the strip of task sizes, and between it and the grid
_BLUES = ((0.0, "#cfe4f4"), (1.0, "#1f6fb0"))
_BLUES_DARK = ((0.0, "#1c3f58"), (1.0, "#6db3e8"))


def stream(
    counts: NDArray[np.int64] | None, *, homes: Sequence[Sequence[int]], classes: Sequence[str], tasks: Sequence[str] = (),
    filled: float = 1.0, dark: bool = False,
) -> Picture:  # fmt: skip
    """A grid of classes by tasks, darker for more training examples, with frames around home classes; task sizes above.

    Args: counts: training examples int64 [tasks, classes], or None where they may not be shown: then only the homes are
    drawn. homes: class indices of each task. tasks: their names, shown where there are few (numbers where there are more).
    filled: share of the stream, from its start, that has been read; the rest is veiled.
    Shades follow the square root, so that few examples are visible, too.
    """
    called = list(tasks) or [f"task {number}" for number in range(1, len(homes) + 1)]
    rows = list(dict.fromkeys(label for home in homes for label in home))
    if counts is not None:  # by their first home task; within a home, those in one task only come first
        first = {label: index for index, home in reversed(list(enumerate(homes))) for label in home}
        rows.sort(key=lambda label: (first[label], int((counts[:, label] > 0).sum() > 1)))
    names = [classes[label] for label in rows]
    is_home = np.array([[label in home for home in map(set, homes)] for label in rows])
    grid = is_home.astype(np.int32) if counts is None else counts.T[rows].astype(np.int32)
    examples = "" if counts is None else ": %{customdata} examples"
    chart = _empty(names, called, is_home, counts, dark)
    chart.add(
        "heatmap", f"%{{y}} in %{{text}}{examples}", z=np.where(grid > 0, np.sqrt(grid), np.nan).astype(np.float32),
        x=np.arange(1, len(homes) + 1), y=names, customdata=grid, text=[called] * len(rows), zmin=0,
        zmax=float(np.sqrt(grid.max(initial=1))), colorscale=_BLUES_DARK if dark else _BLUES, showscale=False, xgap=2,
        ygap=1 if len(rows) <= _MAX_NAMES else 0, hoverongaps=False,
    )  # fmt: skip
    if counts is None:
        at_home = sorted(map(len, homes))
        amount = f"{at_home[0]}" if at_home[0] == at_home[-1] else f"{at_home[0]} to {at_home[-1]}"
        finding = f"{len(homes)} tasks with {amount} {'class' if amount == '1' else 'classes'} at home in each."
    else:
        finding, sizes, soft = _finding(counts, homes), counts.sum(axis=1), chart.ink.soft
        chart.add(
            "bar", "%{hovertext}: %{y} training examples", x=np.arange(1, len(sizes) + 1), y=sizes, yaxis="y2", width=0.8,
            marker={"color": soft, "opacity": 0.55}, textposition="outside", textfont={"color": soft, "size": 11},
            text=[f"{size:,}" for size in sizes] if len(sizes) <= _MAX_SIZES else None, cliponaxis=False, hovertext=called,
        )  # fmt: skip
    if filled < 1:
        rest = {"x0": 0.5 + filled * len(homes), "x1": len(homes) + 0.5, "y0": 0, "y1": 1.2, "line": {"width": 0}}
        veil = {"fillcolor": theme.translucent(chart.ink.ground, 0.72), "yref": "paper"}
        chart.shapes.append({"type": "rect", "xref": "x", **rest, **veil})
    if len(rows) < len(classes):
        finding += f" {len(classes) - len(rows)} of {len(classes)} classes are in no task."
    return chart.picture(finding)


def _empty(
    names: Sequence[str], called: Sequence[str], is_home: NDArray[np.bool_], counts: NDArray[np.int64] | None, dark: bool
) -> theme.Chart:
    """The figure before its cells and bars: axes, ground, and thin frames around home classes that are a block of rows."""
    n_rows, n_tasks = is_home.shape
    has_names, is_named = n_rows <= _MAX_NAMES, len(called) <= 6
    rows = 15 * n_rows if has_names else 190
    height, below, step = rows if counts is None else rows + _GAP + _BARS, 24 if is_named else 40, -(-n_tasks // _MAX_SIZES)
    # A task's name where there is room, else the number in its name, or its position.
    bare = (name.removeprefix("task ") for name in called)
    ticks = called if is_named else [name if name.isdecimal() else str(place) for place, name in enumerate(bare, start=1)]
    quiet = {"showgrid": False, "zeroline": False, "ticks": ""}
    axes: theme.Properties = {
        "xaxis": quiet | {
            "range": [0.5, n_tasks + 0.5], "title": None if is_named else "task",
            "tickvals": list(range(step, n_tasks + 1, step)), "ticktext": list(ticks[step - 1 :: step]),
        },
        "yaxis": quiet | {
            "type": "category", "range": [n_rows - 0.5, -0.5], "domain": [0, rows / height], "showticklabels": has_names,
            "title": None if has_names else f"{n_rows} classes, by home task",
        },
    }  # fmt: skip
    if has_names:
        axes["yaxis"] |= {"tickvals": list(names), "ticktext": [n if len(n) <= 16 else f"{n[:15]}…" for n in names]}
    if counts is not None:
        top = max(1.0, float(counts.sum(axis=1).max()))
        axes["yaxis2"] = quiet | {"domain": [1 - _BARS / height, 1], "range": [0, top], "showticklabels": False}
    chart = theme.Chart(dark, height + 28 + below, margin=(48, 8, 28, below), **axes)
    ground = {"x0": 0.5, "x1": n_tasks + 0.5, "y0": 0, "y1": 1, "yref": "y domain", "fillcolor": chart.ink.empty}
    chart.shapes.append({"type": "rect", "xref": "x", **ground, "layer": "below", "line": {"width": 0}})  # of empty cells
    for task, column in enumerate(is_home.T, start=1):
        places = np.flatnonzero(column)
        if len(places) and places[-1] - places[0] + 1 == len(places):
            block = {"x0": task - 0.5, "x1": task + 0.5, "y0": float(places[0]) - 0.5, "y1": float(places[-1]) + 0.5}
            chart.shapes.append({"type": "rect", **block, "line": {"color": chart.ink.text, "width": 1}})
    return chart


def _finding(counts: NDArray[np.int64], homes: Sequence[Sequence[int]]) -> str:
    sizes = counts.sum(axis=1)
    low, high = int(sizes.min()), int(sizes.max())
    amount = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    n_tasks, n_classes = len(sizes), int((counts.sum(axis=0) > 0).sum())
    suffix = " each" if low == high and n_tasks > 1 else ""
    sentences = [f"{counted(n_tasks, 'task')} of {amount} training examples{suffix}."]
    back = np.flatnonzero((counts > 0).sum(axis=0) > 1)
    if len(back):
        which = "All classes occur" if len(back) == n_classes else f"{len(back)} of {n_classes} classes occur"
        sentences.append(f"{which} in {'every task' if (counts > 0).all() else 'several tasks'}")
        if all(sum(int(label) in home for home in homes) == 1 for label in back):
            home_of = {label: index for index, home in enumerate(homes) for label in home}
            shares = [counts[home_of[int(label)], label] / counts[:, label].sum() for label in back]
            sentences[-1] += f", with {100 * float(np.mean(shares)):.0f} % of their examples at home"
        sentences[-1] += "."
    elif n_tasks > 1:
        sentences.append("Every class occurs in one task only.")
    if empty := [index + 1 for index, size in enumerate(sizes) if size == 0]:
        listed = ", ".join(map(str, empty))
        sentences.append(f"Task {listed} is empty." if len(empty) == 1 else f"Tasks {listed} are empty.")
    return " ".join(sentences)


# Accuracy by scale of the noise: one shared noise for all pictures against independent noise for each.


def accuracy_by_scale(
    accuracies: Mapping[str, Mapping[float, float]], *, chosen: float, chance: float, dark: bool = False
) -> Picture:
    """Accuracy against the scale of the noise, one line per learner; the chosen scale is marked and in the finding.

    `accuracies`: by the learner's name and scale (the same scales for all, 0 among them: no noise), in [0, 1]. `chance`:
    accuracy of guessing.
    """
    scales = sorted(next(iter(accuracies.values())))
    x = {"title": "scale of the noise on a pixel, b", "type": "category", "showgrid": False}
    chart = theme.Chart(dark, 380, x, theme.percent_axis(title="accuracy on new pictures"), legend_room=60)
    chart.level(100 * chance, "guessing", x=0, above=False)
    place = scales.index(chosen)
    sides = {"x0": place - 0.32, "x1": place + 0.32, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    chart.shapes.append({"type": "rect", **sides, "fillcolor": chart.ink.grid, "line": {"width": 0}})
    for index, (name, by_scale) in enumerate(accuracies.items()):
        values = [100 * by_scale[scale] for scale in scales]
        chart.series(index, [scale_text(scale) for scale in scales], values, name, ", b = %{x}: %{y:.1f} %")
    accuracies_text = "; ".join(f"{name}: {100 * by_scale[chosen]:.1f} %" for name, by_scale in accuracies.items())
    clean = sorted(100 * by_scale[0.0] for by_scale in accuracies.values())
    before = f"Without noise {clean[0]:.1f} to {clean[-1]:.1f} %. " if chosen else ""
    return chart.picture(f"{before}{f'With b = {scale_text(chosen)}' if chosen else 'Without noise'}: {accuracies_text}.")


def scale_text(scale: float) -> str:
    """A scale as text for the axis: plain digits, or words where there is no noise."""
    return f"{scale:g}" if scale else "none"


# Released noisy class sums as pictures.


_CLASS_SUMS_GAP = 1  # empty pixels between two pictures
_BETWEEN = 0.24  # of the height, for the titles of all strips but the first
_ROOM = 5  # pictures per strip; fewer are not drawn larger


def strips(
    rows: Mapping[str, Sequence[NDArray[np.float64]]], columns: Sequence[str], *, finding: str, dark: bool = False
) -> Picture:
    """One strip of small square pictures per row, from pixels [side * side] each.

    The grey scale is that of each row's own largest and smallest number. `finding`: the sentence, by the caller.
    """
    side = next(round(len(one) ** 0.5) for row in rows.values() for one in row)
    width = len(columns) * (side + _CLASS_SUMS_GAP) - _CLASS_SUMS_GAP
    room = max(width, _ROOM * (side + _CLASS_SUMS_GAP) - _CLASS_SUMS_GAP)
    middles = [column * (side + _CLASS_SUMS_GAP) + (side - 1) / 2 for column in range(len(columns))]
    across = {
        "range": [-0.5, room - 0.5], "constrain": "domain", "constraintoward": "left", "showline": False, "ticks": "",
        "tickvals": middles, "ticktext": list(columns), "showgrid": False, "zeroline": False,
    }  # fmt: skip
    down = {"visible": False, "range": [side - 0.5, -0.5], "constrain": "domain", "constraintoward": "top"}
    numbers = ["", *map(str, range(2, len(rows) + 1))]
    ys = [{**down, "scaleanchor": f"x{number}"} for number in numbers]  # pixels stay square on any screen
    axes = theme.panels([1.0] * len(rows), _BETWEEN / len(rows), across, ys)
    chart = theme.Chart(dark, 46 + 96 * len(rows), margin=(4, 4, 28, 28), dragmode=False, **axes)
    scale = [[0, chart.ink.empty], [1, chart.ink.text]]
    for (name, pictures), number in zip(rows.items(), numbers, strict=True):
        drawn = np.full((side, width), np.nan)
        for column, one in enumerate(pictures):
            start = column * (side + _CLASS_SUMS_GAP)
            drawn[:, start : start + side] = one.reshape(side, side)
        where = {"name": name, "xaxis": f"x{number}", "yaxis": f"y{number}"}
        chart.add("heatmap", "%{fullData.name}: %{z:.2f}", z=drawn, colorscale=scale, showscale=False, **where)
        top = {"xref": "paper", "xanchor": "left", "yref": "paper", "yanchor": "bottom"}
        chart.text(name, 0, axes[f"yaxis{number}"]["domain"][1], size=12, **top)
    return chart.picture(finding)


# Charts of lessons: curves and bars of computed numbers. The finding comes from the lesson, which computes the numbers.


_HEIGHT, _LEGEND = 340, 56
_BAR, _ABOVE = 30, 0.42  # pixels of a bar with its name; how far above the bar's middle the name stands


def curves(
    table: pd.DataFrame, x: Scale, y: Scale, finding: str, *, chosen: float | None = None, dark: bool = False
) -> Picture:
    """A line for each series. Columns: series, x, y, and `half`, half widths of error bars, if there are any.

    `chosen`: a place on the x axis to mark.
    """
    scale = 100.0 if y.is_share else 1.0
    chart = theme.Chart(dark, _HEIGHT, _across(x, table["x"]), _axis(y, table["y"]), legend_room=_LEGEND)
    for index, (name, rows) in enumerate(table.groupby("series", sort=False)):
        mode = "lines+markers" if len(rows) <= 24 else "lines"
        half = {"type": "data", "array": scale * rows["half"], "thickness": 1.2} if "half" in rows else None
        more = {"mode": mode, "error_y": half, "cliponaxis": False}  # marks at 0 and at 100 % are drawn whole
        chart.series(index, rows["x"], scale * rows["y"], str(name), ": %{y:.4g}", **more)
    if chosen is not None:
        chart.across("x", chosen, width=1.2)
    return chart.picture(finding)


def bars(table: pd.DataFrame, x: Scale, finding: str, *, dark: bool = False) -> Picture:
    """A bar for each row, from top to bottom, its name above it. Columns: name, value, and `half` if there are any."""
    scale = 100.0 if x.is_share else 1.0
    places = [-2.0 * row for row in range(len(table))]
    y = {"showticklabels": False, "showgrid": False, "zeroline": False, "range": [places[-1] - 0.8, 1.4]}
    chart = theme.Chart(dark, 60 + 2 * _BAR * len(table), _axis(x, table["value"]), y, margin=(12, 24, 12, 44))
    half = {"type": "data", "array": scale * table["half"], "thickness": 1.5} if "half" in table else None
    look = {"color": chart.colour(0)}
    chart.add("bar", x=scale * table["value"], y=places, orientation="h", width=0.9, error_x=half, marker=look)
    start = {"xref": "paper", "xanchor": "left", "yanchor": "bottom", "align": "left"}
    for place, name, value in zip(places, table["name"], table["value"], strict=True):
        text = f"{name}: {bold(_shown(x, value))}"
        chart.text(text, 0, place + _ABOVE, colour=chart.ink.text, size=13, **start)
    return chart.picture(finding)


def _shown(scale: Scale, value: float) -> str:
    return f"{100 * value:.1f} %" if scale.is_share else f"{value:,.4g}"


def _across(scale: Scale, values: pd.Series) -> theme.Properties:
    """The x axis of curves: a linear one begins where they do, with a tick at each place if there are few."""
    if scale.is_log or scale.is_share:
        return _axis(scale, values)
    places = sorted(set(values))
    room = 0.04 * (places[-1] - places[0])
    few = {"tickvals": places, "ticktext": [f"{place:g}" for place in places]} if len(places) <= 12 else {}
    return {"title": scale.title, "range": [places[0] - room, places[-1] + room], **few}


def _axis(scale: Scale, values: pd.Series) -> theme.Properties:
    """The axis with its title; a logarithmic one has a tick for each power of ten within its values, or those of `scale`."""
    if scale.is_log:
        positive = values[(values > 0) & values.map(math.isfinite)]
        low, high = math.log10(positive.min()), math.log10(positive.max())
        room = 0.04 * max(high - low, 0.5)
        powers = range(math.ceil(low - room), math.floor(high + room) + 1)
        usual = [10.0**power for power in powers] if len(powers) > 1 else [10**low, 10**high]
        ticks = sorted(set(map(float, values))) if scale.ticks is True else scale.ticks or usual
        plain = [f"{tick:,.0f}" if tick >= 10 else f"{tick:.3g}" for tick in ticks]
        words, ends = [_shown(scale, tick) for tick in ticks] if scale.is_share else plain, [low - room, high + room]
        return {"title": scale.title, "type": "log", "range": ends, "tickvals": ticks, "ticktext": words}
    return theme.percent_axis(title=scale.title) if scale.is_share else {"title": scale.title, "rangemode": "tozero"}


# Figures of unlearning terms: weight of a token, likelihood of a secret in training, exposure of planted codes.


def token_weights(
    scores: NDArray[np.float64], weights: Mapping[str, NDArray[np.float64]], *, chosen: float, dark: bool = False
) -> Picture:
    """Weight of a token in the loss by its Score, one line per term; above 0 it is learned, below 0 unlearned.

    `scores` [n] ascending; `weights`: by the term's name, [n]; the chosen Score is marked, and interpolated linearly.
    """
    at_chosen = {name: float(np.interp(chosen, scores, line)) for name, line in weights.items()}
    chart = _chart(dark, 380, {"title": "Score of the token"}, {"title": "weight of its cross-entropy"})
    chart.across("y", 0, dash=None)
    chart.across("x", chosen)
    chart.note(0.0, "learned", x=0, above=True)
    chart.note(0.0, "unlearned", x=0, above=False)
    for index, (name, line) in enumerate(weights.items()):
        chart.series(index, scores, line, name, ", Score %{x:.2f}: %{y:.2f}", mode="lines")
    said = "; ".join(f"{name} {minus(f'{at:.2f}') if abs(at) >= 0.005 else '0'}" for name, at in at_chosen.items())
    return chart.picture(f"At a Score of {chosen:g} the token counts: {said}.")


def secret_nats(nats: Mapping[str, NDArray[np.float64]], *, most: float, public: float, dark: bool = False) -> Picture:
    """Nats of a secret by training step, one line per term; `public`: its nats under the public model. Drawn up to `most`.

    `nats`: by the term's name, [steps + 1] from the untrained model on.
    """
    chart = _chart(dark, 380, {"title": "training steps"}, {"title": "nats per digit of the secret", "range": [0, most]})
    chart.level(public, "as unknown as to the public model", x=1, above=False)
    steps = len(next(iter(nats.values()))) - 1
    for index, (name, line) in enumerate(nats.items()):
        chart.series(index, list(range(steps + 1)), line, name, ", step %{x}: %{y:.2f} nats", mode="lines")
    ends = "; ".join(f"{name} {line[-1]:.1f}" for name, line in nats.items())
    return chart.picture(f"Nats per digit of the secret after {steps} steps, from {public:.1f}: {ends}.")


def code_exposure(
    levels: Sequence[int], bits: Mapping[str, Sequence[Sequence[float]]], *, controls: float, most: float, dark: bool = False
) -> Picture:
    """Bits of exposure by how often a code was planted, one line per term through the means, with a mark for each seed.

    Args: levels: repetitions, ascending; bits: by the term's name, for each level the exposure with each seed; controls:
    mean exposure of codes never planted; most: of the single most likely code.
    """
    names = [f"{level} times" if level > 1 else "once" for level in levels]
    x = {"title": "how often a code was planted", "type": "category", "showgrid": False}
    chart = _chart(dark, 400, x, {"title": "exposure, bits", "range": [0, most + 0.8]})
    chart.level(controls, "never planted", x=0.5, above=False)
    chart.level(most, "the single most likely code", x=0.5, above=True)
    for index, (name, by_level) in enumerate(bits.items()):
        means = [float(np.mean(seeds)) for seeds in by_level]
        line = chart.series(index, names, means, name, ", %{x}: %{y:.1f} bits on average", size=9)
        at = [place for place, seeds in zip(names, by_level, strict=True) for _ in seeds]
        marker = {**line["marker"], "size": 6, "opacity": 0.45}
        chart.marks(at, [*chain(*by_level)], name, marker, f"{name}, one seed: %{{y:.1f}} bits", showlegend=False)
    ends = "; ".join(f"{name} {np.mean(by_level[-1]):.1f}" for name, by_level in bits.items())
    return chart.picture(f"Exposure of codes planted {levels[-1]} times, in bits: {ends}; never planted {controls:.1f}.")


def _chart(dark: bool, height: int, x: theme.Properties, y: theme.Properties) -> theme.Chart:
    return theme.Chart(dark, height, x, {"zeroline": False, **y}, legend_room=60)
