"""Figures of sums released after every task: their noise against the number of tasks, and the attacker who watches them."""

from __future__ import annotations

import pandas as pd

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital
from dpcl_core.privacy.statement import shown_number

_HEIGHT = 300


def noise_against_tasks(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """The noise in the last running sum against the number of tasks, one line a factorisation.

    Columns: factorisation, n_tasks, noise (in standard deviations of the noise that one task alone would need).
    """
    lines = {str(name): rows.sort_values("n_tasks") for name, rows in table.groupby("factorisation", sort=False)}
    y = {"title": "noise after the last task, in σ", "rangemode": "tozero"}
    x = theme.task_axis(1, int(table["n_tasks"].max())) | {"title": "tasks in all"}
    chart = _over_tasks(dark, x, y, lines, "n_tasks", "noise", ": %{x} tasks, %{y:.3g} σ")
    last = {name: float(rows["noise"].iloc[-1]) for name, rows in lines.items()}
    said = ", ".join(f"{name} {value:.3g}" for name, value in last.items())
    return chart.picture(f"After {int(table['n_tasks'].max())} tasks the noise, in σ of a single task: {said}.")


def race(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """What attackers of a stream can prove, task by task: one line an attack where it is theory, dots where measured.

    Columns: attack (its name), after_task (from 0), epsilon, and is_measured.
    """
    theory, measured = table[~table["is_measured"]], table[table["is_measured"]]
    lines = {str(name): rows.sort_values("after_task") for name, rows in theory.groupby("attack", sort=False)}
    n_tasks = int(table["after_task"].max()) + 1
    y = {"title": "ε that the best attack can prove", "rangemode": "tozero"}
    moved = {name: rows.assign(after_task=rows["after_task"] + 1) for name, rows in lines.items()}
    x, hover = theme.task_axis(1, n_tasks), ": after task %{x}, ε = %{y:.3g}"
    chart = _over_tasks(dark, x, y, moved, "after_task", "epsilon", hover)
    for index, name in enumerate(lines):
        rows = measured[measured["attack"] == name]
        marker = {"color": chart.colour(index), "size": 10, "symbol": "circle-open"}
        if len(rows):
            chart.marks(rows["after_task"] + 1, rows["epsilon"], f"{name}, measured", marker, "measured: ε ≥ %{y:.3g}")
    said = "; ".join(f"{name}: ε = {shown_number(float(rows['epsilon'].iloc[-1]))}" for name, rows in lines.items())
    return chart.picture(f"{capital(said)}, after {n_tasks} tasks.")


def _over_tasks(
    dark: bool, x: theme.Properties, y: theme.Properties, lines: dict[str, pd.DataFrame], across: str, up: str, hover: str
) -> theme.Chart:
    chart = theme.Chart(dark, _HEIGHT, x, y, margin=(52, 16, 12, 40), legend_room=60)
    for index, (name, rows) in enumerate(lines.items()):
        mode = "lines+markers" if len(rows) <= 12 else "lines"
        chart.series(index, rows[across], rows[up], name, hover, size=6, mode=mode)
    return chart
