"""What adds up, the last digits, forgetting, and who pays: the numbers of these lessons against closed forms and runs."""

import math
from typing import Any

import numpy as np
import pytest

from dpcl_core.lessons import adding
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.statement import odds_bound
from tests.lessons import reference


def test_n_releases_are_one_with_less_noise_and_the_ledger_agrees() -> None:
    for epsilon, n in ((1.0, 2), (1.0, 10), (0.5, 20)):
        total, sigma = adding.total(epsilon, n), gaussian.sigma(epsilon, adding.DELTA)
        assert total == pytest.approx(gaussian.epsilon(sigma / math.sqrt(n), adding.DELTA))
        assert adding.ledger(epsilon, n, "every").epsilon() == pytest.approx(total, rel=1e-3)
        assert adding.ledger(epsilon, n, "once").epsilon() == pytest.approx(epsilon, rel=1e-3)
        assert adding.total(epsilon, 1) == pytest.approx(epsilon, rel=1e-5)
        assert epsilon < total < n * epsilon


def test_an_averaging_attacker_is_as_good_as_can_be_and_no_better() -> None:
    """Five standard errors of 40,000 rounds: 6e-7."""
    for n in (1, 10, 100):
        best = adding.best_of_averages(1.0, n)
        found = adding.averaged(1.0, n, 20_000).share_right
        assert found == pytest.approx(best, abs=5 * math.sqrt(best * (1 - best) / 40_000))
        assert best <= odds_bound(adding.total(1.0, n), adding.DELTA)


def test_sampling_helps_more_the_fewer_are_drawn_and_not_at_all_with_everybody() -> None:
    totals = [adding.sampled(rate) for rate in (0.001, 0.01, 0.1, 1.0)]
    assert totals == sorted(totals)
    everybody = gaussian.epsilon(adding.SIGMA / math.sqrt(adding.N_STEPS), adding.DELTA)
    assert totals[-1] == pytest.approx(everybody) == adding.if_known(adding.N_STEPS)
    assert adding.sampled(0.01) < adding.if_known(adding.participations(0.01)[0])
    assert adding.if_known(0) == 0
    low, high = adding.participations(0.01)
    drawn = np.random.default_rng(0).binomial(adding.N_STEPS, 0.01, 50_000)
    assert 0.94 < ((drawn >= low) & (drawn <= high)).mean() < 0.99, "as 95 of 100 people are"


def test_no_work_on_a_release_helps_the_attacker_and_mending_makes_counts_of_rare_entries_better() -> None:
    """20,000 rounds a side in the measured half: five standard errors of a share are 1.3 points."""
    for epsilon in (1.0, 4.0):
        found = adding.worked_on(epsilon, 40_000)
        best = adding.best_of_averages(epsilon, 1)
        assert max(found.values()) < best + 0.013
        assert found["as released"] == pytest.approx(best, abs=0.016)
        assert found["negative counts set to 0"] > 0.5
    found = adding.errors(1.0, 500)
    sigma = gaussian.sigma(1.0, adding.DELTA)
    assert found["as released"] == pytest.approx(sigma, rel=5 / math.sqrt(2 * 500 * len(adding.COUNTS)))
    assert found["negative counts set to 0"] < 0.9 * found["as released"]


# Lesson 7: the naive sum is told by its digits and the attacker is never wrong; the rounded one tells him nothing.


def test_small_sums_with_her_lie_on_her_grid_always() -> None:
    assert np.linalg.norm(adding.person()) == pytest.approx(1.0, rel=1e-12), "the length that the noise is made for"
    released = adding.releases(True, 1.0, 200, "naive")
    assert not adding.cannot_be_hers(released).any()
    assert (np.abs(released) < np.abs(adding.person()) / 4).any()  # there were small ones to look at
    assert np.abs(released[0][adding.smallest(released[0], 4)]).tolist() == np.sort(np.abs(released[0]))[:4].tolist()


def test_the_attack_proves_more_than_epsilon_allows() -> None:
    """A number is small with a chance of 0.0023 and then off her grid with one of at least 1/2: in 512 numbers half of all
    rounds have one, so 2,000 rounds have fewer than 300 with a chance below 1e-30."""
    played = adding.play(1.0, 2000, "naive")
    assert played.hits == 2000
    assert played.false_alarms < 1700
    assert played.proven(adding.DELTA) > 3


def test_the_same_attack_on_rounded_sums_proves_nothing() -> None:
    """All numbers are on the public grid, which is coarser than hers: there is no digit to see, in any round."""
    played = adding.play(1.0, 400, "rounded")
    assert played.hits == played.false_alarms == 400
    for is_in in (True, False):
        steps = adding.steps_of(adding.releases(is_in, 1.0, 5, "rounded"), 1.0)
        assert (steps == np.rint(steps)).all()


# The small classifier's gradient is that of its loss, it forgets as the lesson says, and sums do not.


def loss(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, listed: np.ndarray) -> float:
    logits = (rows @ weights.T)[:, listed]
    own = (rows @ weights.T)[np.arange(len(labels)), labels]
    return float((np.log(np.exp(logits).sum(axis=1)) - own).mean())


@pytest.mark.parametrize("hidden", [[], [1, 3]])
def test_the_gradient_is_the_losses_own(hidden: list[int]) -> None:
    """Central differences with a step of 1e-5 are good to 1e-9 here."""
    random = np.random.default_rng(3)
    weights, rows, labels = random.normal(size=(4, 3)), random.normal(size=(9, 3)), random.choice([0, 2], 9)
    listed = ~np.isin(np.arange(4), hidden)
    found = adding.gradient(weights, rows, labels, listed)
    for place in np.ndindex(*weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = 1e-5
        slope = (loss(weights + moved, rows, labels, listed) - loss(weights - moved, rows, labels, listed)) / 2e-5
        assert found[place] == pytest.approx(slope, abs=1e-8)
    assert not found[hidden].any()


def test_plain_training_forgets_and_each_remedy_forgets_less() -> None:
    plain, own = adding.forgotten(adding.accuracies("plain")), adding.forgotten(adding.accuracies("own labels"))
    kept = [adding.forgotten(adding.accuracies("replay", n)) for n in (1, 5, 20)]
    assert plain > 0.9
    assert plain > own > kept[1]
    assert kept == sorted(kept, reverse=True)
    assert adding.forgotten(adding.accuracies("sums")) < kept[1]
    np.testing.assert_array_equal(adding.accuracies("replay", 0), adding.accuracies("plain"))


def test_sums_are_the_cosine_classifier_of_a_run() -> None:
    """Runs have the same order of digits as seed 0; both are means over tasks after the last."""
    (final,) = reference.learned("prior", adding.N_TASKS, (math.inf,), (0,))[0][math.inf]
    assert adding.accuracies("sums")[-1].mean() == pytest.approx(final, abs=1e-9)
    clean = adding.of_noise(math.inf)[0]
    assert clean == pytest.approx(final, abs=1e-9)
    assert adding.of_noise(0.1)[0] < 0.5 * clean, "much noise takes accuracy, and little does not"
    assert adding.of_noise(8.0)[0] == pytest.approx(clean, abs=0.02)


# Noise hurts few people more than many, by the closed form, and no count can be stretched for free.


def test_the_rare_digit_loses_most_the_average_hides_it_and_with_everybody_it_loses_little() -> None:
    assert adding.recognised(math.inf, adding.most()).rare - adding.recognised(1.0, adding.most()).rare < 0.05
    clean, noisy = adding.recognised(math.inf, 10), adding.recognised(1.0, 10)
    assert clean.rare - noisy.rare > 0.3 > 0.05 > clean.others - noisy.others
    assert clean.overall - noisy.overall < 0.03
    assert min(noisy.rare, noisy.others) <= noisy.overall <= max(noisy.rare, noisy.others)


@pytest.mark.parametrize("n", [5, 20, 130])
def test_likeness_is_measured_as_the_formula_says(n: int) -> None:
    """500 draws of 64 numbers: the cosine varies by at most 1 / 8, so five standard errors are 0.028; the formula leaves
    out terms of 1 / 64."""
    measured, formula = adding.likeness(1.0, n)
    assert measured == pytest.approx(formula, abs=0.045)
    ratios = [one / math.sqrt(1 - one**2) for one in (adding.likeness(1.0, few)[1] for few in (20, 40))]
    assert ratios[1] / ratios[0] == pytest.approx(2, rel=0.05), "pictures differ, so sums grow only nearly in proportion"


def test_counting_ten_times_drowns_the_others_and_a_shared_label_does_not() -> None:
    changes: tuple[dict[str, Any], ...] = ({}, {"weight": 10.0}, {"is_merged": True})
    before, counted, merged = (adding.recognised(1.0, 10, **change) for change in changes)
    assert counted.others < before.others - 0.3
    assert counted.rare < before.rare + 0.1 < merged.rare
    assert merged.others == pytest.approx(before.others, abs=0.05)
