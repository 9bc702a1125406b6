"""p-value curves against scipy's tests, their gaps in words, and lengths that do not match."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcl_core import metrics
from dpcl_core.errors import BadInput
from dpcl_core.figures import statistics
from dpcl_core.figures.statistics import CAVEAT, p_values

RISING, FALLING = [0.9, 0.85, 0.7, 0.72, 0.6], [0.88, 0.8, 0.71, 0.6, 0.52]


def test_the_curve_starts_at_two_tasks_and_is_scipys() -> None:
    paired, unpaired = (p_values(RISING, FALLING, is_paired=is_paired) for is_paired in (True, False))
    assert [one.n_tasks for one in paired] == [2, 3, 4, 5]
    for one, other in zip(paired, unpaired, strict=True):
        n = one.n_tasks
        assert (one.t, one.p) == pytest.approx(tuple(stats.ttest_rel(RISING[:n], FALLING[:n])))
        assert (other.t, other.p) == pytest.approx(tuple(stats.ttest_ind(RISING[:n], FALLING[:n])))
        assert one.difference == pytest.approx(np.mean(RISING[:n]) - np.mean(FALLING[:n]))


def test_random_curves_of_many_tasks_are_scipys_too() -> None:
    first, second = np.random.default_rng(0).uniform(size=(2, 40))
    found = p_values(list(first), list(second))
    assert [one.p for one in found] == pytest.approx([stats.ttest_rel(first[:n], second[:n]).pvalue for n in range(2, 41)])


def test_curves_come_from_matrices_worked_out_by_hand() -> None:
    """Average accuracies 0.9, 0.75, 0.75 and 0.8, 0.7, 0.65: differences 0.1, 0.05, 0.1."""
    first, second = [[0.9], [0.7, 0.8], [0.75, 0.5, 1.0]], [[0.8], [0.6, 0.8], [0.6, 0.45, 0.9]]
    found = p_values(metrics.average_accuracy(first), metrics.average_accuracy(second))
    assert found[0].t == pytest.approx(3.0)  # 0.075 / (0.0353553 / sqrt 2)
    assert found[0].p == pytest.approx(1 - 2 * math.atan(3.0) / math.pi)  # one degree of freedom: Cauchy
    assert found[1].t == pytest.approx((0.25 / 3) / (math.sqrt(1 / 1200) / math.sqrt(3)))
    assert found[1].p == pytest.approx(1 - 5 / math.sqrt(27))  # two degrees: 1 - t / sqrt(2 + t²) with t = 5


def test_other_lengths_are_one_clear_sentence() -> None:
    with pytest.raises(BadInput, match="curves = 5 and 3 tasks: must be of the same length for a t-test"):
        p_values(RISING, FALLING[:3])
    with pytest.raises(BadInput, match="curves = 1 task: must have two tasks"):
        p_values([0.5], [0.6])


def test_equal_curves_and_constant_differences_have_a_reason_instead_of_a_value() -> None:
    equal = p_values(RISING, RISING)
    assert [one.p for one in equal] == [None] * 4
    assert equal[0].why_not == "the two curves are equal so far"
    constant = p_values([a - 0.1 for a in RISING], RISING)
    assert [one.p for one in constant] == [None] * 4
    assert "the difference is the same after every task" in constant[0].why_not
    assert constant[0].difference == pytest.approx(-0.1)
    flat = p_values([0.5] * 3, [0.4] * 3, is_paired=False)
    assert "neither curve has moved" in flat[0].why_not
    later = p_values([0.9, 0.8, 0.7], [0.9, 0.8, 0.6])
    assert [one.p is None for one in later] == [True, False]


def test_tasks_that_were_not_evaluated_are_left_out_of_both() -> None:
    found = p_values([None, 0.8, 0.7, 0.9], [0.9, 0.7, 0.65, 0.7])
    assert "fewer than two tasks" in found[0].why_not
    assert math.isnan(found[0].difference)
    assert found[2].p == pytest.approx(stats.ttest_rel([0.8, 0.7, 0.9], [0.7, 0.65, 0.7]).pvalue)


def test_the_figure_has_a_log_axis_both_lines_and_a_sentence() -> None:
    picture = statistics.p_value_curve(p_values(RISING, FALLING), names=("A", "B"))
    figure = picture.figure
    assert figure.layout.yaxis.type == "log"
    assert sorted(shape.y0 for shape in figure.layout.shapes) == [0.01, 0.05]
    assert list(figure.data[0].x) == [2, 3, 4, 5]
    p = stats.ttest_rel(RISING, FALLING).pvalue
    assert figure.data[0].y[-1] == pytest.approx(p)
    assert picture.finding == (
        f"After 5 tasks p = {p:.2g}: A is ahead by 5.2 points on average. Of 4 points, below 0.05 at 0 and below 0.01 at 0."
    )


def test_gaps_are_drawn_as_gaps_and_told() -> None:
    found = p_values([0.9, 0.8, 0.7, 0.5], [0.9, 0.8, 0.6, 0.3])
    picture = statistics.p_value_curve(found, names=("A", "B"))
    assert picture.figure.data[0].y[0] is None
    assert not picture.figure.data[0].connectgaps
    assert picture.finding.endswith("No test after 2 tasks: the two curves are equal so far.")
    nothing = statistics.p_value_curve(p_values(RISING, RISING), names=("A", "B"))
    assert not nothing.figure.data
    assert nothing.finding == "A and B: no test after 2, 3, 4, 5 tasks: the two curves are equal so far."
    table = statistics.table(found)
    assert list(table["tasks"]) == [2, 3, 4]
    assert math.isnan(table["p"][0])
    assert table["note"][0] == "the two curves are equal so far"


def test_a_tiny_value_stays_on_the_axis() -> None:
    first = [0.9 + 1e-9 * n for n in range(20)]
    picture = statistics.p_value_curve(p_values(first, [0.1] * 20), names=("A", "B"))
    assert min(picture.figure.data[0].y) >= 1e-12
    assert picture.figure.layout.yaxis.range[0] < -12
    assert list(picture.figure.layout.yaxis.ticktext[:4]) == ["1", "0.1", "0.01", "0.001"]


def test_the_caveat_says_descriptive() -> None:
    assert CAVEAT.startswith("Descriptive only.")
    assert "independent" in CAVEAT
