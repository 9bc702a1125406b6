"""Lists of labels that are given to learners: who names what, what it costs, and what the learner has left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, Planned, of_kind
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common import given_lists
from dpcl_core.methods.common.given_lists import GivenLists, budget, for_training, one_label_of_each
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec
from tests.support.watching import watched

N_CLIENTS = 6
CELL = Cell(4.0, 0)


def spec(method: str = "label-means", **changes: object) -> RunSpec:
    raw = {
        "method": method, "labels": "dp-learned", "data": {"dataset": "digits", "backbone": "pixels"}, "seeds": [0],
        "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": [4.0], "noise": "seeded"},
    }  # fmt: skip
    return checks.parse({**raw, **changes})


def held(users: Sequence[int], labels: Sequence[int]) -> Examples:
    table = np.arange(len(labels), dtype=np.float32)[:, None]
    return Examples(table, np.asarray(labels, np.int64), np.asarray(users, np.int64))


def task(train: Examples, prior: tuple[int, ...] = (0, 1), index: int = 0) -> Task:
    return Task(index, "task", train, train, prior)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, N_CLIENTS - 1), st.integers(0, 4)), min_size=1, max_size=40),
    leaving=st.integers(0, N_CLIENTS - 1),
    place=st.integers(0, 39),
)
def test_a_client_names_one_label_whoever_else_is_there(rows: list[tuple[int, int]], leaving: int, place: int) -> None:
    """The sensitivity: without a client one entry is gone, and the others are as they were, in whatever order rows come."""
    named = sorted(one_label_of_each(held(*zip(*rows, strict=True)), CELL, 0).tolist())
    users = {user for user, _ in rows}
    assert len(named) == len(users)
    turned = rows[place % len(rows) :] + rows[: place % len(rows)]
    assert sorted(one_label_of_each(held(*zip(*turned, strict=True)), CELL, 0).tolist()) == named
    kept = [row for row in rows if row[0] != leaving]
    if leaving not in users or not kept:
        return
    after = sorted(one_label_of_each(held(*zip(*kept, strict=True)), CELL, 0).tolist())
    gone = list(named)
    for label in after:
        gone.remove(label)  # raises ValueError for a label that another client names now
    assert len(gone) == 1
    assert (leaving, gone[0]) in rows


def test_over_tasks_a_client_shows_different_labels() -> None:
    """Else a label that few clients hold most of would be on no list, however many tasks have it."""
    train = held([0] * 5, [0, 1, 2, 3, 4])
    assert len({int(one_label_of_each(train, CELL, index)[0]) for index in range(40)}) == 5


@pytest.mark.parametrize("method", ["label-means", "dp-agem", "lm-seqft"])
@pytest.mark.parametrize("recurrence", ["once", "every"])
def test_lists_and_training_together_keep_the_budget(method: str, recurrence: str) -> None:
    asked, sizes = spec(method), PublicSizes(1000, 5, 10, recurrence, 20)  # type: ignore[arg-type]
    left = for_training(asked).privacy
    spent, delta = budget(asked.privacy, 4.0, sizes)
    assert sizes.n_recurring * spent + left.epsilons[0] == pytest.approx(4.0)
    assert sizes.n_tasks * delta + left.delta == pytest.approx(asked.privacy.delta)
    assert for_training(asked).labels == "prior"


def test_without_noise_nothing_is_taken_off_the_budget() -> None:
    assert for_training(spec(privacy={"epsilons": [math.inf, 4.0]})).privacy.epsilons[0] == math.inf


def lists(asked: RunSpec, public: tuple[int, ...] = (0, 1, 2)) -> GivenLists:
    return GivenLists(asked, PublicSizes(60, 2, 3, "every", N_CLIENTS), public)


def test_a_list_is_in_the_ledger_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, seen = Ledger(1e-5, "add-remove", "every"), []
    watched(monkeypatch, given_lists, "release_labels", lambda found, given: seen.append(len(ledger.entries)))
    lists(spec()).give(task(held([0, 1], [0, 1])), [CELL], [ledger])
    assert seen == [1]


def test_a_list_that_nobody_is_on_gives_way_to_a_guess() -> None:
    """A guess reads nothing: labels of earlier lists, the first class, or the two answers of one against the rest."""
    small = spec(privacy={"epsilons": [0.01], "noise": "seeded"})
    ledger, train = Ledger(1e-5, "add-remove", "every"), held([0, 1], [2, 2])
    given_to = lists(small)
    assert given_to.give(task(train), [Cell(0.01, 0)], [ledger]).prior == (0,)
    given_to.lists[0] = [(1, 2)]
    assert given_to.give(task(train, index=1), [Cell(0.01, 0)], [ledger]).prior == (1, 2)
    answers = replace(task(train, prior=(4, 5)), task_id=0)
    assert lists(small).give(answers, [Cell(0.01, 0)], [ledger]).prior == (4, 5)


def test_what_a_stream_says_of_labels_is_not_told_before_the_list_is() -> None:
    assert lists(spec()).given(task(held([0], [0]), prior=(2,)), 0).prior == (0, 1, 2), "every class may come"


def test_a_label_that_is_not_declared_is_on_no_list() -> None:
    ledger = Ledger(1e-5, "add-remove", "every")
    assert lists(spec(labels="data"), (0, 1)).give(task(held([0, 1], [1, 7])), [CELL], [ledger]).prior == (1,)
    assert math.isinf(ledger.epsilon())


@pytest.mark.parametrize("method", ["label-means", "dp-coeff-memory"])
def test_a_run_stays_within_its_budget_and_its_plan(method: str) -> None:
    events = list(engine.run(spec(method, data={"dataset": "digits", "backbone": "pixels", "train_per_class": 40})))
    (finished,), (planned,) = of_kind(events, CellFinished), of_kind(events, Planned)
    assert 3.0 < finished.guarantee.epsilon <= 4.0
    assert finished.guarantee.epsilon <= planned.epsilon + 1e-9
    noun = "client names one of its labels" if method == "label-means" else "example has one label"
    assert any(noun in line for line in finished.guarantee.assumptions)
    assert methods.card(method).learns_lists is False
