"""The ledger: parallel where people are in one task, sequential where they may be in all; alone and with other models."""

import math
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, norm

from dpcl_core.privacy import accounting, gaussian, labels, noise, statement
from dpcl_core.privacy.accounting import LabelListDpEvent, Pld, SampledGroupDpEvent, Unaccountable, subsampled_gaussian
from dpcl_core.privacy.ledger import (
    HEAD,
    RARE,
    REPLAY,
    Ledger,
    TradeOff,
    best_attack,
    best_attack_on,
    joint_release,
    joint_training,
)
from dpcl_core.privacy.mechanisms import noisy_class_sums
from dpcl_core.spec import Adjacency, Cell
from tests.support.planned import charged

DELTA = 1e-5
SIGMA = gaussian.sigma(1.0, DELTA)
RELEASE = dp.GaussianDpEvent(SIGMA)


def exact(*sigmas: float) -> float:
    """Gaussian releases compose to one: 1 / sigma squared adds up."""
    return gaussian.epsilon(sum(sigma**-2 for sigma in sigmas) ** -0.5, DELTA)


Spent = list[tuple[float, int, tuple[int, ...] | None]]  # noise, task, and the people that are read if not the task's
LOUD, EACH = gaussian.sigma(4.0, DELTA), (SIGMA,)
COMPOSED: dict[str, tuple[str, Spent, dict[str, tuple[float, ...]]]] = {
    "nothing": ("once", [], {}),
    "disjoint people in parallel": (
        "once", [(SIGMA, task, None) for task in range(10)], {str(task + 1): EACH for task in range(10)}
    ),
    "recurring people in sequence": ("every", [(SIGMA, task, None) for task in range(10)], {"everyone": EACH * 10}),
    "the worst task counts": ("once", [(SIGMA, 0, None), (LOUD, 1, None)], {"1": EACH, "2": (LOUD,)}),
    "one task twice": ("once", [(SIGMA, 0, None), (SIGMA, 1, None), (SIGMA, 0, None)], {"1": EACH * 2, "2": EACH}),
    "trained anew on everything": (
        "once", [(SIGMA, task, tuple(range(task + 1))) for task in range(3)], {"1": EACH * 3, "2": EACH * 2, "3": EACH}
    ),
    "a replay, paid for by those it reads": (
        "once", [(SIGMA, 0, None), (SIGMA, 1, None), (SIGMA, 1, (0,))], {"1": EACH * 2, "2": EACH}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSED)
def test_each_group_of_people_pays_for_what_reads_it_and_the_worst_off_count(name: str) -> None:
    recurrence, spent, people = COMPOSED[name]
    ledger = Ledger(DELTA, "add-remove", recurrence)  # type: ignore[arg-type]
    for sigma, task, people_of in spent:
        ledger.spend(dp.GaussianDpEvent(sigma), task=task, what="sums", people_of=people_of)
    expected = {f"people of task {n}" if n.isdigit() else n: exact(*sigmas) for n, sigmas in people.items()}
    assert ledger.by_people() == pytest.approx(expected, rel=2e-5)
    assert ledger.epsilon() == pytest.approx(max(expected.values(), default=0.0), rel=2e-5)
    if "replay" in name or "twice" in name:
        assert ledger.by_task() == pytest.approx({0: exact(*people["1"]) if "twice" in name else 1.0, 1: 1.0}, rel=2e-5)


def test_a_person_in_every_task_pays_for_all_whatever_is_assumed() -> None:
    once, every = (charged(*[RELEASE] * 10, recurrence=recurrence) for recurrence in ("once", "every"))
    assert once.if_in_every_task() == every.epsilon() == pytest.approx(3.618592, rel=1e-5)


def test_one_clean_step_leaves_no_bound() -> None:
    assert charged(*[RELEASE] * 3, dp.NonPrivateDpEvent()).epsilon() == math.inf


def test_a_person_with_an_example_in_every_task_shifts_a_common_sum_by_all_of_them() -> None:
    """Releases with 1, 2 and 3 of one's examples: sensitivities 1, 2, 3, so mu² = (1 + 4 + 9) / sigma²."""
    ledger = Ledger(DELTA, "add-remove", "once")
    for task in range(3):
        ledger.spend(dp.GaussianDpEvent(SIGMA), task=task, what="all so far", people_of=tuple(range(task + 1)))
    assert ledger.if_in_every_task() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(14), DELTA), rel=1e-4)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Delta between two densities, the larger of both directions, but for the size of a cell."""
    return float(max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))))


@pytest.mark.slow
def test_several_examples_in_sampled_batches_cost_what_their_mixture_of_gaussians_costs() -> None:
    """How many are in a batch is binomial. Written out here for two steps, both hockey sticks integrated numerically."""
    sigma, rate, size = 1.5, 0.3, 3
    ledger = charged(subsampled_gaussian(sigma, rate, 2), task=2, people_of=(0, 1, 2), delta=1e-3)
    grid = np.linspace(-9, 13, 2401)
    density = norm.pdf(grid, scale=sigma)
    shifted = sum(binom.pmf(k, size, rate) * norm.pdf(grid, loc=k, scale=sigma) for k in range(size + 1))
    without, with_person = np.outer(density, density), np.outer(shifted, shifted)
    cell, found = (grid[1] - grid[0]) ** 2, ledger.if_in_every_task()
    more, less = (cell * hockey_stick(with_person, without, factor * found) for factor in (0.995, 1.005))
    assert less < 1e-3 < more
    assert ledger.epsilon() < found


@pytest.mark.slow
def test_examples_in_one_batch_at_chances_of_their_own_cost_what_their_mixture_costs() -> None:
    """One step, a batch with one example at chance 0.1 and one at 0.4: shifts 0, 1 and 2, both hockey sticks integrated."""
    sigma, rates = 1.5, (0.4, 0.1)
    ledger = charged(dp.SelfComposedDpEvent(SampledGroupDpEvent(sigma, rates), 1), task=1, people_of=(0, 1), delta=1e-3)
    grid = np.linspace(-12, 14, 200_001)
    chances = (0.6 * 0.9, 0.6 * 0.1 + 0.4 * 0.9, 0.4 * 0.1)
    without = norm.pdf(grid, scale=sigma)
    with_person = sum(chance * norm.pdf(grid, loc=shift, scale=sigma) for shift, chance in enumerate(chances))
    cell, found = grid[1] - grid[0], ledger.if_in_every_task()
    more, less = (cell * hockey_stick(with_person, without, factor * found) for factor in (0.998, 1.002))
    assert less < 1e-3 < more
    steps = [subsampled_gaussian(sigma, rate, 1) for rate in rates]
    alone = [Pld().epsilon([step], 1e-3, "add-remove") for step in steps]
    assert ledger.by_people() == {"people of task 1": alone[0], "people of task 2": alone[1]}
    assert ledger.by_task() == {1: alone[1]}
    assert found > Pld().epsilon(steps, 1e-3, "add-remove")  # one noise for both examples, not one for each


def test_an_example_that_is_in_every_batch_has_a_chance_of_one() -> None:
    ledger = charged(dp.SelfComposedDpEvent(SampledGroupDpEvent(SIGMA, (1.0, 1.0)), 3), task=1, people_of=(0, 1))
    assert ledger.epsilon() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(3), DELTA), rel=1e-4)
    assert ledger.if_in_every_task() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(12), DELTA), rel=1e-4)


def test_under_replace_several_examples_in_sampled_batches_are_bounded_from_above() -> None:
    steps = subsampled_gaussian(4.0, 0.1, 20)
    added, replaced = (charged(steps, task=1, people_of=(0, 1), adjacency=one) for one in ("add-remove", "replace"))
    assert replaced.if_in_every_task() > 2 * added.if_in_every_task()


def test_two_ways_out_compose_and_do_not_add_up() -> None:
    """The table of section 9.7: four releases at 3.99 and 200 sampled rounds at 5.56 cost 4, not 2 and 3.28 added."""
    ledger = Ledger(DELTA, "add-remove", "every")
    for task in range(4):
        release, rounds = dp.GaussianDpEvent(3.99), subsampled_gaussian(5.56, 0.3, 50)
        ledger.spend(release, task=task, what="replay", channels={REPLAY: release})
        ledger.spend(rounds, task=task, what="head", channels={HEAD: rounds})
    parts = ledger.by_channel()
    assert parts[REPLAY] == pytest.approx(2.0, rel=0.01)
    assert ledger.epsilon() == pytest.approx(4.0, rel=0.01)
    assert max(parts.values()) <= ledger.epsilon() < sum(parts.values()) - 1


def test_ways_that_share_a_sample_of_people_are_one_event_and_each_has_its_own_number() -> None:
    each, both = subsampled_gaussian(6.66, 0.3, 200), subsampled_gaussian(6.66 / math.sqrt(2), 0.3, 200)
    ledger = charged(both, channels={REPLAY: each, HEAD: each}, recurrence="every")
    assert ledger.epsilon() == pytest.approx(4.0, rel=0.01)
    assert ledger.by_channel() == {REPLAY: Pld().epsilon([each], DELTA, "add-remove"), HEAD: ledger.by_channel()[REPLAY]}


def test_one_clean_way_out_leaves_the_other_its_number_and_the_total_none() -> None:
    ledger = Ledger(DELTA, "add-remove", "every")
    ledger.spend(dp.GaussianDpEvent(SIGMA), task=0, what="replay", channels={REPLAY: dp.GaussianDpEvent(SIGMA)})
    ledger.spend(dp.NonPrivateDpEvent(), task=0, what="head", channels={HEAD: dp.NonPrivateDpEvent()})
    assert ledger.by_channel() == {REPLAY: pytest.approx(1.0, rel=2e-5), HEAD: math.inf}
    assert ledger.epsilon() == math.inf


def test_each_way_out_composes_as_the_ledger_does() -> None:
    """Disjoint people: the worst task counts, for each way alone as for all."""
    assert charged(*[RELEASE] * 3, channels={REPLAY: RELEASE}).by_channel() == {REPLAY: pytest.approx(1.0, rel=2e-5)}
    assert charged(*[RELEASE] * 3, recurrence="every").by_channel() == {}, "one way out is not told apart"


# Closed-form composition against the accountant, and noise growth against the mechanism's own draws.


@pytest.mark.parametrize("epsilons", [[1.0], [1.0] * 10, [0.5, 2.0, 1.0], [8.0] * 10])
def test_totals_equal_the_accountant(epsilons: list[float]) -> None:
    events = [dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA)) for epsilon in epsilons]
    totals = accounting.in_every_task(epsilons, DELTA)
    for k in range(1, len(events) + 1):
        assert totals[k - 1] == pytest.approx(Pld().epsilon(events[:k], DELTA, "add-remove"), rel=2e-4)
    assert totals[0] == pytest.approx(epsilons[0], rel=1e-5)


def test_one_release_without_noise_leaves_no_bound() -> None:
    assert accounting.in_every_task([1.0, math.inf, 1.0], DELTA)[1:] == [math.inf, math.inf]


def test_noise_grows_as_the_mechanism_draws_it() -> None:
    """Five empty tasks under each label setting: the spread of a class's sum, within five standard errors."""
    sigma, n_tasks, size = 2.0, 5, 4000
    nobody, nothing = np.zeros((0, size)), np.zeros(0, dtype=np.int64)
    for setting, lists in (("prior-const", [(0, 1)] * n_tasks), ("prior", [(0,)] + [(1,)] * (n_tasks - 1))):
        total = np.zeros(size)
        for task, space in enumerate(lists):
            ledger = Ledger(DELTA, "add-remove", "once")
            released = noisy_class_sums(nobody, nothing, space, 2, [sigma], [noise.ReleaseNoise()], [ledger], task=task)
            total += released[0, 0]
            expected = accounting.noise_over_tasks(sigma, n_tasks)[setting][task]  # type: ignore[index]
            assert total.std() == pytest.approx(expected, rel=5 / math.sqrt(2 * size))


# All models of a run together: closed forms, one batch sequence with several noises, and who counts as worst off.


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
    private, exact = {Cell(1.0, 0): charged(dp.GaussianDpEvent(3.0))}, {Cell(math.inf, 0): charged(dp.NonPrivateDpEvent())}
    assert joint_release([private])[0] == pytest.approx(private[Cell(1.0, 0)].epsilon())
    assert joint_release([{**private, **exact}])[0] == math.inf


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
    made = joint_training([subsampled_gaussian(sigma, 0.1, 50) for sigma in sigmas])
    combined = sum(sigma**-2 for sigma in sigmas) ** -0.5
    assert made == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(combined)), 50)
    ledgers = books((1.0, 2.0, 4.0), 2)
    for (cell, ledger), sigma in zip(ledgers.items(), [s for s in sigmas for _ in range(2)], strict=True):
        for task in range(3):
            ledger.spend(subsampled_gaussian(sigma, 0.1, 50), task=task, what=f"{cell}", shares_batches=True)
    assert joint_release([ledgers])[0] == pytest.approx(Pld().epsilon([made, made], DELTA, "add-remove"), rel=1e-6)
    apart = {cell: charged(ledger.entries[0].event) for cell, ledger in ledgers.items()}  # on batches of their own
    alone = [ledger.entries[0].event for ledger in apart.values()]
    assert joint_release([apart])[0] == pytest.approx(Pld().epsilon(alone, DELTA, "add-remove"), rel=1e-6)


def test_the_combined_noise_is_what_the_best_test_sees() -> None:
    """One step, everyone in the batch: the optimal statistic over all models has the combined signal-to-noise ratio."""
    sigmas, generator = np.array([1.0, 2.0, 4.0]), np.random.default_rng(0)
    moved = (1 + sigmas * generator.standard_normal((200_000, 3))) / sigmas**2
    still = sigmas * generator.standard_normal((200_000, 3)) / sigmas**2
    distance = (moved.sum(axis=1).mean() - still.sum(axis=1).mean()) / still.sum(axis=1).std()
    step = joint_training([dp.SelfComposedDpEvent(dp.GaussianDpEvent(float(sigma)), 1) for sigma in sigmas])
    assert distance == pytest.approx(1 / step.event.noise_multiplier, abs=5 * math.sqrt(2 / 200_000))


def test_different_steps_on_the_same_batches_are_refused_and_no_noise_stays_none() -> None:
    with pytest.raises(Unaccountable, match="same steps"):
        joint_training([subsampled_gaussian(1.0, 0.1, 50), subsampled_gaussian(1.0, 0.1, 51)])
    assert joint_training([subsampled_gaussian(1.0, 0.1, 50), dp.NonPrivateDpEvent()]) == dp.NonPrivateDpEvent()


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


# The best attack on a ledger: closed forms of Gaussians and lists, and nothing where there is no bound.


def gaussian_best(mu: float) -> tuple[float, float]:
    """Advantage 2 Phi(mu / 2) - 1 and hits Phi(Phi^-1(a) + mu), for a mean that is mu standard deviations away."""
    return 2 * float(ndtr(mu / 2)) - 1, float(ndtr(ndtri(RARE) + mu))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 40.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_gaussian_is_its_closed_form_from_above(epsilon: float, adjacency: Adjacency) -> None:
    sigma = gaussian.sigma(epsilon, DELTA)
    found = best_attack_on([dp.GaussianDpEvent(sigma)], DELTA, adjacency)
    advantage, hits = gaussian_best(gaussian.SENSITIVITY[adjacency] / sigma)
    assert advantage - 1e-12 <= found.advantage <= advantage * 1.001
    assert hits - 1e-12 <= found.hits <= hits * 1.003


def test_releases_add_up() -> None:
    found = best_attack_on([dp.GaussianDpEvent(4.0)] * 4, DELTA, "add-remove")
    assert found.advantage == pytest.approx(gaussian_best(0.5)[0], rel=1e-3)
    assert found.hits == pytest.approx(gaussian_best(0.5)[1], rel=3e-3)


def test_one_choice_is_as_good_as_the_worst_case() -> None:
    """Advantage of an (epsilon, delta) choice by hand: delta + (1 - delta) (e^eps - 1) / (e^eps + 1)."""
    found = best_attack_on([LabelListDpEvent(1.0, 1e-6)], DELTA, "add-remove")
    assert found.advantage == pytest.approx(1e-6 + (1 - 1e-6) * math.tanh(0.5), rel=1e-6)
    by_hand = math.e * RARE + 1e-6
    assert by_hand * (1 - 1e-6) <= found.hits <= by_hand * 1.004
    assert statement.odds_bound(1.0, 0.0) == pytest.approx((1 + found.advantage) / 2, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_of_a_learned_list_the_best_possible_guess_stays_below_what_is_said(epsilon: float) -> None:
    """The best guess by one label's count, at whatever count it is best, against the ledger's bound."""
    chances = np.array(labels.chances(epsilon, 1e-3, 400)) / labels.ONE
    assert chances[-1] == 1
    bound = best_attack_on([LabelListDpEvent(epsilon, 1e-3)], DELTA, "add-remove").advantage
    assert 0.8 * bound < np.diff(chances).max() < 0.99 * bound


def test_sampled_steps_are_played_as_well_as_that_and_no_better() -> None:
    """The likelihood ratio of 100 steps, in 40,000 games a side: its advantage has a standard error below 0.0036.

    Six of them are a false alarm of 2e-9; the worst case of the same epsilon lies further away.
    """
    rate, n, random = 0.05, 40_000, np.random.default_rng(1)
    ledger = charged(subsampled_gaussian(1.0, rate, 100))
    best = best_attack(ledger)
    shares = []
    for is_in in (True, False):
        evidence = np.zeros(n)
        for _ in range(100):
            seen = random.standard_normal(n) + (random.random(n) < rate) * is_in
            evidence += np.log1p(rate * np.expm1(seen - 0.5))
        shares.append((evidence > 0).mean())
    assert abs(shares[0] - shares[1] - best.advantage) < 6 * 0.0036
    assert (1 + best.advantage) / 2 + 6 * 0.0036 < statement.odds_bound(ledger.epsilon(), DELTA)


def test_the_worst_off_people_count() -> None:
    assert best_attack(charged()) == TradeOff(0.0, RARE), "nothing spent tells nothing"
    ledger = charged(*map(dp.GaussianDpEvent, (8.0, 2.0, 4.0)))
    assert best_attack(ledger) == best_attack_on([dp.GaussianDpEvent(2.0)], DELTA, "add-remove")
    ledger.spend(dp.NonPrivateDpEvent(), task=2, what="labels")
    assert best_attack(ledger) is None


def test_the_sentence_rounds_up_and_is_empty_where_nothing_is_known() -> None:
    assert statement.exact_odds(None, None) == ""
    assert statement.exact_odds(0.10641, 0.0024012) == (
        " For this run an attacker is right at most 55.33 % of the time; accusing 1 in 1,000 wrongly, it finds at most "
        "0.25 % of those who took part."
    )
