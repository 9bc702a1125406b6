"""Accuracy and forgetting over tasks, and by class: what is drawn, what is said, and what is left undrawn."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from dpcl_core import metrics
from dpcl_core.figures import curves, svg
from dpcl_core.figures.curves import Series, class_bars, compared_over_tasks
from dpcl_core.figures.picture import Picture
from tests.figures.making import accuracy, by_rule, contrast


def _trace(figure: object, name: str) -> object:
    return next(trace for trace in figure.data if trace.name == name)  # type: ignore[attr-defined]


def _dashes(picture: Picture) -> dict[str, str]:
    """The dash of every line by its name."""
    return {trace.name: trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill}


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


@pytest.mark.parametrize(("table", "said"), [
    (accuracy(), f"After 4 tasks: {MEAN[math.inf]:.1f} % without noise, {MEAN[8.0]:.1f} % at ε = 8, {MEAN[0.5]:.1f} %"),
    (accuracy().query("after_task < 2"), "After 2 tasks of 4"),
    (accuracy(seeds=(0,)), "single draw"),
    (RAGGED, "After 3 tasks of 4"),  # budgets at different points are compared where all have been
])  # fmt: skip
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
    first = accuracy().query("after_task == 0")
    assert "second task" in curves.forgetting_grid(first, epsilon=8.0, n_tasks=4).finding
    for picture in (
        curves.forgetting_over_tasks(first, n_tasks=4),
        curves.accuracy_over_tasks(accuracy().query("seed > 9"), n_tasks=4),
        compared_over_tasks([Series("now", first, "#0072b2")], n_tasks=2, of="forgetting"),
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


def test_a_task_before_the_first_model_leaves_a_gap_and_no_zero() -> None:
    """One model alone, released at the end: its accuracy is one point, and forgetting is not defined."""
    rows = [(1.0, seed, 3, task, 0.5) for seed in range(3) for task in range(4) if task != 1]
    frame = pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    picture = curves.accuracy_over_tasks(frame, n_tasks=4)
    for trace in picture.figure.data:
        if "lines" in trace.mode and trace.name == "ε = 1":
            assert (list(trace.x), list(trace.y)) == ([4], pytest.approx([50.0]))
    assert picture.finding == "After 4 tasks, accuracy at ε = 1 is 50.0 % (50.0 to 50.0)."
    assert curves.forgetting_over_tasks(frame, n_tasks=4).finding == "Forgetting is defined from the second task on."


@pytest.mark.parametrize(("make", "epsilons", "options", "dashes", "said"), [
    *((make, (0.5, 8.0, math.inf), {"standing": "claimed"},
       {"claimed ε = 0.5": "longdashdot", "claimed ε = 8": "longdashdot", "no noise": "solid"}, "claimed ε = ")
      for make in (curves.accuracy_over_tasks, curves.forgetting_over_tasks)),
    (curves.accuracy_over_tasks, (0.5,), {"labels": "data", "standing": "none"},
     {"asked ε = 0.5, total ∞": "dot"}, "at asked ε = 0.5, total ∞ is"),
    (curves.accuracy_over_tasks, (0.5,), {"score": "entity F1", "standing": "replay"},
     {"replay ε = 0.5, total ∞": "longdashdot"}, "entity F1 at replay ε = 0.5, total ∞ is"),
])  # fmt: skip
def test_budgets_that_are_no_bounds_are_named_so_and_dashed_like_no_other_line(
    make: Callable[..., Picture], epsilons: tuple[float, ...], options: dict[str, str], dashes: dict[str, str], said: str
) -> None:
    picture = make(accuracy(epsilons=epsilons), n_tasks=4, **options)
    assert _dashes(picture) == dashes
    assert said in picture.finding
    assert "score" not in options or "accuracy" not in picture.finding + picture.figure.layout.yaxis.title.text
    assert "claimed" not in make(accuracy(), n_tasks=4).finding


def test_a_compared_or_listed_budget_that_is_no_bound_is_set_apart() -> None:
    table = accuracy(epsilons=(0.5,))
    for standing, called in (("claimed", "B (claimed)"), ("replay", "B (replay alone)")):
        runs = [Series("A", table, "#0072b2", "prior"), Series("B", table, "#d55e00", "prior", standing)]
        for of in ("accuracy", "forgetting"):
            picture = curves.compared_over_tasks(runs, n_tasks=4, of=of)
            assert _dashes(picture) == {"A": "dash", called: "longdashdot"}
            assert f"{called}: " in picture.finding
    for make in (curves.accuracy_matrix, curves.forgetting_grid):
        finding = make(accuracy(), epsilon=0.5, n_tasks=4, standing="claimed").finding
        assert finding.startswith("At claimed ε = 0.5, after 4 tasks")


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
    assert (list(bar.x), list(bar.y)) == (["cat", "dog", "ant"], pytest.approx([80.0, 30.0, 50.0]))
    assert list(bar.error_y.array) == pytest.approx([10.0, 10.0, 0.0])
    assert list(bar.error_y.arrayminus) == pytest.approx([10.0, 10.0, 0.0])
    assert picture.finding == "now: class dog is hardest (30.0 %), class cat easiest (80.0 %)."


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


# The accuracy matrix and the forgetting grid: numbers in their cells, nothing where nothing is known.


def test_matrix_is_empty_above_the_diagonal_and_where_not_learned_yet() -> None:
    table = accuracy().query("after_task < 3")
    z = np.array(curves.accuracy_matrix(table, epsilon=8.0, n_tasks=4).figure.data[0].z, dtype=float)
    assert z.shape == (4, 4)
    assert np.isnan(z[np.triu_indices(4, 1)]).all()
    assert np.isnan(z[3]).all()
    assert z[2, 0] == pytest.approx(100 * by_rule(8.0, 1, 2, 0))


def test_a_cell_holds_the_number_of_the_sentence() -> None:
    """A browser rounds 48.25 up where the sentence says 48.2: the cell has one digit from the start."""
    row = {"epsilon": 1.0, "seed": 0, "after_task": 0, "on_task": 0, "accuracy": 0.4825}
    picture = curves.accuracy_matrix(pd.DataFrame([row]), epsilon=1.0, n_tasks=1)
    assert picture.figure.data[0].z[0][0] == 48.2
    assert "48.2 %" in picture.finding


def test_forgetting_counts_from_the_best_of_each_seed() -> None:
    z = np.array(curves.forgetting_grid(accuracy(), epsilon=8.0, n_tasks=4).figure.data[0].z, dtype=float)
    assert z.shape == (3, 3)  # tasks 1 to 3, after tasks 2 to 4
    assert z[0] == pytest.approx([4, 8, 12])
    assert np.isnan(z[2, :2]).all()
    assert z[2, 2] == pytest.approx(4)


def test_nothing_lost_is_said_and_improvement_is_not_called_loss() -> None:
    better = accuracy(rule=lambda e, s, k, i: 0.5 + 0.02 * (k - i))
    assert "no old task is more than 0.5 points below" in curves.forgetting_grid(better, epsilon=8.0, n_tasks=4).finding


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_shade(dark: bool) -> None:
    for build in (curves.accuracy_matrix, curves.forgetting_grid):
        trace = build(accuracy(), epsilon=8.0, n_tasks=4, dark=dark).figure.data[0]
        for _, shade in trace.colorscale:
            assert contrast(shade, trace.textfont.color) >= 4.5, shade


def test_what_was_not_tested_stays_empty_and_out_of_every_sentence() -> None:
    """Task 1 has no test examples; the last task neither."""
    rows = [(1.0, 0, k, i, 0.9 - 0.1 * (k - i)) for k in range(1, 4) for i in range(1, min(k, 2) + 1)]
    frame = pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    picture = curves.accuracy_matrix(frame, epsilon=1.0, n_tasks=4)
    values = np.asarray(picture.figure.data[0].z, dtype=np.float64)
    assert np.isnan(values[:, 0]).all()
    assert np.isnan(values[:, 3]).all()
    assert values[3, 1] == pytest.approx(70.0)
    assert picture.finding == "At ε = 1, after 4 tasks, task 2 stands at 70.0 % and task 3 at 80.0 %; task 2 is weakest."
    lost = "task 2 lost most: 20.0 points since its best; mean 15.0."
    assert curves.forgetting_grid(frame, epsilon=1.0, n_tasks=4).finding.endswith(lost)
    one = curves.accuracy_matrix(frame[frame["after_task"] == 1], epsilon=1.0, n_tasks=4)
    assert one.finding == "At ε = 1, after 2 tasks, task 2 alone was tested: 90.0 %."
