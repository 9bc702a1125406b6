"""Sets: the runs of a preset that were started together. One entry in the queue, stopped as a whole.

The runs of a set are queued in one transaction, so that they follow one another on their device. Each is a run like any
other: one that fails leaves the others as they are, and `Set.line` says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from dpcl_core.errors import BadInput
from dpcl_core.runs import locks, tables
from dpcl_core.runs.durations import workload_of
from dpcl_core.runs.process import Process
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.run import LONGEST_NAME, Run, Split, Status, checked_id, clean_name
from dpcl_core.runs.store import Store
from dpcl_core.runs.transitions import stop
from dpcl_core.spec import DataSpec, RunSpec


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

    @property
    def n_over(self) -> int:
        return sum(run.is_over for run in self.runs.values())

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
            locks.take(connection, locks.QUEUE)  # before it is asked: of two presses at once, the second finds the set
            if once and (same := self._under_way(connection, preset)) is not None:
                return same
            for label, spec in specs.items():
                ids[label] = enqueue(
                    connection, spec, name=names[label], workload=workload_of(spec), n_cells=spec.n_cells, device=device,
                    visitor=self.store.visitor, split=split, attended_by=attended_by,
                )  # fmt: skip
            set_id = next(iter(ids.values()))
            connection.execute(insert(tables.sets).values(id=set_id, preset=preset))
            rows = [{"run_id": run_id, "set_id": set_id, "label": label} for label, run_id in ids.items()]
            connection.execute(insert(tables.set_runs), rows)
        return set_id

    def _under_way(self, connection: Connection, preset: str) -> str | None:
        """The id of this visitor's set of a preset that is not over."""
        is_mine = tables.runs.c.owner == (None if self.store.visitor is None else self.store.visitor.owner)
        query = select(tables.sets.c.id).select_from(_OF_SETS).where(tables.sets.c.preset == preset, is_mine)
        found: str | None = connection.scalar(query.where(tables.runs.c.status.in_(("queued", *tables.ACTIVE))).limit(1))
        return found

    def get(self, set_id: str) -> Set:
        """The set with this id, with the runs that are not deleted for good. Raises BadInput if there is none."""
        query = select(tables.set_runs.c.run_id, tables.set_runs.c.label, tables.sets.c.preset)
        query = query.select_from(_OF_SETS)
        with self.store.reading() as connection:
            rows = connection.execute(
                query.where(tables.sets.c.id == checked_id(set_id)).order_by(tables.runs.c.number)
            ).all()
        present = self.store.present([row.run_id for row in rows])
        if not present:
            raise BadInput("set", set_id, "no such set of runs in this store")
        return Set(set_id, rows[0].preset, {row.label: present[row.run_id] for row in rows if row.run_id in present})

    def newest(self, preset: str) -> Set | None:
        """The set of this preset that was started last, of those with a run that is not in the trash."""
        query = select(tables.sets.c.id).select_from(_OF_SETS)
        query = query.where(tables.sets.c.preset == preset, tables.runs.c.deleted.is_(None))
        query = query.order_by(tables.runs.c.number.desc()).limit(1)
        with self.store.reading() as connection:
            set_id: str | None = connection.scalar(query)
        return None if set_id is None else self.get(set_id)

    def of_run(self, run_id: str) -> str | None:
        """The id of the set that a run belongs to; None for a run started alone."""
        query = select(tables.set_runs.c.set_id).where(tables.set_runs.c.run_id == checked_id(run_id))
        with self.store.reading() as connection:
            set_id: str | None = connection.scalar(query)
        return set_id

    def preset_of_runs(self) -> dict[str, str]:
        """The preset of each run that belongs to a set, by the run's id."""
        query = select(tables.set_runs.c.run_id, tables.sets.c.preset).join_from(tables.set_runs, tables.sets)
        with self.store.reading() as connection:
            return {row.run_id: row.preset for row in connection.execute(query)}

    def under_way(self) -> dict[str, int]:
        """The presets of sets that are not over, each with how many of its runs are left."""
        query = select(tables.sets.c.preset, func.count()).select_from(_OF_SETS)
        query = query.where(tables.runs.c.status.in_(("queued", *tables.ACTIVE))).group_by(tables.sets.c.preset)
        with self.store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def request_stop(self, set_id: str) -> None:
        """Cancels the queued runs and requests the one under way to stop, both at once; runs that ended stay as they are."""
        self.store.check_mine(set_id)
        runs_of_set = select(tables.set_runs.c.run_id).where(tables.set_runs.c.set_id == checked_id(set_id))
        parts = select(tables.shards.c.id).where(tables.shards.c.run_id.in_(runs_of_set))
        with self.store.writing() as connection:
            stop(connection, tables.runs.c.id.in_(runs_of_set))
            stop(connection, tables.runs.c.id.in_(parts))

    def finished(self, digests: Collection[str]) -> dict[str, str]:
        """The newest finished run, not deleted, of each of these settings (`RunSpec.digest`): its id by digest."""
        query = select(tables.runs.c.digest, tables.runs.c.id).order_by(tables.runs.c.number)
        query = query.where(
            tables.runs.c.digest.in_(digests), tables.runs.c.status == "finished", tables.runs.c.deleted.is_(None),
            tables.runs.c.id.not_in(tables.of_others),
        )  # fmt: skip
        with self.store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def data_used(self) -> frozenset[DataSpec]:
        """The data settings of the finished runs: their features were computed once."""
        query = select(tables.runs.c.workload, func.max(tables.runs.c.spec)).group_by(tables.runs.c.workload)
        with self.store.reading() as connection:
            rows = connection.execute(query.where(tables.runs.c.status == "finished")).all()
        return frozenset(DataSpec.model_validate(json.loads(row[1])["data"]) for row in rows)


_OF_SETS = tables.set_runs.join(tables.sets).join(tables.runs, tables.runs.c.id == tables.set_runs.c.run_id)
