"""The real datasets: as many rows and classes as their makers wrote down, balanced subsets, titles that say subset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcl_core.data import catalog
from dpcl_core.data.load import load_dataset
from dpcl_core.spec import DataSpec

COUNTS = {
    "mnist": (20_000, 4_000, 10, (28, 28, 1)),
    "fashion-mnist": (10_000, 2_500, 10, (28, 28, 1)),
    "notmnist": (6_800, 1_700, 10, (28, 28, 1)),
    "mnist-m": (6_000, 1_500, 10, (32, 32, 3)),
    "cifar10": (20_000, 2_000, 10, (32, 32, 3)),
    "cifar100": (30_000, 4_000, 100, (32, 32, 3)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_rows_classes_and_shapes(name: str, real_data: Path) -> None:
    n_train, n_test, n_classes, shape = COUNTS[name]
    found = load_dataset(DataSpec(dataset=name))
    assert (len(found.train), len(found.test), found.n_people) == (n_train, n_test, n_train)
    assert np.bincount(found.train.labels).tolist() == [n_train // n_classes] * n_classes
    assert np.bincount(found.test.labels).tolist() == [n_test // n_classes] * n_classes
    (batch,) = found.test.images.take(np.arange(20)).batches(None, shape[2], 20)  # type: ignore[arg-type]
    assert batch.shape == (20, *shape)
    assert batch.std() > 30
    assert "subset: " in found.title
    facts = catalog.facts(name)
    assert (facts.n_train, facts.n_test, facts.n_classes, facts.title) == (n_train, n_test, n_classes, found.title)
    assert facts.is_here


def test_pacs_has_seven_classes_in_three_styles(real_data: Path) -> None:
    found = load_dataset(DataSpec(dataset="pacs"))
    assert np.bincount(found.train.labels).tolist() == [432, 432, 432, 396, 432, 352, 416]
    assert np.bincount(found.test.labels).tolist() == [108, 108, 108, 98, 107, 88, 104]
    assert [source.name for source in found.sources] == ["art_painting", "cartoon", "sketch"]
    assert np.bincount(found.train.sources).tolist() == [1008, 972, 912]
    assert found.title == "PACS (stands in for ImageNet-R; subset: 2,892 training and 721 test images of 9,991)"


def test_five_datasets_with_the_stand_in(real_data: Path) -> None:
    found = load_dataset(DataSpec(dataset="5-datasets-mnist-m", train_per_class=300, test_per_class=20))
    assert found.n_people == 15_000
    assert np.abs(np.bincount(found.train.labels) - 300).max() < 6 * 17.4, "six standard deviations"
    assert np.bincount(found.test.labels).tolist() == [20] * 50
    np.testing.assert_array_equal(found.train.sources, found.train.labels // 10)
    assert found.title == (
        "5-Datasets with MNIST-M (stands in for 5-Datasets with SVHN; "
        "subset: 15,000 of 243,980 training and 1,000 of 42,746 test images)"
    )
    batch = next(found.train.images.batches(32, 3, 64))
    assert batch.shape == (64, 32, 32, 3)


def test_train_and_test_share_no_picture(real_data: Path) -> None:
    for name in ("digits", "cifar10"):
        found = load_dataset(DataSpec(dataset=name))
        train, test = ({bytes(image) for image in split.images.content} for split in (found.train, found.test))
        assert not train & test


def test_svhn_and_imagenet_r_are_not_passed_off(real_data: Path) -> None:
    for name, needs in (("svhn", "svhn"), ("imagenet-r", "imagenet_r"), ("5-datasets", "svhn")):
        assert (catalog.available(catalog.card(name)) is None) == (real_data / needs).exists()
