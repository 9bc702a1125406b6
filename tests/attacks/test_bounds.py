"""What scores prove about epsilon: bounds hold at their confidence, and are as sharp as they say."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom, norm

from dpcl_core.attacks.play import judged
from dpcl_core.privacy import audit_bounds, gaussian
from dpcl_core.privacy.audit_bounds import GuessCounts, bound_of_guesses, gaussian_one_run_bound, least_right, lower_bound
from tests.support.asserting import refuses
from tests.support.tiers import quick

DELTA = 1e-5
MU = 1 / gaussian.sigma(1.0, DELTA)  # of the Gaussian mechanism that is exactly (1, delta)-DP
ALARMS = 18  # of 200: more have a chance of 0.6 % at a level of 5 %


def ideal(generator: np.random.Generator, n: int, mu: float = MU) -> tuple[np.ndarray, np.ndarray]:
    return generator.standard_normal(n) + mu, generator.standard_normal(n)


def test_the_area_is_the_share_of_pairs_won_and_its_error_is_delongs() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 9, 40) * 1.0, generator.integers(0, 7, 30) * 1.0
    wins = (one[:, None] > other) + 0.5 * (one[:, None] == other)
    found = audit_bounds.Area.of(one, other)
    assert found.value == pytest.approx(wins.mean())
    expected = wins.mean(axis=1).var(ddof=1) / 40 + wins.mean(axis=0).var(ddof=1) / 30
    assert (found.std, found.n) == (pytest.approx(math.sqrt(expected)), 30)


def test_the_area_of_two_gaussians_gives_back_how_far_apart_they_are() -> None:
    """Standard error 0.0046 at 100,000 a side: the tolerance is five of them."""
    found = audit_bounds.Area.of(*ideal(np.random.default_rng(1), 100_000, 0.5))
    assert found.mu == pytest.approx(0.5, abs=0.025)
    assert found.value == pytest.approx(norm.cdf(0.5 / math.sqrt(2)), abs=5 * found.std)


def test_a_perfect_attack_proves_what_counting_does() -> None:
    """No pair lost of so many: 0.05^(1/n) of them at least are won, as of n independent ones."""
    found = audit_bounds.gaussian_bound(np.ones(500), np.zeros(500), DELTA, 0.95)
    assert found == pytest.approx(gaussian.epsilon(1 / (math.sqrt(2) * norm.ppf(0.05 ** (1 / 500))), DELTA))


def test_scores_that_tell_nothing_prove_nothing() -> None:
    assert audit_bounds.gaussian_bound(np.zeros(100), np.zeros(100), DELTA, 0.95) == 0.0
    assert audit_bounds.gaussian_bound(np.zeros(100), np.ones(100), DELTA, 0.95) == 0.0


def test_counts_prove_what_two_exact_intervals_do_each_with_half_of_the_error() -> None:
    """Clopper and Pearson by hand; with all of the error on either rate the bound would hold less often than is said."""
    hits, alarms, n = 60, 10, 100
    often, rarely = beta.ppf(0.025, hits, n - hits + 1), beta.ppf(0.975, alarms + 1, n - alarms)
    loud, quiet = math.log((often - DELTA) / rarely), math.log((1 - rarely - DELTA) / (1 - often))
    assert audit_bounds.one_way_bound(hits, n, alarms, n, DELTA) == pytest.approx(loud)
    assert audit_bounds.bound_of_counts(hits, n, alarms, n, DELTA) == pytest.approx(loud)
    # The same with the answers turned round: here silence tells more.
    assert audit_bounds.one_way_bound(n - alarms, n, n - hits, n, DELTA) == pytest.approx(quiet)
    assert audit_bounds.bound_of_counts(n - alarms, n, n - hits, n, DELTA) == pytest.approx(loud)


def test_the_half_that_chooses_the_threshold_proves_nothing() -> None:
    apart, alike = np.ones(500), np.zeros(500)
    assert lower_bound(np.concatenate([apart, alike]), np.concatenate([alike, alike]), DELTA) == 0.0
    assert lower_bound(np.concatenate([apart, apart]), np.concatenate([alike, alike]), DELTA) > 4


RULES = {
    "counting, half for the threshold": lambda one, other: lower_bound(one, other, DELTA),
    "counting at a fixed threshold": lambda one, other: audit_bounds.bound_of_counts(
        int((one > 0).sum()), len(one), int((other > 0).sum()), len(other), DELTA
    ),
    "area": lambda one, other: audit_bounds.gaussian_bound(one, other, DELTA, 0.95),
    "audit": lambda one, other: judged(one[:, None], other[:, None], 1.0, 1.0, DELTA, "", "", is_gaussian=True).lower_bound,
}


@pytest.mark.parametrize(("seed", "n", "most"), quick(1, [(2, 200, ALARMS), (3, 5000, 325)]))
@pytest.mark.parametrize("rule", RULES)
def test_nulls_at_the_very_bound_keep_the_level(rule: str, seed: int, n: int, most: int) -> None:
    """Releases of a mechanism that is exactly (1, delta)-DP; seeds are fixed: the count is the same anywhere.

    6.5 % of 5,000 would be five standard errors above a level of 5 %.
    """
    assert binom.sf(ALARMS, 200, 0.05) < 0.007
    assert sum(RULES[rule](*ideal(np.random.default_rng([seed, k]), 600)) > 1.0 for k in range(n)) <= most


def test_a_choice_among_statistics_costs_no_false_alarm() -> None:
    """Ten useless statistics beside the true one, and chosen among by a tenth of the releases only."""
    alarms = 0
    for k in range(200):
        generator = np.random.default_rng([4, k])
        one, other = generator.standard_normal((600, 11)), generator.standard_normal((600, 11))
        one[:, 0] += MU
        alarms += judged(one, other, 1.0, 1.0, DELTA, "", "", is_gaussian=True).exceeds
    assert alarms <= ALARMS


def test_the_fault_that_is_named_is_caught_nine_times_in_ten() -> None:
    """200 audits of the very fault, by fixed seeds: 160 or fewer caught, or 197 or more, would be 1-in-10^5 events."""
    n = 4000
    factor = audit_bounds.detectable(audit_bounds.Area(float(norm.cdf(MU / math.sqrt(2))), 0.0, n), 1.0, DELTA, 0.975)
    assert 0.6 < factor < 0.9
    faulty = (ideal(np.random.default_rng([5, k]), n, MU / factor) for k in range(200))
    assert 160 < sum(audit_bounds.gaussian_bound(*sides, DELTA, 0.975) > 1.0 for sides in faulty) < 197


def test_where_nothing_could_be_caught_nothing_is_named() -> None:
    assert audit_bounds.detectable(audit_bounds.Area(0.5, 0.01, 1000), 1.0, DELTA, 0.95) is None
    assert audit_bounds.detectable(audit_bounds.Area(0.6, 0.01, 1000), math.inf, DELTA, 0.95) is None
    assert audit_bounds.detectable(audit_bounds.Area(0.6, 0.01, 3), 1.0, DELTA, 0.95) is None


def test_an_audit_that_proves_more_than_is_accounted_says_so_first() -> None:
    one, other = ideal(np.random.default_rng(6), 1000, 3.0)
    found = judged(one[:, None], other[:, None], 1.0, 1.0, DELTA, "an attack", "sees all", is_gaussian=True)
    assert found.exceeds
    assert found.sentence().startswith("ERROR, audited above accounted: claimed epsilon 1, accounted 1, audited at least ")
    document = found.document()
    assert document["exceeds_accounted"] is True
    assert (document["through"], document["bound"]) == ("learner", "gaussian")
    assert set(document["bounds"]) == {"counting", "gaussian"}  # type: ignore[call-overload]


def test_the_bound_of_a_perfect_attack_is_that_of_clopper_and_pearson() -> None:
    """1,000 hits of 1,000 on both sides: both rates are at least 0.025^(1/1000) at 97.5 % confidence."""
    rate = 0.025 ** (1 / 1000)
    assert lower_bound(np.ones(2000), np.zeros(2000), DELTA) == pytest.approx(math.log((rate - DELTA) / (1 - rate)))


def test_coin_flips_prove_nothing() -> None:
    generator = np.random.default_rng(3)
    assert lower_bound(generator.standard_normal(2000), generator.standard_normal(2000), DELTA) < 0.3


def test_ten_times_too_little_noise_is_found() -> None:
    generator, sigma = np.random.default_rng(5), gaussian.sigma(1.0, DELTA) / 10
    found = lower_bound(1 + sigma * generator.standard_normal(4000), sigma * generator.standard_normal(4000), DELTA)
    assert found > 1.5 > 1.0
    assert norm.cdf(1 / (2 * sigma)) > 0.9


# Bounds of audits by guesses: exact chances of a wrong proof, the recursion against a linear program, and closed forms.


def alarm(n: int, guessed: int, bound_above: float, chance: float, delta: float = DELTA) -> float:
    """Exact chance that the counting bound passes `bound_above` where guesses are right with `chance`, one by one."""
    least = least_right(n, guessed, lambda coins: audit_bounds.counting_bound(coins, delta) > bound_above)
    return float(binom.sf(least - 1, guessed, chance))


@pytest.mark.parametrize("epsilon", quick(1, [1.0, 0.1, 4.0]))
@pytest.mark.parametrize(("n", "guessed"), [(20, 20), (300, 300), (2000, 2000), (2000, 200)])
def test_randomised_response_is_wronged_as_rarely_as_is_said(epsilon: float, n: int, guessed: int) -> None:
    """Its coins are guessed with the largest chance that epsilon allows; no sampling, so that no tolerance is needed."""
    chance = 1 / (1 + math.exp(-epsilon))
    assert alarm(n, guessed, epsilon, chance, 0.0) <= 0.05
    assert alarm(n, guessed, epsilon, chance) <= 0.05
    if guessed >= 200 and epsilon >= 1:  # nor is it idle
        assert alarm(n, guessed, epsilon / 2, chance) > 0.9


@pytest.mark.parametrize("n", [20, 300])
def test_a_mechanism_that_tells_all_with_chance_delta(n: int) -> None:
    """(epsilon, delta)-DP, and at its worst for guesses: all right at once."""
    epsilon, delta = 1.0, 0.02
    chance = 1 / (1 + math.exp(-epsilon))
    least = least_right(n, n, lambda coins: audit_bounds.counting_bound(coins, delta) > epsilon)
    told = delta if least <= n else 0.0
    assert told + (1 - delta) * binom.sf(least - 1, n, chance) <= 0.05


def test_without_delta_all_right_has_a_closed_form() -> None:
    for n in (40, 400):
        assert audit_bounds.counting_bound(audit_bounds.Coins(n, 40, 40), 0.0) == pytest.approx(all_right(40), abs=1e-8)
    assert audit_bounds.counting_bound(audit_bounds.Coins(40, 40, 20), 0.0) == 0.0


@pytest.mark.parametrize("mu", quick(1, [0.27, 0.1, 1.0]))
@pytest.mark.parametrize("n", [20, 400])
def test_gaussians_are_wronged_as_rarely_as_is_said(mu: float, n: int) -> None:
    """Coins under one Gaussian each are guessed by its sign, with chance ndtr(mu / 2): exact again."""
    assert binom.sf(least_right(n, n, lambda coins: gaussian_one_run_bound(coins) > mu) - 1, n, ndtr(mu / 2)) <= 0.05


def test_one_noise_for_all_coins_is_wronged_as_rarely_as_is_said() -> None:
    """Not independent: n coins' sum over sqrt(n) under one Gaussian, guessed all alike; still mu-Gaussian-DP for each."""
    n, mu = 100, 0.5
    least = least_right(n, n, lambda coins: gaussian_one_run_bound(coins) > mu)
    rng = np.random.default_rng(1)
    coins = rng.integers(0, 2, (4000, n))
    total = (coins - 0.5).sum(axis=1) * mu + rng.standard_normal(4000)  # each coin moves it by mu
    assert ((coins == (total > 0)[:, None]).sum(axis=1) >= least).mean() <= 0.05


@pytest.mark.parametrize(
    ("n", "guessed", "right", "mu"), [(12, 12, 10, 0.3), (12, 12, 10, 1.0), (24, 24, 19, 0.6), (30, 10, 9, 0.3)]
)
def test_the_recursion_is_the_linear_program(n: int, guessed: int, right: int, mu: float) -> None:
    """The largest P[right ones >= c] under A_i <= fbar(B_(i-1)), fbar as the least of many tangents, found by a solver.

    The bound's parameter excludes exactly the levels above it: at confidence 1 - optimum, mu is the bound itself.
    """
    places = np.linspace(-5, 5, 401)  # fbar(x) = ndtr(ndtri(x) + mu): tangents at x = ndtr(place)
    slopes = np.exp(-((places + mu) ** 2 - places**2) / 2)
    offsets = ndtr(places + mu) - slopes * ndtr(places)
    j = np.arange(guessed + 1)
    rows, limits = [], []
    for level in range(1, guessed + 1):
        above, below = np.where(j >= level, j, 0) / n, np.where(j >= level - 1, guessed - j, 0) / n
        rows += [above - slope * below for slope in slopes]
        limits += list(offsets)
    found = linprog(-(j >= right).astype(float), np.array(rows), limits, np.ones((1, guessed + 1)), [1.0], bounds=(0, 1))
    optimum = -found.fun
    assert 0.005 < optimum < 0.995
    assert gaussian_one_run_bound(audit_bounds.Coins(n, guessed, right), 1 - optimum) == pytest.approx(mu, rel=2e-3)


def test_power_on_ideal_gaussians() -> None:
    """Of 5,000 canaries under noise for epsilon 1 the thousand that stand out most prove 0.35 of it, nine times in ten.

    At noise for epsilon 1, never more than 1; at 0.4 of that noise, more. Fifty seeded runs each.
    """
    n, guessed, mu = 5000, 1000, 1 / gaussian.sigma(1.0, DELTA)
    rng = np.random.default_rng(2)

    def right_ones(factor: float) -> list[int]:
        found = []
        for _ in range(50):
            coins = rng.integers(0, 2, n)
            seen = (coins - 0.5) * mu / factor + rng.standard_normal(n)
            chosen = np.argsort(-np.abs(seen))[:guessed]
            found.append(int(((seen[chosen] > 0) == coins[chosen]).sum()))
        return sorted(found)

    def proved(right: int) -> float:
        return audit_bounds.epsilon_of(gaussian_one_run_bound(audit_bounds.Coins(n, guessed, right)), DELTA)

    usual = right_ones(1.0)
    assert proved(usual[5]) >= 0.35
    assert proved(usual[-1]) < 1.0 < proved(right_ones(0.4)[5])


def test_more_right_ones_prove_more() -> None:
    counted = [audit_bounds.counting_bound(audit_bounds.Coins(500, 100, right), DELTA) for right in range(0, 101, 10)]
    gaussians = [gaussian_one_run_bound(audit_bounds.Coins(500, 100, right)) for right in range(0, 101, 10)]
    assert counted == sorted(counted)
    assert gaussians == sorted(gaussians)
    assert counted[5] == gaussians[5] == 0.0


def test_epsilon_of_mu_is_the_gaussian_mechanism() -> None:
    assert audit_bounds.epsilon_of(0.0, DELTA) == 0.0
    assert audit_bounds.epsilon_of(1 / gaussian.sigma(1.0, DELTA), DELTA) == pytest.approx(1.0, abs=1e-4)
    assert ndtri(ndtr(0.3)) == pytest.approx(0.3)


# Guesses of random secrets: exact chances of a wrong proof against mechanisms with a known epsilon, and closed forms.


TEN_THOUSAND = 10_000


def answered(epsilon: float, n_values: int, allowed: int = 1) -> float:
    """Chance that the answer of randomised response and `allowed` - 1 other values hold the secret: the most there is.

    Its likelihood of the true answer is e^epsilon times that of any other.
    """
    odds = math.exp(epsilon)
    return (odds + allowed - 1) / (odds + n_values - 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("n_values", quick(1, [2, 10, TEN_THOUSAND]))
@pytest.mark.parametrize("n", [1, 15, 200])
def test_the_bound_is_wrong_as_rarely_as_it_says(epsilon: float, n_values: int, n: int) -> None:
    """Every number of right guesses on randomised response, weighted by its exact chance: no sampling."""
    chance = answered(epsilon, n_values)
    proved = [bound_of_guesses((GuessCounts(n, right, 1, n_values),), 0.0, "replace") for right in range(n + 1)]
    assert sum(binom.pmf(right, n, chance) for right in range(n + 1) if proved[right] > epsilon) <= 0.05
    # And it finds that much of it: with 200 guesses half of the time more than a third, where chance finds a few.
    if n == 200 and epsilon >= 1 and n * chance > 5:
        assert proved[int(binom.median(n, chance))] > epsilon / 3


def test_longer_lists_are_paid_for() -> None:
    """A list of r holds the secret with chance e^eps r / (e^eps r + N - r) at most; randomised response keeps to it."""
    for allowed in (1, 2, 50):
        assert answered(2.0, 100, allowed) <= math.exp(2) * allowed / (math.exp(2) * allowed + 100 - allowed) + 1e-12
    found = bound_of_guesses((GuessCounts(40, 40, 10, 100),), 0.0, "replace")
    assert found == pytest.approx(all_right(40) + math.log(90 / 10), abs=1e-9)


def all_right(n: int, games: int = 1) -> float:
    """Log odds of the least rate at which all of n guesses are right (Clopper and Pearson, one side), the error shared."""
    rate = (0.05 / games) ** (1 / n)
    return math.log(rate / (1 - rate))


def test_closed_forms_of_guesses() -> None:
    """Of all right, of some, of a secret in many examples, and of several games, which share the error."""
    all_of, none, some = (GuessCounts(15, right, 1, TEN_THOUSAND) for right in (15, 0, 7))
    exact, low = all_right(15) + math.log(TEN_THOUSAND - 1), beta.ppf(0.05, 7, 9)
    for games, adjacency, expected in (
        ((all_of,), "replace", exact),
        ((all_of,), "add-remove", exact / 2),
        ((GuessCounts(15, 15, 1, TEN_THOUSAND, 16),), "replace", exact / 16),
        ((some,), "replace", math.log(low / (1 - low) * (TEN_THOUSAND - 1))),
        ((all_of, none), "replace", all_right(15, games=2) + math.log(TEN_THOUSAND - 1)),
    ):
        assert bound_of_guesses(games, 0.0, adjacency) == pytest.approx(expected, abs=1e-9)  # type: ignore[arg-type]


def test_delta_is_counted_for_every_secret_and_every_step() -> None:
    game = GuessCounts(15, 15, 1, TEN_THOUSAND)
    exact = bound_of_guesses((game,), 0.0, "replace")
    assert exact - 0.01 < bound_of_guesses((game,), 1e-5, "replace") < exact
    assert bound_of_guesses((game,), 0.051 / 15, "replace") == 0  # delta alone explains it
    # Two steps of epsilon each cost delta (1 + e^epsilon): the bound is where all chances add up to the 5 %.
    for group, adjacency in ((1, "add-remove"), (2, "replace")):
        epsilon = bound_of_guesses((GuessCounts(15, 15, 1, TEN_THOUSAND, group),), 1e-5, adjacency)  # type: ignore[arg-type]
        rate = math.exp(2 * epsilon) / (math.exp(2 * epsilon) + TEN_THOUSAND - 1)
        assert rate**15 + 15 * 1e-5 * (1 + math.exp(epsilon)) == pytest.approx(0.05, abs=1e-9)


def test_guessing_as_often_as_chance_does_proves_nothing() -> None:
    assert bound_of_guesses((), 1e-5, "replace") == 0
    for counts in ((15, 0, 1, 100), (100, 10, 10, 100), (0, 0, 1, 100)):
        assert bound_of_guesses((GuessCounts(*counts),), 0.0, "replace") == 0


def test_guesses_that_cannot_be_are_refused() -> None:
    for wrong in ((10, 11, 3), (10, 5, 6), (0, 0, 0), (10, 5, -1)):
        refuses("no such guesses", audit_bounds.Coins, *wrong, error=ValueError)
    for game in ((1, 2, 1, 10), (1, 1, 10, 10), (1, 1, 0, 10), (1, 1, 1, 10, 0)):
        refuses("no such game", bound_of_guesses, (GuessCounts(*game),), 0.0, "replace", error=ValueError)
