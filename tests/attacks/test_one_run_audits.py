"""Audits in one training, through the learner: what they prove, what they would catch, and whom they refuse."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dpcl_core import checks, cli, presets
from dpcl_core.attacks import catalog as attacks
from dpcl_core.attacks import feature_games, federated_games, language_games, lifelong_games, one_run, play
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support import replay
from tests.support.tiers import of_methods

DELTA = 1e-5


def spec(method: str = "cosine", epsilon: float = 4.0, **more: object) -> RunSpec:
    raw = presets.raw("digits-cosine" if method == "cosine" else "digits-peft-head")
    raw |= {"method": method, "seeds": [0], "privacy": {"epsilons": [epsilon], "delta": DELTA}, **more}
    return checks.parse(raw)


def nulls(n: int, epsilon: float, seed: int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of n coins under Gaussian noise that costs epsilon, times a factor."""
    random = np.random.default_rng(seed)
    coins = random.integers(0, 2, n).astype(bool)
    mu = 1 / gaussian.sigma(epsilon, DELTA) / factor
    return random.normal(mu * coins)[:, None], coins


def judged(seed: int, factor: float = 1.0) -> Audited:
    """What 600 coins prove of noise that costs epsilon 1, times a factor."""
    return one_run.judged(*nulls(600, 1.0, seed, factor), 1.0, 1.0, DELTA, "", 0.95, is_gaussian=True)


def test_a_method_that_keeps_its_word_is_rarely_called_wrong_and_one_with_half_the_noise_nearly_always() -> None:
    """200 nulls with fixed seeds at the level of 5 %: at most 18 alarms; what `detects` names is caught in most of 50."""
    found = [judged(seed) for seed in range(200)]
    assert sum(one.exceeds for one in found) <= 18
    assert found[0].detects is not None
    factor = float(found[0].detects.removeprefix("noise × "))
    assert 0.1 < factor < 1.0
    broken = [judged(seed, factor) for seed in range(50)]
    assert sum(one.exceeds for one in broken) >= binom.ppf(1e-3, 50, 0.85)


def test_the_chance_of_a_right_guess_is_that_of_simulated_scores() -> None:
    """400,000 coins, the outer fifth guessed: within six standard errors."""
    scores, coins = nulls(400_000, 4.0, 0)
    order, half = np.argsort(scores[:, 0]), 40_000
    right = (~coins[order[:half]]).mean() / 2 + coins[order[-half:]].mean() / 2
    mu = 1 / gaussian.sigma(4.0, DELTA)
    assert right == pytest.approx(one_run._chance_right(mu, 0.2), abs=6 * math.sqrt(0.25 / (2 * half)))


@pytest.mark.parametrize("method", ["cosine", "peft-ensemble"])
def test_one_training_proves_something_of_the_learner_itself(method: str) -> None:
    """With ideal guesses 85 of 100 are right, and less than 0.8 is proved less than once in ten million audits."""
    (found,) = one_run.audit(spec(method))
    assert found.through == "run"
    assert found.accounted == pytest.approx(4.0, rel=1e-3)
    assert 0.8 < found.lower_bound <= found.accounted
    assert found.detects is not None


def test_a_fifth_of_the_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every guess is right then, which proves 5 and more; missed less than once in ten million audits."""
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.features.cosine", 0.2)
    (found,) = one_run.audit(spec())
    assert found.exceeds


def test_a_stored_run_is_audited_from_the_command_line(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    run_id = replay.fill(Store(), spec(), replay.recorded(spec()))
    assert cli.main(["audit", "--run", run_id, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["audits"]
    assert found["through"] == "run"
    assert 0 < found["audited_lower_bound"] <= found["accounted_epsilon"]
    assert "cannot be audited afterwards" in found["adversary"]
    assert cli.main(["show", run_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["audits"] == [found]
    assert cli.main(["audit", "--run", run_id, "--preset", "digits-cosine"]) == 2
    assert "cannot be combined with other settings" in capsys.readouterr().err


SMALL = [
    (federated_games, "N_CLIENTS", 60), (federated_games, "N_IN_ROUNDS", 20), (lifelong_games, "N_LABELS", 60),
    (feature_games, "N_PERSONS", 200), (lifelong_games, "N_RECORDS", 128), (language_games, "N_RECORDS", 128),
    (lifelong_games, "N_ONE_HOT", 64),
]  # fmt: skip
PLANTED = [method for method in attacks.MODULES if attacks.audit_of(method).planted is not None]
FED = {"labels": "prior", "scenario": {"kind": "federated", "clients": 20}, "params": {}}
LOCAL = {"params": {"mechanism": "fn"}, "privacy": {"epsilons": [4.0], "adjacency": "replace"}}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, size in SMALL:
        monkeypatch.setattr(module, name, size)


def a_run(method: str) -> RunSpec:
    """Settings of any method, with a budget that all of them allow."""
    card = methods.card(method)
    if card.scenarios == ("federated",):
        return checks.parse({"method": method, "seeds": [0], "privacy": {"epsilons": [4.0]}, **FED})
    if method == "pecl" or method.startswith("lm-"):
        local = LOCAL if method != "pecl" else {**LOCAL, "params": {"mode": "local"}}
        return checks.parse({**presets.raw("pecl-synthetic"), "method": method, "seeds": [0], **local})
    adjacency = "replace" if method == "independent-laplace" else "add-remove"
    raw = {"method": method, "labels": "prior", "seeds": [0], "scenario": {"kind": "split", "tasks": 2}}
    if method == "dp-agem":
        raw["params"] = {"epochs": 1, "sample_rate": 0.5}
    return checks.parse({**raw, "privacy": {"epsilons": [4.0], "adjacency": adjacency}})


def test_every_method_of_the_catalogue_is_played_or_says_why_not() -> None:
    assert set(PLANTED) | set(play.REFUSED) == set(methods.CARDS)
    assert not set(PLANTED) & set(play.REFUSED)
    for method in PLANTED:
        assert play.refusal(a_run(method)) is None, method


@pytest.mark.parametrize("method", of_methods(PLANTED))
def test_every_game_plays_the_learner_and_proves_no_more_than_is_accounted(method: str, small: None) -> None:
    """More than is accounted would be proved less than once in 10,000 audits, of a method that keeps its word."""
    (found,) = one_run.audit(a_run(method))
    assert (found.claimed, found.through) == (4.0, "run")
    assert 3.9 < found.accounted < math.inf
    assert 0 <= found.lower_bound <= found.accounted
    assert found.guessed
    assert 0 <= (found.right or 0) <= found.guessed


@pytest.mark.parametrize("method", ["label-means", "local-list", "independent-laplace", "dp-coeff-memory"])
def test_without_noise_every_guess_is_right(method: str, small: None) -> None:
    asked = a_run(method)
    asked = replace(asked, privacy=replace(asked.privacy, epsilons=(math.inf,)))
    (found,) = one_run.audit(asked)
    assert found.right == found.guessed


@pytest.mark.parametrize("method", play.REFUSED)
def test_a_method_that_is_not_played_is_refused_in_a_sentence(method: str) -> None:
    asked = replace(spec(), method=method, params=methods.card(method).params())
    with pytest.raises(BadInput, match=f"^method = {method}: cannot be audited in one training: "):
        one_run.audited(asked, 1.0)


def test_settings_that_leave_nothing_of_anyones_own_are_refused() -> None:
    even = checks.parse({**FED, "method": "label-means", "params": {"slots": "even"}})
    assert "params.slots = even" in str(play.refusal(even))
    film = spec("peft-ensemble", params={"adapter": "film"}, data={"dataset": "mnist", "backbone": "vit-cifar100"})
    central = checks.parse({**presets.raw("pecl-synthetic"), "method": "lm-er", "params": {}})
    for asked in (spec("peft-ensemble"), film, central):
        assert play.refusal(asked) is None
