"""Attacks on CSLR as printed: what they prove, where they must prove nothing, and the mechanism that they play through."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from dpcl_core.attacks import catalog as audits
from dpcl_core.attacks import cslr_games
from dpcl_core.attacks.cslr_games import ATTACKS, Setting
from dpcl_core.errors import BadInput
from dpcl_core.privacy import cslr_accounting, gaussian, noise
from dpcl_core.spec import RunSpec
from tests.attacks.asked import asked

DELTA = 1e-5
PRINTED = Setting(4.0, 1.45, 200, 0.3, DELTA)


@pytest.mark.parametrize(("claimed", "multiplier"), [(1.0, 3.20), (4.0, 1.45)])
def test_printed_noise_over_all_rounds_breaks_its_claim(claimed: float, multiplier: float) -> None:
    found = cslr_games.audited(replace(PRINTED, claimed=claimed, noise_multiplier=multiplier), "rounds", 1000)
    assert found.lower_bound > claimed
    assert found.accounted == math.inf
    assert found.lower_bound < cslr_accounting.costs(cslr_accounting.Reading(multiplier)).pld


@pytest.mark.parametrize(("sample_rate", "n_rounds"), [(1.0, 4), (0.3, 50)])
def test_noise_that_keeps_a_budget_is_not_accused(sample_rate: float, n_rounds: int) -> None:
    """A 95 % bound above a true epsilon is a false alarm; ten standard errors of slack make that rarer than 1e-6."""
    sampling: cslr_accounting.Sampling = "poisson" if sample_rate < 1 else "everyone"
    reading = cslr_accounting.Reading(1.0, n_rounds, sampling=sampling, sample_rate=sample_rate)
    multiplier = cslr_accounting.multiplier_for(1.0, reading)
    found = cslr_games.audited(Setting(1.0, multiplier, n_rounds, sample_rate, DELTA), "rounds", 2000)
    assert found.lower_bound < 1.0 + 0.5


def test_a_round_of_the_game_is_one_gaussian_of_half_the_multiplier() -> None:
    """Without sampling the optimal test's rates are known: mu = 2 sqrt(T) / sigma. False alarm below 1e-6."""
    n, setting = 20_000, Setting(4.0, 8.0, 4, 1.0, DELTA)
    guesses = ATTACKS["rounds"].play(setting, noise.ReleaseNoise(), n)
    mu = 2 * math.sqrt(4) / 8.0
    cut = stats.norm.isf(guesses.false_alarms / n)
    assert abs(guesses.hits / n - stats.norm.sf(cut - mu)) < 5 * math.sqrt(2 * 0.25 / n) + 1e-3


def moved(rule: cslr_games.Rule, n_groups: int) -> tuple[float, bool]:
    """How far one client's leaving moves the clean sums, and whether other clients' entries change their groups."""
    lists, person = cslr_games._neighbours(rule, n_groups)
    sides = lists, lists.take(np.delete(np.arange(len(lists)), person))
    whole, rest = (cslr_games._clean(side, rule, n_groups) for side in sides)
    ids, fewer = (cslr_games._groups(side, rule, n_groups) for side in sides)
    return float(np.linalg.norm(whole - rest)), bool((np.delete(ids, person, axis=0) != fewer).any())


@pytest.mark.parametrize("rule", ["hungarian", "nearest"])
def test_one_client_moves_clustered_sums_by_more_than_is_granted(rule: cslr_games.Rule) -> None:
    length, is_regrouped = moved(rule, 4)
    assert length > 2 * 2.0, "twice what four statistics of length 1 each allow"
    assert is_regrouped


def test_fixed_groups_keep_the_printed_sensitivity_and_the_attack_finds_nothing() -> None:
    assert moved("hungarian", 1)[0] <= 2.0 + 1e-9
    assert cslr_games.audited(replace(PRINTED, claimed=1.0, n_groups=1), "pooled", 100).lower_bound < 1.0


def test_clustering_breaks_a_claim_that_its_noise_would_keep() -> None:
    found = cslr_games.audited(PRINTED, "pooled", 300)  # whose bounds are 5.2 to 5.7; of half as many 4.0 to 4.8
    assert found.trials == 3000
    assert found.lower_bound > 4.0
    assert "times what is granted" in found.attack
    sigma = 2 * gaussian.sigma(4.0, DELTA)
    assert gaussian.epsilon(sigma / 2, DELTA) == pytest.approx(4.0, abs=1e-3), "the noise keeps the claim as printed"


def test_a_head_in_the_clear_tells_for_certain() -> None:
    assert cslr_games.audited(PRINTED, "head", 1000).trials == 100
    guesses = ATTACKS["head"].play(PRINTED, noise.ReleaseNoise(), 20)
    assert (guesses.hits, guesses.false_alarms) == (20, 0)


def test_without_noise_every_attack_is_always_right() -> None:
    # Everyone is in every round: the attacker's threshold comes from trial runs, and a client in fewer rounds could miss it.
    clean = replace(PRINTED, claimed=math.inf, noise_multiplier=0.0, n_rounds=50, sample_rate=1.0)
    for name in ("rounds", "head"):
        guesses = ATTACKS[name].play(clean, noise.ReleaseNoise(), 20)
        assert (guesses.hits, guesses.false_alarms) == (20, 0), name


def published(*epsilons: float, **more: object) -> RunSpec:
    scenario = {"kind": "federated", "clients": 20, "tasks": 5}
    return asked("cslr-published", *epsilons, **{"labels": "prior-const", "scenario": scenario, **more})


def test_a_runs_own_settings_are_what_is_attacked() -> None:
    spec = published(1.0, 4.0, math.inf, params={"rounds": 10, "participation": 0.5})
    found = [cslr_games.setting(spec, epsilon) for epsilon in spec.privacy.epsilons]
    assert [one.noise_multiplier for one in found] == [3.20, 1.45, 0.0]
    assert {(one.n_rounds, one.sample_rate, one.n_groups, one.rule) for one in found} == {(50, 0.5, 4, "hungarian")}
    assert audits.names("cslr-published") == tuple(ATTACKS)
    assert [one.claimed for one in audits.auditor("cslr-published")(spec, 100)] == [1.0, 4.0, math.inf]


def test_lists_noised_at_home_are_what_is_attacked() -> None:
    """The attack proves no more than the Gaussian of all the lists allows: 1.5 of its 3.8 mostly, 0.2 up or down."""
    own = {"rounds": 1, "participation": 1.0, "noisy_lists": True, "list_size": 1, "modes_per_task": 1}
    spec = published(1.0, math.inf, params=own, scenario={"kind": "federated", "clients": 20, "tasks": 2})
    assert [one.list_size for one in map(partial(cslr_games.setting, spec), (1.0, math.inf))] == [1, 1]
    assert audits.fitting(spec) == ("lists", "head")
    bounded, clear = audits.auditor("cslr-published")(spec, 2000)
    most = gaussian.epsilon(3.20 / math.sqrt(2 * 4), 1e-5)  # two tasks, sqrt(1 + 3) long each
    assert 0.3 < bounded.lower_bound < most  # six and ten deviations away
    assert clear.lower_bound > 5
    with pytest.raises(BadInput, match=r"--attack = pooled: must be one of lists, head with params\.noisy_lists = true"):
        audits.auditor("cslr-published", "pooled")(spec, 100)
