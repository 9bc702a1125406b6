"""Members alone beside their ensemble: every mean drawn, and the finding that follows from them."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import statistics


def test_means_and_spread_of_both_are_drawn_and_told() -> None:
    rows = pd.DataFrame(
        [(1.0, 0, 60.0, 50.0), (1.0, 1, 70.0, 54.0), (math.inf, 0, 90.0, 40.0), (math.inf, 1, 92.0, 44.0)],
        columns=["epsilon", "seed", "member", "ensemble"],
    )
    picture = statistics.members_and_ensemble(rows)
    alone, together = picture.figure.data
    assert list(alone.y) == pytest.approx([65.0, 91.0])
    assert list(together.y) == pytest.approx([52.0, 42.0])
    assert list(alone.error_y.array) == pytest.approx([5.0, 1.0])
    assert picture.finding == (
        "Without noise members alone are 26.0 points better than at ε = 1, the ensemble 10.0 points worse."
    )


def test_no_recorded_accuracy_gives_a_sentence() -> None:
    empty = pd.DataFrame([], columns=["epsilon", "seed", "member", "ensemble"])
    assert statistics.members_and_ensemble(empty).finding == "No run here has recorded the accuracy of its members alone."


def test_budgets_without_a_noise_free_one_are_told_as_they_are() -> None:
    rows = pd.DataFrame([(1.0, 0, 60.0, 50.0)], columns=["epsilon", "seed", "member", "ensemble"])
    assert statistics.members_and_ensemble(rows).finding == "Members alone and ensemble: at ε = 1 60.0 and 50.0 %."
