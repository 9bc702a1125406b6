"""One network trained on all tasks together, after the last has arrived: centralised training, without noise or memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import dp_accounting as dp
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import nets
from dpcl_core.methods.lifelong.cards.joint_network import JointNetworkParams, n_steps
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, generator, joined
from dpcl_core.spec import Cell, RunSpec


class JointNetwork:
    """One network for one seed. Keeps the examples of all tasks until it is trained, with Adam and softmax cross-entropy.

    With a shared last layer the classes of all lists compete; with one layer per task, those of the example's own task.
    Examples of other classes are dropped.
    """

    KEPT = ("_lists",)  # the network exists only after the last task

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        assert isinstance(spec.params, JointNetworkParams)
        assert context.form is not None
        (self._cell,) = cells
        self._params, self._labels, self._context, self._form = spec.params, spec.labels, context, context.form
        self._waiting: list[Examples] = []
        self._lists: list[tuple[int, ...]] = []  # the labels of each task
        self._net: nets.Network | None = None

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        labels = label_space(self._labels, task.prior, self._context.public, task.train.labels, [ledger], task=task.index)
        self._waiting.append(_of_labels(task, labels))
        self._lists.append(labels)
        if len(self._waiting) < self._context.n_tasks:
            return
        everyone = tuple(range(self._context.n_tasks))
        what = f"training on all tasks without noise, {self._params.epochs} epochs"
        ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what=what, people_of=everyone)
        of_task = np.repeat(np.arange(len(self._waiting)), [len(examples) for examples in self._waiting])
        examples = joined(self._waiting)
        self._waiting.clear()
        yield from self._train(examples, of_task, task.index)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads the examples of the tasks so far again."""
        for tasks, labels in zip(learned, self._lists, strict=True):
            self._waiting.append(_of_labels(tasks[self._cell.seed], labels))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The network's logits, the only prediction rule; -inf for classes that do not compete. Nothing before it exists."""
        if self._net is None:
            return {}
        columns = np.flatnonzero(self._competing(np.asarray([task.index]))[0])
        scores = np.full((1, len(task.test), self._context.n_classes), -np.inf, dtype=np.float32)
        scores[0][:, columns] = nets.logits(self._net, task.test.inputs, self._form)[:, columns]
        return {"argmax": scores}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name; nothing before the last task."""
        return {} if self._net is None else nets.released(self._net)

    def rule(self, cell: Cell) -> Rule | None:
        """The network's largest logit; None before the last task."""
        if self._net is None:
            return None
        every, by_task = sorted(set().union(*self._lists)), self._lists if self._params.is_task_given else ()
        return nets.rule(self._net, every, by_task, architecture=self._params.network)

    def _competing(self, of_task: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which classes compete for an example of each of these tasks, bool [n, n_classes]."""
        every = set().union(*self._lists)
        allowed = np.zeros((len(self._lists), self._context.n_classes), dtype=np.bool_)
        for row, labels in zip(allowed, self._lists, strict=True):
            row[list(labels if self._params.head == "per-task" else every)] = True
        return allowed[of_task]

    def _train(self, examples: Examples, of_task: NDArray[np.int64], task: int) -> Iterator[Progress]:
        params, device = self._params, self._context.device
        net = self._fresh().to(device)
        allowed = torch.from_numpy(self._competing(of_task)).to(device)
        targets = torch.from_numpy(examples.labels).to(device)
        optimiser = torch.optim.Adam(net.parameters(), params.learning_rate)
        total = n_steps(params, self._context)
        batches = _batches(len(examples), params.batch_size, generator(self._cell.seed, "batches of all tasks"))
        for step, rows in enumerate(islice(batches, total), start=1):
            # Of the batch alone: `inputs` gathers all rows of a selection.
            x = nets.tensor(examples.take(rows).inputs, self._form, device)
            places = torch.from_numpy(rows).to(device)
            logits = net(x).masked_fill(~allowed[places], -torch.inf)
            optimiser.zero_grad()
            loss = functional.cross_entropy(logits, targets[places], reduction="sum") / max(1, len(rows))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            yield Progress("training", step, total, task, "steps on all tasks")
        self._net = net

    def _fresh(self) -> nets.Network:
        name, n_classes, seed = self._params.network, self._context.n_classes, self._cell.seed
        if name == "lifelong":
            return nets.build(self._form, n_classes, seed)
        return nets.build_sensor_net(name, n_classes, seed)


def _of_labels(task: Task, labels: Sequence[int]) -> Examples:
    return task.train.take(np.flatnonzero(in_label_space(task.train.labels, labels)))


def _batches(n: int, size: int, draws: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches without end of the indices of n examples, in a new order every time all have been used; empty without any."""
    waiting = np.zeros(0, dtype=np.int64)
    while True:
        while n and len(waiting) < size:
            waiting = np.concatenate([waiting, draws.permutation(n)])
        yield waiting[:size]
        waiting = waiting[size:]


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> JointNetwork:
    """The learner of one cell."""
    return JointNetwork(spec, cells, context)
