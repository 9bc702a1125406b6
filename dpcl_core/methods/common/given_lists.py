"""Lists of labels for learners that have none of their own: read from a task or learned under DP, and handed on as given.

The list is released before the learner sees the task, which it then learns like one whose list is public. It pays for the
list with its share of the budget, and the learner trains with what is left, under the settings of `for_training`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import coins
from dpcl_core.events import JsonValue
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.privacy.accounting import list_budget, training_budget
from dpcl_core.privacy.labels import label_space, release_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, PrivacySpec, RunSpec


def for_training(spec: RunSpec, *, is_on_top: bool = False) -> RunSpec:
    """The settings of a learner whose lists are given: each its own as if public, and the budget that the lists leave.

    `is_on_top`: lists are paid for beside the budget, as with a method whose budget is a claim that stands in print.
    """
    if is_on_top:
        return replace(spec, labels="prior")
    left = [training_budget(spec.privacy, spec.labels, epsilon) for epsilon in spec.privacy.epsilons]
    privacy = replace(spec.privacy, epsilons=tuple(one for one, _ in left), delta=min(delta for _, delta in left))
    return replace(spec, labels="prior", privacy=privacy)


def budget(privacy: PrivacySpec, epsilon: float, facts: PublicSizes) -> tuple[float, float]:
    """(epsilon, delta) of the list of one task: the lists of all tasks that one person may be in cost the lists' share."""
    spent, delta = list_budget(privacy, epsilon, facts.n_tasks)
    return spent / facts.n_recurring, delta


def one_label_of_each(train: Examples, cell: Cell, task: int) -> NDArray[np.int64]:
    """One label for each client that holds examples, int64 [clients]: the one of its labels that a public coin shows.

    The coin is of the seed, the task, the client's number and the label, so that a client's label depends on its own
    examples alone: removing the client removes one entry and changes no other, as removing a person does in
    `release_labels`, whose proof then holds for clients.
    """
    assert train.users is not None
    pairs = np.unique(np.stack([train.users, train.labels]), axis=1)
    keys = coins.keys(pair.tobytes() for pair in np.ascontiguousarray(pairs.T))
    order = np.lexsort((coins.tossed(keys, generator(cell.seed, f"labels that clients name in task {task}")), pairs[0]))
    _, first = np.unique(pairs[0][order], return_index=True)
    return np.asarray(pairs[1][order][first])


@dataclass(slots=True)
class GivenLists:
    """The lists of a learner's tasks by seed, so far. Its cells share a list only where that is read without noise.

    `spec`: the run's, with the budget of one row where a person has several. `public`: the declared classes; a label beyond
    them is on no list.
    """

    spec: RunSpec
    facts: PublicSizes
    public: tuple[int, ...]
    lists: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def give(self, task: Task, cells: Sequence[Cell], ledgers: Sequence[Ledger]) -> Task:
        """The task of a seed with its released list; every ledger has the release before it is made. `cells`: of the seed.

        A list that nobody is on gives way to a guess that reads nothing: the labels of earlier lists, or the first class; in
        one against the rest, the task's two answers.
        """
        before = self.lists.setdefault(cells[0].seed, [])
        found = set(self._released(task, cells, ledgers)) & set(self.public)
        guess = sorted(set().union(*before)) or self.public[:1]
        before.append(tuple(sorted(found)) or (task.prior if task.task_id is not None else tuple(guess)))
        return self.given(task, cells[0].seed)

    def given(self, task: Task, seed: int) -> Task:
        """The task with its list if it has one by now; until then every class may come."""
        lists = self.lists.get(seed, ())
        return replace(task, prior=lists[task.index] if task.index < len(lists) else self.public)

    def document(self) -> list[JsonValue]:
        """The lists so far, for a checkpoint: pairs of a seed and its lists."""
        return [[seed, [list(one) for one in of]] for seed, of in self.lists.items()]

    def _released(self, task: Task, cells: Sequence[Cell], ledgers: Sequence[Ledger]) -> tuple[int, ...]:
        if self.spec.labels == "data" or math.isinf(cells[0].epsilon):
            return label_space("data", (), (), task.train.labels, ledgers, task=task.index)
        (cell,), (ledger,) = cells, ledgers
        spent = budget(self.spec.privacy, cell.epsilon, self.facts)
        labels = task.train.labels if self.facts.n_users is None else one_label_of_each(task.train, cell, task.index)
        noise = noise_of(self.spec.privacy.noise, cell, f"labels of task {task.index}")
        return release_labels(labels, *spent, noise, ledger, task=task.index, people_of=(task.index,))
