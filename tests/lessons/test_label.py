"""Lists of labels, coins, contracts and units: the numbers of these lessons against closed forms."""

import math
from itertools import combinations

import numpy as np
import pytest

from dpcl_core.lessons import label
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
