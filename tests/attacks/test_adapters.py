"""The audit of FiLM and LoRA on the bundled network, in the three methods that train them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from dpcl_core import checks, presets
from dpcl_core.attacks import catalog, feature_games
from dpcl_core.methods.features import adapters as features_adapters
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec
from tests.attacks import mutants


def spec(method: str, adapter: str, epsilon: float = 8.0, **privacy: Any) -> RunSpec:
    raw = {**presets.raw("digits-peft-head"), "method": method, "data": {"dataset": "digits", "backbone": "vit-cifar100"}}
    return checks.parse({
        **raw, "params": {"adapter": adapter}, "privacy": {"epsilons": [epsilon], "delta": 1e-5, **privacy},
    })  # fmt: skip


def audited(
    method: str, adapter: Literal["film", "lora"], n_persons: int, epsilon: float = 8.0, **privacy: Any
) -> list[Audited]:
    return list(catalog.auditor(method)(spec(method, adapter, epsilon, **privacy), n_persons))


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("method", "adapter"), [("peft-ensemble", "film"), ("naive", "lora"), ("non-cl", "film")])
def test_persons_are_found_to_a_part_and_stay_below(
    method: str, adapter: Literal["film", "lora"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_games, "_MOST_NATURAL", 6)
    adjacency = "replace" if method == "naive" else "add-remove"
    worst, natural = audited(method, adapter, 64, adjacency=adjacency)
    assert 0 <= worst.lower_bound <= worst.accounted
    assert (worst.through, natural.attack.endswith("(a real digit)")) == ("learner", True)


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_a_tenth_of_the_noise_and_missing_clipping_are_called_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_games, "_MOST_NATURAL", 6)
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, "dpcl_core.methods.features.trainer", 0.1)
        assert audited("peft-ensemble", "lora", 128, 1.0)[0].exceeds
    chosen = spec("peft-ensemble", "film", 1.0)
    params = replace(chosen.params, clip_norm=0.05)
    game = feature_games.adapter_worst_case_game(replace(chosen, params=params))
    with monkeypatch.context() as patch:
        honest = features_adapters.clipped_sums
        patch.setattr(features_adapters, "clipped_sums", lambda grads, clip_norm: honest(grads, 1e9))
        assert game.audited(1.0, 6).exceeds
