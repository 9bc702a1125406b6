"""What every method promises the engine, and the public facts that the engine hands it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.data.texts import Canary, TextForm
from dpcl_core.events import Leaks, Note, Progress, Retained, TokensScored
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell


class Observation:
    """What the simulator may look at beside a release: plain data, of public or synthetic examples only once it is shown.

    The engine hands it to what draws it (`dpcl_core.explorers`), and makes events of that alone.
    """

    __slots__ = ()


LearnerEvent = Progress | Note | TokensScored | Retained | Leaks | Observation  # what a method may say while it learns


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicContext(PublicSizes):
    """Public facts that a learner may build on: all of them known before any private example is read.

    Beside the sizes: `n_inputs`: feature size K (0 where a method reads images); `public`: class indices assumed public,
    ascending; `device`: torch device name. `form`: how the examples' own values lie in the inputs, None where these are
    features of a network or pictures. `classes`: their names. `texts`: how encoded texts are read, None for other inputs;
    `canaries`: secrets planted among them. `anchors` float32 [p, K]: features of public sentences by the same backbone, for
    methods whose card says `needs_anchors`, at most 2,000; `Task.train.users` then tells which client holds an example.
    `undeclared`: names of the training labels from n_classes on, candidates for a learned list: the one thing here that is
    private, as the labels are. Nothing may depend on it but through a list that was released. `counted`: whether how many
    examples a task has is taken as public, as of a benchmark; of a person's own data nominal sizes alone are.
    """

    n_inputs: int
    public: tuple[int, ...]
    device: str = "cpu"
    form: Form | None = None
    classes: tuple[str, ...] = ()
    texts: TextForm | None = None
    canaries: tuple[Canary, ...] = ()
    anchors: NDArray[np.float32] | None = None
    undeclared: tuple[str, ...] = ()
    counted: bool = True

    @property
    def n_labels(self) -> int:
        """How many labels an example may have, private: how long arrays are that labels index."""
        return self.n_classes + len(self.undeclared)

    def size_of(self, task: Task) -> float:
        """Nominal number of training examples of this task: its source's own where a card tells it."""
        return self.source_sizes.get(task.name, self.task_size)


class Learner(Protocol):
    """Learns tasks one after another for a group of cells that may share work, never noise. Keeps no examples.

    Streams differ by seed (class order), so a step hands over one task a seed; budgets of one seed see the same task.
    """

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[LearnerEvent]:
        """Learns the next task of every seed; each touch of private data is in the cell's ledger before it returns."""
        ...

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores [epsilons, n, classes] of `task.test` under the seed's models, by prediction rule, the run's own first.

        -inf: a label never released. Empty where no model has been released yet. Streams that look ahead also ask before the
        first task is learned, of the untrained model, and for a task before it is learned.
        """
        ...

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """What left this cell's learner when the last task was learned, by name: all that an adversary sees of it.

        Nothing here was computed from private data but by releases that are in the ledger.
        """
        ...


@runtime_checkable
class Surveying(Protocol):
    """A learner that may read all tasks before it learns the first, as a stream would not let it."""

    def survey(self, streams: Mapping[int, Sequence[Task]], ledgers: Mapping[Cell, Ledger]) -> None:
        """Told of the tasks of every seed, in order; each touch of private data is in the cell's ledger."""
        ...


@runtime_checkable
class Prefetching(Protocol):
    """A learner whose models do not build on each other: it may begin with the next task while another is looked at."""

    def foresee(self, coming: Sequence[Mapping[int, Task]]) -> None:
        """Told of the tasks that come, the next one first. Nothing that is begun here leaves before its own `learn`."""
        ...
