"""One network trained on all tasks together, after the last has arrived, without noise: the ceiling of this family."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule, masked
from dpcl_core.methods.common.method import PublicContext, PublicSizes, labelled, refuse_budgets, settings_of
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong.later import nets, torch
from dpcl_core.methods.lifelong.params import NetworkName
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Examples, Task, generator, join_examples
from dpcl_core.spec import Cell, RunSpec, parameter

TITLES: dict[NetworkName, str] = {
    "lifelong": "Lifelong network", "cnn-32": "CNN-32", "cnn-64": "CNN-64", "cnn-128": "CNN-128", "bilstm": "BiLSTM",
    "cnn-ig": "CNN-Ig", "cnn-ig-featureless": "CNN-Ig-featureless",
}


@dataclass(frozen=True, kw_only=True)
class JointNetworkParams(settings.NetworkParams):
    """Settings of one training on all tasks."""

    network: NetworkName = parameter(
        "lifelong",
        description="lifelong: the network of the other methods. The rest read windows of a sensor, as in table 4 of Lai et "
        "al.: convolutions with 32, 64 or 128 channels, a recurrent network, and Ignatov's with and without statistics of a "
        "window.")
    learning_rate: float = parameter(1e-3, gt=0, le=1, description="Step size of Adam.")
    batch_size: int = parameter(100, ge=1, le=100_000, description="Examples in each batch.")
    epochs: int = parameter(10, ge=1, le=1000, description="How often each example is used.")


class JointNetwork:
    """One network for one seed. Keeps the examples of all tasks until it is trained, with Adam and softmax cross-entropy.

    With a shared last layer the classes of all lists compete; with one layer per task, those of the example's own task.
    Examples of other classes are dropped.
    """

    KEPT = ("_lists",)  # the network exists only after the last task

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,) = cells
        self._params, self._labels, self._context = settings_of(spec, JointNetworkParams), spec.labels, context
        self._form = settings.input_form(context.form, context.n_inputs)
        self._waiting: list[Examples] = []
        self._lists: list[tuple[int, ...]] = []  # the labels of each task
        self._net: nets.Network | None = None

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        labels = label_space(self._labels, task.prior, self._context.public, task.train.labels, [ledger], task=task.index)
        self._waiting.append(labelled(task, labels))
        self._lists.append(labels)
        if len(self._waiting) < self._context.n_tasks:
            return
        what = f"training on all tasks without noise, {self._params.epochs} epochs"
        ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what=what, people_of=tuple(range(self._context.n_tasks)))
        of_task = np.repeat(np.arange(len(self._waiting)), [len(examples) for examples in self._waiting])
        examples = join_examples(self._waiting)
        self._waiting.clear()
        yield from self._train(examples, of_task, task.index)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads the examples of the tasks so far again."""
        self._waiting += [labelled(tasks[self._cell.seed], of) for tasks, of in zip(learned, self._lists, strict=True)]

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The network's logits, the only prediction rule; -inf for classes that do not compete. Nothing before it exists."""
        if self._net is None:
            return {}
        columns = np.flatnonzero(self._competing(np.asarray([task.index]))[0])
        return {"argmax": masked(self._net.logits(task.test.inputs, self._form)[None], columns)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name; nothing before the last task."""
        return {} if self._net is None else self._net.released()

    def rule(self, cell: Cell) -> Rule | None:
        """The network's largest logit; None before the last task."""
        if self._net is None:
            return None
        every, by_task = sorted(set().union(*self._lists)), self._lists if self._params.is_task_given else ()
        return self._net.rule(every, by_task, architecture=self._params.network)

    def _competing(self, of_task: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which classes compete for an example of each of these tasks, bool [n, n_classes]."""
        every = set().union(*self._lists)
        allowed = np.zeros((len(self._lists), self._context.n_classes), dtype=np.bool_)
        for row, labels in zip(allowed, self._lists, strict=True):
            row[list(labels if self._params.head == "per-task" else every)] = True
        return allowed[of_task]

    def _train(self, examples: Examples, of_task: NDArray[np.int64], task: int) -> Iterator[Progress]:
        params, device = self._params, self._context.device
        net = nets.build_named(params.network, self._form, self._context.n_classes, self._cell.seed).to(device)
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
            loss = torch.nn.functional.cross_entropy(logits, targets[places], reduction="sum") / max(1, len(rows))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            yield Progress("training", step, total, task, "steps on all tasks")
        self._net = net


def _batches(n: int, size: int, draws: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches without end of the indices of n examples, in a new order every time all have been used; empty without any."""
    waiting = np.zeros(0, dtype=np.int64)
    while True:
        while n and len(waiting) < size:
            waiting = np.concatenate([waiting, draws.permutation(n)])
        yield waiting[:size]
        waiting = waiting[size:]


make_learner = JointNetwork


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, for a network that cannot read the data, and as `params.check_lifelong` does."""
    refuse_budgets(spec, "this training adds no noise; it is the ceiling of the methods that do")
    settings.check_lifelong(spec, facts)
    params = settings_of(spec, JointNetworkParams)
    if params.network != "lifelong" and datasets.card(spec.data.dataset).kind != "sensor":
        allowed = "must be lifelong on pictures: the others read windows of a sensor, such as those of har-wisdm"
        raise BadInput("params.network", params.network, allowed, {"params.network": "lifelong"})


def n_steps(params: JointNetworkParams, facts: PublicSizes) -> int:
    """Steps in all, from public sizes alone."""
    return params.epochs * math.ceil(facts.n_tasks * facts.task_size / params.batch_size)


def derived(params: JointNetworkParams, facts: PublicSizes) -> str:
    """The settings in numbers."""
    return f"{n_steps(params, facts):,} steps on all tasks together, after the last has arrived."


PRINTED = settings.printed(
    settings.OPEN,
    {
        "data.dataset": Printed((), "HARW is not public; other data are not the paper's.", "HARW", is_of_scale=True),
        "params.network": Printed(
            ("cnn-32", "cnn-64", "cnn-128", "bilstm", "cnn-ig", "cnn-ig-featureless"),
            "Table 4 has other networks than the experiments.",
        ),
        "params.batch_size": "The batch size is not given.",
        "params.epochs": "The epochs of centralised training are not given.",
    },
)
CARD = settings.network_card(
    name="joint-network",
    title="All tasks at once (network)",
    summary="Collects the examples of all tasks and trains one network on them together, without noise. This is not "
    "continual learning: it shows what could be reached if nothing were forgotten and no one protected.",
    source="Centralised training of Lai et al. 2022, appendix D",
    params=JointNetworkParams, key_settings=("network", "epochs", "learning_rate"), module=__name__,
    cells_per_learner="cell", trains_on="all", refuses=check, derived=derived, guarantee="none", printed=PRINTED,
    table_names=lambda spec: (TITLES[settings_of(spec, JointNetworkParams).network], "noiseless"),  # as table 4 has them
)
