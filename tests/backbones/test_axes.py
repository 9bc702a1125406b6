"""Public axes: constants, the same for every run, and a row's coordinates are a function of that row alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.backbones import axes, catalog
from dpcl_core.errors import DataMissing

LITE0 = catalog.card("lite0")


@pytest.mark.parametrize("public", LITE0.axes)
def test_axes_are_orthogonal_directions_in_order_of_falling_variance(public: str) -> None:
    found = axes.load("lite0", public)
    assert found.centre.shape == (1280,)
    lengths = np.linalg.norm(found.directions.astype(np.float64), axis=0)
    assert (np.diff(lengths) > -1e-3 * lengths[1:]).all(), "variance to the power -1/4 rises as the variance falls"
    cosines = (found.directions / lengths).T.astype(np.float64) @ (found.directions / lengths)
    # A direction has 1,280 numbers in half precision, each wrong by at most 2^-11 of itself: cosines by at most 2^-10.
    np.testing.assert_allclose(cosines, np.eye(len(cosines)), atol=2.0**-10)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    found = axes.load("lite0", "cifar100")
    rows = np.random.default_rng(0).normal(size=(700, 1280)).astype(np.float32)
    together = found.along(rows)
    for n in (1, 255, 256, 257, 699):
        np.testing.assert_array_equal(found.along(rows[:n]), together[:n])
    expected = (rows.astype(np.float64) - found.centre) @ found.directions
    np.testing.assert_allclose(together, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("dataset", "public"),
    [("mnist", "cifar100"), ("cifar10", "cifar100"), ("cifar100", "cifar10"), ("own:mine", "cifar100")],
)
def test_data_are_never_seen_along_axes_of_their_own(dataset: str, public: str) -> None:
    assert axes.public_part(LITE0, dataset) == public


def test_members_of_a_combined_dataset_count_as_seen() -> None:
    for name in ("5-datasets", "5-datasets-mnist-m", "cifar10-100"):
        try:
            members = {member.name for member in axes.datasets.members(axes.datasets.card(name))}
        except ValueError:
            continue
        assert axes.public_part(LITE0, name) not in members


def test_network_without_axes_has_none() -> None:
    assert axes.public_part(catalog.card("pixels"), "mnist") is None


def test_missing_axes_name_their_script() -> None:
    with pytest.raises(DataMissing, match=r"scripts/make_axes\.py"):
        axes.load("lite0", "mnist")
