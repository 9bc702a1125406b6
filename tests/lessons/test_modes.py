"""The lists that are played with: shuffled, each mode once, and released for what they say they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.explorers.matching import CENTRED, adjusted_rand
from dpcl_core.lessons import modes
from dpcl_core.methods.federated.matchers import PublicView
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian


def test_exact_lists_hold_each_mode_once_in_an_order_that_says_nothing() -> None:
    world = modes.world()
    assert world.lists.means.shape == (20, 4, 32)
    assert (np.sort(world.modes, axis=1) == np.arange(4)).all()
    assert world.lists.weights.sum(axis=1) == pytest.approx(1.0)
    # Twenty orders of four by lot: the same mode first in all of them has probability 4^-19.
    assert len({tuple(row) for row in world.modes.tolist()}) > 1
    own = world.lists.targets.argmax(axis=2)
    assert (own == world.modes).all()


def test_long_vectors_say_nothing_more() -> None:
    short, long = modes.world("exact", modes.SHORT), modes.world("exact", modes.LONG)
    assert np.array_equal(long.lists.means[..., : modes.SHORT], short.lists.means)
    assert not long.lists.means[..., modes.SHORT :].any()
    assert np.array_equal(modes.picture(long.lists.means[0, 0]), modes.picture(short.lists.means[0, 0]))


def test_the_radius_is_that_of_public_groups() -> None:
    world = modes.world()
    assert PublicView.of(world.public, modes.N_AXES).radius == pytest.approx(world.view.radius, abs=0.01)


def test_a_picture_shows_the_digit() -> None:
    """The mean of all zeros is dark in the middle and inked around it."""
    world = modes.world()
    drawn = modes.picture(world.lists.means[0, int((world.modes[0] == 0).argmax())])
    assert drawn.shape == (8, 8)
    assert drawn.max() == 1.0
    assert drawn[3:5, 3:5].mean() < 0.4 < drawn[2:6, [2, 5]].mean()


def test_averages_by_place_are_nearer_to_each_other_than_the_modes_are() -> None:
    places, true = modes.by_place(modes.world())
    spread = [np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean() for rows in (places, true)]
    assert spread[0] < 0.6 * spread[1]


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_four_rounds_of_everybody_cost_what_was_asked_for(epsilon: float) -> None:
    event = subsampled_gaussian(modes.noise_multiplier(epsilon), 1.0, modes.N_ROUNDS)
    assert Pld().epsilon([event], modes.DELTA, "add-remove") == pytest.approx(epsilon, rel=0.01)


def test_noise_on_a_sum_is_shared_by_its_clients_and_noise_on_a_list_is_not() -> None:
    few, many = modes.world(n_clients=20), modes.world(n_clients=200)
    assert modes.std_of_released(few, 4.0) == pytest.approx(10 * modes.std_of_released(many, 4.0))
    assert modes.std_of_lists(few, 4.0) == pytest.approx(20 * modes.std_of_released(few, 4.0))
    assert modes.std_of_lists(few, 4.0) == modes.std_of_lists(many, 4.0)


def test_matching_on_the_client_works_where_noisy_lists_cannot_be_matched() -> None:
    world = modes.world(n_clients=50, draw=1)
    on_client = modes.client_side(world, CENTRED, 50, 4.0, modes.N_ROUNDS, 1)
    noisy = modes.server_side(world, CENTRED, 50, modes.std_of_lists(world, 4.0), 1)
    agreements = [adjusted_rand(found.ids.ravel(), world.modes.ravel()) for found in (on_client, noisy)]
    assert agreements[0] > 0.7
    assert abs(agreements[1]) < 0.15
    again = modes.client_side(world, CENTRED, 50, 4.0, modes.N_ROUNDS, 1)
    assert np.array_equal(again.prototypes, on_client.prototypes)
    assert not modes.client_side(world, CENTRED, 50, math.inf, 1, 1).noise_std


def test_fitted_lists_have_the_modes_that_most_of_their_rows_have() -> None:
    world = modes.world("fitted")
    assert world.rule == "nearest"
    has_rows = world.lists.weights > 0
    assert (world.lists.targets.argmax(axis=2) == world.modes)[has_rows].all()
