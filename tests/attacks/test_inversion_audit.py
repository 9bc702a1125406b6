"""Reading tokens from noisy embeddings as an audit: it reads what is published, and stays below every bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.attacks import token_noise_games
from dpcl_core.attacks.token_noise_games import inversion_audited, nearest_rows, noisy_mean_rows
from dpcl_core.backbones import plain_language
from dpcl_core.errors import BadInput
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.text_mechanisms import clipped, printed_ratio
from dpcl_core.spec import RunSpec

DELTA = 1e-5


def spec(method: str, epsilons: list[float], scenario: str = "source-incremental", **params: object) -> RunSpec:
    return checks.parse(
        {
            "method": method,
            "params": params,
            "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"},
            "scenario": {"kind": scenario},
            "labels": "prior",
            "privacy": {"epsilons": epsilons, "delta": DELTA, "adjacency": "replace"},
        }
    )


def share(sentence: str) -> float:
    return float(sentence.split("names ")[1].split(" %")[0]) / 100


def test_published_noise_is_read_through_as_often_as_the_simulation_says() -> None:
    """Least noised token, three epochs. Two shares of 1,536 tokens are 0.09 apart with a chance below 1e-8."""
    (found,) = inversion_audited(spec("pecl-published", [10.0], epochs=3), 500)
    table = plain_language.load().embeddings
    clip_norm = float(np.median(np.linalg.norm(table, axis=1)))
    rows, stds = clipped(table, clip_norm), np.full(len(table), clip_norm * printed_ratio(10.0, DELTA))
    expected = float((nearest_rows(rows, noisy_mean_rows(rows, stds, 3, ReleaseNoise()))[0] == np.arange(len(rows))).mean())
    assert share(found.attack) == pytest.approx(expected, abs=0.09)
    assert expected > 0.1
    assert "from 3 noisy embeddings" in found.attack
    assert found.lower_bound > 3
    assert (found.claimed, found.accounted) == (10.0, math.inf)


@pytest.mark.parametrize(
    ("method", "params"),
    [("pecl", {"mode": "local"}), ("pecl", {"mode": "local", "label_share": 0.25}), ("lm-er", {"mechanism": "fn"})],
)
def test_one_noise_for_every_token_keeps_its_bound(method: str, params: dict[str, object]) -> None:
    """Names proved wrong by a bound have a chance below 5 % each, and far less: at 8 nothing is read."""
    weak, strong, none = inversion_audited(spec(method, [8.0, 100.0, math.inf], **params), 500)
    assert share(weak.attack) < 0.05
    assert weak.lower_bound < 1
    for found in (weak, strong):
        assert found.lower_bound < found.accounted <= found.claimed
    assert share(none.attack) == 1
    assert none.lower_bound > 4
    assert none.accounted == math.inf


@pytest.mark.parametrize(
    ("method", "params"), [("pecl", {"mode": "central"}), ("lm-er", {"mechanism": "dp-sgd"}), ("cosine", {})]
)
def test_where_embeddings_have_no_noise_there_is_nothing_to_read_through(method: str, params: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=f"--attack = inversion: must be left out: {method} adds no noise to embeddings"):
        inversion_audited(spec(method, [8.0], **params), 500)


def test_the_two_tokens_lie_farthest_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows are compared in several blocks."""
    monkeypatch.setattr(token_noise_games, "_BLOCK", 7)
    table = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    apart = np.linalg.norm(table[:, None] - table[None], axis=2)
    assert apart[token_noise_games._farthest(table)] == apart.max()


def test_a_run_is_audited_on_the_table_of_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 3,000 rows, of which 2,000 are named; without noise every row is its own nearest."""
    table = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    monkeypatch.setattr(token_noise_games, "_embeddings", {"smollm2": table}.__getitem__)
    asked = spec("pecl", [math.inf], mode="local")
    asked = replace(asked, data=replace(asked.data, backbone="smollm2"))
    (found,) = inversion_audited(asked, 100)
    assert "the nearest of 3,000 rows names 100.0 % of 2,000 tokens drawn from them" in found.attack
