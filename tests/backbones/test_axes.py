"""Public axes: constants, the same for every run, and a row's coordinates are a function of that row alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core.backbones import bundled, catalog
from dpcl_core.errors import DataMissing
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.sums import unit_rows

LITE0 = catalog.card("lite0")


@pytest.mark.parametrize("public", LITE0.axes)
def test_axes_are_orthogonal_directions_in_order_of_falling_variance(public: str) -> None:
    found = bundled.load("lite0", public)
    assert found.centre.shape == (1280,)
    lengths = np.linalg.norm(found.directions.astype(np.float64), axis=0)
    assert (np.diff(lengths) > -1e-3 * lengths[1:]).all(), "variance to the power -1/4 rises as the variance falls"
    cosines = (found.directions / lengths).T.astype(np.float64) @ (found.directions / lengths)
    # A direction has 1,280 numbers in half precision, each wrong by at most 2^-11 of itself: cosines by at most 2^-10.
    np.testing.assert_allclose(cosines, np.eye(len(cosines)), atol=2.0**-10)


def rows_beside_the_axes(found: bundled.Axes, n: int) -> NDArray[np.float32]:
    """Features [n, K] that lie far from the centre in directions that these axes leave out: their coordinates cancel."""
    span, _ = np.linalg.qr(found.directions.astype(np.float64))
    away = np.random.default_rng(1).standard_normal((n, len(found.centre)))
    away -= (away @ span) @ span.T
    features: NDArray[np.float32] = (found.centre + 20 * away / np.abs(away).max(axis=1, keepdims=True)).astype(np.float32)
    return features


def test_coordinates_are_products_with_the_centred_features() -> None:
    found = bundled.load("lite0", "cifar100")
    rows = np.random.default_rng(0).normal(size=(300, 1280)).astype(np.float32)
    expected = (rows.astype(np.float64) - found.centre) @ found.directions
    coordinates = found.along(rows)
    assert coordinates.dtype == np.float32
    np.testing.assert_allclose(coordinates, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(found.first(48).along(rows), coordinates[:, :48])


@pytest.mark.parametrize("n_axes", [48, 128])
def test_a_row_does_not_depend_on_the_rows_beside_it(n_axes: int) -> None:
    found = bundled.load("lite0", "cifar100").first(n_axes)
    rows = rows_beside_the_axes(found, 520)
    together = found.along(rows)
    for place in (0, 1, 3, 101, 102, 103, 255, 256, 257, 515):
        np.testing.assert_array_equal(found.along(np.delete(rows, place, axis=0)), np.delete(together, place, axis=0))
        more = np.insert(rows, place, [[1e6], [-1e-6], [np.nan]], axis=0)
        np.testing.assert_array_equal(np.delete(found.along(more), range(place, place + 3), axis=0), together)
        np.testing.assert_array_equal(found.along(rows[place : place + 1])[0], together[place])
    order = np.random.default_rng(2).permutation(len(rows))
    np.testing.assert_array_equal(found.along(rows[order]), together[order])
    np.testing.assert_array_equal(found.along(np.asfortranarray(rows)), together)


@pytest.mark.parametrize("place", [0, 100, 256, 500])
def test_class_sums_of_neighbours_differ_by_one_row_alone(place: int) -> None:
    """The clean sums differ by exactly the person's row, no longer than 1, though the others' coordinates cancel."""
    found = bundled.load("lite0", "cifar100").first(128)
    people, person = rows_beside_the_axes(found, 500), np.full((1, 1280), 0.5, np.float32)

    def clean(features: NDArray[np.float32]) -> NDArray[np.float64]:
        labels, book = np.zeros(len(features), np.int64), Ledger(1e-5, "add-remove", "once")
        sums = noisy_class_sums(found.along(features), labels, [0], 1, [0.0], [ReleaseNoise()], [book], task=0)
        return sums[0, 0]

    difference = clean(np.insert(people, place, person, axis=0)) - clean(people)
    np.testing.assert_array_equal(difference, unit_rows(found.along(person))[0])
    assert sum(Fraction(number) ** 2 for number in difference.tolist()) <= 1


@pytest.mark.parametrize(
    ("dataset", "public"),
    [("mnist", "cifar100"), ("cifar10", "cifar100"), ("cifar100", "cifar10"), ("own:mine", "cifar100")],
)
def test_data_are_never_seen_along_axes_of_their_own(dataset: str, public: str) -> None:
    assert bundled.public_part(LITE0, dataset) == public


def test_members_of_a_combined_dataset_count_as_seen() -> None:
    for name in ("5-datasets", "5-datasets-mnist-m", "cifar10-100"):
        try:
            members = {member.name for member in bundled.datasets.members(bundled.datasets.card(name))}
        except ValueError:
            continue
        assert bundled.public_part(LITE0, name) not in members


def test_network_without_axes_has_none() -> None:
    assert bundled.public_part(catalog.card("pixels"), "mnist") is None


def test_missing_axes_name_their_script() -> None:
    with pytest.raises(DataMissing, match=r"scripts/make_axes\.py"):
        bundled.load("lite0", "mnist")
