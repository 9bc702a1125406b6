"""Audits in one training of adapters: what is read off a step, who is told apart, what they prove, and what they catch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dpcl_core import checks, presets
from dpcl_core.attacks import feature_games, language_games, one_run
from dpcl_core.methods.features import adapters as features_adapters
from dpcl_core.methods.features.adapters import Gradients
from dpcl_core.methods.language import gradients as text_gradients
from dpcl_core.spec import RunSpec
from tests.attacks import mutants
from tests.support.tiers import quick

TEXTS = ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl")
PICTURES = (("peft-ensemble", "film"), ("naive", "lora"), ("non-cl", "film"))


def of_texts(method: str, epsilon: float = 4.0, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    raw = {**presets.raw("pecl-synthetic"), "method": method, "params": params, "seeds": [0]}
    return checks.parse({**raw, "privacy": {"epsilons": [epsilon], "delta": 1e-5, "adjacency": adjacency}})


def of_pictures(method: str, adapter: str, epsilon: float = 4.0, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    raw = {**presets.raw("digits-peft-head"), "method": method, "data": {"dataset": "digits", "backbone": "vit-cifar100"}}
    privacy = {"epsilons": [epsilon], "delta": 1e-5, "adjacency": adjacency}
    return checks.parse({**raw, "params": {"adapter": adapter, **params}, "privacy": privacy})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_games, "N_PICTURES", 40)
    monkeypatch.setattr(language_games, "N_TEXTS", 64)


@pytest.fixture
def fixed(fixed_noise: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same coins and noise every time."""
    monkeypatch.setattr("secrets.randbelow", lambda below: 11)
    monkeypatch.setattr(feature_games, "N_PICTURES", 130)
    monkeypatch.setattr(language_games, "N_TEXTS", 200)


def test_a_first_step_of_adam_is_read_backwards() -> None:
    """To a thousandth, over six orders of magnitude around Adam's own small number."""
    mean = torch.tensor([s * 10.0**k for k in range(-11, -5) for s in (-3.0, 1.0)], dtype=torch.float32)
    weight = torch.nn.Parameter(torch.zeros(len(mean)))
    weight.grad = mean.clone()
    torch.optim.AdamW([weight], lr=1.0).step()
    context = one_run.one_step_context(of_texts("lm-seqft"), 4.0, 1.0, 2)
    before, after = {"w": np.zeros(len(mean), np.float32)}, {"w": weight.detach().numpy()}
    found = one_run.noisy_sum(before, after, context) / context.n_people
    assert found == pytest.approx(mean.double().numpy(), rel=1e-3)


def test_log_odds_see_each_way_through_the_covariance_of_all_others() -> None:
    random = np.random.default_rng(3)
    ways, seen, std = random.standard_normal((5, 7)) + 1.0, random.standard_normal(7), 0.7
    usual = ways.sum(axis=0) / 2
    inverse = np.linalg.inv(std**2 * np.eye(7) + ways.T @ ways / 4)
    factor = (usual @ inverse @ seen) / (usual @ inverse @ usual)
    for place, found in enumerate(one_run.log_odds(ways, seen, usual, std)):
        others = np.delete(ways, place, axis=0)
        covariance = std**2 * np.eye(7) + others.T @ others / 4
        assert found == pytest.approx(ways[place] @ np.linalg.solve(covariance, seen - factor * usual))


def test_those_are_taken_that_have_something_of_their_own() -> None:
    """Twins come last, whatever their length."""
    ways = np.array([[3.0, 0, 0], [3.0, 0, 0], [0, 2.0, 0], [0, 2.0, 0], [0, 0, 1.0]])
    assert set(one_run.least_alike(ways, 3, 0.01).tolist()) == {0, 2, 4}
    assert sorted(one_run.least_alike(ways, 5, 0.01).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clip_norm", [0.05, 1000.0])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_pictures_are_scored_along_their_clipped_gradients(is_replaced: bool, clip_norm: float) -> None:
    """The closed form gives what automatic differentiation does, for gradients above and below the clipping norm."""
    adjacency, n = "replace" if is_replaced else "add-remove", 5
    game = feature_games.pictures_game(of_pictures("naive", "lora", 4.0, adjacency, clip_norm=clip_norm), 4.0, n)
    n_classes = game.known.n_classes
    network = feature_games.initial_network(game.spec, n_classes)
    step = np.random.default_rng(1).uniform(-0.9, 0.9, (n_classes, network.head.in_features + 1))
    scores = game.score(0, [{"head.weight": -step[:, :-1], "head.bias": -step[:, -1]}])[:, 0]
    sums = torch.from_numpy(1e-8 * game.known.n_people * step / (1 - np.abs(step)))
    present = [game.tasks(0, side)[0].train for side in (False, True)]
    pictures = {int(y): x for part in present for x, y in zip(part.inputs, part.labels, strict=True)}
    gradients = Gradients(network, clip_norm, 1, "cpu")

    def along(place: int, label: int) -> float:
        *_, weight, bias = gradients.of(pictures[place][None], np.array([label]))
        return float((sums[:, :-1] * weight).sum() + sums[:, -1] @ bias.double())

    expected = [along(k, k) - (along(k, n + k) if is_replaced else 0.0) for k in range(n)]
    assert scores == pytest.approx(np.array(expected), rel=1e-3)  # networks compute in single precision


@pytest.mark.parametrize("asked", quick(3, [
    *(of_pictures(*what, adjacency="replace" if what[0] == "naive" else "add-remove") for what in PICTURES),
    *(of_texts(method, adjacency="replace" if method == "lm-er" else "add-remove") for method in TEXTS),
]), ids=lambda asked: asked.method)  # fmt: skip
def test_every_adapter_is_played_and_proves_no_more_than_is_accounted(asked: RunSpec, small: None) -> None:
    """So few guesses would not prove 4 if all of them were right."""
    (found,) = one_run.audit(asked)
    assert (found.claimed, found.through) == (4.0, "run")
    assert 0 <= found.lower_bound < 3.9 < found.accounted <= 4.0
    assert found.guessed


@pytest.mark.parametrize("asked", quick(1, [
    of_texts("lm-seqft", 8.0), of_texts("pecl", 8.0), of_pictures("peft-ensemble", "lora", 8.0),
]), ids=lambda asked: asked.method)  # fmt: skip
def test_the_coins_are_told_from_one_step(asked: RunSpec, fixed: None) -> None:
    """26 or 40 guesses prove something; the coins are the same every time, and so is the noise."""
    (found,) = one_run.audit(asked)
    assert 0.3 < found.lower_bound <= found.accounted == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize(("module", "asked"), [
    ("dpcl_core.methods.language.adapted_model", of_texts("lm-er", 1.0)),
    ("dpcl_core.methods.language.adapted_model", of_texts("pecl", 1.0)),
    ("dpcl_core.methods.features.trainer", of_pictures("peft-ensemble", "film", 1.0)),
], ids=lambda asked: getattr(asked, "method", ""))  # fmt: skip
def test_next_to_no_noise_is_called_an_error(
    module: str, asked: RunSpec, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutants.scaled_noise(monkeypatch, module, 0.01)
    (found,) = one_run.audit(asked)
    assert found.exceeds


@pytest.mark.parametrize("asked", [
    of_texts("lm-seqft", 1.0, clip_norm=0.01), of_texts("pecl", 1.0, clip_norm=0.01),
], ids=lambda asked: asked.method)  # fmt: skip
def test_missing_clipping_of_texts_is_called_an_error(asked: RunSpec, fixed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacker goes by clipped gradients."""
    game = language_games.planted_texts_game(asked, 1.0, 200)
    monkeypatch.setattr(language_games, "planted_texts_game", lambda *args: game)
    honest = text_gradients.Gradients.__init__
    longer = lambda self, net, clip_norm: honest(self, net, 1e3 * clip_norm)  # noqa: E731
    monkeypatch.setattr(text_gradients.Gradients, "__init__", longer)
    assert one_run.audit(asked)[0].exceeds


def test_missing_clipping_of_pictures_is_called_an_error(fixed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = features_adapters.clipped_sums
    monkeypatch.setattr(features_adapters, "clipped_sums", lambda grads, clip_norm: honest(grads, 1e9))
    assert one_run.audit(of_pictures("peft-ensemble", "film", 1.0, clip_norm=0.05))[0].exceeds
