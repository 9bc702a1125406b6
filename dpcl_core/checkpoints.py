"""Checkpoints: what left a run at the end of each task, and what it needs to go on after its process has died.

Nothing of a task leaves the engine before its checkpoint is saved, but events that are functions of public facts
(`is_public`: `tests/test_neighbours.py` compares them on neighbouring datasets). So if a process dies, each task is in one
of two states. Its checkpoint is saved: then its noise was drawn once, its entries are in the ledger, and a resumed run
passes on the very events that were saved. Or it is not: then no function of its noise or of its batches has left, so that
the task may be learned again with fresh noise, and is charged once, for what then leaves. Nobody can choose between the two
outcomes by killing the process, because nothing that depends on them was seen. The death itself and its time are outside
every guarantee here, as running times are. A power cut is no other death: what is saved is on the disk when `save` returns.
A store that is restored from a backup forgets checkpoints whose events have left: `runs.released` says so outside the store,
and such a run is refused.

In release mode noise and batches come from the operating system and are never recorded: a checkpoint has what they led to,
released numbers and the learner's memory, and of kept examples only their places in the data. It lies in the store beside
the run, and is deleted when the run ends or is deleted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpcl_core.events import Event, Progress, TokensScored


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The end of a task for one group of cells: the events that leave after it, and the state to go on from.

    `group`: place of the group in the run; `task`: index. `document`: JSON, `arrays`: a safetensors file; both None where
    there is no way back: the learner cannot be kept, or the task is the last one and the events have finished its cells.
    """

    group: int
    task: int
    events: tuple[Event, ...]
    document: str | None
    arrays: bytes | None


def are_from_the_first_on(kept: Sequence[Checkpoint]) -> bool:
    """Whether a group's checkpoints are those of its tasks 0, 1, 2, …: after a gap, tasks would be learned as others."""
    return [checkpoint.task for checkpoint in kept] == list(range(len(kept)))


class Keep(Protocol):
    """Where the checkpoints of a run lie. Only the newest of a group needs to keep its state."""

    def of(self, group: int) -> Sequence[Checkpoint]:
        """The group's checkpoints, in order of their tasks, from the first one on."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Saves a checkpoint; it is durable when this returns."""


class Division(Protocol):
    """How the groups of a run are shared out among processes. A group, whose cells share work or noise, is never divided."""

    def begin(self, n_groups: int, n_tasks: int) -> None:
        """Called once, when the run has started and before the first group begins."""

    def events(self, group: int, here: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """The events of a group that leave this process; `here` carries it out in this process."""


def is_public(event: Event) -> bool:
    """Whether an event of a task that is being learned is a function of public facts alone, so that it may leave at once.

    Progress has public counts. Tokens scored by the frozen network are shown of public and synthetic texts only.
    """
    return isinstance(event, Progress) or (isinstance(event, TokensScored) and event.model == "base")
