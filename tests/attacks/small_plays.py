"""Every method that says "proved", played small through its learner: settings, public facts and tasks it can do with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dpcl_core import checks
from dpcl_core.data.dataset import Form
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import Learner, PublicContext
from dpcl_core.methods.language import gradients
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec
from tests.methods import pecl_small, training
from tests.support import clients

N_TASKS, NOMINAL, _PER_TASK = 3, 24, 21  # examples of a task: the public number, and how many there are
OF_CLIENTS, PUBLIC = clients.stream(per_class=20, classes_per_task=2)
_HEADS = {"epochs": 2, "sample_rate": 0.5}
_ROUNDS = {"rounds": 2, "local_steps": 1, "hidden": 4, "batch_size": 4, "participation": 0.5}
_LISTS = {"dimensions": 4, "anchors": 20, "restarts": 1}
_SERVER = {"steps": 1, "samples": 2, "hidden": 0}
PARAMS: Mapping[str, Mapping[str, object]] = {
    "cosine": {},
    "peft-ensemble": _HEADS,
    "naive": _HEADS,
    "non-cl": _HEADS,
    "dp-agem": {"epochs": 1, "sample_rate": 0.5, "memory_size": 8, "replay_rate": 0.25},
    "dp-coeff-memory": {},
    "independent-laplace": {"steps": 2},
    "label-means": {"dimensions": 4},
    "cslr-server-head": {**_LISTS, **_SERVER},
    "cslr-central": {**_LISTS, **_ROUNDS},
    "dp-stat-share": {**_LISTS, "list_size": 1, **_ROUNDS},
    "local-list": {**_LISTS, **_SERVER},
    "dp-fedavg": _ROUNDS,
    "fedcil-dp": {**_ROUNDS, "noise_size": 2, "consolidation_steps": 1},
    **{name: {"lora_rank": 2, "epochs": 1} for name in ("lm-seqft", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl")},
    "lm-er": {"lora_rank": 2, "epochs": 1, "replay_size": 1},
}


def spec(method: str, *, labels: str = "prior", adjacency: str = "add-remove", **params: object) -> RunSpec:
    """One budget and seed, with release noise; `params`: in place of those of `PARAMS`."""
    card, params = catalog.card(method), {**PARAMS[method], **params}
    if card.has_clients:
        return clients.spec(method, params=params, privacy={"epsilons": [4.0]})
    if _is_of_texts(method):
        asked = pecl_small.spec(method, adjacency=adjacency, **params)
        return replace(asked, privacy=replace(asked.privacy, noise="release"))
    adjacency = "replace" if method == "independent-laplace" else "add-remove"
    return checks.parse({
        "method": method, "params": params, "labels": labels if labels in card.labels else card.labels[0], "seeds": [0],
        "privacy": {"epsilons": [4.0], "adjacency": adjacency}, "scenario": {"kind": "split", "tasks": N_TASKS},
    })  # fmt: skip


def played(asked: RunSpec, *, neighbour: int | None = None, is_huge: bool = False) -> tuple[Learner, Ledger]:
    """The learner and its ledger after all tasks, of which one may be its neighbour's: one person more, or a huge one."""
    (cell,) = asked.cells()
    known, tasks = facts(asked), list(_tasks(asked))
    if neighbour is not None:
        tasks[neighbour] = replace(tasks[neighbour], train=_neighbour(asked, tasks[neighbour].train, is_huge))
    ledger = Ledger(asked.privacy.delta, asked.privacy.adjacency, known.recurrence)
    learner = catalog.maker(asked.method)(asked, [cell], known)
    for task in tasks:
        list(learner.learn({cell.seed: task}, {cell: ledger}))
    return learner, ledger


def without_gradients(patch: pytest.MonkeyPatch) -> None:
    """In place of a language model's gradients a number for each text that is read, for tests of noise and charges alone."""

    def sums(self: gradients.Gradients, batch: gradients.Batch, *args: Any, **named: Any) -> list[torch.Tensor]:
        return [torch.full_like(one, float(batch.ids.sum())) for one in self.parameters]

    patch.setattr(gradients.Gradients, "of", sums)
    patch.setattr(gradients.Gradients, "squares_of", sums)


def _neighbour(asked: RunSpec, train: Examples, is_huge: bool) -> Examples:
    """An example or a text more, or in place of the last where records are replaced; a client less."""
    if train.users is not None:
        return train.take(np.flatnonzero(train.users != train.users[0]))
    label, kept = train.labels[1:2], len(train) - (asked.privacy.adjacency == "replace")
    if _is_of_texts(asked.method):
        return Examples(np.concatenate([train.inputs[:kept], train.inputs[1:2]]), np.append(train.labels[:kept], label))
    assert train.rows is not None
    other = len(train.table) - 1 if is_huge else train.rows[1]
    return Examples(train.table, np.append(train.labels[:kept], label), rows=np.append(train.rows[:kept], other))


def _is_of_texts(method: str) -> bool:
    return method.startswith("lm-") or method == "pecl"


def n_tasks(method: str) -> int:
    """Of clients there are fewer tasks: each is for all of them."""
    return len(OF_CLIENTS.tasks) if catalog.card(method).has_clients else N_TASKS


def facts(asked: RunSpec) -> PublicContext:
    if catalog.card(asked.method).has_clients:
        return clients.known(OF_CLIENTS, PUBLIC)
    if _is_of_texts(asked.method):
        return pecl_small.known(n_tasks=N_TASKS, may_show=False)
    return training.public_context(36, 2 * N_TASKS, N_TASKS * NOMINAL, N_TASKS, form=Form((6, 6, 1), 0.0, 1.0))


def _tasks(asked: RunSpec) -> Sequence[Task]:
    if catalog.card(asked.method).has_clients:
        return OF_CLIENTS.tasks
    if _is_of_texts(asked.method):
        two = pecl_small.stream(11)  # of the public number of twelve
        return [*two, Task(2, "trade", pecl_small.texts(11, 0, 40), two[0].test, (0, 1))]
    random, places = np.random.default_rng(7), np.arange(N_TASKS * _PER_TASK)
    labels = places % 2 + 2 * (places // _PER_TASK)
    huge = np.where(np.arange(36) % 2, 30.0, -30.0)  # of a neighbour alone
    table = np.vstack([random.uniform(0, 1, (len(labels), 36)), huge]).astype(np.float32)
    if getattr(asked.params, "adapter", "head") != "head":
        table = random.integers(0, 256, (len(labels) + 1, 16, 16, 3)).astype(np.uint8)
    everything = Examples(table, np.append(labels, 0).astype(np.int64))
    own = [everything.take(index * _PER_TASK + np.arange(_PER_TASK)) for index in range(N_TASKS)]
    return [Task(index, f"task {index + 1}", one, one, (2 * index, 2 * index + 1)) for index, one in enumerate(own)]
