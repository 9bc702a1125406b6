"""Audits of language models: adapters trained by DP-SGD, and noisy copies of texts, each through the learner itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from dpcl_core import checks
from dpcl_core.attacks import catalog, language_games
from dpcl_core.attacks.play import Game
from dpcl_core.methods.language.gradients import Gradients
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support.tiers import quick

BASELINES = ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl")
METHODS = (*BASELINES, "pecl")


def asked(method: str, epsilon: float = 8.0, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    return checks.parse({
        "method": method, "params": params, "labels": "prior", "seeds": [0],
        "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}, "scenario": {"kind": "source-incremental"},
        "privacy": {"epsilons": [epsilon], "delta": 1e-5, "adjacency": adjacency},
    })  # fmt: skip


@lru_cache(maxsize=16)
def game(method: str, adjacency: str = "add-remove") -> Game:
    return language_games.distinct_answer_game(asked(method, adjacency=adjacency))


def worst_case(method: str, n_learners: int, epsilon: float = 8.0, adjacency: str = "add-remove") -> Audited:
    return game(method, adjacency).audited(epsilon, n_learners)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("method", quick(2, METHODS))
def test_texts_are_found_in_the_adapters_and_stay_below(method: str) -> None:
    """58 texts a side are measured: mu, about 1 at epsilon 8, has a standard error of 0.2."""
    found = worst_case(method, 4)
    assert 0 <= found.lower_bound <= found.accounted == pytest.approx(8.0, rel=1e-3)
    assert (found.through, found.trials, "worst-case" in found.attack) == ("learner", 58, True)


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_noise")
def test_a_tenth_of_the_noise_and_missing_clipping_are_called_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, "dpcl_core.methods.language.adapted_model", 0.1)
        assert worst_case("lm-er", 16, 1.0).exceeds
    with monkeypatch.context() as patch:
        mutants.scaled_noise(patch, "dpcl_core.methods.language.adapted_model", 0.1)
        assert worst_case("pecl", 16, 1.0, "replace").exceeds
    chosen = game("lm-seqft")
    with monkeypatch.context() as patch:
        honest = Gradients.__init__
        patch.setattr(Gradients, "__init__", lambda self, net, clip_norm: honest(self, net, 40.0 * clip_norm))
        assert chosen.audited(1.0, 8).exceeds


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("method", "params"), [("pecl", {"mode": "local"}), ("lm-mtl", {"mechanism": "fn"})])
def test_copies_tell_which_text_they_are_of_and_no_more_than_is_accounted(method: str, params: dict[str, Any]) -> None:
    """At 230 texts a side mu, about 1 at epsilon 8, has a standard error of 0.1."""
    chosen = asked(method, 8.0, "replace", length=16, **params)
    worst, natural = catalog.auditor(method)(chosen, 256)
    assert 0.7 < worst.lower_bound <= worst.accounted <= 8.0
    assert 0 <= natural.lower_bound <= natural.accounted
    assert (worst.through, "real sentences" in natural.attack) == ("learner", True)


@pytest.mark.usefixtures("fixed_noise")
def test_copies_with_noisy_answers_are_read_together_and_too_little_noise_is_called_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = asked("lm-er", 8.0, "replace", length=16, mechanism="fn", label_share=0.5)
    assert 0.3 < catalog.auditor("lm-er")(chosen, 640)[0].lower_bound <= 8.0
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.language.adapted_model", 0.1)
    few = asked("lm-er", 1.0, "replace", length=16, mechanism="fn")
    assert catalog.auditor("lm-er")(few, 128)[0].exceeds


@pytest.mark.usefixtures("fixed_noise")
def test_a_real_sentence_is_looked_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_games, "_MOST_NATURAL", 6)
    found = catalog.auditor("lm-gem")(asked("lm-gem", adjacency="replace"), 32)
    assert [one.attack.split("(")[1] for one in found] == ["worst-case texts)", "a real sentence)"]
    assert all(one.lower_bound <= one.accounted for one in found)
