"""Four ways to handle noise over tasks: the replay against the learner itself, and against its own twin in JavaScript."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest

from dpcl_core import paths
from dpcl_core.explorers import cosine_replay
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell
from tests.playground import arms
from tests.support import javascript

SCRIPTS = [(paths.assets_dir() / "drag" / name).read_text(encoding="utf-8") for name in ("replay.mjs", "arms.mjs")]



@pytest.mark.parametrize("noise", ["fresh", "remembered"])
@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_the_replay_is_the_learner_that_trains_for_real(noise: str, epsilon: float) -> None:
    """One seed of five tasks, each digit in one, through `CosineClassifier`: both of its rules."""
    data, n_tasks, seed = cosine_replay.digits(), 5, 1
    homes = arms.homes(data.n_classes, n_tasks, seed)
    cell, size, every = Cell(epsilon, seed), data.rows.shape[1], tuple(range(data.n_classes))
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


@javascript.NEEDED
@pytest.mark.parametrize(("n_tasks", "returns"), [(5, False), (10, True), (50, True)])
def test_the_twin_in_javascript_agrees(n_tasks: int, returns: bool) -> None:
    budgets = [0.3, 1.0, 8.0, None]
    case = (
        f"const digits = openedDigits(fromPython.digits), stream = preparedStream(digits, {n_tasks}, {json.dumps(returns)});"
        "const found = fromPython.budgets.map((e) => armAccuracies(digits, stream, e ?? Infinity));"
        "console.log(JSON.stringify([found, stream.points,"
        " [0, 1, 4].map((s) => [0, 1, 2, 77].map((n) => [uniformAt(s, n), normalAt(s, n)]))]));"
    )
    found, places, drawn = javascript.run(*SCRIPTS, case, sent={"digits": cosine_replay.arms_document(), "budgets": budgets})
    assert places == arms.points(n_tasks)
    for (s, stream), (n, place) in product(enumerate((0, 1, 4)), enumerate((0, 1, 2, 77))):
        assert drawn[s][n][0] == arms.uniform(stream, 78)[place]
        assert drawn[s][n][1] == pytest.approx(arms.normals(stream, 78)[place], rel=1e-12)
    for budget, by_arm in zip(budgets, found, strict=True):
        expected = arms.accuracies(cosine_replay.digits(), n_tasks, returns, math.inf if budget is None else budget)
        for arm in arms.ARMS:
            np.testing.assert_allclose(by_arm[arm], expected[arm], atol=1e-12)


@javascript.NEEDED
def test_a_stream_that_forgets_agrees_with_its_twin_in_javascript() -> None:
    cases = [(decay, epsilon) for decay in (0.5, 0.85, 1.0) for epsilon in (0.5, 2.0, None)]
    case = (
        "const digits = openedDigits(fromPython.digits), stream = preparedStream(digits, LASTING, false);"
        "const found = fromPython.cases.map(([decay, e]) => forgetting(digits, stream, decay, e ?? Infinity));"
        "console.log(JSON.stringify(found.map((one) => Object.values(one).map(({ old, newcomer }) => [old, newcomer]))));"
    )
    sent = {"digits": cosine_replay.arms_document(), "cases": cases}
    for found, (decay, epsilon) in zip(javascript.run(*SCRIPTS, case, sent=sent), cases, strict=True):
        expected = arms.forgetting(cosine_replay.digits(), decay, math.inf if epsilon is None else epsilon)
        for (old, newcomer), (right, told) in zip(found, expected.values(), strict=True):
            assert old == pytest.approx(right, abs=1e-9)
            assert newcomer == pytest.approx(told, rel=1e-4) if epsilon else newcomer is None


def test_what_forgets_tells_newcomers_less_and_knows_less_of_old_digits() -> None:
    """Both fall together, and fresh noise always hides a person of the first task better from who comes late."""
    kept = [arms.forgetting(cosine_replay.digits(), decay, 2.0) for decay in (1.0, 0.8, 0.6)]
    for way in ("fresh", "remembered"):
        right, told = zip(*(one[way] for one in kept), strict=True)
        assert right[0] > right[2] + 0.1
        assert list(told) == sorted(told, reverse=True)
        assert told[2] < told[0] / 3
        assert told[0] < 2.0
    assert all(one["fresh"][1] < one["remembered"][1] for one in kept)


def test_the_document_holds_the_digits_and_is_small() -> None:
    assert len(json.dumps(cosine_replay.arms_document())) < 200_000
    rows = unit_rows(cosine_replay.digits().rows)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert np.bincount(cosine_replay.digits().test_labels).tolist() == [20] * 10
