"""Lists of labels: public, read, and learned, whose two-sided DP is computed exactly."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, binomtest

from dpcl_core import checks
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import LabelListDpEvent, Pld, list_budget, of_group, training_budget
from dpcl_core.privacy.labels import (
    ONE,
    LabelLists,
    chances,
    in_label_space,
    label_space,
    people_to_be_named,
    release_labels,
)
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.spec import Adjacency, Cell, PrivacySpec
from tests.support.tiers import quick

IN_DATA = ((1, 2), (1, 4, 5), (4, 6))
PRIOR = ((1, 2, 3), (3, 4), (4, 6))
PUBLIC = (1, 2, 3, 4, 6)
Lists = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("setting", "expected", "n_kept", "noise_only"),
    [
        ("data", IN_DATA, IN_DATA, ((), (), ())),
        ("prior", PRIOR, ((1, 2), (4,), (4, 6)), ((3,), (3,), ())),
        ("prior-const", (PUBLIC, PUBLIC, PUBLIC), ((1, 2), (1, 4), (4, 6)), ((3, 4, 6), (2, 3, 6), (1, 2, 3))),
    ],
)
def test_the_label_space_of_each_setting_with_the_labels_that_are_kept_and_those_of_noise_alone(
    setting: str, expected: Lists, n_kept: Lists, noise_only: Lists
) -> None:
    book = Ledger(1e-5, "add-remove", "once")
    for present, prior, wanted, survivors, empty in zip(IN_DATA, PRIOR, expected, n_kept, noise_only, strict=True):
        labels = np.array(present)
        space = label_space(setting, prior, PUBLIC, labels, [book], task=0)  # type: ignore[arg-type]
        assert space == wanted
        assert tuple(labels[in_label_space(labels, space)]) == survivors
        assert tuple(sorted(set(space) - set(survivors))) == empty


def test_public_settings_cost_nothing_and_do_not_look_at_the_data_and_others_leave_no_bound() -> None:
    data = [np.array(labels, dtype=np.int64) for labels in ([], [7], [0, 1])]
    for setting, seen in (("prior", {(0, 1)}), ("prior-const", {(0, 1, 2)}), ("data", {(), (7,), (0, 1)})):
        book = Ledger(1e-5, "add-remove", "once")
        assert {label_space(setting, (0, 1), (0, 1, 2), one, [book], task=0) for one in data} == seen  # type: ignore[arg-type]
        assert book.epsilon() == (math.inf if setting == "data" else 0.0)
        assert bool(book.entries) == (setting == "data")
    assert label_space("prior", (1, 2, 3), (2, 3, 9), np.array([1]), [book], task=0) == (2, 3)


# The learned list of labels: two-sided DP computed exactly, the law of real draws, and what the ledger makes of it.


DELTA = 1e-5
BUDGETS = [(0.1, 5e-6), (0.8, 1e-6), (1.0, 1e-2), (3.0, 0.2), (20.0, 1e-9)]


def exactly(epsilon: float, delta: float, largest: int = 50) -> list[Fraction]:
    return [Fraction(chance, ONE) for chance in chances(epsilon, delta, largest)]


def power_of_e(epsilon: float) -> Fraction:
    """e^epsilon from its series in rational numbers, cut off: a lower bound, wrong by less than 1e-40."""
    x, term, total = Fraction(epsilon), Fraction(1), Fraction(1)
    for k in range(1, 200):
        term = term * x / k
        total += term
    return total


def divergence(p: Sequence[Fraction], q: Sequence[Fraction], growth: Fraction) -> Fraction:
    """Smallest delta with p(S) <= growth q(S) + delta for every set S of outcomes."""
    return sum((max(Fraction(0), a - growth * b) for a, b in zip(p, q, strict=True)), Fraction(0))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_one_person_more_or_less_is_within_epsilon_and_delta_at_every_count(epsilon: float, delta: float) -> None:
    chance, growth = exactly(epsilon, delta), power_of_e(epsilon)
    for before, after in itertools.pairwise(chance):
        for p, q in ((before, after), (after, before)):
            assert divergence((p, 1 - p), (q, 1 - q), growth) <= Fraction(delta)
    assert chance[0] == 0
    assert chance == sorted(chance)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (3.0, 0.2)])
def test_one_label_exchanged_for_another_is_within_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """Two decisions at once, each with half of the budget: four outcomes, all pairs of counts."""
    chance, growth = exactly(epsilon / 2, delta / 2, 20), power_of_e(epsilon)
    whole = exactly(epsilon, delta, 20)
    worst_whole = Fraction(0)
    for left, right in itertools.product(range(1, 21), range(20)):
        for used in (chance, whole):
            pairs = [(used[left], used[right]), (used[left - 1], used[right + 1])]
            first, second = ([a * b, a * (1 - b), (1 - a) * b, (1 - a) * (1 - b)] for a, b in pairs)
            found = max(divergence(first, second, growth), divergence(second, first, growth))
            if used is chance:
                assert found <= Fraction(delta)
            worst_whole = max(worst_whole, found)
    assert worst_whole > Fraction(delta), "the whole budget for each decision would have broken the promise"


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_larger_chances_would_do(epsilon: float, delta: float) -> None:
    """Each chance reaches one of its two bounds to rounding: the mechanism is the most generous there is."""
    chance, growth = exactly(epsilon, delta), power_of_e(epsilon)
    for before, after in itertools.pairwise(chance):
        slack = min(growth * before + Fraction(delta) - after, growth * (1 - after) + Fraction(delta) - (1 - before))
        assert slack < Fraction(1, 10**9) or after == 1


def test_a_single_person_is_named_with_chance_delta_and_nobody_never() -> None:
    chance = chances(0.5, 1e-3, 3)
    assert (chance[0], chance[1]) == (0, int(1e-3 * ONE))
    assert chance[2] == pytest.approx((math.exp(0.5) + 1) * 1e-3 * ONE, rel=1e-9)


def names(labels: np.ndarray, epsilon: float, delta: float, adjacency: Adjacency = "add-remove") -> tuple[int, ...]:
    return release_labels(labels, epsilon, delta, ReleaseNoise(), Ledger(DELTA, adjacency, "once"), task=0, people_of=(0,))


def test_real_draws_follow_the_chances() -> None:
    """2000 lists of five labels; each count of namings lies in its binomial band (false alarm 1e-7 over all)."""
    counts, n = [1, 3, 6, 9, 40], 2000
    labels = np.repeat(np.arange(10, 15), counts)
    found = np.zeros(len(counts))
    for _ in range(n):
        found[np.array(names(labels, 0.7, 0.02), dtype=np.int64) - 10] += 1
    chance = exactly(0.7, 0.02, 40)
    for hits, count in zip(found, counts, strict=True):
        low, high = binom.interval(1 - 2e-8, n, float(chance[count]))
        assert low <= hits <= high, (count, hits)
    assert found[-1] == n, "forty people are enough"


def test_single_people_are_almost_never_named() -> None:
    """100,000 people, each with a label of his own: more than 40 of them named has chance 3e-15 if each has delta."""
    assert binom.sf(40, 100_000, 1e-4 / 10) < 1e-13
    assert len(names(np.arange(100_000), 1.0, 1e-5)) <= 40
    assert binomtest(len(names(np.arange(100_000), 1.0, 1e-2)), 100_000, 1e-2).pvalue > 1e-8, "and it is delta, no less"


def test_replacing_is_given_half_of_the_budget_a_label() -> None:
    labels, n = np.zeros(8, dtype=np.int64), 2000
    hits = sum(bool(names(labels, 1.0, 0.01, "replace")) for _ in range(n))
    assert binomtest(hits, n, float(exactly(0.5, 0.005, 8)[8])).pvalue > 1e-7
    assert binomtest(hits, n, float(exactly(1.0, 0.01, 8)[8])).pvalue < 1e-7


def test_the_entry_is_written_and_costs_what_was_asked_for() -> None:
    for adjacency in ("add-remove", "replace"):
        book = Ledger(DELTA, adjacency, "once")  # type: ignore[arg-type]
        release_labels(np.array([3, 3]), 0.5, DELTA / 2, ReleaseNoise(), book, task=2, people_of=(1, 2))
        assert [(entry.task, entry.people_of) for entry in book.entries] == [(2, (1, 2))]
        assert book.epsilon() <= 0.5 + 1e-3
        at_its_own_delta = Pld().epsilon([book.entries[0].event], DELTA / 2 * (1 + 1e-9), adjacency)  # type: ignore[arg-type]
        assert at_its_own_delta == pytest.approx(0.5, abs=2e-3), "no less either: this is what the noise was made for"
        assert Pld().epsilon([book.entries[0].event], DELTA / 3, adjacency) == math.inf  # type: ignore[arg-type]


def randomised_response(epsilon: float, delta: float, target: float, n: int) -> float:
    """Epsilon of n (epsilon, delta) mechanisms at delta `target`, by the optimal composition of Kairouz et al. 2015."""

    def needed(wanted: float) -> float:
        total = 0.0
        for k in range(n + 1):
            loss, p = (n - 2 * k) * epsilon, math.comb(n, k) * math.exp((n - k) * epsilon) / (1 + math.exp(epsilon)) ** n
            total += max(0.0, p * -math.expm1(wanted - loss))
        return 1 - (1 - delta) ** n * (1 - total)

    return float(brentq(lambda wanted: needed(wanted) - target, 0.0, n * epsilon, xtol=1e-13))


@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.4), (3, 0.25), (10, 0.2)])
def test_several_lists_compose_as_the_closed_form_says(n: int, epsilon: float) -> None:
    events = [LabelListDpEvent(epsilon, DELTA / 100)] * n
    exact = randomised_response(epsilon, DELTA / 100, DELTA, n)
    assert exact - 1e-9 <= Pld().epsilon(events, DELTA, "add-remove") == pytest.approx(exact, abs=1e-3 * n)
    twice = randomised_response(epsilon, DELTA / 100, DELTA, 2 * n)
    assert Pld().epsilon(events, DELTA, "replace") == pytest.approx(twice, abs=2e-3 * n)


def both(epsilon: float, delta: float, sigma: float, target: float) -> float:
    """Epsilon of one list and one Gaussian at delta `target`: the Gaussian's delta averaged over the list's two losses."""

    def needed(wanted: float) -> float:
        share = 1 / (1 + math.exp(-epsilon))
        gauss = share * _delta(wanted - epsilon, sigma) + (1 - share) * _delta(wanted + epsilon, sigma)
        return delta + (1 - delta) * gauss

    end = epsilon + gaussian.epsilon(sigma, target) + 5
    return float(brentq(lambda wanted: needed(wanted) - target, 0.0, end, xtol=1e-13))


def _delta(epsilon: float, sigma: float) -> float:
    """Delta of the Gaussian, at negative epsilon as well: delta(-e) = 1 - e^-e + e^-e delta(e)."""
    if epsilon >= 0:
        return gaussian.delta(epsilon, sigma)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian.delta(-epsilon, sigma)


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 4.3), (0.8, 0.67), (0.01, 36.0)])
def test_a_list_and_a_gaussian_compose_as_the_closed_form_says(epsilon: float, sigma: float) -> None:
    exact = both(epsilon, DELTA / 20, sigma, DELTA)
    found = Pld().epsilon([LabelListDpEvent(epsilon, DELTA / 20), dp.GaussianDpEvent(sigma)], DELTA, "add-remove")
    assert exact - 1e-9 <= found <= exact + 1.5e-3
    assert found < epsilon + gaussian.epsilon(sigma, DELTA - DELTA / 20), "tighter than adding up"


@pytest.mark.parametrize("size", [2, 5])
def test_several_records_of_one_person_are_within_the_event_of_the_group(size: int) -> None:
    """Exactly, for `size` people more of one label; spread over labels the moves are `size` events of one."""
    epsilon, delta = 0.4, 1e-4
    group = of_group(LabelListDpEvent(epsilon, delta), size)
    chance = exactly(epsilon, delta, 60)
    growth = power_of_e(epsilon) ** size
    worst = max(divergence((q, 1 - q), (p, 1 - p), growth) for p, q in zip(chance, chance[size:], strict=False))
    assert 0.9 * group.delta < worst <= group.delta * (1 + 1e-9)
    spread = Pld().epsilon([LabelListDpEvent(epsilon, delta)] * size, group.delta, "add-remove")
    assert spread <= Pld().epsilon([group], group.delta * (1 + 1e-9), "add-remove") + 1e-2
    assert isinstance(of_group(LabelListDpEvent(5.0, 0.1), 10), dp.NonPrivateDpEvent)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", quick(2, [1e-3, 50.0, 0.1, 1.0, 8.0]))
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_list_and_weights_stay_within_what_was_asked_for(adjacency: Adjacency, epsilon: float, share: float) -> None:
    privacy, n_tasks = PrivacySpec(epsilons=(epsilon,), adjacency=adjacency, label_share=share), 4
    left, delta = training_budget(privacy, "dp-learned", epsilon)
    spent, list_delta = list_budget(privacy, epsilon, 4)
    sigma = gaussian.sigma(left, delta, gaussian.SENSITIVITY[adjacency])
    for recurrence in ("once", "every"):
        book = Ledger(privacy.delta, adjacency, recurrence)  # type: ignore[arg-type]
        for task in range(n_tasks):
            release_labels(np.zeros(3, np.int64), spent, list_delta, ReleaseNoise(), book, task=task, people_of=(task,))
            book.spend(dp.GaussianDpEvent(sigma), task=task, what="sums")
        assert max(book.by_task().values()) <= epsilon
        assert math.isfinite(book.if_in_every_task())
    assert training_budget(privacy, "prior", epsilon) == (epsilon, privacy.delta)


@pytest.mark.parametrize("recurrence", ["once", "every"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 60.0])
def test_lists_read_again_with_every_task_leave_half_of_delta_to_the_training(recurrence: str, epsilon: float) -> None:
    """Of a person in each of twenty tasks the k-th list reads k rows: with the share of one row, three lists took it all."""
    n_tasks, labels = 20, np.zeros(5000, np.int64)
    privacy = PrivacySpec(epsilons=(epsilon,), delta=DELTA, noise="seeded")
    spec = checks.parse({"method": "non-cl", "labels": "dp-learned", "privacy": asdict(privacy), "seeds": [0]})
    (cell,) = spec.cells()
    maker, book = LabelLists(spec, (), n_tasks), Ledger(DELTA, "add-remove", recurrence)  # type: ignore[arg-type]
    for task in range(n_tasks):
        maker.released([cell], (), labels, {cell: book}, tasks=tuple(range(task + 1)))
    spent = [of_group(entry.event, task + 1 if recurrence == "every" else 1) for task, entry in enumerate(book.entries)]
    assert all(isinstance(event, LabelListDpEvent) for event in spent)
    assert sum(event.delta for event in spent) == pytest.approx(DELTA / 2)  # exactly, but for rounding
    assert book.epsilon() < math.inf


def lists(epsilons: tuple[float, ...], labels: np.ndarray, noise: str = "release") -> tuple[LabelLists, dict[Cell, Ledger]]:
    privacy = PrivacySpec(epsilons=epsilons, delta=DELTA, noise=noise)  # type: ignore[arg-type]
    spec = checks.parse({"labels": "dp-learned", "privacy": asdict(privacy), "seeds": [0]})
    return LabelLists(spec, (), n_tasks=1), {cell: Ledger(DELTA, "add-remove", "once") for cell in spec.cells()}


def test_every_budget_learns_its_own_list_and_without_noise_it_is_read() -> None:
    labels = np.repeat(np.arange(200), 105)  # each is named with chance 0.86: all of them with chance 1e-13
    maker, books = lists((1.0, 2.0, math.inf), labels)
    cells = list(books)
    one, two, read = maker.released(cells, (), labels, books, tasks=(0,))
    assert read == tuple(range(200))
    assert 0 < len(one) < 200, "105 people are not enough to be sure at a tenth of epsilon 1"
    assert set(one) != set(two)
    assert [book.epsilon() for book in books.values()][2] == math.inf
    assert books[cells[0]].epsilon() <= 0.101
    seeded = [lists((1.0, 2.0), labels, "seeded") for _ in range(2)]
    first, second = (maker.released(list(books), (), labels, books, tasks=(0,)) for maker, books in seeded)
    assert first == second


def test_the_list_does_not_tell_on_a_person_with_a_new_label() -> None:
    """The leak of lists read from the data, on the same neighbours: the new label is named with chance delta at most."""
    labels = np.repeat(np.arange(3), 400)
    assert {tuple(names(np.append(labels, extra), 1.0, 1e-9)) for extra in ([], [7]) for _ in range(200)} == {(0, 1, 2)}


def test_people_to_be_named_is_where_the_chance_reaches_a_half() -> None:
    privacy = PrivacySpec(epsilons=(1.0,), delta=DELTA)
    needed = people_to_be_named(privacy, 1.0, 5, 1000)
    chance = exactly(*list_budget(privacy, 1.0, 5), 1000)
    assert chance[needed - 1] < Fraction(1, 2) <= chance[needed]
    assert people_to_be_named(privacy, 1.0, 5, needed - 1) is None
    assert people_to_be_named(privacy, math.inf, 5, 1) == 1


def test_words_are_uniform_and_seeded_ones_repeat() -> None:
    for noise in (ReleaseNoise(), SeededNoise(Cell(1.0, 0), "labels")):
        words = noise.words(20_000)
        assert words.dtype == np.uint64
        assert abs(float((words < 2**62).mean()) - 0.25) < 6 * math.sqrt(0.25 * 0.75 / 20_000)
        assert not np.array_equal(words, noise.words(20_000))
    assert np.array_equal(*(SeededNoise(Cell(1.0, 0), "labels").words(9) for _ in range(2)))
