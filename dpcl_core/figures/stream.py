"""Preview of a stream: training examples by class and task, classes in the order of their home task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, counted

_MAX_NAMES = 20  # classes; more names than this would not be readable beside their rows and are shown on hover only
_MAX_TASK_NAMES = 6
_MAX_SIZES = 12  # tasks; more numbers than this would not fit above or below their bars, on a telephone at least
_BARS, _GAP = 36, 8  # pixels of the strip of task sizes, and between it and the grid
_BLUES = ((0.0, "#cfe4f4"), (1.0, "#1f6fb0"))
_BLUES_DARK = ((0.0, "#1c3f58"), (1.0, "#6db3e8"))


def stream(
    counts: NDArray[np.int64] | None,
    *,
    homes: Sequence[Sequence[int]],
    classes: Sequence[str],
    tasks: Sequence[str] = (),
    dark: bool = False,
) -> Picture:
    """A grid of classes by tasks, darker for more training examples, with frames around home classes; task sizes above.

    Args: counts: training examples int64 [tasks, classes], or None where they may not be shown: then only the homes are
    drawn. homes: class indices of each task. tasks: their names, shown where there are few (numbers where there are more).
    Shades follow the square root, so that few examples are visible, too.
    """
    called = list(tasks) or [f"task {number}" for number in range(1, len(homes) + 1)]
    rows = _ordered(homes, counts)
    names = [classes[label] for label in rows]
    is_home = np.array([[label in home for home in map(set, homes)] for label in rows])
    grid = is_home.astype(np.int32) if counts is None else counts.T[rows].astype(np.int32)
    traces: list[object] = [
        go.Heatmap(
            z=np.where(grid > 0, np.sqrt(grid), np.nan).astype(np.float32),
            x=np.arange(1, len(homes) + 1),
            y=names,
            customdata=grid,
            text=[called] * len(rows),
            zmin=0,
            zmax=float(np.sqrt(grid.max(initial=1))),
            colorscale=_BLUES_DARK if dark else _BLUES,
            showscale=False,
            xgap=2,
            ygap=1 if len(rows) <= _MAX_NAMES else 0,
            hovertemplate="%{y} in %{text}" + ("" if counts is None else ": %{customdata} examples") + "<extra></extra>",
            hoverongaps=False,
        )
    ]
    if counts is not None:
        traces.append(_sizes(counts.sum(axis=1), called, dark))
    figure = go.Figure(traces, _layout(names, called, is_home, counts, dark))
    finding = _plan_finding(homes) if counts is None else _finding(counts, homes)
    if len(rows) < len(classes):
        finding += f" {len(classes) - len(rows)} of {len(classes)} classes are in no task."
    return Picture(figure, finding)


def _ordered(homes: Sequence[Sequence[int]], counts: NDArray[np.int64] | None) -> list[int]:
    """The classes by their first home task; within a home, those in one task only come first."""
    order = list(dict.fromkeys(label for home in homes for label in home))
    if counts is None:
        return order
    first = {label: index for index, home in reversed(list(enumerate(homes))) for label in home}
    return sorted(order, key=lambda label: (first[label], int((counts[:, label] > 0).sum() > 1), order.index(label)))


def _sizes(sizes: NDArray[np.int64], called: Sequence[str], dark: bool) -> go.Bar:
    inks = theme.ink(dark)
    return go.Bar(
        x=np.arange(1, len(sizes) + 1),
        y=sizes,
        yaxis="y2",
        marker={"color": inks.soft, "opacity": 0.55},
        width=0.8,
        text=[f"{size:,}" for size in sizes] if len(sizes) <= _MAX_SIZES else None,
        textposition="outside",
        textfont={"color": inks.soft, "size": 11},
        cliponaxis=False,
        hovertext=list(called),
        hovertemplate="%{hovertext}: %{y} training examples<extra></extra>",
    )


def _layout(
    names: Sequence[str], called: Sequence[str], is_home: NDArray[np.bool_], counts: NDArray[np.int64] | None, dark: bool
) -> dict[str, object]:
    n_rows, n_tasks = is_home.shape
    has_names = n_rows <= _MAX_NAMES
    rows = 15 * n_rows if has_names else 190
    height = rows if counts is None else rows + _GAP + _BARS
    step = -(-n_tasks // _MAX_SIZES)
    numbers = list(range(step, n_tasks + 1, step))
    is_named = len(called) <= _MAX_TASK_NAMES
    below = 24 if is_named else 40
    quiet = {"showgrid": False, "zeroline": False, "ticks": ""}
    layout = theme.layout(
        dark,
        height=height + 28 + below,
        margin={"l": 48, "r": 8, "t": 28, "b": below},
        xaxis=quiet
        | {"range": [0.5, n_tasks + 0.5], "title": None if is_named else "task", "tickvals": numbers}
        | {"ticktext": [_tick(called[number - 1], number, is_named) for number in numbers]},
        yaxis=quiet
        | {"type": "category", "range": [n_rows - 0.5, -0.5], "domain": [0, rows / height], "showticklabels": has_names}
        | {"title": None if has_names else f"{n_rows} classes, by home task"}
        | ({"tickvals": list(names), "ticktext": [_short(name) for name in names]} if has_names else {}),
        shapes=[_ground(n_tasks, dark), *_frames(is_home, dark)],
    )
    if counts is not None:
        top = max(1.0, float(counts.sum(axis=1).max()))
        layout["yaxis2"] = quiet | {"domain": [1 - _BARS / height, 1], "range": [0, top], "showticklabels": False}
    return layout


def _ground(n_tasks: int, dark: bool) -> dict[str, object]:
    """The colour of empty cells."""
    place = {"xref": "x", "yref": "y domain", "x0": 0.5, "x1": n_tasks + 0.5, "y0": 0, "y1": 1}
    return {"type": "rect", **place, "layer": "below", "line": {"width": 0}, "fillcolor": theme.ink(dark).empty}


def _frames(is_home: NDArray[np.bool_], dark: bool) -> list[dict[str, object]]:
    """Thin frames around the home classes of each task, where they are a block of rows."""
    frames: list[dict[str, object]] = []
    for task, column in enumerate(is_home.T, start=1):
        places = np.flatnonzero(column)
        if len(places) and places[-1] - places[0] + 1 == len(places):
            block = {"x0": task - 0.5, "x1": task + 0.5, "y0": float(places[0]) - 0.5, "y1": float(places[-1]) + 0.5}
            frames.append({"type": "rect", **block, "line": {"color": theme.ink(dark).text, "width": 1}})
    return frames


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
    empty = [index + 1 for index, size in enumerate(sizes) if size == 0]
    if empty:
        listed = ", ".join(map(str, empty))
        sentences.append(f"Task {listed} is empty." if len(empty) == 1 else f"Tasks {listed} are empty.")
    return " ".join(sentences)


def _plan_finding(homes: Sequence[Sequence[int]]) -> str:
    sizes = [len(home) for home in homes]
    amount = f"{sizes[0]}" if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
    which = "class" if amount == "1" else "classes"
    return f"{len(homes)} tasks with {amount} {which} at home in each."


def _tick(name: str, place: int, is_named: bool) -> str:
    """The label of a task: its name where there is room, else the number in its name, or its position."""
    number = name.removeprefix("task ")
    return name if is_named else number if number.isdecimal() else str(place)


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"
