"""Noise of replay and head: the multipliers of the specification's tables, and nothing spent twice."""

from __future__ import annotations

import math

import dp_accounting as dp
import pytest

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.federated.release_schedule import Horizon, Noises
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian
from dpcl_core.spec import Recurrence
from tests.support import clients


def horizon(method: str, recurrence: Recurrence = "every", **privacy: object) -> Horizon:
    """Of a run with four tasks; of one with rounds, of 50 in each, with 30 % of the clients."""
    rounds = {"rounds": 50, "participation": 0.3} if method == "dp-fedavg" else {}
    asked = clients.spec(method, params=rounds, privacy={"delta": 1e-5, **privacy})
    return Horizon.of(asked, PublicSizes(1000, 4, 4, recurrence))


FOUR_TASKS, IN_ROUNDS = horizon("label-means"), horizon("dp-fedavg")


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 7.46), (4.0, 2.16), (8.0, 1.20)])
def test_one_release_a_task_of_everyone(epsilon: float, multiplier: float) -> None:
    """Section 9.6, schedule (a), and the closed form: four Gaussians are one of half the noise."""
    found = FOUR_TASKS.releases(epsilon)
    assert found == pytest.approx(multiplier, rel=5e-3)
    assert gaussian.epsilon(found / 2, 1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_rounds_of_the_one_per_round() -> None:
    """Section 9.6, schedule (b): 200 rounds of 30 %."""
    assert IN_ROUNDS.one_per_round(4.0) == pytest.approx(4.709, rel=5e-3)


def test_the_head_beside_releases_has_what_they_leave() -> None:
    """Section 9.7: half the budget for the replay alone, and 5.56 for the head, which keep 4 together."""
    noises = IN_ROUNDS.beside_releases(4.0, 0.5)
    assert noises.release == pytest.approx(3.99, rel=5e-3)
    assert noises.head == pytest.approx(5.56, rel=5e-3)
    events = [dp.SelfComposedDpEvent(dp.GaussianDpEvent(noises.release), 4), subsampled_gaussian(noises.head, 0.3, 200)]
    assert Pld().epsilon(events, 1e-5, "add-remove") == pytest.approx(4.0, rel=1e-3)


def test_what_travels_in_one_round_is_one_gaussian() -> None:
    """Section 9.7: 6.66 each under an even split, which is 4.71 of both."""
    noises = IN_ROUNDS.in_rounds(4.0, 0.5)
    assert noises.release == noises.head == pytest.approx(6.66, rel=5e-3)
    uneven = IN_ROUNDS.in_rounds(4.0, 0.2)
    for split in (noises, uneven):
        joint = 1 / math.sqrt(1 / split.release**2 + 1 / split.head**2)
        assert joint == pytest.approx(IN_ROUNDS.one_per_round(4.0), rel=1e-9)
    assert uneven.release > noises.release > uneven.head


def test_an_infinite_budget_has_no_noise() -> None:
    assert FOUR_TASKS.releases(math.inf) == IN_ROUNDS.one_per_round(math.inf) == 0.0
    assert IN_ROUNDS.in_rounds(math.inf, 0.5) == IN_ROUNDS.beside_releases(math.inf, 0.5) == Noises()


def test_clients_of_one_task_alone_pay_for_that_task() -> None:
    once = horizon("label-means", "once")
    assert once.releases(4.0) == pytest.approx(gaussian.sigma(4.0, 1e-5), abs=1e-4)
    assert once.releases(4.0) == pytest.approx(FOUR_TASKS.releases(4.0) / math.sqrt(4), rel=1e-3)


def test_under_replace_a_client_moves_the_sum_twice_as_far() -> None:
    twice = horizon("label-means", adjacency="replace")
    assert twice.releases(4.0) == pytest.approx(2 * FOUR_TASKS.releases(4.0), rel=1e-3)
