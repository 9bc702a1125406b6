"""The learner protocol of every method, and the public facts that the engine passes to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.data.texts import Canary, TextForm
from dpcl_core.events import Leaks, Note, Progress, Retained, TokensScored
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.labels import in_label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell


class Observation:
    """Data for the simulator's visualisations, not part of a release; shown for public or synthetic examples only.

    The engine passes it to `dpcl_core.explorers` and records only the events that these make of it.
    """

    __slots__ = ()


LearnerEvent = Progress | Note | TokensScored | Retained | Leaks | Observation  # what `learn` may yield


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicContext(PublicSizes):
    """Public facts that a learner may use, all known before any private example is read (except `undeclared`).

    Beside the sizes: `n_inputs`: feature size K (0 if the method reads images); `public`: class indices assumed public,
    ascending; `device`: torch device name. `form`: layout of the examples' own values in the inputs, None for network
    features or pictures. `classes`: names of the classes. `texts`: encoding of texts, None for other inputs; `canaries`:
    secrets planted among them. `anchors` float32 [p, K]: features of public sentences from the same backbone, at most 2,000,
    for methods whose card has `needs_anchors`; `Task.train.users` then gives the client of each example. `undeclared`: names
    of the training labels from n_classes on, candidates for a learned list. It is the one private field, because labels are
    private: nothing may depend on it except through a released list. `counted`: whether the number of examples in a task is
    public, as for a benchmark; for a person's own data only nominal sizes are. `n_axes`: how many public axes of the network
    each budget takes its features along; empty where there are none.
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
    n_axes: Mapping[float, int] = field(default_factory=dict)

    @property
    def n_labels(self) -> int:
        """Number of possible labels, and so the length of arrays indexed by label. Private, as `undeclared` is."""
        return self.n_classes + len(self.undeclared)

    def size_of(self, task: Task) -> float:
        """Nominal number of training examples of this task: its source's size if a card gives it, else `task_size`."""
        return self.source_sizes.get(task.name, self.task_size)


def labelled(task: Task, labels: Sequence[int]) -> Examples:
    """The task's training examples of these labels."""
    return task.train.take(np.flatnonzero(in_label_space(task.train.labels, labels)))


class Learner(Protocol):
    """Learns tasks one after another for a group of cells that may share work, but never noise. Keeps no examples.

    Streams differ by seed (class order), so each step passes one task per seed; budgets of one seed see the same task.
    """

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[LearnerEvent]:
        """Learns the next task of every seed; each use of private data enters the cell's ledger before its output leaves."""
        ...

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores [epsilons, n, classes] of `task.test` under the seed's models, by prediction rule, the run's own first.

        -inf: a label that was never released. Empty if no model has been released yet. Streams that look ahead also call it
        before the first task, for the untrained model, and for a task that is not learned yet.
        """
        ...

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """Everything that this cell's learner released after the last task, by name: all that an adversary sees of it.

        It depends on private data only through releases that are in the ledger.
        """
        ...


@runtime_checkable
class TaskBlind(Protocol):
    """A learner that scores an example the same in whichever task it is: test sets of several tasks may be scored as one."""

    is_task_unread: ClassVar[bool]


@runtime_checkable
class Answering(Protocol):
    """A learner whose public network answers before it has learned anything, as a language model does."""

    def untrained(self, task: Task) -> NDArray[np.floating]:
        """Scores [n, classes] of `task.test` under the public network as it came; of a learner that has learned nothing."""
        ...


@runtime_checkable
class Surveying(Protocol):
    """A learner that reads all tasks before it learns the first, which a true stream would not allow."""

    def survey(self, streams: Mapping[int, Sequence[Task]], ledgers: Mapping[Cell, Ledger]) -> None:
        """Reads the tasks of every seed, in order; every use of private data enters the cell's ledger."""
        ...


@runtime_checkable
class Prefetching(Protocol):
    """A learner whose models do not build on each other: it may train the next task while another is evaluated."""

    def prefetch(self, coming: Sequence[Mapping[int, Task]]) -> None:
        """Starts work on coming tasks, the next one first. No result or ledger entry leaves before that task's `learn`."""
        ...
