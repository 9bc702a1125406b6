"""Lesson "Why models forget": gradient steps on one task after another, what helps, and sums that only grow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpcl_core.figures import teaching
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import forgetting as game
from dpcl_core.lessons.forgetting import Matrix, Way
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.text import percent

KEPT = (1.0, 2.0, 5.0, 10.0, 20.0)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 8.0)
_TASKS = tuple(float(task) for task in range(1, game.N_TASKS + 1))
_SOURCE = "public digits, two a task, no noise"


def first_pair(stage: Stage) -> int:
    """Plain training on five tasks."""
    found = stage.results("Learn five tasks", lambda: game.learned("plain"))
    _tasks(stage, found, "One task after another")
    left = float(found[-1, 0])
    return 0 if left > 0.9 else 1 if left > 0.3 else 2


def who_competes(stage: Stage) -> int:
    """Training in which only the task's own digits compete."""
    ways: tuple[Way, ...] = ("plain", "own labels")
    plain, own = stage.results("Learn both ways", lambda: [game.learned(way) for way in ways])
    _ways(stage, {"all digits compete": plain, "only the task's own": own}, "Which digits compete")
    saved = game.forgotten(plain) - game.forgotten(own)
    return 0 if saved < 0.05 else 2 if game.forgotten(own) < 0.02 else 1


def keep_some(stage: Stage) -> int:
    """Training with a few kept pictures of earlier digits."""
    stage.press("Learn with a memory", lambda: True)
    kept = int(stage.choose("kept", KEPT))
    stage.see()
    plain, replayed = game.learned("plain"), game.learned("replay", kept)
    _ways(stage, {"nothing kept": plain, f"{kept} of each digit kept": replayed}, "A memory of pictures")
    gain = float((game.learned("replay", 5)[-1] - plain[-1]).mean())
    return 0 if gain < 0.1 else 1 if gain > 0.5 else 2


def only_add(stage: Stage) -> int:
    """The classifier of sums."""
    found = stage.results("Add up five tasks", lambda: game.learned("sums"))
    _tasks(stage, found, "A classifier that only adds")
    loss = game.forgotten(found)
    return 0 if loss > 0.5 else 1 if loss > 0.01 else 2


def with_noise(stage: Stage) -> int:
    """Accuracy and forgetting of the classifier of sums under noise."""
    stage.press("Add noise", lambda: True)
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.see()
    found = {each: game.of_noise(each) for each in EPSILONS}
    names = ("accuracy after five tasks", "forgetting")
    rows = [(name, each, found[each][place]) for place, name in enumerate(names) for each in EPSILONS]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    (accuracy, lost), (clean, clean_lost) = game.of_noise(epsilon), game.of_noise(float("inf"))
    finding = (
        f"At ε = {epsilon_text(epsilon)} accuracy is {percent(accuracy)} and forgetting {percent(lost)}; "
        f"without noise {percent(clean)} and {percent(clean_lost)}."
    )
    picture = teaching.curves(
        table, Axis("ε", is_log=True, ticks=EPSILONS), Axis("share of test digits", is_share=True), finding, chosen=epsilon,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "Noise and forgetting", "public digits, a list of labels for each task, teaching noise")
    more = game.of_noise(1.0)[1] - clean_lost
    return 0 if more > 0.02 else 2 if more < -0.02 else 1


def _tasks(stage: Stage, found: Matrix, title: str) -> None:
    """Draws accuracy on each task's digits after every task."""
    rows = [
        (f"task {task + 1}", _TASKS[now], found[now, task])
        for task in range(game.N_TASKS)
        for now in range(task, game.N_TASKS)
    ]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    finding = (
        f"After five tasks {percent(found[-1, 0])} of the first two digits are recognised, {percent(found[-1].mean())} of "
        f"all; forgetting is {percent(game.forgotten(found))}."
    )
    picture = teaching.curves(table, Axis("tasks learned"), Axis("recognised", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, title, _SOURCE)


def _ways(stage: Stage, found: dict[str, Matrix], title: str) -> None:
    """Draws mean accuracy on the tasks so far, for several ways to train."""
    rows = [(name, _TASKS[now], float(np.nanmean(one[now]))) for name, one in found.items() for now in range(game.N_TASKS)]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    ends = "; ".join(f"{name}: {percent(one[-1].mean())}" for name, one in found.items())
    finding = f"Recognised after five tasks: {ends}."
    axis = Axis("recognised, of the tasks so far", is_share=True)
    picture = teaching.curves(table, Axis("tasks learned"), axis, finding, dark=stage.dark)
    chart(stage, picture, table, title, _SOURCE)
