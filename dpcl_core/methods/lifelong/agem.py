"""A-GEM (Chaudhry et al. 2019) without noise, the baseline of Lai et al. 2022: keeps one batch of each task."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule, masked
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT
from dpcl_core.methods.common.method import PublicContext, PublicSizes, labelled, refuse_budgets, settings_of
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong.later import gpu, nets, per_example, torch
from dpcl_core.methods.lifelong.params import BatchParams
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, RunSpec

# Examples in one pass: more were no faster on a CPU, and take memory. On a card as many as fit, at most these.
AT_ONCE = {"cpu": 200, "cuda": 5000}


class Agem:
    """One network for one seed. Softmax cross-entropy and plain descent; one batch of each task is stored unchanged.

    With a shared last layer the classes of all label lists released so far compete, in training and at test; with one layer
    per task, the classes of the example's own task. Examples of other classes are dropped.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("_net", "_space", "_lists")
    _title, _unbounded = "A-GEM", "without noise"  # method and reason for the missing bound, for ledger entries
    _largest_weight = LARGEST_WEIGHT

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,) = cells
        self._params, self._labels, self._context = settings_of(spec, BatchParams), spec.labels, context
        self._form = settings.input_form(context.form, context.n_inputs)
        self._net = nets.build(self._form, context.n_classes, self._cell.seed).to(context.device)
        self._room = gpu.room(context.device)
        self._memory: list[nets.Batch] = []  # one batch of every finished task
        self._space: tuple[int, ...] = ()  # labels released so far
        self._lists: list[tuple[int, ...]] = []  # the labels of each task

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        seed, params = self._cell.seed, self._params
        task, ledger = tasks[seed], ledgers[self._cell]
        labels = label_space(self._labels, task.prior, self._context.public, task.train.labels, [ledger], task=task.index)
        self._space = tuple(sorted({*self._space, *labels}))
        self._lists.append(labels)
        batches = self._batches(task, self._competing(labels))
        nominal = max(1, int(self._context.task_size))
        n_batches = len(batches) if self._context.counted else max(1, nominal // self._size(nominal))
        n_steps = schedule(params, task.index, n_batches)
        self._account(task.index, n_steps, ledger)
        weights = list(self._net.parameters())
        draws = generator(seed, f"replayed batches of task {task.index}")
        steps = nets.descend(weights, batches, self._memory, self._gradients, n_steps, params, draws, self._largest_weight)
        for done in steps:
            yield Progress("training", done, n_steps, task.index, f"steps of {self._title}")
        self._store(task, batches)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads the stored batches again: public coins alone choose them."""
        seen: set[int] = set()
        for tasks, labels in zip(learned, self._lists, strict=True):
            task, seen = tasks[self._cell.seed], {*seen, *labels}
            self._store(task, self._batches(task, labels if self._params.head == "per-task" else tuple(sorted(seen))))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The network's logits, the only prediction rule; -inf for classes that do not compete."""
        labels = label_space(self._labels, task.prior, self._context.public, task.train.labels, [], task=task.index)
        return {"argmax": masked(self._logits(task.test.inputs)[None], self._competing(labels))}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name; the stored batches are not released."""
        return self._net.released()

    def rule(self, cell: Cell) -> Rule | None:
        """The network's largest logit."""
        return self._net.rule(self._space, self._lists if self._params.is_task_given else ())

    def _logits(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        return self._net.logits(inputs, self._form)

    def _competing(self, labels: tuple[int, ...]) -> tuple[int, ...]:
        return labels if self._params.head == "per-task" else self._space

    def _batches(self, task: Task, competing: tuple[int, ...]) -> list[nets.Batch]:
        """The task's fixed batches. Raises BadInput if its examples of the competing classes do not fill one batch; if their
        number is private, they form one smaller, possibly empty, batch instead."""
        train = labelled(task, competing)
        size, device = self._size(len(train)), self._context.device
        chosen = fixed(len(train), size, generator(self._cell.seed, f"batches of task {task.index}"))
        if not chosen and not self._context.counted:
            chosen = [np.arange(len(train))]
        if not chosen:
            allowed = f"must be at most {len(train)}, the number of training examples of {task.name} with public labels"
            raise BadInput("params.batch_size", size, allowed)
        used: Examples = train.take(np.concatenate(chosen))
        return nets.pieces(nets.batch(used, competing, self._form, device), size)

    def _store(self, task: Task, batches: Sequence[nets.Batch]) -> None:
        place = picked(self._params, len(batches), generator(self._cell.seed, f"stored batch of task {task.index}"))
        stored = batches[place]
        # A copy: a view would keep the task's whole tensor in memory.
        self._memory.append(replace(stored, inputs=stored.inputs.clone(), targets=stored.targets.clone()))

    def _size(self, n: int) -> int:
        """Examples in each batch of a task that has n of them."""
        return self._params.batch_size

    def _account(self, task: int, n_steps: int, ledger: Ledger) -> None:
        """Charges unbounded reads of this task's examples and of every stored batch."""
        ledger.spend(dp.NonPrivateDpEvent(), task=task, what=f"{self._title} {self._unbounded}, {n_steps} steps")
        if self._memory and self._params.projection != "never":
            what = f"stored batches of the tasks before, read again {self._unbounded}"
            ledger.spend(dp.NonPrivateDpEvent(), task=task, what=what, people_of=tuple(range(task)))

    def _gradients(self, batch: nets.Batch) -> nets.Gradients:
        """Gradients of the batch's mean loss for every parameter, summed over pieces to save memory."""
        n = self._divisor(batch)
        of_pieces = [self._of_piece(p.inputs, p.targets, p.columns, n) for p in nets.pieces(batch, self._at_once())]
        return [functools.reduce(operator.add, parts) for parts in zip(*of_pieces, strict=True)]

    def _at_once(self) -> int:
        """Examples in one pass."""
        bytes_each = per_example.BYTES_A_PIXEL * math.prod(self._form.shape[:2])
        return gpu.at_once(self._room, AT_ONCE["cpu"], bytes_each, AT_ONCE["cuda"])

    def _divisor(self, batch: nets.Batch) -> int:
        """The number that a batch's sums are divided by."""
        return max(1, len(batch.targets))

    def _of_piece(self, inputs: torch.Tensor, targets: torch.Tensor, columns: torch.Tensor, n: int) -> nets.Gradients:
        """Gradients of the softmax cross-entropy on a piece of a batch of n."""
        loss = torch.nn.functional.cross_entropy(self._net(inputs)[:, columns], targets, reduction="sum") / n
        return list(torch.autograd.grad(loss, list(self._net.parameters())))


make_learner = Agem


# Fixed batches of a task, its number of steps, and the batch that is kept (Lai et al., Algorithm 2, section 5).


def fixed(n: int, size: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Indices of n examples, split at random into disjoint batches of exactly `size`; a remainder is left out.

    The batches of a task are the same in all its epochs.
    """
    order = generator.permutation(n).astype(np.int64)
    return [order[start : start + size] for start in range(0, n - size + 1, size)]


def schedule(params: BatchParams, task: int, n_batches: int) -> int:
    """Number of steps for a task of `n_batches`; `task` counts from 0 in the stream's order.

    Step i takes batch i modulo `n_batches`: "balanced" may stop within an epoch or start another.
    """
    if params.variant == "balanced":
        assert params.steps is not None
        return params.steps
    if params.variant == "heterogeneous":
        assert params.epochs_by_task is not None
        return params.epochs_by_task[task] * n_batches
    return params.epochs * n_batches


def picked(params: BatchParams, n_batches: int, generator: np.random.Generator) -> int:
    """Index of the batch to keep: random (as printed) or the last (as in code of the same group)."""
    return n_batches - 1 if params.memory_pick == "last" else int(generator.integers(n_batches))


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, and as `params.check_lifelong` does."""
    refuse_budgets(spec, "A-GEM adds no noise; dp-agem is its private form")
    settings.check_lifelong(spec, facts)


CARD = settings.network_card(
    name="agem",
    title="A-GEM without noise",
    summary="A whole network learns one task after another and keeps one batch of each. A step that would make it worse on "
    "the kept batches is projected until it does not. Adds no noise: an upper bound for the private versions.",
    source="Chaudhry et al. 2019; the noiseless baseline of Lai et al. 2022",
    params=BatchParams, key_settings=("epochs", "learning_rate", "memory_pick"), module=__name__,
    cells_per_learner="cell", guarantee="none",
    refuses=check, derived=settings.derived, batch_size=settings.batch_size,
    printed=settings.printed(
        settings.BATCHES,
        {
            "params.projection": Printed(("if-violated", "always"), "Chaudhry et al. print the one, Lai et al. the other."),
            "params.scope": Printed(("joint",), "A-GEM projects the whole gradient."),
        },
    ),
    table_names=lambda spec: ("A-GEM", settings.variant(spec, "noiseless")),
)
