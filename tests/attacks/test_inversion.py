"""Reading tokens from noisy embeddings: closed forms, simulation, and the audit that stays below every bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpcl_core.attacks import token_noise_games
from dpcl_core.attacks.token_noise_games import inversion_audited, nearest_rows, noisy_mean_rows
from dpcl_core.backbones import plain_language
from dpcl_core.errors import BadInput
from dpcl_core.explorers.tokens import auroc
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.noise import ReleaseNoise, SeededNoise
from dpcl_core.privacy.text_mechanisms import clipped, printed_ratio
from dpcl_core.spec import Cell, RunSpec
from tests.attacks.asked import asked

DELTA = 1e-6
CELL = Cell(1.0, 0)


def printed(epsilon: float) -> float:
    return text_mechanisms.printed_ratio(epsilon, DELTA)


def expected_recovery(ratio: float, n_rows: int, n_releases: int = 1) -> float:
    """Expected share for a table of orthogonal rows of length C: E[Phi(z + sqrt(n) C / sigma)^(N - 1)]."""
    z, step = np.linspace(-9, 9, 201, retstep=True)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return float((density * np.exp((n_rows - 1) * log_ndtr(z + math.sqrt(n_releases) / ratio))).sum() * step)


def share_recovered(table: NDArray[np.float64], tokens: NDArray[np.int64], ratio: float, n_releases: int) -> float:
    """Share of tokens that a nearest-row attacker identifies, for rows clipped to length 2."""
    rows = clipped(table, 2.0)
    seen = token_noise_games.noisy_mean_rows(
        rows[tokens], np.full(len(tokens), 2 * ratio), n_releases, SeededNoise(CELL, "1")
    )
    return float((token_noise_games.nearest_rows(rows, seen)[0] == tokens).mean())


@pytest.mark.parametrize(
    ("epsilon", "n", "share"), [(1, 1, 7e-5), (5, 1, 1.0e-3), (10, 1, 0.015), (10, 3, 0.20), (10, 10, 0.96)]
)
def test_recovery_of_the_specification(epsilon: float, n: int, share: float) -> None:
    """32,000 words, nominal budgets, epochs with fresh noise: as rounded there."""
    assert expected_recovery(printed(epsilon), 32_000, n) == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize(
    ("epsilon", "n", "share"), [(1, 1, 55), (5, 1, 75), (10, 1, 91), (1, 3, 59), (5, 3, 88), (10, 3, 99)]
)
def test_two_candidates_of_the_specification(epsilon: float, n: int, share: float) -> None:
    assert 100 * ndtr(math.sqrt(n / 2) / printed(epsilon)) == pytest.approx(share, abs=0.51)


@pytest.mark.parametrize(("epsilon", "ratio_1", "ratio_2", "ratio_3"), [(1, 339, 147, 42), (10, 34, 14.7, 4.2)])
def test_noise_is_longer_than_the_signal_by_the_root_of_the_width(
    epsilon: float, ratio_1: float, ratio_2: float, ratio_3: float
) -> None:
    for width, expected in ((4096, ratio_1), (768, ratio_2), (64, ratio_3)):
        assert math.sqrt(width) * printed(epsilon) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("epsilon", [5.0, 10.0])
def test_simulation_agrees_with_the_closed_form(epsilon: float, n: int) -> None:
    """300 orthogonal rows, 3,000 tokens: five standard errors (false alarm 6e-7). A tenth less noise is told apart at 10."""
    table, tokens = 7 * np.eye(300), np.arange(300).repeat(10)
    found = share_recovered(table, tokens, printed(epsilon), n)
    exact = expected_recovery(printed(epsilon), 300, n)
    error = 5 * math.sqrt(exact * (1 - exact) / len(tokens))
    assert abs(found - exact) < error
    if epsilon == 10:
        assert abs(expected_recovery(0.8 * printed(epsilon), 300, n) - exact) > error


def test_the_mean_of_releases_has_the_noise_it_says() -> None:
    rows = np.zeros((200, 100))
    std = np.linspace(0.5, 2, 200)
    once = token_noise_games.noisy_mean_rows(rows, std, 1, SeededNoise(CELL, "0"))
    nine = token_noise_games.noisy_mean_rows(rows, std, 9, SeededNoise(CELL, "0"))
    assert nine == pytest.approx(once / 3)
    assert (once / std[:, None]).std() == pytest.approx(1, abs=5 / math.sqrt(2 * once.size))


def test_without_noise_every_token_is_read() -> None:
    table = np.random.default_rng(0).standard_normal((50, 8))
    assert share_recovered(table, np.arange(50), 0.0, 1) == 1


def test_nearest_equals_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_noise_games, "_COMPARED", 700)  # several blocks
    generator = np.random.default_rng(2)
    table, vectors = generator.standard_normal((60, 5)), generator.standard_normal((40, 5))
    places, distances = token_noise_games.nearest_rows(table, vectors)
    for vector, place, distance in zip(vectors, places, distances, strict=True):
        every = [math.dist(vector, row) for row in table]
        assert place == int(np.argmin(every))
        assert distance == pytest.approx(min(every))


def test_published_noise_gives_stop_words_away_and_one_noise_for_all_does_not() -> None:
    """As published, stop words alone have distance 0. Equal noise, on rows of equal length: chance, 0.5."""
    generator = np.random.default_rng(4)
    table = clipped(10 * generator.standard_normal((400, 64)), 1.0)
    tokens = np.arange(400)
    is_stop = tokens % 4 == 0
    published = np.where(is_stop, 0.0, printed(10.0))
    noisy = token_noise_games.noisy_mean_rows(table[tokens], published, 1, SeededNoise(CELL, "2"))
    np.testing.assert_array_equal(token_noise_games.nearest_rows(table, noisy)[1] == 0, is_stop)
    even = token_noise_games.noisy_mean_rows(table[tokens], np.full(400, printed(10.0)), 1, SeededNoise(CELL, "2"))
    evidence = -token_noise_games.nearest_rows(table, even)[1]
    # 100 against 300: the standard error of a chance AUROC is sqrt(401 / (12 * 100 * 300)) = 0.0334.
    assert auroc(evidence, is_stop) == pytest.approx(0.5, abs=5 * 0.0334)


# Reading tokens from noisy embeddings as an audit: it reads what is published, and stays below every bound.


AUDIT_DELTA = 1e-5


def spec(method: str, epsilons: list[float], **params: object) -> RunSpec:
    return asked(
        method, *epsilons, adjacency="replace", params=params, labels="prior", scenario={"kind": "source-incremental"},
        data={"dataset": "pii-synthetic", "backbone": "lm-tiny"},
    )  # fmt: skip


def share(sentence: str) -> float:
    return float(sentence.split("names ")[1].split(" %")[0]) / 100


def test_published_noise_is_read_through_as_often_as_the_simulation_says() -> None:
    """Least noised token, three epochs. Two shares of 1,536 tokens are 0.09 apart with a chance below 1e-8."""
    (found,) = inversion_audited(spec("pecl-published", [10.0], epochs=3), 500)
    table = plain_language.load().embeddings
    clip_norm = float(np.median(np.linalg.norm(table, axis=1)))
    rows, stds = clipped(table, clip_norm), np.full(len(table), clip_norm * printed_ratio(10.0, AUDIT_DELTA))
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
    assert apart[token_noise_games.farthest_rows(table)] == apart.max()


def test_a_run_is_audited_on_the_table_of_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 3,000 rows, of which 2,000 are named; without noise every row is its own nearest."""
    table = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    monkeypatch.setattr(token_noise_games, "_embeddings", {"smollm2": table}.__getitem__)
    chosen = spec("pecl", [math.inf], mode="local")
    chosen = replace(chosen, data=replace(chosen.data, backbone="smollm2"))
    (found,) = inversion_audited(chosen, 100)
    assert "the nearest of 3,000 rows names 100.0 % of 2,000 tokens drawn from them" in found.attack
