"""Subsets and divisions: balanced, nested, the same for everyone, and little moved by one record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.data.outline import Outline, Part, order

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60)


def kept(labels: list[int], per_class: int) -> set[int]:
    part = Part(np.array(labels), None, np.arange(len(labels)))
    return set(Outline((), (), part, part).thinned(per_class, None).train.rows.tolist())


@given(LABELS, st.integers(1, 20))
def test_a_subset_keeps_so_many_of_each_class_or_all_of_them(labels: list[int], per_class: int) -> None:
    sizes = np.bincount([labels[row] for row in kept(labels, per_class)], minlength=5)
    np.testing.assert_array_equal(sizes, np.minimum(np.bincount(labels, minlength=5), per_class))


@given(LABELS, st.integers(1, 20))
def test_a_smaller_subset_lies_within_a_larger(labels: list[int], per_class: int) -> None:
    assert kept(labels, per_class) <= kept(labels, per_class + 1)


@given(LABELS, st.integers(0, 4), st.integers(1, 20))
def test_one_record_more_moves_at_most_one_other_and_only_of_its_class(labels: list[int], new: int, per_class: int) -> None:
    before, after = kept(labels, per_class), kept([*labels, new], per_class)
    assert len(before - after) <= 1
    assert all(labels[row] == new for row in before - after)
    assert after - before <= {len(labels)}


def test_the_order_is_a_public_constant() -> None:
    np.testing.assert_array_equal(order(1000)[:10], order(10))
    assert np.round(order(3), 6).tolist() == [0.839848, 0.139874, 0.192195]


def test_the_order_is_no_order() -> None:
    """Kept rows lie all over the file: 500 of 1,000 rows have a mean place near 500 (standard error 9)."""
    rows = np.array(sorted(kept([0] * 1000, 500)))
    assert abs(rows.mean() - 499.5) < 4 * 9.2
    assert len(set(np.diff(rows).tolist())) > 3


@pytest.mark.parametrize("name", ["digits"])
def test_a_division_of_ours_takes_every_row_once(name: str, data_dir: Path) -> None:
    from dpcl_core.data import catalog
    from dpcl_core.data.outline import outline

    found = outline(catalog.card(name), None)
    assert sorted([*found.train.rows, *found.test.rows]) == list(range(1797))
    assert (len(found.train.rows), len(found.test.rows)) == (1347, 450)
