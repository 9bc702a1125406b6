"""Metrics against matrices worked out by hand, and identities that hold for any matrix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import metrics
from tests.support.asserting import refuses

MATRIX = [[0.9], [0.7, 0.8], [0.75, 0.5, 1.0]]


def test_a_hand_computed_matrix() -> None:
    assert metrics.average_accuracy(MATRIX) == pytest.approx([0.9, 0.75, 0.75])
    assert (metrics.forgetting(MATRIX)[0], metrics.forgetting(MATRIX)[1]) == ([], pytest.approx([0.2]))
    assert metrics.forgetting(MATRIX)[2] == pytest.approx([0.15, 0.3])
    assert metrics.average_forgetting(MATRIX) == [None, pytest.approx(0.2), pytest.approx(0.225)]
    numbers = {"AA": 0.75, "AF": 0.225, "BWT": (0.75 - 0.9 + 0.5 - 0.8) / 2, "Last": 0.75, "Avg": (0.9 + 0.75 + 0.75) / 3}
    assert metrics.summary(MATRIX) == {**{name: pytest.approx(value) for name, value in numbers.items()}, "FWT": None}


def test_one_task_has_no_forgetting_and_no_transfer() -> None:
    assert metrics.summary([[0.6]]) == {"AA": 0.6, "AF": None, "BWT": None, "FWT": None, "Last": 0.6, "Avg": 0.6}


def test_forward_transfer_needs_the_entries_above_the_diagonal() -> None:
    full = [[0.9, 0.3, 0.1], [0.7, 0.8, 0.4], [0.7, 0.5, 1.0]]
    assert metrics.forward_transfer(full, [0.1, 0.1, 0.1]) == pytest.approx((0.2 + 0.3) / 2)
    assert metrics.forward_transfer(MATRIX, [0.1, 0.1, 0.1]) is None


def test_improvement_is_negative_forgetting() -> None:
    assert metrics.average_forgetting([[0.5], [0.7, 0.9]])[1] == pytest.approx(-0.2)


matrices = st.integers(2, 7).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0, 1), min_size=k + 1, max_size=k + 1) for k in range(n)])
)


@given(matrices)
def test_forgetting_is_the_best_since_the_task_was_learned(matrix: tuple[list[float], ...]) -> None:
    """The square matrix with the lower half mirrored, whose entries above the diagonal do not count, against a loop."""
    n = len(matrix)
    square = [[matrix[max(k, i)][min(k, i)] for i in range(n)] for k in range(n)]
    for k, row in enumerate(metrics.forgetting(square)):
        assert row == [max(square[j][i] for j in range(i, k)) - square[k][i] for i in range(k)]


@given(matrices)
def test_accuracy_and_forgetting_together_cannot_exceed_the_best(matrix: tuple[list[float], ...]) -> None:
    """AA + (T-1)/T AF = mean of each task's best accuracy before the end (its final one for the last task), hence <= 1."""
    n = len(matrix)
    found = metrics.summary(matrix)
    best = [max(matrix[k][i] for k in range(i, n - 1)) for i in range(n - 1)] + [matrix[-1][-1]]
    assert found["AA"] + (n - 1) / n * found["AF"] == pytest.approx(sum(best) / n)
    assert found["AA"] + (n - 1) / n * found["AF"] <= 1 + 1e-9


def test_what_was_not_evaluated_is_left_out_of_every_mean() -> None:
    """Task 2 has no test examples, and no model was there to test after task 1."""
    matrix = [[None], [0.6, None], [0.5, None, 0.9], [0.3, None, 0.8, 1.0]]
    assert metrics.average_accuracy(matrix) == [None, pytest.approx(0.6), pytest.approx(0.7), pytest.approx(0.7)]
    assert metrics.forgetting(matrix)[1] == [None], "nothing was known about task 1 before"
    assert metrics.forgetting(matrix)[3] == [pytest.approx(0.3), None, pytest.approx(0.1)]
    assert metrics.average_forgetting(matrix) == [None, None, pytest.approx(0.1), pytest.approx(0.2)]
    numbers = {"AA": 0.7, "AF": 0.2, "BWT": -0.1, "Last": 0.7, "Avg": (0.6 + 0.7 + 0.7) / 3}
    found = metrics.summary(matrix)  # task 3 alone was tested when it was new and at the end
    assert found == {**{name: pytest.approx(value) for name, value in numbers.items()}, "FWT": None}


def test_one_model_released_at_the_end_has_an_accuracy_and_nothing_else() -> None:
    found = metrics.summary([[None], [None, None], [0.5, 0.7, 0.9]])
    same = pytest.approx(0.7)
    assert found == {"AA": same, "AF": None, "BWT": None, "FWT": None, "Last": same, "Avg": same}


def test_a_run_in_which_nothing_was_tested_has_no_metrics() -> None:
    assert set(metrics.summary([[None], [None, None]]).values()) == {None}


def test_a_missing_entry_below_the_diagonal_is_an_error() -> None:
    refuses(r"accuracy\[1\]\[1\]", metrics.summary, [[0.5], [0.5]], error=ValueError)
