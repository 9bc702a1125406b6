"""Audits of PeCL and of a life with replays: published noise fails in a second; repairs, and one noise for all, hold."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpcl_core.attacks import catalog, lifelong_games, token_noise_games
from dpcl_core.attacks.token_noise_games import ATTACKS, Setting, inversion_audited, nearest_rows, noisy_mean_rows
from dpcl_core.backbones import plain_language
from dpcl_core.errors import BadInput
from dpcl_core.explorers.tokens import auroc
from dpcl_core.methods.language import pecl
from dpcl_core.methods.lifelong import odometer
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.audit_bounds import Audited, one_way_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, ReleaseNoise, SeededNoise
from dpcl_core.spec import Cell, RunSpec
from tests.attacks.asked import asked
from tests.support.tiers import quick


def published(epsilon: float = 10.0, **params: object) -> RunSpec:
    return asked("pecl-published", epsilon, adjacency="replace", delta=1e-6, params=params, data={"dataset": "digits"})


def life_audited(
    *epsilons: float, adjacency: str = "add-remove", kind: str = "split", trials: int = 2000, **params: Any
) -> list[Audited]:
    scenario = {"kind": kind, "tasks": 3 if kind == "permuted" else 5}  # equal parts of ten classes
    data = {"dataset": "digits"}
    spec = asked("pecl", *epsilons, adjacency=adjacency, delta=1e-6, params=params, data=data, scenario=scenario)
    return list(catalog.auditor("pecl", "life")(spec, trials))


def agem_audited(
    *epsilons: float, trials: int = 2000, kind: str = "split", adjacency: str = "add-remove", **params: Any
) -> list[Audited]:
    scenario, params = {"kind": kind, "tasks": 5}, {"memory_size": 100, **params}
    spec = asked("dp-agem", *epsilons or (8.0,), adjacency=adjacency, scenario=scenario, params=params)
    return list(catalog.auditor("dp-agem", "life")(spec, trials))


def test_a_published_run_exceeds_its_claim() -> None:
    (found,) = catalog.auditor("pecl-published")(published(), 1000)
    assert (found.claimed, found.accounted, found.trials) == (1.0, math.inf, 1000)
    assert 4.3 < found.lower_bound < 5.601, "six errors in 2,000 releases, one in 10,000, come with a chance below 1e-6"
    assert re.search(r"audited at least [45]\.", found.sentence())
    assert catalog.auditor("pecl-published")(published(math.inf), 100)[0].lower_bound > 3


def test_the_attacked_noise_is_the_runs_own() -> None:
    found = token_noise_games.setting(published(8.0, eps_lower=2, epochs=4, length=32, granularity="sentence"), 8.0)
    assert found == Setting(2, 8, 1e-6, 4, 32, True)


def test_the_catalog_names_the_attacks() -> None:
    assert catalog.names("pecl-published") == ("level", "exact", "context", "distance", "epochs")
    (found,) = catalog.auditor("pecl-published", "exact")(published(), 40)
    assert found.attack.startswith("exact vectors")
    with pytest.raises(BadInput, match="must be one of level, exact, context, distance, epochs"):
        catalog.auditor("pecl-published", "guess")
    assert catalog.names("pecl") == ("learner", "life")


@pytest.mark.parametrize(("recurrence", "adjacency", "params"), quick(1, [
    ("split", "add-remove", {}), ("split", "replace", {}), ("permuted", "add-remove", {"epochs": 1}),
    ("split", "replace", {"mode": "local"}), ("permuted", "replace", {"mode": "local", "label_share": 0.3}),
]))  # fmt: skip
def test_the_repairs_stay_below_what_is_accounted_and_the_attack_has_power(
    recurrence: str, adjacency: str, params: dict[str, object]
) -> None:
    """Measured over 12 audits each: 0.2 to 0.3 at epsilon 2, with a standard deviation of at most 0.26; 2.7 to 4.1 at
    epsilon 16, of at most 0.4: the limits are five of them away."""
    two, sixteen = life_audited(2.0, 16.0, adjacency=adjacency, kind=recurrence, **params)
    assert two.lower_bound < two.accounted <= 2.0
    assert 0.7 < sixteen.lower_bound < sixteen.accounted <= 16.0


def test_where_the_budget_is_a_tokens_the_text_is_accounted() -> None:
    (found,) = life_audited(2.0, adjacency="replace", mode="local", budget_per="token", length=16)
    assert found.claimed == 2.0
    assert found.lower_bound < found.accounted
    assert found.accounted > 3 * found.claimed


@pytest.mark.parametrize(("found", "least"), [
    (partial(life_audited, adjacency="replace", trials=500), 3),
    (partial(life_audited, adjacency="replace", trials=500, mode="local"), 3), (partial(agem_audited, trials=1000), 4),
])  # fmt: skip
def test_without_noise_everyone_is_found_out(found: Callable[[float], list[Audited]], least: float) -> None:
    (result,) = found(math.inf)
    assert result.accounted == math.inf
    assert result.lower_bound > least


@pytest.mark.parametrize("params", [{}, {"mode": "local"}])
def test_noise_that_is_too_small_is_refuted(params: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the noise that a budget of 1 needs."""
    true = pecl.noises

    def too_little(*args: object) -> pecl.Noises:
        found = true(*args)  # type: ignore[arg-type]
        return pecl.Noises(found.multiplier / 20, found.ratio / 20, found.labels)

    monkeypatch.setattr(pecl, "noises", too_little)
    (found,) = life_audited(1.0, adjacency="replace", **params)
    assert found.claimed < found.lower_bound < found.accounted


@pytest.mark.parametrize("scenario", quick(1, ["split", "permuted"]))
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
def test_the_attack_on_replays_finds_something_and_stays_below_the_accounted_epsilon(scenario: str, adjacency: str) -> None:
    """Measured over 15 audits each: 0 to 0.9 at epsilon 2, 1.8 to 3.1 at epsilon 8, with a standard deviation of at most
    0.35, so that the limits are five of them away."""
    two, eight = agem_audited(2.0, 8.0, kind=scenario, adjacency=adjacency)
    assert two.lower_bound < two.accounted <= 2.0
    assert 0.5 < eight.lower_bound < eight.accounted <= 8.0


def test_a_rule_that_forgets_the_replays_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 steps of small batches cost a person little; 41 replays of the whole sample cost far more, and that is measured."""
    settings = {"sample_rate": 0.05, "replay_rate": 1.0, "epochs": 1}
    monkeypatch.setattr(odometer, "noises", lambda plan, epsilon: odometer.Noises(4.0, 4.0))
    own = agem_audited(trials=1000, **settings, projection="never")[0].accounted
    (result,) = agem_audited(**settings)
    assert own < 0.3 < 0.5 < result.lower_bound < result.accounted  # measured: 2.3, as at epsilon 8 above


def test_a_long_life_is_attacked_in_part_and_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured over 500 audits: 1.9 with a standard deviation of 0.3. With 2,000 trials one audit in 300 proves nothing."""
    monkeypatch.setattr(lifelong_games, "_MOST_STEPS", 50)
    (whole,) = agem_audited(trials=10_000)
    assert 0 < whole.lower_bound < whole.accounted


def test_the_one_way_bound_is_the_one_inequality() -> None:
    assert one_way_bound(1000, 1000, 0, 1000, 1e-6) == pytest.approx(5.6006, abs=1e-4)
    assert (one_way_bound(0, 1000, 0, 1000, 1e-6), one_way_bound(1000, 1000, 1000, 1000, 1e-6)) == (0.0, 0.0)
    assert one_way_bound(10, 1000, 0, 1000, 1e-6) < one_way_bound(1000, 1000, 900, 1000, 1e-6) + 1


def test_a_one_way_bound_is_wrong_no_more_often_than_it_says() -> None:
    """Both sides have one law: a bound above 0 is an error, in at most 5 % of audits; 400 of them, six standard errors."""
    hits, alarms = np.random.default_rng(0).binomial(500, 0.3, (2, 400))
    wrong = np.mean([one_way_bound(int(a), 500, int(b), 500, 0.0) > 0 for a, b in zip(hits, alarms, strict=True)])
    assert wrong <= 0.05 + 6 * (0.05 * 0.95 / 400) ** 0.5


# Attacks on noise that depends on the token: they fire on what is published, and prove nothing where all share one.


PUBLISHED = Setting(1.0, 10.0, 1e-6, 3)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("setting", quick(1, [PUBLISHED, Setting(2.0, 8.0, 1e-5, 3)]))
def test_every_attack_proves_more_than_the_paper_claims(attack: str, setting: Setting) -> None:
    """Exact vectors without an error in 1,000 releases a side; by length one release in 10,000 is taken for the other side's
    (14 of 240,000), and six errors, with which 4.34 is proved, come with a chance below 1e-6. Twice the distance is closest:
    at 4 million releases a side it misses the claim of 1 as rarely (a bound of 1.2 with a standard deviation of 0.04)."""
    found = token_noise_games.audited(setting, attack, 1000)
    assert found.lower_bound > found.claimed >= setting.lower
    assert (found.claimed, found.accounted) == (pytest.approx(setting.lower, rel=0.25), math.inf)
    if attack == "exact":
        assert found.lower_bound == pytest.approx(5.6006, abs=1e-4)
    if attack == "level":
        assert 4.3 < found.lower_bound < 5.601


def shared(setting: Setting, n_tokens: int) -> object:
    """In place of the published mechanism: one noise for all tokens, with which a text is within the smallest budget."""
    ratio = text_mechanisms.ratio_for(setting.lower, setting.delta, n_tokens, setting.n_epochs)

    def mechanism(
        table: NDArray[np.float64], tokens: NDArray[np.int64], ratios: NDArray[np.float64], clip_norm: float,
        noise: Noise, ledger: Ledger, *, task: int,
    ) -> NDArray[np.float32]:  # fmt: skip
        return text_mechanisms.noisy_embeddings(table, tokens, ratio, clip_norm, noise, ledger, task=task)

    return mechanism


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("setting", [PUBLISHED, Setting(4.0, 8.0, 1e-6, 1)])
def test_no_attack_passes_the_bound_where_all_tokens_share_one_noise(
    attack: str, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms below 1e-6: 100,000 releases prove 0.6 of an epsilon of 1 with a standard deviation of 0.075, and where
    both sides have one law nothing is proved but by 20 cries against none."""
    monkeypatch.setattr(token_noise_games, "published_embeddings", shared(setting, 1))
    found = token_noise_games.audited(setting, attack, 25 if attack == "distance" else 1000)
    assert found.lower_bound < setting.lower
    if attack in ("level", "exact", "context"):
        assert found.lower_bound < 0.9


def test_one_noise_a_text_hides_stop_words_and_still_tells_its_level() -> None:
    """`w/o TDP`: one token of 64 moves the mean score, and with it the noise of all 64."""
    setting = Setting(1.0, 10.0, 1e-6, 3, 64, True)
    assert token_noise_games.audited(setting, "exact", 500).lower_bound == 0
    found = token_noise_games.audited(setting, "level", 1000)
    assert pytest.approx(1 + 9 * (0.5 - 0.5 / 64) ** 2) == found.claimed < found.lower_bound


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_noise_every_attack_sees_the_token(attack: str) -> None:
    found = token_noise_games.audited(Setting(1.0, math.inf, 1e-6, 3), attack, 200)
    assert (found.trials, found.accounted) == (200, math.inf)
    assert found.lower_bound == pytest.approx(math.log((0.025 ** (1 / 200) - 1e-6) / (1 - 0.025 ** (1 / 200))))


def test_the_later_tokens_alone_are_looked_at_and_the_texts_differ_in_one() -> None:
    texts, log_p, place = token_noise_games._neighbours()
    assert np.flatnonzero(texts[0] != texts[1]).tolist() == [place]
    np.testing.assert_array_equal(log_p[0, :place], log_p[1, :place])
    assert (log_p[0, place + 1 :] != log_p[1, place + 1 :]).any()
    assert log_p[0, place] <= log_p[1, place]


def test_the_released_vectors_are_the_mechanisms_own() -> None:
    """Normal noise of the printed ratio on clipped rows: variance by its law, six standard deviations."""
    ratios = PUBLISHED.ratios([1.0, 5.0])
    assert ratios == pytest.approx([5.2988, 1.0598], abs=5e-5)
    seen = token_noise_games._released(PUBLISHED, 3 * np.eye(2, 32), [0, 1], ratios, ReleaseNoise(), 2000)
    rest = (seen - np.eye(2, 32)) / ratios[:, None]
    for place in range(2):
        assert np.square(rest[:, place]).mean() == pytest.approx(1, abs=6 * math.sqrt(2 / (2000 * 32)))


# Reading tokens from noisy embeddings: closed forms, simulation, and the audit that stays below every bound.


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
    rows = text_mechanisms.clipped(table, 2.0)
    seen = noisy_mean_rows(
        rows[tokens], np.full(len(tokens), 2 * ratio), n_releases, SeededNoise(CELL, "1")
    )
    return float((nearest_rows(rows, seen)[0] == tokens).mean())


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
    once = noisy_mean_rows(rows, std, 1, SeededNoise(CELL, "0"))
    assert noisy_mean_rows(rows, std, 9, SeededNoise(CELL, "0")) == pytest.approx(once / 3)
    assert (once / std[:, None]).std() == pytest.approx(1, abs=5 / math.sqrt(2 * once.size))


def test_without_noise_every_token_is_read() -> None:
    assert share_recovered(np.random.default_rng(0).standard_normal((50, 8)), np.arange(50), 0.0, 1) == 1


def test_nearest_equals_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_noise_games, "_COMPARED", 700)  # several blocks
    generator = np.random.default_rng(2)
    table, vectors = generator.standard_normal((60, 5)), generator.standard_normal((40, 5))
    places, distances = nearest_rows(table, vectors)
    for vector, place, distance in zip(vectors, places, distances, strict=True):
        every = [math.dist(vector, row) for row in table]
        assert place == int(np.argmin(every))
        assert distance == pytest.approx(min(every))


def test_published_noise_gives_stop_words_away_and_one_noise_for_all_does_not() -> None:
    """As published, stop words alone have distance 0. Equal noise, on rows of equal length: chance, 0.5."""
    table = text_mechanisms.clipped(10 * np.random.default_rng(4).standard_normal((400, 64)), 1.0)
    tokens = np.arange(400)
    is_stop = tokens % 4 == 0
    noisy = noisy_mean_rows(table[tokens], np.where(is_stop, 0.0, printed(10.0)), 1, SeededNoise(CELL, "2"))
    np.testing.assert_array_equal(nearest_rows(table, noisy)[1] == 0, is_stop)
    even = noisy_mean_rows(table[tokens], np.full(400, printed(10.0)), 1, SeededNoise(CELL, "2"))
    evidence = -nearest_rows(table, even)[1]
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
    ratio = text_mechanisms.printed_ratio(10.0, AUDIT_DELTA)
    rows, stds = text_mechanisms.clipped(table, clip_norm), np.full(len(table), clip_norm * ratio)
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
