"""The replay against Algorithm 1 written out plainly, against the learner itself, and against its own twin in JavaScript."""

import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest

from dpcl_core import paths, spec
from dpcl_core.explorers import cosine_replay
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.privacy import gaussian, statement
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from scripts import make_playground
from tests.playground import arms
from tests.support import javascript

DELTA = 1e-5
N_CLASSES, SIZE, N_TRAIN, N_TEST = 6, 8, 240, 90
TASK_OF_CLASS = np.array([[0, 0, 1, 1, 2, 2], [2, 1, 0, 2, 1, 0], [1, 2, 2, 0, 0, 1]])
EPSILONS = (0.1, 0.37, 1.0, 4.0, 16.0, math.inf)
REPLAY, ARMS = ((paths.assets_dir() / "drag" / name).read_text(encoding="utf-8") for name in ("replay.mjs", "arms.mjs"))


def points(n: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labelled points around one direction a class; spread so wide that neither 0 nor 100 % are right."""
    centres = np.random.default_rng(3).standard_normal((N_CLASSES, SIZE))
    labels = np.arange(n) % N_CLASSES
    return centres[labels] + 1.2 * generator.standard_normal((n, SIZE)), labels.astype(np.int64)


TRAIN, TEST = points(N_TRAIN, np.random.default_rng(1)), points(N_TEST, np.random.default_rng(2))


def draws(setting: str) -> np.ndarray:
    """Unit noise [seeds, draws, classes, K]: one a task where the whole list is noised in every task, else one."""
    n_draws = 3 if setting == "prior-const" else 1
    return np.random.default_rng(7).standard_normal((len(TASK_OF_CLASS), n_draws, N_CLASSES, SIZE))


def prepared(setting: str) -> cosine_replay.ReplayData:
    noises = [arms.Recorded(own) for own in draws(setting)]
    return make_playground.prepare(TRAIN, TEST, TASK_OF_CLASS, setting, DELTA, noises)  # type: ignore[arg-type]


def algorithm_1(setting: str, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies [S, T, T] and final class accuracies [S, C], with no shortcut: sums, noise, cosine, argmax."""
    std = gaussian.sigma(epsilon, DELTA)
    matrices = np.full((len(TASK_OF_CLASS), 3, 3), np.nan)
    by_class = np.zeros((len(TASK_OF_CLASS), N_CLASSES))
    for seed, tasks in enumerate(TASK_OF_CLASS):
        released: dict[int, np.ndarray] = {}
        for k in range(3):
            label_list = range(N_CLASSES) if setting == "prior-const" else np.flatnonzero(tasks == k)
            for o in label_list:
                own = TRAIN[0][(TRAIN[1] == o) & (tasks[TRAIN[1]] == k)]
                total = sum((x / np.linalg.norm(x) for x in own), start=np.zeros(SIZE))
                noise = draws(setting)[seed, k if setting == "prior-const" else 0, o]
                released[int(o)] = released.get(int(o), np.zeros(SIZE)) + total + std * noise
            guesses = np.array([predicted(x, released) for x in TEST[0]])
            for i in range(k + 1):
                rows = tasks[TEST[1]] == i
                matrices[seed, k, i] = np.mean(guesses[rows] == TEST[1][rows])
        by_class[seed] = [np.mean(guesses[TEST[1] == c] == c) for c in range(N_CLASSES)]
    return matrices, by_class


def predicted(x: np.ndarray, sums: dict[int, np.ndarray]) -> int:
    cosines = {o: x @ s / np.linalg.norm(x) / np.linalg.norm(s) for o, s in sums.items() if np.linalg.norm(s) > 0}
    return max(sorted(cosines), key=lambda o: cosines[o])


@pytest.mark.parametrize("setting", ["prior", "prior-const", "data"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_replay_equals_algorithm_1(setting: str, epsilon: float) -> None:
    matrices, by_class = algorithm_1(setting, epsilon)
    np.testing.assert_allclose(cosine_replay.accuracies(prepared(setting), epsilon), matrices, atol=1e-12)
    np.testing.assert_allclose(cosine_replay.class_accuracies(prepared(setting), epsilon), by_class, atol=1e-12)
    assert np.nanmin(matrices) < 0.99  # the points are hard enough for a wrong formula to show


@pytest.mark.parametrize("setting", ["prior", "prior-const"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, math.inf])
def test_replay_equals_the_learner_that_trains_for_real(setting: str, epsilon: float) -> None:
    """One seed through `CosineClassifier` itself, its noise replaced by the very draws of the replay."""
    tasks, cell, all_draws = TASK_OF_CLASS[1], spec.Cell(epsilon, 1), draws(setting)[1]
    if setting == "prior":  # the learner draws for the list of the task only
        all_draws = np.array([all_draws[0, tasks == k] for k in range(3)])
    learner = arms.learner(cell, all_draws, n_tasks=3, n_classes=N_CLASSES, labels=setting)  # type: ignore[arg-type]
    found = cosine_replay.accuracies(prepared(setting), epsilon)[1]
    for k in range(3):
        prior = tuple(int(o) for o in np.flatnonzero(tasks == k))
        own = np.isin(TRAIN[1], prior)
        task = Task(k, f"task {k + 1}", Examples(TRAIN[0][own], TRAIN[1][own]), Examples(*TEST), prior)
        list(learner.learn({1: task}, {cell: Ledger(DELTA, "add-remove", "once")}))
        right = learner.cosines(1, TEST[0])[0].argmax(axis=1) == TEST[1]
        for i in range(k + 1):
            assert found[k, i] == pytest.approx(right[tasks[TEST[1]] == i].mean(), abs=1e-12)


def test_noise_of_the_whole_list_accumulates_and_of_a_list_a_task_does_not() -> None:
    """|Z|² has mean K times the number of tasks that added noise."""
    grown, single = prepared("prior-const").noise_squares, prepared("prior").noise_squares
    n = grown.shape[0] * N_CLASSES * SIZE
    for t in range(3):
        assert grown[:, t].sum() / n == pytest.approx(t + 1, rel=6 * math.sqrt(2 / n))
    assert single.shape[1] == 1
    assert single.sum() / n == pytest.approx(1, rel=6 * math.sqrt(2 / n))


def test_encoding_keeps_sixteen_bits_and_forgets_only_what_is_never_looked_at() -> None:
    data = prepared("prior-const")
    again = cosine_replay.decode(json.loads(json.dumps(make_playground.encode(data))))
    step = np.abs(data.noise).max() / 32767
    looked_at = data.task_of_class[:, None, data.labels] <= np.arange(3)[:, None]
    assert np.abs(again.noise - data.noise)[looked_at].max() <= 0.5001 * step
    assert not again.noise[~looked_at].any()
    assert np.abs(again.clean - data.clean).max() <= 0.5001 * np.abs(data.clean).max() / 32767
    for epsilon in EPSILONS:
        before, after = cosine_replay.accuracies(data, epsilon), cosine_replay.accuracies(again, epsilon)
        assert np.nanmax(np.abs(before - after)) <= 1.01 / (N_TEST / 3)  # at most one example a task on the other side


@pytest.mark.parametrize("setting", ["prior", "prior-const"])
def test_the_twin_in_javascript_agrees(setting: str) -> None:
    document = make_playground.encode(prepared(setting))
    case = (
        "const data = decode(fromPython.data), budgets = fromPython.budgets.map((e) => e ?? Infinity);"
        "return budgets.map((e) => ({...accuracies(data, e), sigma: sigma(e, data.delta)}));"
    )
    budgets = [e if math.isfinite(e) else None for e in EPSILONS]
    answers = javascript.run(REPLAY, case, sent={"data": document, "budgets": budgets})
    data = cosine_replay.decode(document)
    for epsilon, found in zip(EPSILONS, answers, strict=True):
        assert found["sigma"] == pytest.approx(gaussian.sigma(epsilon, DELTA), rel=1e-9)
        matrices = np.array([[[np.nan if v is None else v for v in row] for row in m] for m in found["matrices"]])
        np.testing.assert_allclose(matrices, cosine_replay.accuracies(data, epsilon), atol=1e-12)
        np.testing.assert_allclose(found["classes"], cosine_replay.class_accuracies(data, epsilon), atol=1e-12)


def test_the_odds_in_javascript_are_those_of_the_statement() -> None:
    cases = [(epsilon, delta) for epsilon in (0.1, 0.5, 1.0, 2.0, 8.0, 700.0, 1000.0) for delta in (0.0, 1e-5, 0.01, 0.7)]
    percents = javascript.run(REPLAY, "return fromPython.map((one) => oddsPercent(...one));", sent=cases)
    for case, percent in zip(cases, percents, strict=True):
        assert statement.ODDS.format(percent=percent) == statement.odds(*case)


# Four ways to handle noise over tasks (`arms`): against the learner itself, and against their own twin in JavaScript.


@pytest.mark.parametrize("noise", ["fresh", "remembered"])
@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_two_of_the_four_ways_are_the_learner_that_trains_for_real(noise: str, epsilon: float) -> None:
    """One seed of five tasks, each digit in one, through `CosineClassifier`: both of its rules."""
    data, n_tasks, seed = cosine_replay.digits(), 5, 1
    homes = arms.homes(data.n_classes, n_tasks, seed)
    cell, size, every = spec.Cell(epsilon, seed), data.rows.shape[1], tuple(range(data.n_classes))
    draws = arms.normals(arms.STREAMS * seed, n_tasks * len(every) * size).reshape(n_tasks, len(every), size)
    params = CosineParams(noise_over_tasks=noise)  # type: ignore[arg-type]
    learner = arms.learner(cell, draws, n_tasks=n_tasks, n_classes=len(every), params=params)
    found = arms.accuracies(data, n_tasks, False, epsilon)
    names = {"fresh": ("added", "shrunk"), "remembered": ("remembered", "both")}[noise]
    ledger = Ledger(cosine_replay.DELTA, "add-remove", "once")
    tests = Examples(data.tests.astype(np.float64), data.test_labels)
    for k in range(n_tasks):
        own = homes[data.labels] == k
        task = Task(k, f"task {k + 1}", Examples(data.rows[own].astype(np.float64), data.labels[own]), tests, every)
        list(learner.learn({seed: task}, {cell: ledger}))
        seen = homes[data.test_labels] <= k
        scores = learner.scores(seed, task)
        for arm, rule in zip(names, ("cosine", "shrunk"), strict=True):
            right = scores[rule][0].argmax(axis=1) == data.test_labels
            assert found[arm][seed, k] == pytest.approx(right[seen].mean(), abs=1.01 / seen.sum())  # single precision


def test_the_hash_gives_standard_normals_that_do_not_repeat() -> None:
    """A Kolmogorov-Smirnov test of 64,000 fixed numbers a stream; neighbours in a stream, and streams, are uncorrelated."""
    drawn = np.stack([arms.normals(stream, 64_000) for stream in (0, 4, 8)])
    for one in drawn:
        assert kstest(one, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.015
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 0.015


def test_what_wins_is_what_was_specified() -> None:
    """Twice shrinking where each digit comes in one task, and remembering where all come back: ten points and more apart."""
    once = {arm: values[:, -1].mean() for arm, values in arms.accuracies(cosine_replay.digits(), 5, False, 0.5).items()}
    assert min(once["shrunk"], once["both"]) > once["added"] + 0.1
    back = {arm: values[:, -1].mean() for arm, values in arms.accuracies(cosine_replay.digits(), 50, True, 1.0).items()}
    assert back["remembered"] > max(back["added"], back["shrunk"]) + 0.25


@pytest.mark.parametrize(("n_tasks", "returns"), [(5, False), (10, True), (50, True)])
def test_the_twin_of_the_four_ways_in_javascript_agrees(n_tasks: int, returns: bool) -> None:
    budgets = [0.3, 1.0, 8.0, None]
    case = (
        f"const digits = openedDigits(fromPython.digits), stream = preparedStream(digits, {n_tasks}, {json.dumps(returns)});"
        "const found = fromPython.budgets.map((e) => armAccuracies(digits, stream, e ?? Infinity));"
        "const drawn = [0, 1, 4].map((s) => [0, 1, 2, 77].map((n) => [uniformAt(s, n), normalAt(s, n)]));"
        "return [found, stream.points, drawn];"
    )
    sent = {"digits": cosine_replay.arms_document(), "budgets": budgets}
    found, places, drawn = javascript.run(REPLAY, ARMS, case, sent=sent)
    assert places == arms.points(n_tasks)
    for (s, stream), (n, place) in product(enumerate((0, 1, 4)), enumerate((0, 1, 2, 77))):
        assert drawn[s][n][0] == arms.uniform(stream, 78)[place]
        assert drawn[s][n][1] == pytest.approx(arms.normals(stream, 78)[place], rel=1e-12)
    for budget, by_arm in zip(budgets, found, strict=True):
        expected = arms.accuracies(cosine_replay.digits(), n_tasks, returns, math.inf if budget is None else budget)
        for arm in arms.ARMS:
            np.testing.assert_allclose(by_arm[arm], expected[arm], atol=1e-12)


def test_a_stream_that_forgets_agrees_with_its_twin_in_javascript() -> None:
    cases = [(decay, epsilon) for decay in (0.5, 0.85, 1.0) for epsilon in (0.5, 2.0, None)]
    case = (
        "const digits = openedDigits(fromPython.digits), stream = preparedStream(digits, LASTING, false);"
        "const found = fromPython.cases.map(([decay, e]) => forgetting(digits, stream, decay, e ?? Infinity));"
        "return found.map((one) => Object.values(one).map(({ old, newcomer }) => [old, newcomer]));"
    )
    sent = {"digits": cosine_replay.arms_document(), "cases": cases}
    for found, (decay, epsilon) in zip(javascript.run(REPLAY, ARMS, case, sent=sent), cases, strict=True):
        expected = arms.forgetting(cosine_replay.digits(), decay, math.inf if epsilon is None else epsilon)
        for (old, newcomer), (right, told) in zip(found, expected.values(), strict=True):
            assert old == pytest.approx(right, abs=1e-9)
            assert newcomer == pytest.approx(told, rel=1e-4) if epsilon else newcomer is None


def test_the_document_holds_the_digits_and_is_small() -> None:
    assert len(json.dumps(cosine_replay.arms_document())) < 200_000
    assert np.linalg.norm(unit_rows(cosine_replay.digits().rows), axis=1) == pytest.approx(1, abs=1e-6)
    assert np.bincount(cosine_replay.digits().test_labels).tolist() == [20] * 10
