"""Audits in one training, through the learner: what they prove, what they would catch, and whom they refuse."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpcl_core import checks, cli, presets
from dpcl_core.attacks import auditable, one_run
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit import Audited
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support import replay

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
    assert right == pytest.approx(one_run._rightly(mu, 0.2), abs=6 * math.sqrt(0.25 / (2 * half)))


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
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.cosine", 0.2)
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
    assert "must stand without other settings" in capsys.readouterr().err


def test_every_method_of_the_catalogue_is_played_or_says_why_not() -> None:
    assert set(one_run.GAMES) | set(auditable.REFUSED) == set(methods.CARDS)
    assert not set(one_run.GAMES) & set(auditable.REFUSED)


@pytest.mark.parametrize("method", auditable.REFUSED)
def test_a_method_that_is_not_played_is_refused_in_a_sentence_with_a_command(method: str, tmp_path: object) -> None:
    asked = RunSpec.model_construct(**{**spec().model_dump(), "method": method, "params": methods.card(method).params()})
    with pytest.raises(BadInput, match=f"^method = {method}: cannot be audited in one training: "):
        one_run.audited(asked, 1.0)


def test_settings_that_leave_nothing_of_anyones_own_are_refused() -> None:
    film = spec("peft-ensemble", params={"adapter": "film"}, data={"dataset": "mnist", "backbone": "vit-cifar100"})
    assert "params.adapter = film" in str(auditable.refusal(film))
    assert auditable.refusal(spec("peft-ensemble")) is None
