"""Noise for every record, whole: unbiased sums, what it learns, what it refuses, and attacks on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.attacks.l2dp_games import difference_game
from dpcl_core.data.dataset import Form
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.methods.lifelong.independent_laplace import SIZES_ARE_PUBLIC, centred, unbiased_sums
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import odds_bound
from dpcl_core.privacy.text_mechanisms import Randomiser, noisy_records
from dpcl_core.spec import RunSpec

DELTA = 1e-5
pytestmark = pytest.mark.usefixtures("home")


def spec(**changes: object) -> RunSpec:
    privacy = {"epsilons": [8.0, math.inf], "noise": "seeded", "adjacency": "replace"}
    return checks.parse({"method": "independent-laplace", "labels": "prior", "privacy": privacy, "seeds": [0], **changes})


def final(run: RunSpec) -> dict[float, float]:
    """Mean accuracy after the last task, over seeds."""
    found: dict[float, list[float]] = {}
    for event in engine.run(run):
        if isinstance(event, CellFinished):
            found.setdefault(event.cell.epsilon, []).append(event.metrics["AA"] or 0.0)
    return {epsilon: sum(values) / len(values) for epsilon, values in found.items()}


def test_sums_over_noisy_copies_are_unbiased() -> None:
    """20,000 copies of four records: each coordinate's mean within its error of the sums over the records themselves."""
    generator, n, unit = np.random.default_rng(0), 20_000, 0.5
    records, labels, space = generator.uniform(-1, 1, (4, 2)), np.array([1, 2, 1, 4]), (1, 2, 4)
    local, n_parts = Randomiser(2, 8.0, 1.0), 50
    rows, own = np.tile(records, (n // n_parts, 1)), np.tile(labels, n // n_parts)
    parts = []
    for _ in range(n_parts):
        book = Ledger(DELTA, "replace", "once")
        found = unbiased_sums(*noisy_records(rows, own, space, local, ReleaseNoise(), book, task=0), space, 5, local, unit)
        parts.append(np.concatenate([found.features, found.products.ravel(), found.by_class.ravel()]))
    full = np.hstack([unit * rows, np.ones((len(rows), 1))])
    targets = (np.arange(5)[:, None] == own).astype(float)
    clean = np.concatenate([full.sum(axis=0), (full.T @ full).ravel(), (targets @ full).ravel()])
    errors = np.std(parts, axis=0, ddof=1) / math.sqrt(n_parts)
    off = np.abs(np.mean(parts, axis=0) - clean)
    # Student's t with 49 degrees of freedom: 6.5 standard errors on 27 coordinates come up once in 10^6 runs.
    assert (off <= 6.5 * errors + 1e-9).all()
    naive = (full[:, 0] ** 2).sum() + len(rows) * 2 * (unit * local.scale) ** 2
    assert abs(np.mean(parts, axis=0)[3] - naive) > 20 * errors[3], "without taking the noise off it would be seen"


def test_without_noise_the_sums_are_exact() -> None:
    generator, local = np.random.default_rng(1), Randomiser(3, math.inf, math.inf)
    rows, labels = generator.uniform(-1, 1, (20, 3)).astype(np.float32), generator.integers(0, 2, 20)
    found = unbiased_sums(rows, labels, (0, 1), 2, local, 1.0)
    full = np.hstack([rows.astype(np.float64), np.ones((20, 1))])
    np.testing.assert_allclose(found.products, full.T @ full, atol=1e-12)
    np.testing.assert_allclose(found.by_class, np.eye(2)[labels].T @ full, atol=1e-12)


def test_values_come_to_lie_around_zero_whatever_their_range() -> None:
    for form in (Form((1, 3, 1), 0.0, 1.0), Form((3, 1), -1.0, 1.0)):
        rows = np.array([[form.low, (form.low + form.high) / 2, form.high]], dtype=np.float32)
        np.testing.assert_array_equal(centred(rows, form), [[-1, 0, 1]])


def test_seeded_runs_repeat_and_releases_differ() -> None:
    for noise, same in (("seeded", True), ("release", False)):
        run = spec(privacy={"epsilons": [30.0], "noise": noise, "adjacency": "replace"})
        first, second = ([e.accuracy for e in engine.run(run) if isinstance(e, TaskLearned)] for _ in range(2))
        assert (first == second) == same


@pytest.mark.parametrize("kind", ["class-incremental", "split", "permuted"])
def test_it_learns_without_noise_and_next_to_nothing_at_a_small_budget(kind: str) -> None:
    params = {"head": "per-task", "project_to": 32, "steps": 100}
    privacy = {"epsilons": [0.1, math.inf], "noise": "seeded", "adjacency": "replace"}
    found = final(spec(scenario={"kind": kind}, params=params, privacy=privacy, seeds=[0, 1]))
    chance = 0.1 if kind == "permuted" else 0.5
    assert found[math.inf] > (0.4 if kind == "permuted" else 0.85)
    assert found[0.1] < chance + 0.15


def test_all_values_of_an_example_need_more_noise_than_a_few_directions() -> None:
    """Digits at a large budget in one task: 16 directions learn more than all 64 values (seeded noise, five seeds)."""
    privacy = {"epsilons": [16.0], "noise": "seeded", "adjacency": "replace"}
    found = {}
    for project_to in (16, 0):
        more = {"labels": "prior-const", "seeds": list(range(5)), "privacy": privacy, "params": {"project_to": project_to}}
        found[project_to] = final(spec(scenario={"tasks": 1}, **more))[16.0]
    assert found[16] > found[0] + 0.1


@pytest.mark.parametrize("images", ["same", "disjoint"])
def test_the_ledger_stays_within_the_budget_and_the_statement_says_what_is_assumed(images: str) -> None:
    scenario, privacy = {"kind": "permuted", "tasks": 3, "images": images}, {"epsilons": [3.0], "adjacency": "replace"}
    run = spec(scenario=scenario, privacy=privacy, params={"steps": 1})
    (event,) = [event for event in engine.run(run) if isinstance(event, CellFinished)]
    expected = 1.0 if images == "same" else 3.0
    assert event.guarantee.parts["task 1"] == pytest.approx(expected, rel=1e-4)
    assert event.guarantee.epsilon == pytest.approx(3.0, rel=1e-4)
    assert event.guarantee.epsilon <= 3.0
    assert SIZES_ARE_PUBLIC in event.guarantee.assumptions


def test_a_task_without_a_public_class_stores_nothing() -> None:
    run = spec(scenario={"kind": "split"}, public_labels=["0", "1"], privacy={"epsilons": [50.0], "adjacency": "replace"})
    events = list(engine.run(run))
    (event,) = [event for event in events if isinstance(event, CellFinished)]
    assert [name for name in event.guarantee.parts if name.startswith("task")] == ["task 1"]
    first = next(event for event in events if isinstance(event, TaskLearned))
    assert (first.accuracy[0] or 0) > 0.7


def test_subtracting_a_known_record_leaves_two_noises() -> None:
    """At the level of chance that the budget allows, where one vector shared by all records gives every one away."""
    epsilon, n, generator = 0.5, 400, np.random.default_rng(5)
    local, records = Randomiser(64, epsilon, 1.0), generator.uniform(-1, 1, (5, 64))

    def keep(rows: np.ndarray) -> np.ndarray:
        book = Ledger(DELTA, "replace", "once")
        found, _ = noisy_records(rows, np.zeros(5, dtype=np.int64), (0, 1), local, ReleaseNoise(), book, task=0)
        return found.astype(np.float64)

    game = difference_game(keep, records, -records[-1], n)
    assert game.share_right < odds_bound(epsilon, 0.0) + 5 * math.sqrt(0.25 / (2 * n))
    one = 128 / epsilon * ReleaseNoise().laplace((64,))
    assert difference_game(lambda rows: rows + one, records, -records[-1], 50).share_right == 1.0
