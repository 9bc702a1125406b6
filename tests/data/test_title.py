"""Titles: never more than what was read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.data.card import CARDS, Caps, DatasetCard
from dpcl_core.data.catalog import Sizes, card, members
from dpcl_core.data.catalog import truthful_title as title


def even(n_train: int, n_test: int, n_classes: int) -> Sizes:
    return Sizes(np.full(n_classes, n_train), np.full(n_classes, n_test))


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("cifar100", even(500, 100, 100), "CIFAR-100"),
        (
            "cifar100",
            even(300, 40, 100),
            "CIFAR-100 (subset: 300 of 500 training and 40 of 100 test images a class)",
        ),
        ("cifar100", even(500, 99, 100), "CIFAR-100 (subset: all 500 training and 99 of 100 test images a class)"),
        ("mnist", even(2, 1, 10), "MNIST (subset: 20 of 60,000 training and 10 of 10,000 test images)"),
        ("mnist-m", Sizes.published(CARDS["mnist-m"]), "MNIST-M (stands in for SVHN)"),
        (
            "mnist-m",
            even(600, 150, 10),
            "MNIST-M (stands in for SVHN; subset: 6,000 of 59,001 training and 1,500 of 9,001 test images)",
        ),
        (
            "mnist-m",
            even(6_000, 1_000, 10),
            "MNIST-M (stands in for SVHN; not as published: 60,000 training and 10,000 test images "
            "instead of 59,001 and 9,001)",
        ),
        ("pacs", even(100, 10, 7), "PACS (stands in for ImageNet-R; subset: 700 training and 70 test images of 9,991)"),
        ("imagenet-r", even(119, 31, 200), "ImageNet-R"),  # divided by us: 30,000 in all, whatever the two counts
        ("own:cats", even(5, 2, 3), "cats (own data)"),
    ],
)
def test_titles(name: str, sizes: Sizes, expected: str) -> None:
    assert title(card(name), [card(name)], [sizes], [sizes]) == expected


def test_an_uneven_subset_of_a_balanced_set_is_told_in_totals() -> None:
    sizes = even(500, 100, 100)
    sizes.train[3] = 499
    expected = "CIFAR-100 (subset: 49,999 of 50,000 training and all 10,000 test images)"
    assert title(card("cifar100"), [card("cifar100")], [sizes], [sizes]) == expected


def test_a_combined_set_says_so_when_one_member_is_short() -> None:
    dataset = card("5-datasets-mnist-m")
    full = [Sizes.published(member) for member in members(dataset)]
    assert title(dataset, members(dataset), full, full) == "5-Datasets with MNIST-M (stands in for 5-Datasets with SVHN)"
    short = [*full[:4], even(4_999, 1_000, 10)]
    assert "subset: 243,970 of 243,980 training and all 42,746 test images" in title(dataset, members(dataset), short, short)


@given(st.sampled_from(sorted(CARDS)), st.integers(1, 38), st.integers(1, 9))  # fewer than the smallest set has
def test_a_subset_never_has_the_full_sets_name(name: str, n_train: int, n_test: int) -> None:
    dataset: DatasetCard = card(name)
    full = [Sizes.published(member) for member in members(dataset)]
    for caps in (Caps(n_train, n_test), Caps(train_per_source=n_train)):
        found = title(dataset, members(dataset), [Sizes.published(member, caps) for member in members(dataset)], full)
        assert "subset: " in found
        assert not dataset.stands_in_for or f"stands in for {dataset.stands_in_for}" in found


@pytest.mark.parametrize("dataset", CARDS.values(), ids=lambda dataset: dataset.name)
def test_published_sizes_add_up(dataset: DatasetCard) -> None:
    sizes = Sizes.published(dataset)
    assert sizes.totals == (dataset.n_train, dataset.n_test)
    assert np.ptp(sizes.train) <= 1
