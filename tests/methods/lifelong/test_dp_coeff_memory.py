"""The coefficient memory whole: what it learns, what its ledger says, and attacks on it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.attacks.l2dp_games import difference_game
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.methods.lifelong.dp_coeff_memory import make_learner
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import coefficients_std, noisy_coefficients
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import odds_bound
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec
from tests.methods.training import public_context, taught

DELTA = 1e-5
pytestmark = pytest.mark.usefixtures("home")


def spec(**changes: object) -> RunSpec:
    raw = {"method": "dp-coeff-memory", "labels": "prior", "privacy": {"epsilons": [2.0, math.inf], "noise": "seeded"}}
    return checks.parse({"seeds": [0, 1], **raw, **changes})


def finished(run: RunSpec) -> dict[float, CellFinished]:
    return {event.cell.epsilon: event for event in engine.run(run) if isinstance(event, CellFinished)}


def weights(run: RunSpec, tasks: list[Task]) -> tuple[dict[int, np.ndarray], dict[Cell, Ledger]]:
    """What is learned of network features (no map before them), by seed."""
    known = public_context(tasks[0].train.inputs.shape[1], 3, 60, len(tasks))
    learner = make_learner(run, list(run.cells()), known)
    return learner._weights, taught(learner, run, tasks)


def made_tasks() -> list[Task]:
    generator = np.random.default_rng(0)
    found = []
    for index in range(2):
        examples = Examples(generator.standard_normal((30, 4)).astype(np.float32), generator.integers(0, 3, 30))
        found.append(Task(index, f"task {index + 1}", examples, examples, (0, 1, 2)))
    return found


def test_seeded_runs_repeat_releases_differ_and_without_noise_all_agree() -> None:
    for noise, same in (("seeded", True), ("release", False)):
        run = spec(privacy={"epsilons": [2.0, math.inf], "noise": noise})
        first, second = (weights(run, made_tasks())[0][0] for _ in range(2))
        assert np.array_equal(first[0], second[0]) == same
        np.testing.assert_array_equal(first[1], second[1])


def test_examples_outside_the_list_change_nothing() -> None:
    (task, *_), run = made_tasks(), spec(privacy={"epsilons": [math.inf]}, seeds=[0])
    narrow = Task(0, task.name, task.train, task.test, (0, 1))
    kept = task.train.take(np.flatnonzero(task.train.labels < 2))
    alone = Task(0, task.name, kept, kept, (0, 1))
    np.testing.assert_allclose(weights(run, [narrow])[0][0], weights(run, [alone])[0][0], atol=1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_every_budget_has_one_entry_a_task_and_costs_what_was_asked(adjacency: str) -> None:
    """On features of a network, of either sign; whole runs on pixels are below."""
    run = spec(privacy={"epsilons": [2.0, math.inf], "adjacency": adjacency})
    for cell, ledger in weights(run, made_tasks())[1].items():
        assert [entry.task for entry in ledger.entries] == [0, 1]
        assert ledger.epsilon() == (math.inf if math.isinf(cell.epsilon) else pytest.approx(cell.epsilon, rel=2e-5))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_where_an_example_is_in_every_task_all_tasks_together_cost_the_budget(adjacency: str) -> None:
    """Both numbers stand in the statement: what one task costs, and what all of them do, which is what was asked for."""
    for images, total, alone in (("same", 2.0, None), ("disjoint", None, 2.0)):
        scenario, privacy = {"kind": "permuted", "tasks": 3, "images": images}, {"epsilons": [2.0], "adjacency": adjacency}
        run = spec(scenario=scenario, privacy=privacy, seeds=[0], params={"features": 8, "steps": 2})
        guarantee = finished(run)[2.0].guarantee
        assert guarantee.epsilon == pytest.approx(2.0, rel=2e-5)
        squared = 6 if adjacency == "replace" else 3
        per_task = gaussian.sigma(2.0, DELTA, math.sqrt(squared * (3 if total else 1)))
        assert guarantee.parts["task 1"] == pytest.approx(gaussian.epsilon(per_task, DELTA, math.sqrt(squared)), rel=1e-4)
        whole = gaussian.epsilon(per_task, DELTA, math.sqrt(3 * squared))
        assert guarantee.parts["the same person in every task"] == pytest.approx(whole, rel=1e-4)
        assert (total or whole) == pytest.approx(whole, rel=1e-4)
        assert alone is None or guarantee.parts["task 1"] == pytest.approx(alone, rel=2e-5)


@pytest.mark.parametrize("scenario", [{"kind": "class-incremental"}, {"kind": "split"}, {"kind": "permuted"}])
@pytest.mark.parametrize("solution", ["steps", "exact"])
def test_it_learns_the_digits_and_learns_less_with_noise(scenario: dict[str, str], solution: str) -> None:
    """Means over two seeds; seeded noise, so no chance is left in the outcome."""
    params = {"solution": solution, "head": "per-task", "features": 128}
    run = spec(scenario=scenario, params=params, privacy={"epsilons": [0.1, math.inf], "noise": "seeded"})
    found: dict[float, list[float]] = {}
    for event in engine.run(run):
        if isinstance(event, TaskLearned) and event.task == 4:
            found.setdefault(event.cell.epsilon, []).append(float(np.mean(np.array(event.accuracy, dtype=float))))
    least = 0.65 if scenario["kind"] == "permuted" else 0.95
    assert np.mean(found[math.inf]) > least
    assert np.mean(found[0.1]) < np.mean(found[math.inf]) - 0.1


def test_replays_keep_what_plain_descent_forgets() -> None:
    kept = {}
    for projection in ("if-violated", "never"):
        free = spec(scenario={"kind": "permuted"}, params={"projection": projection}, privacy={"epsilons": [math.inf]})
        kept[projection] = finished(replace(free, seeds=(0,)))[math.inf].metrics["AA"] or 0.0
    assert kept["if-violated"] > kept["never"] + 0.05


def test_subtracting_the_release_of_another_task_leaves_its_noise() -> None:
    """Each record a task of its own, the first one known: right as often as the budget allows for at most, not always."""
    epsilon, n = 0.5, 400
    std = coefficients_std(epsilon, DELTA, "replace", is_non_negative=False)

    def keep(records: np.ndarray) -> np.ndarray:
        released = []
        for task, row in enumerate(records):
            books = [Ledger(DELTA, "replace", "once")]
            sums = noisy_coefficients(
                row[None], np.zeros(1, dtype=np.int64), (0,), 1, [std], [ReleaseNoise()], books, task=task,
                is_non_negative=False,
            )  # fmt: skip
            released.append(sums.features[0])
        return np.array(released)

    records = np.eye(3)
    game = difference_game(keep, records, -records[2], n)
    limit = odds_bound(epsilon, DELTA)
    assert game.share_right < limit + 5 * math.sqrt(0.25 / (2 * n))
    shared = difference_game(lambda rows: rows + 100.0, records, -records[2], n)
    assert shared.share_right == 1.0


def test_two_tasks_never_share_noise() -> None:
    """Released sums of two equal tasks differ by two draws, in a seeded run too."""
    first, second = made_tasks()[:1] * 2
    again = Task(1, "task 2", second.train, second.test, second.prior)
    run = spec(privacy={"epsilons": [1.0], "noise": "seeded"}, seeds=[0], params={"solution": "exact"})
    learner = make_learner(run, list(run.cells()), public_context(4, 3, 60, 2))
    ledgers = {Cell(1.0, 0): Ledger(DELTA, "add-remove", "once")}
    sums = [learner._released(0, task, ledgers).features for task in (first, again)]
    assert (sums[0] != sums[1]).all()
