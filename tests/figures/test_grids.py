"""The accuracy matrix and the forgetting grid: numbers in their cells, nothing where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpcl_core.figures import curves
from tests.figures.making import accuracy, by_rule, contrast


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


def test_matrix_finding_names_oldest_and_newest() -> None:
    picture = curves.accuracy_matrix(accuracy(), epsilon=math.inf, n_tasks=4)
    assert picture.finding.startswith("Without noise, after 4 tasks, task 1 stands at 78.0 % and the newest at 90.0 %")


def test_forgetting_counts_from_the_best_of_each_seed() -> None:
    z = np.array(curves.forgetting_grid(accuracy(), epsilon=8.0, n_tasks=4).figure.data[0].z, dtype=float)
    assert z.shape == (3, 3)  # tasks 1 to 3, after tasks 2 to 4
    assert z[0] == pytest.approx([4, 8, 12])
    assert np.isnan(z[2, :2]).all()
    assert z[2, 2] == pytest.approx(4)


def test_forgetting_is_undefined_after_one_task() -> None:
    picture = curves.forgetting_grid(accuracy().query("after_task == 0"), epsilon=8.0, n_tasks=4)
    assert not picture.figure.data
    assert "second task" in picture.finding


def test_nothing_lost_is_said_and_improvement_is_not_called_loss() -> None:
    better = accuracy(rule=lambda e, s, k, i: 0.5 + 0.02 * (k - i))
    assert "no old task is more than 0.5 points below" in curves.forgetting_grid(better, epsilon=8.0, n_tasks=4).finding


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_shade(dark: bool) -> None:
    for build in (curves.accuracy_matrix, curves.forgetting_grid):
        trace = build(accuracy(), epsilon=8.0, n_tasks=4, dark=dark).figure.data[0]
        for _, shade in trace.colorscale:
            assert contrast(shade, trace.textfont.color) >= 4.5, shade


def test_many_tasks_leave_the_numbers_to_the_hover() -> None:
    few = curves.accuracy_matrix(accuracy(), epsilon=8.0, n_tasks=4).figure.data[0]
    many = curves.accuracy_matrix(accuracy(n_tasks=20), epsilon=8.0, n_tasks=20).figure.data[0]
    assert few.texttemplate is not None
    assert many.texttemplate is None
    assert many.type == "heatmap"


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


def test_a_claimed_budget_is_called_so() -> None:
    for make in (curves.accuracy_matrix, curves.forgetting_grid):
        finding = make(accuracy(), epsilon=0.5, n_tasks=4, standing="claimed").finding
        assert finding.startswith("At claimed ε = 0.5, after 4 tasks")
