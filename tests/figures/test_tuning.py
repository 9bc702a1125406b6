"""A tuning as a figure: dots, the best so far, failures apart, and a finding that claims no more than was measured."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import reproduction


def a_table(*accuracies: float) -> pd.DataFrame:
    rows = [(k + 1, value, 1e-3, 50, 2.0) for k, value in enumerate(accuracies)]
    columns = ["trial", "accuracy", "learning_rate", "batch_size", "clip_norm"]
    return pd.DataFrame(rows, columns=columns).astype({"accuracy": "float64"})


def drawn(*accuracies: float) -> reproduction.Picture:
    return reproduction.trials(a_table(*accuracies), n_trials=20, n_validation=100)


def test_the_line_is_the_best_so_far_and_failed_trials_are_crosses_at_the_foot() -> None:
    picture = drawn(0.5, math.nan, 0.4, 0.75)
    line, dots, crosses = picture.figure.data
    assert list(line.x) == [1, 3, 4]
    assert list(line.y) == [50, 50, 75]
    assert list(dots.y) == [50, 40, 75]
    assert list(crosses.x) == [2]
    assert crosses.marker.symbol == "x"
    assert picture.figure.layout.xaxis.range[1] > 20  # room for the trials to come


def test_the_finding_names_the_best_trial_and_how_sure_that_is() -> None:
    finding = drawn(0.5, math.nan, 0.4, 0.75).finding
    assert finding == (
        "Trial 4 is the best of 4: 75.0 % of 100 held-out examples (standard error 4.3 points). 1 of 4 failed."
    )


def test_a_tie_is_called_a_tie() -> None:
    assert "Trial 1 is the best of 3, as good as 2 later ones: 100.0 % of 100 held-out examples." in drawn(1, 1, 1).finding
    assert "as good as 1 later one:" in drawn(0.5, 0.75, 0.75).finding


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_yet_and_nothing_but_failures_are_said_in_words(dark: bool) -> None:
    empty = reproduction.trials(a_table(), n_trials=20, n_validation=100, dark=dark)
    assert empty.finding == "The first dot appears when a trial is over."
    failed = reproduction.trials(a_table(math.nan, math.nan), n_trials=20, n_validation=100, dark=dark)
    assert failed.finding == "No trial has ended well yet. 2 of 2 failed."
    assert len(failed.figure.data) == 1
