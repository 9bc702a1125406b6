"""Agreement with the truth: against scikit-learn, by hand, and whatever groups are called."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpcl_core.explorers import matching


def test_the_index_is_scikit_learns_and_does_not_depend_on_names() -> None:
    generator = np.random.default_rng(0)
    for n in (1, 2, 7, 80):
        for _ in range(20):
            groups, modes = generator.integers(0, 4, size=(2, n))
            found = matching.adjusted_rand(groups, modes)
            assert found == pytest.approx(adjusted_rand_score(modes, groups), abs=1e-12)
            assert matching.adjusted_rand(3 - groups, modes) == pytest.approx(found, abs=1e-12)


def test_groups_stand_for_the_modes_that_make_most_entries_right() -> None:
    groups, modes = np.array([2, 2, 0, 0, 1, -1, 1]), np.array([0, 0, 1, 0, 2, 2, -1])
    assert matching.confusion(groups, modes, 3, 3).tolist() == [[1, 0, 2], [1, 0, 0], [0, 1, 0]]
    assert matching.group_modes(groups, modes, 3, 3).tolist() == [1, 2, 0]
    # The entry without a group and the one whose mode nobody knows are not right.
    assert matching.is_correct(groups, modes, 3, 3).tolist() == [True, True, True, False, True, False, False]


def test_a_group_too_many_stands_for_nothing() -> None:
    groups, modes = np.array([0, 1, 1, 2]), np.array([0, 1, 1, 1])
    assert matching.group_modes(groups, modes, 3, 2).tolist() == [0, 1, -1]
    assert matching.is_correct(groups, modes, 3, 2).tolist() == [True, True, True, False]
