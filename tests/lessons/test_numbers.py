"""Lists of labels, coins, sums, last digits, forgetting, a small network: lessons' numbers against closed forms."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcl_core.lessons import adding, label, network
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.features.cosine import CosineClassifier
from dpcl_core.privacy import accounting, gaussian, statement
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell
from tests.lessons import reference
from tests.support.tiers import quick

DELTA = label.DELTA


def test_neighbours_differ_by_one_record_with_a_new_label(told: label.Neighbours) -> None:
    (features_out, labels_out), (features_in, labels_in) = (told.data(is_in) for is_in in (False, True))
    assert len(labels_in) == len(labels_out) + 1
    assert np.array_equal(features_in[:-1], features_out)
    assert labels_in[-1] == 9
    assert set(labels_out.tolist()) == set(range(9))
    assert (label.neighbours(n_others=4).labels == 9).sum() == 4


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_list_from_the_data_tells_always_and_proves_too_much(told: label.Neighbours, epsilon: float) -> None:
    played = reference.play(told, "data", epsilon, 2000)
    assert (played.hits, played.false_alarms) == (2000, 0)
    assert not reference.is_held(played, gaussian.sigma(epsilon, DELTA))
    assert played.proven(DELTA) >= 6.29


@pytest.mark.parametrize("epsilon", quick(1, [0.5, 1.0, 4.0, 8.0]))
def test_attack_exact_promise(told: label.Neighbours, epsilon: float) -> None:
    """The best attack on the public list: on the exact curve up to chance (false alarm 2e-6), which is under the promise."""
    sigma = gaussian.sigma(epsilon, DELTA)
    played = reference.play(told, "prior-const", epsilon, 5000)
    assert reference.is_held(played, sigma)
    assert played.proven(DELTA) < epsilon, "with 95 % confidence, and the attack would have to be far stronger"
    best = statement.gaussian_odds_bound(sigma)
    assert best <= statement.odds_bound(epsilon, DELTA)
    # Two-sided, so that an attack which is too weak is noticed too: five standard errors, 6e-7.
    assert abs(played.share_right - best) < 5 * math.sqrt(best * (1 - best) / 10_000)
    alarms, hits = reference.curve(played)
    reached = hits[np.searchsorted(alarms, 0.1)]
    assert reached > reference.exact_hits(np.array([0.1]), sigma)[0] - 2 * reference.allowance(5000)


def test_the_evidence_is_the_likelihood_ratio_of_the_whole_release() -> None:
    """Written out over every number released, for a label that others have too."""
    told = label.neighbours(n_others=3)
    epsilon, std = 2.0, gaussian.sigma(2.0, DELTA)
    seen = reference.release(told, True, "prior-const", epsilon, 5)
    means = []
    for is_in in (True, False):
        features, labels = told.data(is_in)
        means.append(np.stack([unit_rows(features[labels == label]).sum(axis=0) for label in range(10)]))
    plain = [(((one - means[1]) ** 2).sum() - ((one - means[0]) ** 2).sum()) / (2 * std**2) for one in seen.sums]
    assert reference.evidence(told, seen, "prior-const", epsilon) == pytest.approx(plain)


def test_every_release_has_noise_of_its_own(told: label.Neighbours) -> None:
    first, second = (reference.release(told, False, "prior-const", 1.0, 3).sums for _ in range(2))
    stacked = np.concatenate([first, second]).reshape(6, -1)
    assert len(np.unique(stacked, axis=0)) == 6
    apart = (stacked[:3] - stacked[3:]) / (gaussian.sigma(1.0, DELTA) * math.sqrt(2))
    assert apart.std() == pytest.approx(1, abs=5 / math.sqrt(2 * apart.size))


@pytest.mark.parametrize("listing", ["data", "prior-const"])
@pytest.mark.parametrize("has_person", [False, True])
def test_the_lesson_releases_what_the_learner_does(told: label.Neighbours, listing: label.Listing, has_person: bool) -> None:
    """The classifier itself on the same data: it scores exactly the labels on the lesson's list, and spends the same."""
    features, labels = told.data(has_person)
    cell, book, train = Cell(1.0, 0), Ledger(DELTA, "add-remove", "once"), Examples(features, labels)
    known = PublicContext(n_inputs=64, n_classes=10, public=tuple(range(10)), n_people=len(labels), n_tasks=1)
    learner = CosineClassifier(reference.asked(listing, 1, (1.0,), (0,)), [cell], known)
    list(learner.learn({0: Task(0, "task 1", train, train, tuple(range(10)))}, {cell: book}))
    scored = np.isfinite(learner.cosines(0, features[:1])[0, 0])
    seen = reference.release(told, has_person, listing, 1.0)
    assert tuple(np.flatnonzero(scored)) == seen.labels
    assert [entry.event for entry in seen.ledger.entries] == [entry.event for entry in book.entries]


def test_doors_tell_under_the_list_from_the_data_alone(told: label.Neighbours) -> None:
    data, public = (label.doors(told, listing, 1.0) for listing in ("data", "prior-const"))
    assert not any(without != with_person for _, without, with_person in public)
    outputs, file, legend, work = (door[1:] for door in data)
    assert (outputs, work) == (("9", "10"), ("576", "640")), "9 and 10 sums of 64 numbers"
    less, more = (int(size.split()[0].replace(",", "")) for size in file)
    assert more - less == 64 * 8
    assert legend[1] == f"{legend[0]} 9"


# The coin's answers follow their closed forms, and clipping trades what it cuts off against noise.


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_answers_are_kept_as_often_as_epsilon_says(epsilon: float) -> None:
    """Five standard errors of 200,000 answers: 6e-7."""
    truth = np.arange(200_000, dtype=np.int64) % 2
    kept = (label.answers(truth, epsilon) == truth).mean()
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert label.keeps(epsilon) == pytest.approx(p, rel=1e-11)
    assert label.keeps(epsilon) == pytest.approx(statement.odds_bound(epsilon, 0.0), rel=1e-11)
    assert kept == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / len(truth)))
    before, after = (share / (1 - share) for share in (label.SHARE, label.posterior(epsilon)))
    assert after / before == pytest.approx(math.exp(epsilon)), "a yes is more likely true by the odds"


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_crowds_estimate_is_unbiased_with_the_error_that_is_shown(epsilon: float) -> None:
    """400 surveys: five standard errors of their mean; of their spread, 5 / sqrt(2 x 400) = 18 %."""
    truth = label.truths(2000)
    estimates = np.array([label.estimate(label.answers(truth, epsilon), epsilon) for _ in range(400)])
    std = label.estimate_std(2000, epsilon)
    assert estimates.mean() == pytest.approx(label.SHARE, abs=5 * std / 20)
    assert estimates.std() == pytest.approx(std, rel=0.18)
    p = label.keeps(epsilon)
    assert std == pytest.approx(math.sqrt(p * (1 - p) / 2000) / (2 * p - 1))
    assert label.clerk_std(2000, epsilon) * 2000 == pytest.approx(math.sqrt(2) / epsilon), "once, it is Laplace noise"


def test_clipping_trades_what_is_above_it_for_noise_and_only_who_is_larger_breaks_the_promise() -> None:
    for epsilon in (0.25, 1.0, 4.0):
        usual, largest, hers = (label.attack_rates(income, epsilon) for income in (3000, label.LARGEST, 1e6))
        assert usual < largest < statement.odds_bound(epsilon, label.DELTA) < hers
    lost, noise = label.lost_and_noise(5000, 1.0)
    assert lost == pytest.approx(sum(max(0.0, one - 5000) for one in label.incomes().tolist()))
    assert noise == pytest.approx(5000 * gaussian.sigma(1.0, label.DELTA))
    assert label.lost_and_noise(label.LARGEST, 1.0)[0] == 0, "no income is larger"


# Small print in closed form, the exception that delta allows, and the best of many as order statistics have it.


def test_the_same_claim_needs_more_noise_for_a_smaller_delta_and_twice_as_much_if_people_are_replaced() -> None:
    noises = [label.noise_of(3.0, delta, "add-remove") for delta in label.DELTAS]
    assert noises == sorted(noises)
    for delta, one in zip(label.DELTAS, noises, strict=True):
        assert label.noise_of(3.0, delta, "replace") == pytest.approx(2 * one)
    assert label.under(label.noise_of(3.0, label.DELTA, "replace"), "replace") == pytest.approx(3, rel=1e-5)


def test_the_program_prints_as_many_people_as_delta_allows() -> None:
    """Five standard errors of 200 runs of 1,000 people at 1 %: 1.1 people a run."""
    counts = [len(label.printed_now(0.01)) for _ in range(200)]
    assert np.mean(counts) == pytest.approx(label.expected_prints(0.01), abs=5 * math.sqrt(10 / 200))
    assert label.expected_prints(0.01) == 10


def test_the_best_of_n_is_the_mean_over_all_ways_to_draw_them_and_luck_flatters_more_under_more_noise() -> None:
    values = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    for n in (1, 2, 3, 5):
        assert label.best_of(values, n) == pytest.approx(np.mean([max(some) for some in combinations(values, n)]))
    gifts = [label.best_of(label.scores(e), 20) - label.scores(e).mean() for e in (0.25, 1.0, 4.0)]
    assert gifts[0] > gifts[1] > gifts[2] > 0


# A promise for one unit, translated into one for a person: closed forms, and no trick that adds people.


@pytest.mark.parametrize("k", [1, 5, 20])
def test_a_person_with_k_examples_is_the_accountants_group(k: int) -> None:
    """The accountant rounds up, by its grid of 1e-3 at most."""
    sigma = gaussian.sigma(1.0, label.DELTA)
    event = accounting.of_group(accounting.dp.GaussianDpEvent(sigma), k)
    counted = accounting.Pld().epsilon([event], label.DELTA, "add-remove")
    assert label.of_person(1.0, k) == pytest.approx(counted, rel=2e-3)
    epsilon, delta = label.by_groups(1.0, k)
    assert gaussian.delta(epsilon, sigma, k) <= delta * (1 + 1e-9)
    assert delta > label.DELTA if k > 1 else delta == pytest.approx(label.DELTA)


def test_a_text_is_never_more_than_the_sum_of_its_words_and_the_smallest_number_is_the_weakest_promise() -> None:
    assert label.of_text(1.0, 1) == pytest.approx(1.0, rel=1e-3)
    assert label.of_text(1.0, 400) < 0.8 * 400
    assert all(label.of_text(0.5, n) <= 0.5 * n for n in (2, 10, 40))
    words, mails = label.of_text(1.0, label.N_WORDS * label.N_MAILS), label.of_person(2.0, label.N_MAILS)
    assert math.inf > words > mails > 8
    assert label.noise_on_mean(1.0, 20) / label.noise_on_mean(1.0, 10_000) == pytest.approx(500)


def test_averaging_first_is_worth_as_much_as_wider_noise() -> None:
    """With k photos a person both have 1 / k of the signal to the noise; they differ by the last, smaller group alone."""
    found = label.accuracies(2.0, 5)
    assert found["group"] == pytest.approx(found["clipped"], abs=0.03)
    assert found["example"] > found["group"] + 0.1
    alone = label.accuracies(2.0, 1)
    assert alone["example"] == alone["group"] == pytest.approx(alone["clipped"])


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
        assert best <= statement.odds_bound(adding.total(1.0, n), adding.DELTA)


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


def test_each_gradient_is_that_of_its_own_loss_in_a_batch_as_alone() -> None:
    x, labels = network.digits(3)
    weights, step = network.untrained(), 1e-5
    rows = network.gradients(weights, x, labels)
    assert rows.shape == (3, network.N_WEIGHTS)
    for place in range(0, network.N_WEIGHTS, 7):
        shift = step * (np.arange(network.N_WEIGHTS) == place)
        slope = (network.losses(weights + shift, x, labels) - network.losses(weights - shift, x, labels)) / (2 * step)
        assert rows[:, place] == pytest.approx(slope, abs=1e-8)
    alone = [network.gradients(weights, x[n : n + 1], labels[n : n + 1])[0] for n in range(3)]
    assert rows == pytest.approx(np.stack(alone), abs=1e-12)


@pytest.mark.parametrize("clip", [0.01, 1.0, 5.0])
def test_one_person_moves_the_sum_by_at_most_the_clipping_norm(clip: float) -> None:
    rows = network.early_gradients(64)
    rows[0] *= 1e6
    without, total = network.clipped(rows[1:], clip).sum(axis=0), network.clipped(rows, clip).sum(axis=0)
    assert np.linalg.norm(total - without) == pytest.approx(clip, rel=1e-9)
    kept = network.lengths(rows) <= clip
    assert (network.clipped(rows, clip)[kept] == rows[kept]).all(), "shorter ones stay as they are"
    assert not network.clipped(np.zeros((1, 3)), clip).any()


def test_noise_is_charged_for_the_steps_that_are_taken() -> None:
    steps = accounting.subsampled_gaussian(network.sigma(1.0, 1347), network.BATCH / 1347, network.N_STEPS)
    assert accounting.delta(steps, 1.0, "add-remove") == pytest.approx(network.DELTA, rel=0.01)


def test_the_network_learns_and_knows_its_own_digits() -> None:
    """Trained from fixed seeds, so that a threshold far from the measured number holds on every processor."""
    assert network.accuracy(network.plain(1347)) > 0.93
    inside, outside = network.members(network.plain(40), 40)
    assert (len(inside), len(outside)) == (40, 40)
    assert outside.mean() > 10 * inside.mean()
    few, many = (network.pairs_right(*network.members(network.plain(n), n)) for n in (40, 640))
    assert few > 0.85
    assert 0.5 < many < few - 0.1


def test_a_guesser_of_pairs_counts_every_pair() -> None:
    inside, outside = np.array([0.1, 0.3]), np.array([0.2, 0.4, 0.3])
    right = [(1.0 if one < two else 0.5 if one == two else 0.0) for one in inside for two in outside]
    assert network.pairs_right(inside, outside) == pytest.approx(np.mean(right))


@pytest.mark.parametrize("clip", [math.inf, 1.0, 1e-3])
def test_a_gradient_of_one_picture_is_the_picture(clip: float) -> None:
    x, labels = network.digits(20)
    for row, picture in zip(network.clipped(network.gradients(network.untrained(), x, labels), clip), x, strict=True):
        assert network.seen(row) == pytest.approx(picture, abs=1e-10)
        assert network.seen_by_units(row) == pytest.approx(np.tile(picture, (network.HIDDEN, 1)), abs=1e-8)


def test_a_batch_gives_the_mean_weighted_by_the_errors_of_the_unit() -> None:
    x, labels = network.digits(6)
    rows = network.gradients(network.untrained(), x, labels)
    biases = rows[:, network.HIDDEN * network.N_PIXELS :][:, : network.HIDDEN]
    mixed = (biases.T @ x) / biases.sum(axis=0)[:, None]
    assert network.seen_by_units(rows.mean(axis=0)) == pytest.approx(mixed, abs=1e-9)


def test_belief_in_a_secret_is_bounded_by_bayes() -> None:
    """The worst release reaches the bound: one secret e^ε times as likely as every other."""
    for epsilon in (0.1, 1.0, 10.0):
        assert network.named(epsilon, 2) == pytest.approx(statement.odds_bound(epsilon, 0.0))
        likelihoods = np.array([math.exp(epsilon), *np.ones(99)])
        assert network.named(epsilon, 100) == pytest.approx((likelihoods / likelihoods.sum())[0])
    assert network.named(0.0, 10) == pytest.approx(0.1)


def test_the_noise_of_dp_sgd_is_fresh_and_as_wide_as_charged() -> None:
    """One step on a network where all gradients are clipped to 1: what moves is the noise, 610 numbers at a time."""
    x, labels = network.digits(64)
    sigma = 1000.0
    first, second = (network.trained(x, labels, sigma, n_steps=1) for _ in range(2))
    moved = np.concatenate([first - network.untrained(), second - network.untrained()]) * 64 / network.RATE
    assert not np.array_equal(first, second)
    assert moved.std() == pytest.approx(sigma * network.CLIP, rel=0.15)  # 1,220 numbers: a standard error of 2 %
