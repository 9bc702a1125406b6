"""Accuracy and forgetting over tasks, and by class: what is drawn, what is said, and what is left undrawn."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpcl_core import metrics
from dpcl_core.events import References
from dpcl_core.figures import curves, svg
from dpcl_core.figures.curves import Series, class_bars, compared_over_tasks
from tests.figures.making import accuracy, by_rule


def _trace(figure: object, name: str) -> object:
    return next(trace for trace in figure.data if trace.name == name)  # type: ignore[attr-defined]


def test_line_is_the_mean_over_seen_tasks_and_seeds_on_a_fixed_axis() -> None:
    figure = curves.accuracy_over_tasks(accuracy(), n_tasks=4).figure
    line = _trace(figure, "ε = 8")
    expected = [100 * sum(by_rule(8.0, 1, k, i) for i in range(k + 1)) / (k + 1) for k in range(4)]
    assert (list(line.x), list(line.y)) == ([1, 2, 3, 4], pytest.approx(expected))  # type: ignore[attr-defined]
    assert (tuple(figure.layout.yaxis.range), figure.layout.uirevision) == ((0, 101), "keep")
    assert {trace.type for trace in figure.data} == {"scatter"}, "SVG alone is used"
    forgetting = _trace(curves.forgetting_over_tasks(accuracy(), n_tasks=4).figure, "no noise")
    assert (list(forgetting.x), list(forgetting.y)) == ([2, 3, 4], pytest.approx([4, 6, 8]))  # type: ignore[attr-defined]


def test_band_needs_three_seeds_and_says_what_it_is() -> None:
    bands = [trace for trace in curves.accuracy_over_tasks(accuracy(), n_tasks=4).figure.data if trace.fill == "toself"]
    assert len(bands) == 3
    assert all("95 % interval" in band.name for band in bands)
    two = curves.accuracy_over_tasks(accuracy(seeds=(0, 1)), n_tasks=4).figure
    assert not [trace for trace in two.data if trace.fill == "toself"]
    assert [len(trace.x) for trace in two.data if trace.mode == "markers"] == [2 * 4] * 3


MEAN = {e: 100 * sum(by_rule(e, 1, 3, i) for i in range(4)) / 4 for e in (0.5, 8.0, math.inf)}
RAGGED = accuracy()[lambda table: (table["epsilon"] != 8.0) | (table["after_task"] < 3)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (accuracy(), f"After 4 tasks: {MEAN[math.inf]:.1f} % without noise, {MEAN[8.0]:.1f} % at ε = 8, {MEAN[0.5]:.1f} %"),
        (accuracy().query("after_task < 2"), "After 2 tasks of 4"),
        (accuracy(seeds=(0,)), "single draw"),
        (RAGGED, "After 3 tasks of 4"),  # budgets at different points are compared where all have been
    ],
)
def test_finding_reads_off_the_numbers(table: pd.DataFrame, said: str) -> None:
    assert said in curves.accuracy_over_tasks(table, n_tasks=4).finding


def test_losses_and_gains_that_cancel_are_no_forgetting_and_can_be_drawn() -> None:
    """0.05 - 0.1 + 0.15 - 0.1 leaves 5e-18, which would get an axis of its own, with numbers that no prefix names."""
    best, last = (0.05, 0.05, 0.15), (0.05, 0.1, 0.1)
    rows = [(2, task, best[task]) for task in range(3)] + [(3, task, last[task]) for task in range(3)] + [(3, 3, 0.5)]
    frame = pd.DataFrame([(1.0, 0, *row) for row in rows], columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    assert metrics.mean(a - b for a, b in zip(best, last, strict=True)) != 0
    assert curves.forgetting_so_far(frame)["value"].tolist()[-1] == 0
    assert svg.draw_svg(curves.forgetting_over_tasks(frame, n_tasks=4))


def test_what_is_undefined_is_words_not_zero() -> None:
    for picture in (
        curves.forgetting_over_tasks(accuracy().query("after_task == 0"), n_tasks=4),
        curves.accuracy_over_tasks(accuracy().query("seed > 9"), n_tasks=4),
        compared_over_tasks([Series("now", accuracy().query("after_task == 0"), "#0072b2")], n_tasks=2, of="forgetting"),
    ):
        assert picture.is_empty
        assert picture.finding


def test_compared_runs_are_named_at_their_ends_and_ranked() -> None:
    worse = accuracy(rule=lambda *at: by_rule(*at) - 0.1, epsilons=(8.0,))
    picture = curves.compared_over_tasks(
        [Series("B", worse, "#000000", "prior"), Series("A", accuracy(epsilons=(8.0,)), "#111111")], n_tasks=4
    )
    assert [note.text for note in picture.figure.layout.annotations] == ["B", "A"]
    assert picture.finding.index("A:") < picture.finding.index("B:")
    assert _trace(picture.figure, "B").line.dash != _trace(picture.figure, "A").line.dash  # type: ignore[attr-defined]


def test_message_stays_small() -> None:
    picture = curves.accuracy_over_tasks(accuracy(n_tasks=60, epsilons=(0.1, 0.5, 1, 8, math.inf)), n_tasks=60)
    assert len(picture.figure.to_json()) < 60_000


def test_a_task_before_the_first_model_leaves_a_gap_and_no_zero() -> None:
    """One model alone, released at the end: its accuracy is one point, and forgetting is not defined."""
    rows = [(1.0, seed, 3, task, 0.5) for seed in range(3) for task in range(4) if task != 1]
    frame = pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    picture = curves.accuracy_over_tasks(frame, n_tasks=4)
    for trace in picture.figure.data:
        if "lines" in trace.mode and trace.name == "ε = 1":
            assert list(trace.x) == [4]
            assert list(trace.y) == pytest.approx([50.0])
    assert picture.finding == "After 4 tasks, accuracy at ε = 1 is 50.0 % (50.0 to 50.0)."
    assert curves.forgetting_over_tasks(frame, n_tasks=4).finding == "Forgetting is defined from the second task on."


def test_claimed_budgets_are_named_so_and_dashed_like_no_other_line() -> None:
    for make in (curves.accuracy_over_tasks, curves.forgetting_over_tasks):
        picture = make(accuracy(), n_tasks=4, standing="claimed")
        lines = {trace.name: trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill}
        assert lines == {"claimed ε = 0.5": "longdashdot", "claimed ε = 8": "longdashdot", "no noise": "solid"}
        assert "claimed ε = " in picture.finding
        assert "claimed" not in make(accuracy(), n_tasks=4).finding


def test_budgets_that_bound_nothing_are_named_so_and_keep_the_dots_of_their_lists() -> None:
    picture = curves.accuracy_over_tasks(accuracy(epsilons=(0.5,)), n_tasks=4, labels="data", standing="none")
    lines = {trace.name: trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill}
    assert lines == {"asked ε = 0.5, total ∞": "dot"}
    assert "at asked ε = 0.5, total ∞ is" in picture.finding


def test_a_compared_run_with_a_claimed_budget_is_set_apart() -> None:
    table = accuracy(epsilons=(0.5,))
    runs = [Series("A", table, "#0072b2", "prior"), Series("B", table, "#d55e00", "prior", "claimed")]
    for of in ("accuracy", "forgetting"):
        picture = curves.compared_over_tasks(runs, n_tasks=4, of=of)
        lines = {trace.name: trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill}
        assert lines == {"A": "dash", "B (claimed)": "longdashdot"}
        assert "B (claimed): " in picture.finding


def test_entity_f1_is_never_called_accuracy_and_a_replays_budget_never_that_of_the_whole() -> None:
    picture = curves.accuracy_over_tasks(accuracy(epsilons=(0.5,)), n_tasks=4, score="entity F1", standing="replay")
    assert picture.figure.layout.yaxis.title.text == "entity F1 on the tasks seen so far"
    assert "entity F1 at replay ε = 0.5, total ∞ is" in picture.finding
    assert "accuracy" not in picture.finding
    assert {trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill} == {"longdashdot"}
    assert [note.text for note in picture.figure.layout.annotations] == ["replay ε = 0.5,<br>total ∞"]
    table = accuracy(epsilons=(0.5,))
    runs = [Series("A", table, "#0072b2"), Series("B", table, "#d55e00", "prior", "replay")]
    both = curves.compared_over_tasks(runs, n_tasks=4)
    assert "B (replay alone): " in both.finding


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


def test_no_band_leaves_what_a_share_can_be_and_a_band_of_forgetting_may_be_below_zero() -> None:
    table = accuracy(n_tasks=2, epsilons=(1.0,), rule=lambda epsilon, seed, after, on: min(1.0, 0.98 + 0.02 * seed))
    band = next(trace for trace in curves.accuracy_over_tasks(table, n_tasks=2).figure.data if trace.fill == "toself")
    assert max(band.y) == 100
    assert curves._shares([-0.02, 0.0, 0.02], -1.0).low == pytest.approx(-0.0497, abs=1e-4)
    assert curves._shares([-0.02, 0.0, 0.02]).low == 0


def test_a_ghost_is_grey_and_keeps_its_names() -> None:
    table = accuracy(n_tasks=2)
    usual, ghost = (curves.accuracy_over_tasks(table, n_tasks=2, is_ghost=is_ghost) for is_ghost in (False, True))
    colours = [{line.line.color for line in one.figure.data if line.mode == "lines+markers"} for one in (usual, ghost)]
    assert [len(of) for of in colours] == [3, 1]
    assert [note.text for note in usual.figure.layout.annotations] == [note.text for note in ghost.figure.layout.annotations]
    assert usual.finding == ghost.finding


@pytest.mark.parametrize(("final", "is_met"), [(0.02, True), (0.9, False)])
def test_a_line_of_chance_runs_through_no_name_at_the_end_of_a_curve(final: float, is_met: bool) -> None:
    table = accuracy(n_tasks=2, epsilons=(1.0,), rule=lambda epsilon, seed, after, on: final)
    picture = curves.accuracy_over_tasks(table, n_tasks=2, references=References(0.01))
    (line,) = [shape for shape in picture.figure.layout.shapes if shape.xref == "paper"]
    low, high = picture.figure.layout.xaxis.range
    assert line.x1 == (pytest.approx((2 - low) / (high - low)) if is_met else 1)
