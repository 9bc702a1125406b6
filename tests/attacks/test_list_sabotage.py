"""Faults in lists that are given to learners, and the check that each turns red.

Held against each other: what a client that leaves changes of what is counted, and what a run with learned lists has in its
ledger, against what was asked for.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, of_kind
from dpcl_core.methods.common import given_lists
from dpcl_core.privacy import labels as of_labels
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import Cell

N_TASKS, EPSILON = 2, 4.0


def counts_more_than_one_entry() -> bool:
    """A client's leaving must take one entry off one label's count, and nothing else."""
    users, found = np.repeat(np.arange(8), 6), np.random.default_rng(1).integers(0, 5, 48)
    table = np.zeros((48, 1), np.float32)
    whole = Counter(given_lists.one_label_of_each(Examples(table, found, users), Cell(EPSILON, 0), 0).tolist())
    for leaving in range(8):
        kept = users != leaving
        without = Examples(table[kept], found[kept], users[kept])
        after = Counter(given_lists.one_label_of_each(without, Cell(EPSILON, 0), 0).tolist())
        if sum((whole - after).values()) != 1 or after - whole:
            return True
    return False


def breaks_the_budget() -> bool:
    """A run's ledger must hold a list for every task, and cost what was asked for with the training, no more."""
    raw = {
        "method": "label-means", "labels": "dp-learned", "seeds": [0], "params": {"dimensions": 4},
        "data": {"dataset": "digits", "backbone": "pixels", "train_per_class": 40}, "privacy": {"epsilons": [EPSILON]},
        "scenario": {"kind": "class-incremental", "tasks": N_TASKS, "clients": 10},
    }  # fmt: skip
    try:
        (finished,) = of_kind(list(engine.run(checks.parse(raw))), CellFinished)
    except ValueError:  # more in the ledger than was planned
        return True
    assert finished.ledger is not None
    n_lists = str(finished.ledger).count("list of labels, each named")
    return n_lists != N_TASKS or not finished.guarantee.epsilon <= EPSILON


def every_label(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(given_lists, "one_label_of_each", lambda train, cell, task: train.labels)


def by_others(patch: pytest.MonkeyPatch) -> None:
    """Labels are dealt out over all clients' rows: who leaves moves the rest."""

    def dealt(train: Any, cell: Any, task: int) -> Any:
        order = np.random.default_rng(len(train)).permutation(len(train))
        _, first = np.unique(train.users[order], return_index=True)
        return train.labels[order][first]

    patch.setattr(given_lists, "one_label_of_each", dealt)


def unwritten(patch: pytest.MonkeyPatch) -> None:
    class Silent:
        adjacency = "add-remove"

        def spend(self, *args: object, **named: object) -> None:
            pass

    def released(found: Any, epsilon: float, delta: float, noise: Any, ledger: Any, **named: Any) -> Any:
        return of_labels.release_labels(found, epsilon, delta, noise, Silent(), **named)  # type: ignore[arg-type]

    patch.setattr(given_lists, "release_labels", released)


def undivided(patch: pytest.MonkeyPatch) -> None:
    """Every task's list gets the share of all lists."""
    honest = given_lists.budget
    patch.setattr(given_lists, "budget", lambda privacy, epsilon, facts: honest(privacy, 10 * epsilon, facts))


def kept_whole(patch: pytest.MonkeyPatch) -> None:
    """The learner trains with the whole budget, as if lists were free."""
    patch.setattr(checks, "for_training", lambda spec, *, is_on_top: replace(spec, labels="prior"))


Check = Callable[[], bool]
FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], Check]] = {
    "a client names all its labels": (every_label, counts_more_than_one_entry),
    "a client's label hangs on other clients": (by_others, counts_more_than_one_entry),
    "a list is not written down": (unwritten, breaks_the_budget),
    "every task's list takes the share of all": (undivided, breaks_the_budget),
    "the learner trains with the whole budget": (kept_whole, breaks_the_budget),
}


@pytest.mark.parametrize("check", [counts_more_than_one_entry, breaks_the_budget])
def test_lists_as_they_are_are_right(check: Check) -> None:
    assert not check()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_given_lists_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put, check = FAULTS[fault]
    put(monkeypatch)
    assert check()


def test_a_client_s_name_on_a_list_costs_what_is_charged() -> None:
    """The two probabilities of one label's decision, on neighbouring counts, are as close as the ledger says."""
    spent, delta = 0.5, 1e-6
    for less, more in pairwise([one / of_labels.ONE for one in of_labels.chances(spent, delta, 30)]):
        assert more <= math.exp(spent) * less + delta + 1e-15
        assert 1 - less <= math.exp(spent) * (1 - more) + delta + 1e-15


def table() -> list[str]:
    """The rows of the documentation's table."""
    return ["| fault in given lists | found by |", "| --- | --- |",
            *(f"| {fault} | `{check.__name__}` |" for fault, (_, check) in FAULTS.items())]  # fmt: skip
