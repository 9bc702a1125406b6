"""The audit plays the learner itself: it stays below what is accounted, finds what leaks, and notices sabotage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core import checks, cli
from dpcl_core.attacks import catalog, feature_games, play
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import Audited, lower_bound
from tests.attacks import mutants
from tests.support.tiers import quick

LEARNER = "dpcl_core.methods.features.cosine"


def audited(trials: int, epsilon: float = 1.0, adjacency: str = "add-remove", **settings: Any) -> list[Audited]:
    raw = {"privacy": {"epsilons": [epsilon], "adjacency": adjacency}, **settings}
    return list(catalog.auditor("cosine")(checks.parse(raw), trials))


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
def test_both_examples_are_found_to_a_part_and_stay_below_the_accounted_epsilon(adjacency: str) -> None:
    """At 1,800 releases mu has a standard error of 0.034, and the bound lies two of them below 0.268: six above nothing."""
    worst, natural = audited(2000, adjacency=adjacency)
    for result in (worst, natural):
        assert result.accounted == pytest.approx(1.0, rel=1e-4)
        assert 0 <= result.lower_bound <= result.accounted
        assert (result.through, result.bound) == ("learner", "gaussian")
    assert worst.lower_bound > 0
    assert worst.detects is not None
    assert worst.detects.startswith("noise × 0.")


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_who_is_in_every_task_is_looked_for_in_every_task() -> None:
    """Two releases of epsilon 1 each: mu is sqrt 2 times as large, and more is accounted than the budget of one."""
    result = audited(2000, scenario={"kind": "permuted", "tasks": 2})[0]
    assert 1.3 < result.accounted < 1.6
    assert 0.2 < result.lower_bound <= result.accounted


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.slow
def test_without_noise_everyone_is_found_out() -> None:
    for result in audited(1000, math.inf):
        assert result.lower_bound > 4
        assert result.accounted == math.inf


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_labels_from_the_data_are_caught_whatever_epsilon_is_claimed(adjacency: str) -> None:
    result = audited(2000, adjacency=adjacency, labels="data")[0]
    assert result.claimed == 1.0
    assert result.accounted == math.inf
    assert result.lower_bound > 5
    assert result.bound == "counting"


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_with_a_learned_list_the_attack_finds_something_and_stays_below(adjacency: str) -> None:
    result = audited(1000, 8.0, adjacency=adjacency, labels="dp-learned")[0]
    assert 0.8 < result.lower_bound <= result.accounted <= 8.0


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_halved_noise_and_noise_shared_by_tasks_are_called_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, LEARNER, 0.5)
        for result in audited(1200):
            assert result.exceeds
            assert result.accounted == pytest.approx(1.0, rel=1e-4)
            assert result.confidence == 0.999, "looked at twice before it is called wrong"
    with monkeypatch.context() as patch:
        mutants.noise_of_all_tasks(patch, LEARNER)
        assert all(result.lower_bound > 3 for result in audited(500))


@pytest.mark.usefixtures("fixed_noise")
def test_the_terminal_ends_with_status_1_where_more_is_proved_than_accounted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants.scaled_noise(monkeypatch, LEARNER, 0.2)
    assert cli.main(["audit", "--preset", "digits-cosine", "--set", "privacy.epsilons=[1.0]", "--trials", "300"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("ERROR, audited above accounted: claimed epsilon 1, accounted 1, audited at least ")
    assert told.err == "cosine leaks more than its ledger accounts for: do not release it, and report this\n"


@pytest.mark.slow
def test_ten_audits_in_twenty_seconds_each_prove_point_six_nine_times() -> None:
    found = [audited(catalog.trials("cosine"))[0].lower_bound for _ in range(10)]
    print("cosine, epsilon 1:", " ".join(f"{one:.2f}" for one in found))
    assert sorted(found)[1] >= 0.6


@pytest.mark.slow
def test_200_short_audits_with_real_noise_raise_no_more_than_18_alarms() -> None:
    """At a level of 5 % more have a chance of 0.6 %."""
    spec = checks.parse({"privacy": {"epsilons": [1.0]}})
    game = feature_games.cosine_game(spec, 1.0, is_natural=False)
    alarms = 0
    for _ in range(200):
        one, other, accounted = game.scores(1.0, 600)
        alarms += play.judged(one, other, 1.0, accounted, 1e-5, "", "", is_gaussian=True).exceeds
    print("cosine, false alarms of 200:", alarms)
    assert alarms <= 18


def test_the_bound_of_a_perfect_attack_is_that_of_clopper_and_pearson() -> None:
    """1,000 hits of 1,000 on both sides: both rates are at least 0.025^(1/1000) at 97.5 % confidence."""
    rate = 0.025 ** (1 / 1000)
    found = lower_bound(np.ones(2000), np.zeros(2000), 1e-5)
    assert found == pytest.approx(math.log((rate - 1e-5) / (1 - rate)))


def test_coin_flips_prove_nothing() -> None:
    generator = np.random.default_rng(3)
    assert lower_bound(generator.standard_normal(2000), generator.standard_normal(2000), 1e-5) < 0.3


def test_the_bound_covers_the_truth_at_its_confidence() -> None:
    """Gaussian releases of known epsilon, 400 audits: at most 5 % may exceed it; 40 would be a 1-in-10^5 event."""
    epsilon, generator = 1.0, np.random.default_rng(4)
    sigma = gaussian.sigma(epsilon, 1e-5)
    exceeded = sum(
        lower_bound(1 + sigma * generator.standard_normal(600), sigma * generator.standard_normal(600), 1e-5) > epsilon
        for _ in range(400)
    )
    assert exceeded <= 40


def test_ten_times_too_little_noise_is_found() -> None:
    generator, sigma = np.random.default_rng(5), gaussian.sigma(1.0, 1e-5) / 10
    found = lower_bound(1 + sigma * generator.standard_normal(4000), sigma * generator.standard_normal(4000), 1e-5)
    assert found > 1.5 > 1.0
    assert norm.cdf(1 / (2 * sigma)) > 0.9
