"""A run in parts: groups of cells that share neither work nor noise, carried out by several processes and machines.

Each part is a run in the queue: any machine that looks after the store's queue may take it. It saves the checkpoints of its
groups as those of the whole run, and stores nothing else. The run's own process begins it, puts its parts into the queue,
and passes on what is saved, group by group: so the whole run's events, ledgers and document are those of the unsplit run.

A part that loses its process or its machine is tried again after its last checkpoint; see `dpcl_core.checkpoints` for why
that draws no noise twice for one release.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Text, cast, func, insert, select

from dpcl_core.checkpoints import Checkpoint, Division, Whole, is_public
from dpcl_core.events import Event, Progress, Started
from dpcl_core.runs import released, resumption
from dpcl_core.runs.durations import workload_of
from dpcl_core.runs.executor import Executor
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.resumption import Stored
from dpcl_core.runs.run import LONGEST_NAME, Failure, Split, Status, clean_name
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import checkpoints, runs, shards
from dpcl_core.runs.transitions import stop_shards

_PAUSE_SECONDS = 0.25
_STOPPED = Failure("worker-died", "A part of this run was stopped, so that all of it ended.", "")


class PartFailed(RuntimeError):
    """A part of a run has failed, and the run with it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


def parts(n_groups: int, n_shards: int) -> list[list[int]]:
    """Shares groups out: every n-th one to a part, so that those of the same place in all parts end together."""
    n = min(n_groups, n_shards)
    return [list(range(first, n_groups, n)) for first in range(n)]


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a run as it stands: `groups` are the places of its groups in the whole run."""

    id: str
    groups: Sequence[int]
    status: Status
    runs_on: str | None
    failure: Failure | None


def of_run(store: Store, run_id: str) -> list[Shard]:
    """The parts of a run, in order; none for a run that is whole, or has not begun."""
    columns = (runs.c.status, runs.c.runs_on, runs.c.error_kind, runs.c.error, runs.c.error_log)
    query = select(shards.c.id, shards.c.groups, *columns).join(runs, runs.c.id == shards.c.id)
    with store.reading() as connection:
        rows = connection.execute(query.where(shards.c.run_id == run_id).order_by(runs.c.number)).all()
    return [
        Shard(
            row.id, row.groups, row.status, row.runs_on,
            None if row.error_kind is None else Failure(row.error_kind, row.error, row.error_log or ""),
        )
        for row in rows
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """What the process of one part carries out, and the checkpoints that it saves; a `Keep` and a `Division`.

    Only progress leaves it otherwise: all else comes out of the run's own process, from the checkpoints.
    """

    stored: Stored
    groups: frozenset[int]
    _public: list[Event] = field(default_factory=list)  # of the task under way, which leave before its checkpoint

    def begin(self, n_groups: int, n_tasks: int) -> None:
        pass

    def events(self, group: int, here: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        if group in self.groups:
            for event in here():
                if isinstance(event, Progress):
                    yield event
                elif is_public(event):
                    self._public.append(event)

    def of(self, group: int) -> Sequence[Checkpoint]:
        return self.stored.of(group)

    def save(self, checkpoint: Checkpoint) -> None:
        said = (*self._public, *checkpoint.events)
        self._public.clear()
        self.stored.save(Checkpoint(checkpoint.group, checkpoint.task, said, checkpoint.document, checkpoint.arrays))


def part_of(store: Store, run_id: str, patience: Patience) -> Part | None:
    """The part of a run that this run of the queue is; None for any other."""
    with store.reading() as connection:
        row = connection.execute(select(shards).where(shards.c.id == run_id)).one_or_none()
    return None if row is None else Part(Stored(store, row.run_id, patience, run_id), frozenset(row.groups))


def without_results(events: Iterator[Event]) -> Iterator[Event]:
    """The events of a part that are stored as its own: that it has begun, and how far it is."""
    return (event for event in events if isinstance(event, Progress | Started))


def division_of(store: Store, run_id: str, open_executor: Callable[[str], Executor], patience: Patience) -> Division:
    """How this process carries out a run: whole, or by waiting for its parts, which the opened executor starts."""
    split = store.split_of(run_id)
    if split is None:
        return Whole()
    return Waiting(store, run_id, split, open_executor(split.executor), patience)


@dataclass(slots=True)
class Waiting:
    """A run's own process, once its parts are in the queue: passes on what they save, one group after another."""

    store: Store
    run_id: str
    split: Split
    executor: Executor
    patience: Patience
    _n_tasks: int = 0
    _n_checkpoints: int = 0  # of the whole run; 0 where this process carries it out after all
    _n_seen: int = -1

    def begin(self, n_groups: int, n_tasks: int) -> None:
        shared = parts(n_groups, self.split.n_shards)
        if len(shared) > 1 or self.split.executor != "local":
            self._n_tasks, self._n_checkpoints = n_tasks, n_groups * n_tasks
            resumption.check_known(self.store, self.run_id, self.patience)
            self.patience.outlast(lambda: _put_into_queue(self.store, self.run_id, shared, self.split.device))
            self.patience.outlast(lambda: self.store.leave_device(self.run_id))

    def events(self, group: int, here: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        if not self._n_checkpoints:
            yield from here()
            return
        try:
            yield from self._saved(group)
        except BaseException:  # also where this process is interrupted, or passes on no more
            self.patience.outlast(self._stop)
            raise

    def _saved(self, group: int) -> Iterator[Event]:
        seen = 0
        while True:
            status, n_saved, found = self.patience.outlast(partial(self._look, group, seen))
            if n_saved != self._n_seen or status not in ("starting", "running"):
                # After a stop this goes on until whoever stores the events has heard of it.
                self._n_seen = n_saved
                yield Progress("training", n_saved, self._n_checkpoints, None, "training, in parts")
            for said, digest in found:
                events = resumption.events_of(group, seen, said, digest)
                seen += 1
                # Also here: the part that saved it may be on another machine, and may not have written it down yet.
                self.patience.outlast(partial(released.record, self.run_id, group, seen))
                yield from events
            if seen == self._n_tasks:
                return
            self.patience.outlast(self._check_parts)
            self.patience.outlast(self.executor.schedule)
            time.sleep(_PAUSE_SECONDS)

    def _look(self, group: int, seen: int) -> tuple[Status, int, list[tuple[str, str | None]]]:
        """The run's state, how many checkpoints it has, and events and digest of the group's new ones up to a gap."""
        of_run = checkpoints.c.run_id == self.run_id
        said = cast(checkpoints.c.events, Text).label("said")
        new = select(checkpoints.c.task, said, checkpoints.c.digest).where(of_run, checkpoints.c.learner == group)
        with self.store.reading() as connection:
            n_saved = connection.scalar(select(func.count()).select_from(checkpoints).where(of_run)) or 0
            rows = connection.execute(new.where(checkpoints.c.task >= seen).order_by(checkpoints.c.task)).all()
        found = [(row.said, row.digest) for task, row in enumerate(rows, seen) if row.task == task]
        return self.store.status(self.run_id), n_saved, found

    def _check_parts(self) -> None:
        for shard in of_run(self.store, self.run_id):
            if shard.status in ("failed", "lost") and shard.failure is not None:
                raise PartFailed(shard.failure)
            if shard.status == "cancelled" and self.store.status(self.run_id) in ("starting", "running"):
                raise PartFailed(_STOPPED)

    def _stop(self) -> None:
        with self.store.writing() as connection:
            stop_shards(connection, self.run_id)


def _put_into_queue(store: Store, run_id: str, shared: Sequence[Sequence[int]], device: str) -> None:
    """Puts the parts of a run into the queue; where that was done before, those that did not finish."""
    known = of_run(store, run_id)
    if not known:
        run, n_groups = store.get(run_id), sum(map(len, shared))
        with store.writing() as connection:
            for number, groups in enumerate(shared):
                tail = f": part {number + 1} of {len(shared)}"
                shard_id = enqueue(
                    connection, run.spec, name=clean_name(run.name[: LONGEST_NAME - len(tail)] + tail), device=device,
                    workload=workload_of(run.spec), n_cells=run.spec.n_cells * len(groups) // n_groups, visitor=None,
                    gives="nothing",  # that the whole run does not count
                )  # fmt: skip
                connection.execute(insert(shards).values(id=shard_id, run_id=run.id, groups=list(groups)))
    for shard in known:
        if shard.status in ("lost", "cancelled", "failed"):
            resumption.resume(store, shard.id)
