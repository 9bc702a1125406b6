"""Tunings in the store: their settings, their runs in the queue (`turns`), and every trial, stored as it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from dpcl_core.errors import BadInput
from dpcl_core.runs import locks, tables
from dpcl_core.runs.durations import workload_of
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.run import Run, checked_id
from dpcl_core.runs.store import Store
from dpcl_core.runs.visitors import Visitor
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec


@dataclass(frozen=True, slots=True)
class Study:
    """A stored tuning. `turn` is its newest run in the queue, whose state is the tuning's state."""

    id: str
    tune: TuneSpec
    sizes: Sizes | None
    trials: tuple[Trial, ...]
    turn: Run

    @property
    def is_resumable(self) -> bool:
        """Whether it ended before all its trials, and not because it took longer than its server allows."""
        is_overrun = self.turn.status == "cancelled" and self.turn.error_kind is not None
        return self.turn.is_over and not is_overrun and len(self.trials) < self.tune.n_trials


@dataclass(frozen=True, slots=True)
class Studies:
    """The tunings of a store. A tuning has one run per start or resumption, and the id of the first of them."""

    store: Store

    def create(self, tune: TuneSpec, *, device: str = "cpu") -> str:
        """Puts a tuning at the end of its device's queue and gives its id. Raises BadInput for a bad device."""
        with self.store.writing() as connection:
            study_id = _enqueue_turn(connection, tune, tune.n_trials, device, self.store.visitor)
            connection.execute(insert(tables.studies).values(id=study_id, settings=json.loads(tune.model_dump_json())))
            connection.execute(insert(tables.turns).values(run_id=study_id, study_id=study_id))
        return study_id

    def resume(self, study_id: str, *, device: str | None = None) -> str:
        """Queues a tuning again to continue after its last trial; gives the id of the new run.

        Raises BadInput if it is under way, has all its trials, or took longer than its server allows. `device`: None for the
        one it had.
        """
        self.store.check_mine(study_id)
        study = self.get(study_id)
        if len(study.trials) >= study.tune.n_trials:
            raise BadInput("tuning", study_id, f"has all its {study.tune.n_trials} trials")
        with self.store.writing() as connection:
            locks.take(connection, locks.QUEUE)  # of two who resume it at once, the second finds it queued
            is_turn = tables.runs.c.id.in_(select(tables.turns.c.run_id).where(tables.turns.c.study_id == study_id))
            states = connection.execute(select(tables.runs.c.status, tables.runs.c.error_kind).where(is_turn)).all()
            if any(state.status in ("queued", *tables.ACTIVE) for state in states):
                raise BadInput("tuning", study_id, "is under way: stop it before resuming it")
            if any(state.status == "cancelled" and state.error_kind is not None for state in states):
                raise BadInput("tuning", study_id, "took longer than its server allows; start a new one with fewer trials")
            left = study.tune.n_trials - len(study.trials)
            run_id = _enqueue_turn(connection, study.tune, left, device or study.turn.device, self.store.visitor)
            connection.execute(insert(tables.turns).values(run_id=run_id, study_id=study_id))
        return run_id

    def get(self, study_id: str) -> Study:
        """The tuning with this id. Raises BadInput if there is none, and if its settings can no longer be read."""
        with self.store.reading() as connection:
            row = connection.execute(select(tables.studies).where(tables.studies.c.id == checked_id(study_id))).one_or_none()
        if row is None:
            raise BadInput("tuning", study_id, "no such tuning in this store")
        return self._study(row)

    def newest(self, limit: int = 20) -> list[Study]:
        """The newest tunings whose settings can be read, newest first."""
        query = select(tables.studies).join(tables.runs, tables.runs.c.id == tables.studies.c.id)
        with self.store.reading() as connection:
            rows = connection.execute(query.order_by(tables.runs.c.number.desc()).limit(limit)).all()
        readable = []
        for row in rows:
            try:
                readable.append(self._study(row))
            except BadInput:  # a newer version of the program, or a method since removed, wrote it
                continue
        return readable

    def of_run(self, run_id: str) -> str | None:
        """The id of the tuning that a run belongs to; None for an ordinary run."""
        query = select(tables.turns.c.study_id).where(tables.turns.c.run_id == checked_id(run_id))
        with self.store.reading() as connection:
            study_id: str | None = connection.scalar(query)
        return study_id

    def add_sizes(self, study_id: str, sizes: Sizes) -> None:
        """Stores how many examples the trials have; only the process that carries out the tuning calls this."""
        with self.store.writing() as connection:
            connection.execute(
                update(tables.studies).where(tables.studies.c.id == checked_id(study_id)).values(sizes=asdict(sizes))
            )

    def add_trial(self, study_id: str, trial: Trial) -> None:
        """Stores a finished trial, once if called again; only the tuning's own process calls this.

        Raises BadInput for another trial of the same number.
        """
        row = {"study_id": checked_id(study_id), "number": trial.number, "payload": asdict(trial)}
        this_trial = (tables.trials.c.study_id == study_id, tables.trials.c.number == trial.number)
        with self.store.writing() as connection:
            stored = connection.scalar(select(tables.trials.c.payload).where(*this_trial))
            if stored is not None and Trial(**stored) == trial:
                return
            try:
                connection.execute(insert(tables.trials).values(row))
            except IntegrityError as error:
                raise BadInput("tuning", study_id, "must be a tuning of this store, each trial ending once") from error

    def _study(self, row: Row[*tuple[object, ...]]) -> Study:
        turns = select(tables.turns.c.run_id).join(tables.runs, tables.runs.c.id == tables.turns.c.run_id)
        newest = turns.where(tables.turns.c.study_id == row.id).order_by(tables.runs.c.number.desc()).limit(1)
        payloads = select(tables.trials.c.payload).where(tables.trials.c.study_id == row.id).order_by(tables.trials.c.number)
        with self.store.reading() as connection:
            run_id = str(connection.scalar(newest))
            trials: Sequence[Trial] = [Trial(**payload) for payload in connection.scalars(payloads)]
        return Study(
            id=row.id,
            tune=settings.parse(row.settings),
            sizes=Sizes(**row.sizes) if row.sizes else None,
            trials=tuple(trials),
            turn=self.store.get(run_id),
        )


def _enqueue_turn(
    connection: Connection, tune: TuneSpec, n_trials: int, device: str, visitor: Visitor | None
) -> str:
    """Queues a run of `n_trials` trials, which count as its cells when its duration is estimated; gives its id."""
    base = tune.base
    workload = sha256(f"tuning {tune.on} {tune.proxy} {workload_of(base)}".encode()).hexdigest()[:16]
    name = f"tuning {base.method} on {base.data.dataset}"
    return enqueue(
        connection, base, name=name, workload=workload, n_cells=n_trials, device=device, visitor=visitor,
        gives="numbers" if tune.on == "private" else "nothing",
    )
