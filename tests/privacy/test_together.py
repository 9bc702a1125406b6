"""All models of a run together: closed forms, one batch sequence with several noises, and who counts as worst off."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import LabelListDpEvent, Pld, Unaccountable, subsampled_gaussian
from dpcl_core.privacy.coefficient_release import joint, joint_release
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Cell

DELTA = 1e-5


def books(epsilons: tuple[float, ...], seeds: int, recurrence: str = "once") -> dict[Cell, Ledger]:
    return {Cell(e, s): Ledger(DELTA, "add-remove", recurrence) for e in epsilons for s in range(seeds)}  # type: ignore[arg-type]


@pytest.mark.parametrize(("recurrence", "times"), [("once", 1), ("every", 4)])
def test_gaussian_releases_of_all_budgets_and_seeds_are_one_gaussian(recurrence: str, times: int) -> None:
    """mu squared is the sum of 1/sigma squared over models, and over tasks where a person is in all of them."""
    ledgers = books((1.0, 8.0), 3, recurrence)
    for cell, ledger in ledgers.items():
        for task in range(4):
            ledger.spend(dp.GaussianDpEvent(gaussian.sigma(cell.epsilon, DELTA)), task=task, what="sums")
    mu_squared = times * 3 * sum(gaussian.sigma(e, DELTA) ** -2 for e in (1.0, 8.0))
    epsilon, delta = joint_release([ledgers])
    assert delta == DELTA
    assert epsilon == pytest.approx(gaussian.epsilon(mu_squared**-0.5, DELTA), rel=1e-4)


def test_one_model_alone_is_its_own_ledger_and_one_without_noise_leaves_no_bound() -> None:
    ledgers = books((1.0,), 1)
    ledgers[Cell(1.0, 0)].spend(dp.GaussianDpEvent(3.0), task=0, what="sums")
    assert joint_release([ledgers])[0] == pytest.approx(ledgers[Cell(1.0, 0)].epsilon())
    exact = books((math.inf,), 1)
    exact[Cell(math.inf, 0)].spend(dp.NonPrivateDpEvent(), task=0, what="sums")
    assert joint_release([{**ledgers, **exact}])[0] == math.inf


def test_the_worst_off_has_of_each_seed_the_most_of_everything() -> None:
    """In one seed task 1 is hit harder, in the other task 2: the same person may be in both."""
    ledgers = books((1.0,), 2)
    for seed in (0, 1):
        for task, sigma in ((seed, 2.0), (1 - seed, 9.0)):
            ledgers[Cell(1.0, seed)].spend(dp.GaussianDpEvent(sigma), task=task, what="sums")
    # Both entries of a seed are counted, since they are of different kinds: a bound that nobody reaches.
    upper = gaussian.epsilon((2 / 2.0**2 + 2 / 9.0**2) ** -0.5, DELTA)
    assert joint_release([ledgers])[0] == pytest.approx(upper, rel=1e-4)
    assert upper >= gaussian.epsilon(2.0 / math.sqrt(2), DELTA)


def test_trainings_on_the_same_batches_are_one_with_the_noises_combined() -> None:
    sigmas = (1.0, 2.0, 4.0)
    made = joint([subsampled_gaussian(sigma, 0.1, 50) for sigma in sigmas])
    combined = sum(sigma**-2 for sigma in sigmas) ** -0.5
    assert made == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(combined)), 50)
    ledgers = books((1.0, 2.0, 4.0), 2)
    for (cell, ledger), sigma in zip(ledgers.items(), [s for s in sigmas for _ in range(2)], strict=True):
        for task in range(3):
            ledger.spend(subsampled_gaussian(sigma, 0.1, 50), task=task, what=f"{cell}", shares_batches=True)
    assert joint_release([ledgers])[0] == pytest.approx(Pld().epsilon([made, made], DELTA, "add-remove"), rel=1e-6)
    apart = {cell: Ledger(DELTA, "add-remove", "once") for cell in ledgers}
    for cell, ledger in ledgers.items():
        apart[cell].spend(ledger.entries[0].event, task=0, what="own batches")
    alone = [ledger.entries[0].event for ledger in apart.values()]
    assert joint_release([apart])[0] == pytest.approx(Pld().epsilon(alone, DELTA, "add-remove"), rel=1e-6)


def test_the_combined_noise_is_what_the_best_test_sees() -> None:
    """One step, everyone in the batch: the optimal statistic over all models has the combined signal-to-noise ratio."""
    sigmas, generator = np.array([1.0, 2.0, 4.0]), np.random.default_rng(0)
    moved = (1 + sigmas * generator.standard_normal((200_000, 3))) / sigmas**2
    still = sigmas * generator.standard_normal((200_000, 3)) / sigmas**2
    distance = (moved.sum(axis=1).mean() - still.sum(axis=1).mean()) / still.sum(axis=1).std()
    step = joint([dp.SelfComposedDpEvent(dp.GaussianDpEvent(float(sigma)), 1) for sigma in sigmas])
    assert distance == pytest.approx(1 / step.event.noise_multiplier, abs=5 * math.sqrt(2 / 200_000))


def test_different_steps_on_the_same_batches_are_refused_and_no_noise_stays_none() -> None:
    with pytest.raises(Unaccountable, match="same steps"):
        joint([subsampled_gaussian(1.0, 0.1, 50), subsampled_gaussian(1.0, 0.1, 51)])
    assert joint([subsampled_gaussian(1.0, 0.1, 50), dp.NonPrivateDpEvent()]) == dp.NonPrivateDpEvent()


def test_where_the_joint_sum_of_a_person_of_many_rows_has_no_bound_the_models_own_add_up() -> None:
    """The delta that five rows leave is below what an accountant resolves; on the same batches nothing may be added."""
    ledgers = {cell: replace(ledger, rows_per_unit=5) for cell, ledger in books((1.0,), 20).items()}
    for ledger in ledgers.values():
        ledger.spend(subsampled_gaussian(4.0, 0.1, 50), task=0, what="steps")
    alone = {cell: ledger.epsilon() for cell, ledger in ledgers.items()}
    assert all(map(math.isfinite, alone.values()))
    epsilon, delta = joint_release([ledgers])
    assert (epsilon, delta) == (pytest.approx(sum(alone.values())), pytest.approx(20 * DELTA))
    for ledger in ledgers.values():
        ledger.spend(subsampled_gaussian(3000.0, 0.1, 1), task=0, what="steps", shares_batches=True)
    assert joint_release([ledgers])[0] == math.inf


def test_lists_of_all_models_are_told_at_the_sum_of_their_deltas() -> None:
    ledgers = books((1.0, 2.0), 3)
    for ledger in ledgers.values():
        ledger.spend(LabelListDpEvent(0.1, DELTA / 2), task=0, what="list")
        ledger.spend(dp.GaussianDpEvent(5.0), task=0, what="sums")
    epsilon, delta = joint_release([ledgers])
    assert delta == pytest.approx(6 * DELTA)
    assert 0.1 < epsilon < 6 * 0.1 + gaussian.epsilon(5.0 / math.sqrt(6), 3 * DELTA)
