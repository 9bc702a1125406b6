"""The stream before anything runs: how many examples of each class every task brings, classes in the order of their home."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_MAX_NAMES = 20  # classes; more names than this would not be readable beside their rows and are shown on hover only
_MAX_TASK_NAMES = 6
_MAX_SIZES = 12  # tasks; more numbers than this would not fit above their bars
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
    """A grid class by task, darker for more training examples, a frame around the classes at home; task sizes above it.

    Args: counts: training examples int64 [tasks, classes], or None where they may not be shown: then the homes alone are
    drawn. homes: class indices of each task. tasks: their names, written where there are few. Shades follow the square root,
    so that a few stray examples can be seen.
    """
    rows = _ordered(homes, counts)
    names = [classes[label] for label in rows]
    n_tasks = len(homes)
    is_home = np.array([[label in set(home) for home in homes] for label in rows])
    grid = is_home.astype(np.float64) if counts is None else counts.T[rows].astype(np.float64)
    figure = _frame(n_tasks, len(rows), has_sizes=counts is not None, dark=dark)
    figure.add_trace(
        go.Heatmap(
            z=np.where(grid > 0, np.sqrt(grid), np.nan).astype(np.float32),
            x=np.arange(1, n_tasks + 1),
            y=names,
            customdata=grid.astype(np.int32),
            zmin=0,
            zmax=float(np.sqrt(max(1.0, grid.max(initial=1)))),
            colorscale=[list(stop) for stop in (_BLUES_DARK if dark else _BLUES)],
            showscale=False,
            xgap=2,
            ygap=1 if len(rows) <= _MAX_NAMES else 0,
            hovertemplate="%{y} in task %{x}" + ("" if counts is None else ": %{customdata} examples") + "<extra></extra>",
            hoverongaps=False,
        ),
        row=2,
        col=1,
    )
    _frame_homes(figure, is_home, dark)
    if counts is not None:
        _sizes(figure, counts.sum(axis=1), dark)
    if 0 < len(tasks) <= _MAX_TASK_NAMES:
        figure.update_xaxes(tickvals=list(range(1, n_tasks + 1)), ticktext=list(tasks), title=None, row=2, col=1)
    if len(rows) <= _MAX_NAMES:
        figure.update_yaxes(tickvals=names, ticktext=[_short(name) for name in names], row=2, col=1)
    else:
        figure.update_yaxes(showticklabels=False, title=f"{len(rows)} classes, by home task", row=2, col=1)
    finding = _plan_finding(homes) if counts is None else _finding(counts, homes)
    if len(rows) < len(classes):
        finding += f" {len(classes) - len(rows)} of {len(classes)} classes are in no task."
    return Picture(figure, finding, finding)


def _ordered(homes: Sequence[Sequence[int]], counts: NDArray[np.int64] | None) -> list[int]:
    """The classes of the stream by their first home; within a home those that stay in one task come first."""
    order = list(dict.fromkeys(label for home in homes for label in home))
    if counts is None:
        return order
    first = {label: index for index, home in reversed(list(enumerate(homes))) for label in home}
    return sorted(order, key=lambda label: (first[label], int((counts[:, label] > 0).sum() > 1), order.index(label)))


def _frame(n_tasks: int, n_rows: int, *, has_sizes: bool, dark: bool) -> go.Figure:
    grid, bars = (15 * n_rows if n_rows <= _MAX_NAMES else 190), (36 if has_sizes else 1)
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[bars, grid], vertical_spacing=8 / (grid + bars) if has_sizes else 0
    )
    figure.update_layout(theme.layout(dark, height=grid + bars + 68, margin={"l": 48, "r": 8, "t": 20, "b": 40}))
    step = max(1, -(-n_tasks // 20))
    ticks = [task for task in range(1, n_tasks + 1) if (task - 1) % step == 0 or task == n_tasks]
    figure.update_xaxes(showgrid=False, zeroline=False, ticks="", range=[0.5, n_tasks + 0.5])
    figure.update_xaxes(title="task", tickvals=ticks, row=2, col=1)
    figure.update_yaxes(showgrid=False, zeroline=False, ticks="")
    figure.update_yaxes(type="category", range=[n_rows - 0.5, -0.5], row=2, col=1)
    figure.update_yaxes(showticklabels=False, row=1, col=1)
    figure.add_shape(
        type="rect", xref="x2", yref="y2 domain", x0=0.5, x1=n_tasks + 0.5, y0=0, y1=1, layer="below", line_width=0,
        fillcolor=theme.ink(dark).empty,
    )  # fmt: skip
    return figure


def _frame_homes(figure: go.Figure, is_home: NDArray[np.bool_], dark: bool) -> None:
    """A thin frame around the classes at home in each task, where they are a block of rows."""
    for task, column in enumerate(is_home.T, start=1):
        places = np.flatnonzero(column)
        if len(places) and places[-1] - places[0] + 1 == len(places):
            figure.add_shape(
                type="rect", xref="x2", yref="y2", x0=task - 0.5, x1=task + 0.5, y0=places[0] - 0.5, y1=places[-1] + 0.5,
                line={"color": theme.ink(dark).text, "width": 1},
            )  # fmt: skip


def _sizes(figure: go.Figure, sizes: NDArray[np.int64], dark: bool) -> None:
    inks = theme.ink(dark)
    figure.add_trace(
        go.Bar(
            x=np.arange(1, len(sizes) + 1),
            y=sizes,
            marker={"color": inks.soft, "opacity": 0.55},
            width=0.8,
            text=[_count(int(size)) for size in sizes] if len(sizes) <= _MAX_SIZES else None,
            textposition="outside",
            textfont={"color": inks.soft, "size": 11},
            cliponaxis=False,
            hovertemplate="task %{x}: %{y} training examples<extra></extra>",
        ),
        row=1,
        col=1,
    )
    figure.update_yaxes(range=[0, max(1.0, 1.25 * float(sizes.max()))], row=1, col=1)


def _finding(counts: NDArray[np.int64], homes: Sequence[Sequence[int]]) -> str:
    sizes = counts.sum(axis=1)
    low, high = int(sizes.min()), int(sizes.max())
    amount = _count(low) if low == high else f"{_count(low)} to {_count(high)}"
    n_tasks, n_classes = len(sizes), int((counts.sum(axis=0) > 0).sum())
    each = " each" if low == high and n_tasks > 1 else ""
    said = [f"{n_tasks} task{'s' if n_tasks > 1 else ''} of {amount} training examples{each}."]
    back = np.flatnonzero((counts > 0).sum(axis=0) > 1)
    if len(back):
        which = "All classes occur" if len(back) == n_classes else f"{len(back)} of {n_classes} classes occur"
        said.append(f"{which} in several tasks")
        if all(sum(int(label) in home for home in homes) == 1 for label in back):
            home_of = {label: index for index, home in enumerate(homes) for label in home}
            shares = [counts[home_of[int(label)], label] / counts[:, label].sum() for label in back]
            said[-1] += f", with {100 * float(np.mean(shares)):.0f} % of their examples at home"
        said[-1] += "."
    elif n_tasks > 1:
        said.append("Every class occurs in one task only.")
    empty = [index + 1 for index, size in enumerate(sizes) if size == 0]
    if empty:
        listed = ", ".join(map(str, empty))
        said.append(f"Task {listed} is empty." if len(empty) == 1 else f"Tasks {listed} are empty.")
    return " ".join(said)


def _plan_finding(homes: Sequence[Sequence[int]]) -> str:
    sizes = [len(home) for home in homes]
    amount = f"{sizes[0]}" if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
    which = "class" if amount == "1" else "classes"
    return f"{len(homes)} tasks with {amount} {which} at home in each."


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")  # a thin gap, as elsewhere


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"
