"""Class bars and compared forgetting draw the numbers they are given and claim nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpcl_core.figures.curves import Series, class_bars, compared_over_tasks

VALUES = np.array([[0.9, 0.2, 0.5], [0.7, 0.4, 0.5]])


def frame(*final: float) -> pd.DataFrame:
    """Two tasks, one seed a value: task 0 falls from 1.0 to the value."""
    rows = [
        (1.0, seed, k, i, 1.0 if k == i else value) for seed, value in enumerate(final) for k, i in ((0, 0), (1, 0), (1, 1))
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])


def test_bars_are_means_over_seeds_and_whiskers_their_range() -> None:
    picture = class_bars({"now": VALUES}, ("cat", "dog", "ant"), colours=["#0072b2"])
    bar = picture.figure.data[0]
    assert list(bar.x) == ["cat", "dog", "ant"]
    assert list(bar.y) == pytest.approx([80.0, 30.0, 50.0])
    assert list(bar.error_y.array) == pytest.approx([10.0, 10.0, 0.0])
    assert list(bar.error_y.arrayminus) == pytest.approx([10.0, 10.0, 0.0])
    assert picture.finding == "now: class dog is hardest (30.0 %), class cat easiest (80.0 %)."


def test_several_states_get_a_legend_and_none_gets_words() -> None:
    two = class_bars({"now": VALUES, "A": 1 - VALUES}, ("a", "b", "c"), colours=["#0072b2", "#d55e00"])
    assert two.figure.layout.showlegend
    assert [bar.name for bar in two.figure.data] == ["now", "A"]
    assert "not recorded" in class_bars({}, (), colours=[]).finding


def test_compared_forgetting_says_the_points_lost_by_each() -> None:
    runs = [Series("now", frame(0.9, 0.8, 0.7), "#0072b2"), Series("A", frame(0.4, 0.4, 0.4), "#d55e00", "data")]
    picture = compared_over_tasks(runs, n_tasks=2, of="forgetting")
    assert picture.finding == "now: 20.0 points lost after 2 tasks; A: 60.0 points lost after 2 tasks."
    lines = {trace.name: trace for trace in picture.figure.data if trace.mode and "markers" in trace.mode}
    assert list(lines["A"].y) == pytest.approx([60.0])
    assert lines["now"].line.dash != lines["A"].line.dash


def test_compared_forgetting_waits_for_a_second_task() -> None:
    first = frame(0.5)[lambda rows: rows["after_task"] == 0]
    picture = compared_over_tasks([Series("now", first, "#0072b2")], n_tasks=2, of="forgetting")
    assert picture.finding == "Forgetting is defined from the second task on."
