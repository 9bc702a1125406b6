"""A run in parts: groups of cells that share neither work nor noise, carried out by several processes and machines.

Each part is a run in the queue: any machine that looks after the store's queue may take it. It saves the checkpoints of its
groups as those of the whole run, and stores nothing else. The run's own process begins it, puts its parts into the queue,
and passes on what is saved, group by group: so the whole run's events, ledgers and document are those of the unsplit run.

A part that loses its process or its machine is tried again after its last checkpoint; see `methods.common.state` for why
that draws no noise twice for one release.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy import Row, Text, cast, func, insert, select, update

from dpcl_core.errors import BadInput
from dpcl_core.events import Event, Progress
from dpcl_core.methods.common.state import Checkpoint, is_public
from dpcl_core.runs import resumption, run, tables
from dpcl_core.runs.executor import Supervisor
from dpcl_core.runs.process import Patience, Process
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.run import LONGEST_NAME, Failure, Run, Split, Status, checked_id, clean_name, stop, stop_shards
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import OPEN, cells, checkpoints, runs, set_runs, sets, shards
from dpcl_core.spec import Cell, DataSpec, RunSpec, validated

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


def parts_of(store: Store, run_id: str) -> Sequence[Row[*tuple[Any, ...]]]:
    """The parts of a run, in order; none for a run that is whole, or has not begun.

    Each with its id, the places of its `groups` in the whole run, status, `runs_on`, and what its run failed of.
    """
    columns = (runs.c.status, runs.c.runs_on, runs.c.error_kind, runs.c.error, runs.c.error_log)
    query = select(shards.c.id, shards.c.groups, *columns).join(runs, runs.c.id == shards.c.id)
    return store.rows(query.where(shards.c.run_id == run_id).order_by(runs.c.number))


@dataclass(frozen=True, slots=True)
class Part(resumption.Stored):
    """What the process of one part carries out, and the checkpoints that it saves; a `Keep` and a `Division`.

    Only progress leaves it otherwise: all else comes out of the run's own process, from the checkpoints.
    """

    groups: frozenset[int] = frozenset()
    _public: list[Event] = field(default_factory=list)  # of the task under way, which leave before its checkpoint

    def begin(self, n_groups: int, n_tasks: int) -> None:
        """Nothing is shared out within a part."""

    def events(self, group: int, here: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        if group in self.groups:
            for event in here():
                if isinstance(event, Progress):
                    yield event
                elif is_public(event):
                    self._public.append(event)

    def save(self, checkpoint: Checkpoint) -> None:
        whole = replace(checkpoint, events=(*self._public, *checkpoint.events))
        self._public.clear()
        resumption.Stored.save(self, whole)


def part_of(store: Store, run_id: str, patience: Patience) -> Part | None:
    """The part of a run that this run of the queue is; None for any other."""
    found = store.rows(select(shards).where(shards.c.id == run_id))
    return Part(store, found[0].run_id, patience, run_id, frozenset(found[0].groups)) if found else None


@dataclass(slots=True)
class Waiting:
    """A run's own process, once its parts are in the queue: passes on what they save, one group after another."""

    store: Store
    run_id: str
    split: Split
    executor: Supervisor
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
            only_waits = update(runs).where(runs.c.id == self.run_id).values(runs_on=None)
            self.patience.outlast(lambda: self.store.change(only_waits))

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
                self.patience.outlast(partial(resumption.record, self.run_id, group, seen))
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
        for shard in parts_of(self.store, self.run_id):
            if shard.status in ("failed", "lost") and shard.error_kind is not None:
                raise PartFailed(Failure(shard.error_kind, shard.error, shard.error_log or ""))
            if shard.status == "cancelled" and self.store.status(self.run_id) in ("starting", "running"):
                raise PartFailed(_STOPPED)

    def _stop(self) -> None:
        with self.store.writing() as connection:
            stop_shards(connection, self.run_id)


def _put_into_queue(store: Store, run_id: str, shared: Sequence[Sequence[int]], device: str) -> None:
    """Puts the parts of a run into the queue; where that was done before, those that did not finish."""
    known = parts_of(store, run_id)
    if not known:
        run, n_groups = store.get(run_id), sum(map(len, shared))
        with store.writing() as connection:
            for number, groups in enumerate(shared):
                tail = f": part {number + 1} of {len(shared)}"
                shard_id = enqueue(
                    connection, run.spec, name=clean_name(run.name[: LONGEST_NAME - len(tail)] + tail), device=device,
                    n_cells=run.spec.n_cells * len(groups) // n_groups, visitor=None,
                    gives="nothing",  # that the whole run does not count
                )  # fmt: skip
                connection.execute(insert(shards).values(id=shard_id, run_id=run.id, groups=list(groups)))
    for shard in known:
        if shard.status in ("lost", "cancelled", "failed"):
            resumption.resume(store, shard.id)


# Sets: the runs of a preset that were started together. One entry in the queue, stopped as a whole.
#
# The runs of a set are queued in one transaction, so that they follow one another on their device. Each is a run like any
# other: one that fails leaves the others as they are, and `Set.line` says so.


@dataclass(frozen=True, slots=True)
class Set:
    """A stored set: the preset's name, and its runs by label in the order in which they are carried out."""

    id: str
    preset: str
    runs: Mapping[str, Run]

    @property
    def kept(self) -> Mapping[str, Run]:
        """Its runs by label that are not in the trash: those that are counted and shown."""
        return {label: run for label, run in self.runs.items() if run.deleted is None}

    @property
    def status(self) -> Status:
        """The state of the whole: that of the run under way, else how it ended. One that failed counts before a stop."""
        states = {run.status for run in self.kept.values()}
        order: tuple[Status, ...] = ("stopping", "running", "starting")
        if under_way := next((state for state in order if state in states), None):
            return under_way
        if "queued" in states:  # between two runs of a set nothing is under way for a moment
            return "queued" if states == {"queued"} else "running"
        ends: tuple[Status, ...] = ("failed", "lost", "cancelled")
        return next((state for state in ends if state in states), "finished")

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs.values())

    @property
    def current(self) -> tuple[str, Run] | None:
        """Label and run of the one under way, else of the next one; None if the set is over."""
        open_runs = [(label, run) for label, run in self.runs.items() if not run.is_over]
        return next((one for one in open_runs if one[1].status != "queued"), open_runs[0] if open_runs else None)

    def line(self, titles: Mapping[str, str] | None = None) -> str:
        """How many of its runs have ended, and how: "2 of 4 runs finished, 1 failed (cosine)". `titles` by label, if any.

        Those in the trash are counted apart, whatever their end was.
        """
        kept = self.kept
        counts = Counter(run.status for run in kept.values())
        parts = [f"{counts['finished']} of {len(kept)} run{'s' if len(kept) != 1 else ''} finished"]
        for state in ("failed", "lost", "cancelled"):
            if counts[state]:
                labels = [label for label, run in kept.items() if run.status == state]
                named = "; ".join((titles or {}).get(label, label) for label in labels)  # titles have commas
                parts.append(f"{counts[state]} {state} ({named})" if state != "cancelled" else f"{counts[state]} cancelled")
        if n_deleted := len(self.runs) - len(kept):
            parts.append(f"{n_deleted} deleted")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a store."""

    store: Store

    def create(
        self, preset: str, specs: Mapping[str, RunSpec], *, device: str = "cpu", split: Split | None = None,
        once: bool = False, titles: Mapping[str, str] | None = None, attended_by: Process | None = None,
    ) -> str:  # fmt: skip
        """Puts the runs at the end of their device's queue, in this order, and gives the set's id.

        Each is named by its title (`titles`, by label), so that it has one name on every page; without one, after its preset
        and label. `once`: gives the visitor's set of this preset that is under way, if there is one: the second press of
        two. `attended_by`: as for a run. Raises BadInput for no run, a bad name or a bad device.
        """
        if not specs:
            raise BadInput("preset", preset, "must have at least one run")
        titles = titles or {}
        names = {label: clean_name(titles.get(label, f"{preset}: {label}")[:LONGEST_NAME]) for label in specs}
        ids: dict[str, str] = {}
        with self.store.writing() as connection:
            tables.take(connection, tables.QUEUE)  # before it is asked: of two presses at once, the second finds the set
            if once:
                is_mine = runs.c.owner == (None if self.store.visitor is None else self.store.visitor.owner)
                under_way = select(sets.c.id).select_from(_OF_SETS).where(sets.c.preset == preset, is_mine, _IS_OPEN)
                if (same := connection.scalar(under_way.limit(1))) is not None:
                    return str(same)
            for label, spec in specs.items():
                ids[label] = enqueue(
                    connection, spec, name=names[label], device=device, visitor=self.store.visitor, split=split,
                    attended_by=attended_by,
                )  # fmt: skip
            set_id = next(iter(ids.values()))
            connection.execute(insert(sets).values(id=set_id, preset=preset))
            rows = [{"run_id": run_id, "set_id": set_id, "label": label} for label, run_id in ids.items()]
            connection.execute(insert(set_runs), rows)
        return set_id

    def get(self, set_id: str) -> Set:
        """The set with this id, with the runs that are not deleted for good. Raises BadInput if there is none."""
        query = select(set_runs.c.run_id, set_runs.c.label, sets.c.preset).select_from(_OF_SETS)
        rows = self.store.rows(query.where(sets.c.id == checked_id(set_id)).order_by(runs.c.number))
        present = self.store.present([row.run_id for row in rows])
        if not present:
            raise BadInput("set", set_id, "no such set of runs in this store")
        return Set(set_id, rows[0].preset, {row.label: present[row.run_id] for row in rows if row.run_id in present})

    def newest(self, preset: str) -> Set | None:
        """The set of this preset that was started last, of those with a run that is not in the trash."""
        query = select(sets.c.id).select_from(_OF_SETS).where(sets.c.preset == preset, runs.c.deleted.is_(None))
        set_id = self.store.scalar(query.order_by(runs.c.number.desc()).limit(1))
        return None if set_id is None else self.get(set_id)

    def of_run(self, run_id: str) -> str | None:
        """The id of the set that a run belongs to; None for a run started alone."""
        return self.store.scalar(select(set_runs.c.set_id).where(set_runs.c.run_id == checked_id(run_id)))

    def preset_of_runs(self) -> dict[str, str]:
        """The preset of each run that belongs to a set, by the run's id."""
        return self.store.pairs(select(set_runs.c.run_id, sets.c.preset).join_from(set_runs, sets))

    def under_way(self) -> dict[str, int]:
        """The presets of sets that are not over, each with how many of its runs are left."""
        query = select(sets.c.preset, func.count()).select_from(_OF_SETS).where(_IS_OPEN)
        return self.store.pairs(query.group_by(sets.c.preset))

    def request_stop(self, set_id: str) -> None:
        """Cancels the queued runs and requests the one under way to stop, both at once; runs that ended stay as they are."""
        self.store.check_mine(set_id)
        of_set = select(set_runs.c.run_id).where(set_runs.c.set_id == checked_id(set_id))
        with self.store.writing() as connection:
            for ids in (of_set, select(shards.c.id).where(shards.c.run_id.in_(of_set))):
                stop(connection, runs.c.id.in_(ids))

    def finished(self, digests: Collection[str]) -> dict[str, str]:
        """The newest finished run, not deleted, of each of these settings (`RunSpec.digest`): its id by digest."""
        is_ours = runs.c.digest.in_(digests) & runs.c.id.not_in(tables.of_others)
        return self.store.pairs(select(runs.c.digest, runs.c.id).where(is_ours, *_FINISHED).order_by(runs.c.number))

    def alike(self, spec: RunSpec) -> dict[Cell, Mapping[str, float | None]]:
        """Metrics of the newest model without noise of each seed, of finished runs that differ from `spec` in budgets, seeds
        and labels alone.
        """
        of_runs = (runs.c.workload == run.workload_of(spec), *_FINISHED, cells.c.epsilon == math.inf)
        newest = select(cells.c.seed, func.max(runs.c.number).label("number")).join(runs).where(*of_runs)
        last = newest.group_by(cells.c.seed).subquery()
        is_last = (cells.c.seed == last.c.seed) & (cells.c.epsilon == math.inf)
        found = select(cells.c.seed, cells.c.metrics).join(runs).join(last, runs.c.number == last.c.number).where(is_last)
        return {Cell(math.inf, row.seed): row.metrics for row in self.store.rows(found)}

    def data_used(self) -> frozenset[DataSpec]:
        """The data settings of the finished runs: their features were computed once."""
        query = select(runs.c.workload, func.max(runs.c.spec)).where(runs.c.status == "finished")
        specs = self.store.pairs(query.group_by(runs.c.workload)).values()
        return frozenset(validated(DataSpec, json.loads(spec)["data"]) for spec in specs)


_OF_SETS = set_runs.join(sets).join(runs, runs.c.id == set_runs.c.run_id)
_IS_OPEN = runs.c.status.in_(OPEN)
_FINISHED = (runs.c.status == "finished", runs.c.deleted.is_(None))
