"""Audits in one training, through the learner: what they prove, what they would catch, and whom they refuse."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom

from dpcl_core.attacks import catalog as attacks
from dpcl_core.attacks import feature_games, federated_games, language_games, lifelong_games, one_run, play
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.features import side_by_side
from dpcl_core.privacy import audit_bounds, gaussian
from dpcl_core.runs.store import Store
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.spec import RunSpec, fields_of
from tests.attacks import mutants
from tests.attacks.asked import asked
from tests.support import asserting, replay, tiers

DELTA = 1e-5


def spec(method: str = "cosine", epsilon: float = 4.0, **more: object) -> RunSpec:
    return asked(method, epsilon, preset="digits-cosine" if method == "cosine" else "digits-peft-head", **more)


def audited(chosen: RunSpec) -> audit_bounds.Audited:
    return one_run.audited(chosen, chosen.privacy.epsilons[0])


def nulls(n: int, epsilon: float, seed: int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of n coins under Gaussian noise that costs epsilon, times a factor."""
    random = np.random.default_rng(seed)
    coins = random.integers(0, 2, n).astype(bool)
    return random.normal(coins / gaussian.sigma(epsilon, DELTA) / factor)[:, None], coins


def judged(seed: int, factor: float = 1.0) -> audit_bounds.Audited:
    """What 600 coins prove of noise that costs epsilon 1, times a factor."""
    return one_run.judged(*nulls(600, 1.0, seed, factor), 1.0, 1.0, DELTA, "", 0.95, is_gaussian=True)


def test_a_method_that_keeps_its_word_is_rarely_called_wrong_and_one_with_half_the_noise_nearly_always() -> None:
    """200 nulls with fixed seeds at the level of 5 %: at most 18 alarms; what `detects` names is caught in most of 50."""
    found = [judged(seed) for seed in range(200)]
    assert sum(one.exceeds for one in found) <= 18
    factor = float(found[0].detects.removeprefix("noise × "))
    assert 0.1 < factor < 1.0
    assert sum(judged(seed, factor).exceeds for seed in range(50)) >= binom.ppf(1e-3, 50, 0.85)


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
    found = audited(spec(method))
    assert (found.through, found.accounted) == ("run", pytest.approx(4.0, rel=1e-3))
    assert 0.8 < found.lower_bound <= found.accounted
    assert found.detects is not None


def test_a_fifth_of_the_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every guess is right then, which proves 5 and more; missed less than once in ten million audits."""
    mutants.scaled_noise(monkeypatch, "dpcl_core.methods.features.cosine", 0.2)
    assert audited(spec()).exceeds


def test_a_stored_run_is_audited_from_the_command_line(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    run_id = replay.fill(Store(), spec(), replay.recorded(spec()))
    (found,) = asserting.document_of(capsys, "audit", "--run", run_id)["audits"]
    assert found["through"] == "run"
    assert 0 < found["audited_lower_bound"] <= found["accounted_epsilon"]
    assert "cannot be audited afterwards" in found["adversary"]
    assert asserting.document_of(capsys, "show", run_id)["audits"] == [found]
    said = asserting.complaint(capsys, "audit", "--run", run_id, "--preset", "digits-cosine")
    assert "cannot be combined with other settings" in said


SMALL = [
    (federated_games, "N_CLIENTS", 60), (federated_games, "N_IN_ROUNDS", 20), (lifelong_games, "N_LABELS", 60),
    (feature_games, "N_PERSONS", 200), (lifelong_games, "N_RECORDS", 128), (language_games, "N_RECORDS", 128),
    (lifelong_games, "N_ONE_HOT", 64),
]  # fmt: skip
PLANTED = [method for method in attacks.audited() if attacks.audit_of(method).planted is not None]
FED = {"labels": "prior", "scenario": {"kind": "federated", "clients": 20}, "params": {}}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, size in SMALL:
        monkeypatch.setattr(module, name, size)


def a_run(method: str) -> RunSpec:
    """Settings of any method, with a budget that all of them allow."""
    card = methods.card(method)
    if card.has_clients:
        few = {"rounds": 5} if "rounds" in fields_of(card.params) else {}  # a tenth of the time
        return asked(method, 4.0, **FED | {"params": few})
    if method == "pecl" or method.startswith("lm-"):
        local = {"mode": "local"} if method == "pecl" else {"mechanism": "fn"}
        return asked(method, 4.0, preset="pecl-synthetic", adjacency="replace", params=local)
    adjacency = "replace" if method == "independent-laplace" else "add-remove"
    params = {"epochs": 1, "sample_rate": 0.5} if method == "dp-agem" else {}
    return asked(method, 4.0, adjacency=adjacency, labels="prior", scenario={"kind": "split", "tasks": 2}, params=params)


def test_every_method_of_the_catalogue_is_played_or_says_why_not() -> None:
    assert set(PLANTED) | set(play.REFUSED) == set(methods.CARDS)
    assert not set(PLANTED) & set(play.REFUSED)
    for method in PLANTED:
        assert play.refusal(a_run(method)) is None, method


@pytest.mark.parametrize("method", tiers.of_methods(PLANTED))
def test_every_game_plays_the_learner_and_proves_no_more_than_is_accounted(method: str, small: None) -> None:
    """More than is accounted would be proved less than once in 10,000 audits, of a method that keeps its word."""
    found = audited(a_run(method))
    assert (found.claimed, found.through) == (4.0, "run")
    assert 3.9 < found.accounted < math.inf
    assert 0 <= found.lower_bound <= found.accounted
    assert found.guessed
    assert 0 <= (found.right or 0) <= found.guessed


@pytest.mark.parametrize("method", ["label-means", "local-list", "independent-laplace", "dp-coeff-memory"])
def test_without_noise_every_guess_is_right(method: str, small: None) -> None:
    found = one_run.audited(a_run(method), math.inf)
    assert found.right == found.guessed


@pytest.mark.parametrize("method", play.REFUSED)
def test_a_method_that_is_not_played_is_refused_in_a_sentence(method: str) -> None:
    refused = replace(spec(), method=method, params=methods.card(method).params())
    asserting.refuses(f"^method = {method}: cannot be audited in one training: ", one_run.audited, refused, 1.0)


def test_settings_that_leave_nothing_of_anyones_own_are_refused() -> None:
    assert "params.slots = even" in str(play.refusal(asked("label-means", 4.0, **{**FED, "params": {"slots": "even"}})))
    film = spec("peft-ensemble", params={"adapter": "film"}, data={"dataset": "mnist", "backbone": "vit-cifar100"})
    for chosen in (spec("peft-ensemble"), film, of_texts("lm-er")):
        assert play.refusal(chosen) is None


# Audits in one training of adapters: what is read off a step, who is told apart, what they prove, and what they catch.


TEXTS = ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl")
PICTURES = (("peft-ensemble", "film"), ("naive", "lora"), ("non-cl", "film"))


def of_texts(method: str, epsilon: float = 4.0, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    return asked(method, epsilon, preset="pecl-synthetic", adjacency=adjacency, params=params)


def of_pictures(method: str, adapter: str, epsilon: float = 4.0, adjacency: str = "add-remove", **params: Any) -> RunSpec:
    data = {"dataset": "digits", "backbone": "vit-cifar100"}
    params = {"adapter": adapter, **params}
    return asked(method, epsilon, preset="digits-peft-head", adjacency=adjacency, data=data, params=params)


@pytest.fixture
def few_planted(monkeypatch: pytest.MonkeyPatch) -> None:
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
    found = one_run.noisy_sum(before, after, context.n_people) / context.n_people
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
    moved = -feature_games.STEP * step
    scores = game.score(0, [{"head.weight": moved[:, :-1], "head.bias": moved[:, -1]}])[:, 0]
    sums = torch.from_numpy(1e-8 * game.known.n_people * step / (1 - np.abs(step)))
    present = [game.tasks(0, side)[0].train for side in (False, True)]
    pictures = {int(y): x for part in present for x, y in zip(part.inputs, part.labels, strict=True)}
    gradients = side_by_side.Gradients(network, clip_norm, 1, "cpu")

    def along(place: int, label: int) -> float:
        *_, weight, bias = gradients.of(pictures[place][None], np.array([label]))
        return float((sums[:, :-1] * weight).sum() + sums[:, -1] @ bias.double())

    expected = [along(k, k) - (along(k, n + k) if is_replaced else 0.0) for k in range(n)]
    assert scores == pytest.approx(np.array(expected), rel=1e-3)  # networks compute in single precision


def recurring(method: str, adapter: str = "film", epsilon: float = 8.0) -> RunSpec:
    """Adapters, or DP-A-GEM's network, over tasks that all have the same people."""
    if method == "dp-agem":
        params, scenario = {"epochs": 1, "sample_rate": 1.0}, {"kind": "permuted", "tasks": 2}
        return asked(method, epsilon, labels="prior", scenario=scenario, params=params)
    return replace(of_pictures(method, adapter, epsilon), scenario=Permuted(tasks=5))


@pytest.mark.parametrize(("method", "adapter"), PICTURES)
def test_people_who_recur_are_told_by_every_release(method: str, adapter: str, fixed: None) -> None:
    """Noises of two tasks are independent: their sum separates by 2.2 and more where each does by 1.6 or so; where all data
    are read again, the second task by 3.

    Coins and noise are fixed; by chance alone a separation of 300 coins would vary by about 0.13.
    """
    game = feature_games.pictures_game(recurring(method, adapter), 8.0, 300)
    streams = lambda seed: game.tasks(seed, True)  # noqa: E731
    ((seed, seen, ledger),) = play.released(game.spec, 8.0, [11], game.known, streams, game.start)
    scores, took_part = game.score(seed, seen), game.takes_part(seed)
    assert len(seen) == 2
    assert ledger.epsilon() > (20 if method == "non-cl" else 12)  # of two tasks with 8 each
    one, other = scores[took_part], scores[~took_part]
    *each, whole = (one.mean(axis=0) - other.mean(axis=0)) / np.sqrt((one.var(axis=0) + other.var(axis=0)) / 2)
    assert whole > (1.03 if method == "non-cl" else 1.15) * max(each)


def test_who_is_in_one_task_is_played_in_one_unless_it_is_read_again() -> None:
    tasks = {one: feature_games.pictures_game(of_pictures(*one), 4.0, 5).known.n_tasks for one in PICTURES}
    assert list(tasks.values()) == [1, 1, 2]
    assert feature_games.pictures_game(of_pictures("non-cl", "film", release="once"), 4.0, 5).known.n_tasks == 1


# Faults that only releases after the first task show: no audit of one task can find them.


LATER = {
    "peft-ensemble": "dpcl_core.methods.features.trainer",
    "naive": "dpcl_core.methods.features.trainer",
    "dp-agem": "dpcl_core.methods.lifelong.dp_agem",
}


@pytest.mark.parametrize("method", LATER)
def test_noise_that_is_missing_from_the_second_task_on_is_found_only_over_tasks(
    method: str, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coins are fixed, so is the noise of the first task; a right method would be called wrong once in 20,000 audits."""
    monkeypatch.setattr(lifelong_games, "N_LABELS", 300)
    monkeypatch.setattr(feature_games, "N_PICTURES", 300)
    mutants.scaled_noise(monkeypatch, LATER[method], 0.01, later=True)  # from the second task on a hundredth of it
    assert audited(recurring(method, "lora", 1.0)).exceeds
    monkeypatch.setattr(feature_games, "_N_TASKS", 1)
    monkeypatch.setattr(lifelong_games, "_MOST_TASKS", 1)
    assert not audited(recurring(method, "lora", 1.0)).exceeds


def table() -> list[str]:
    """The table's lines for `docs/sabotage.md`: where one training finds a fault, of one task and over tasks."""
    rows = [f"| `{method}` | a hundredth of the noise from the second task on | – | found |" for method in LATER]
    return ["| method | fault | audit of one task | audit over tasks |", "| --- | --- | --- | --- |", *rows]


@pytest.mark.parametrize("chosen", tiers.quick(3, [
    *(of_pictures(*what, adjacency="replace" if what[0] == "naive" else "add-remove") for what in PICTURES),
    *(of_texts(method, adjacency="replace" if method == "lm-er" else "add-remove") for method in TEXTS),
]), ids=lambda chosen: chosen.method)  # fmt: skip
def test_every_adapter_is_played_and_proves_no_more_than_is_accounted(chosen: RunSpec, few_planted: None) -> None:
    """So few guesses would not prove 4 if all of them were right."""
    found = audited(chosen)
    assert (found.claimed, found.through) == (4.0, "run")
    assert 0 <= found.lower_bound < 3.9 < found.accounted <= (6.0 if chosen.method == "non-cl" else 4.0)  # it reads twice
    assert found.guessed


@pytest.mark.parametrize("chosen", tiers.quick(1, [
    of_texts("lm-seqft", 8.0), of_texts("pecl", 8.0), of_pictures("peft-ensemble", "lora", 8.0),
]), ids=lambda chosen: chosen.method)  # fmt: skip
def test_the_coins_are_told_from_one_step(chosen: RunSpec, fixed: None) -> None:
    """26 or 40 guesses prove something; the coins are the same every time, and so is the noise."""
    found = audited(chosen)
    assert 0.3 < found.lower_bound <= found.accounted == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize(("module", "chosen"), [
    ("dpcl_core.methods.language.adapted_model", of_texts("lm-er", 1.0)),
    ("dpcl_core.methods.language.adapted_model", of_texts("pecl", 1.0)),
    ("dpcl_core.methods.features.trainer", of_pictures("peft-ensemble", "film", 1.0)),
], ids=lambda chosen: getattr(chosen, "method", ""))  # fmt: skip
def test_next_to_no_noise_is_called_an_error(
    module: str, chosen: RunSpec, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutants.scaled_noise(monkeypatch, module, 0.01)
    assert audited(chosen).exceeds


@pytest.mark.parametrize("chosen", [
    of_texts("lm-seqft", 1.0, clip_norm=0.01), of_texts("pecl", 1.0, clip_norm=0.01),
], ids=lambda chosen: chosen.method)  # fmt: skip
def test_missing_clipping_of_texts_is_called_an_error(chosen: RunSpec, fixed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacker goes by clipped gradients."""
    game = language_games.planted_texts_game(chosen, 1.0, 200)
    monkeypatch.setattr(language_games, "planted_texts_game", lambda *args: game)
    mutants.longer_texts(monkeypatch, 1e3)
    assert audited(chosen).exceeds


def test_missing_clipping_of_pictures_is_called_an_error(fixed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.longer_adapters(monkeypatch)
    assert audited(of_pictures("peft-ensemble", "film", 1.0, clip_norm=0.05)).exceeds
