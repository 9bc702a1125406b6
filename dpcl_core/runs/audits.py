"""Audits of stored runs: each is a run in the processor's queue; results are stored one per budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, JsonValue, Leaks, Progress, Started
from dpcl_core.runs import administration, tables
from dpcl_core.runs.process import Patience
from dpcl_core.runs.queue import Visitor, enqueue
from dpcl_core.runs.run import LONGEST_NAME, Run, checked_id, workload_of
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell, RunSpec
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.audit_bounds import Audited
    from dpcl_core.tuning.search import Prepare


# Tunings in the store: their settings, their runs in the queue (`turns`), and every trial, stored as it ends.


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
            tables.take(connection, tables.QUEUE)  # of two who resume it at once, the second finds it queued
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


def _enqueue_turn(connection: Connection, tune: TuneSpec, n_trials: int, device: str, visitor: Visitor | None) -> str:
    """Queues a run of `n_trials` trials, which count as its cells when its duration is estimated; gives its id."""
    base = tune.base
    workload = sha256(f"tuning {tune.on} {tune.proxy} {workload_of(base)}".encode()).hexdigest()[:16]
    name = f"tuning {base.method} on {base.data.dataset}"
    return enqueue(
        connection,
        base,
        name=name,
        workload=workload,
        n_cells=n_trials,
        device=device,
        visitor=visitor,
        gives="numbers" if tune.on == "private" else "nothing",
    )


# The engine of a tuning's run: continues the search and stores each trial as it ends.


Engine = Callable[[RunSpec, str], Iterator[Event]]


def engine_of(store: Store, run_id: str, *, prepare: Prepare | None = None) -> Engine | None:
    """The engine that carries out the run if it belongs to a tuning; None for any other.

    `prepare` opens the tuning data (None: `search.prepared`; tests put a stand-in here).
    """
    studies = Studies(store)
    study_id = studies.of_run(run_id)
    if study_id is None:
        return None

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        from dpcl_core.tuning import search  # loads Optuna and the engine

        patience = Patience()
        study = patience.outlast(partial(studies.get, study_id))
        open_data = prepare or search.prepared
        for item in search.search(study.tune, device, earlier=study.trials, earlier_sizes=study.sizes, prepare=open_data):
            if isinstance(item, Trial):
                patience.outlast(partial(studies.add_trial, study_id, item))
            elif isinstance(item, Sizes):
                patience.outlast(partial(studies.add_sizes, study_id, item))
            else:
                yield item

    return engine


_DEVICE = "cpu"  # audits run on the processor
# Made once, as the queries of `store` are.
_OF_RUN = (
    select(tables.audits.c.id).join(tables.runs, tables.runs.c.id == tables.audits.c.id)
    .where(tables.audits.c.run_id == bindparam("run"), tables.runs.c.emptied.is_(None))
    .order_by(tables.runs.c.number.desc())
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Audit:
    """A stored audit: the audited run's id, the results so far, and the audit's own run in the queue (`turn`)."""

    run_id: str
    results: tuple[Audited, ...]
    turn: Run


@dataclass(frozen=True, slots=True)
class Audits:
    """The audits of a store's runs."""

    store: Store

    def create(self, run_id: str) -> str:
        """Puts an audit of a run at the end of the queue and gives its id.

        Raises BadInput for an unknown run, unreadable settings, a run that cannot be audited in one training, and one whose
        own data were written since.
        """
        run = self.store.get(run_id)
        if (refused := refusal(run.spec)) is not None:
            why, command = refused
            raise BadInput("method", run.spec.method, why if command is None else f"{why}; this audits it: {command}")
        administration.check(self.store, run)
        workload = sha256(f"audit {workload_of(run.spec)}".encode()).hexdigest()[:16]
        name, n_cells = f"audit of {run.name}"[:LONGEST_NAME], len(run.spec.privacy.epsilons)
        with self.store.writing() as connection:
            audit_id = enqueue(
                connection, run.spec, name=name, workload=workload, n_cells=n_cells, device=_DEVICE,
                visitor=self.store.visitor, gives="numbers",
            )  # fmt: skip
            connection.execute(insert(tables.audits).values(id=audit_id, run_id=run_id, results=[]))
        return audit_id

    def is_audit(self, run_id: str) -> bool:
        """Whether a run is an audit."""
        with self.store.reading() as connection:
            query = select(tables.audits.c.id).where(tables.audits.c.id == checked_id(run_id))
            return connection.scalar(query) is not None

    def get(self, audit_id: str) -> Audit:
        """The audit with this id. Raises BadInput if there is none."""
        with self.store.reading() as connection:
            row = connection.execute(
                select(tables.audits.c.run_id, tables.audits.c.results).where(tables.audits.c.id == checked_id(audit_id))
            ).one_or_none()
        if row is None:
            raise BadInput("audit", audit_id, "no such audit in this store")
        return Audit(row.run_id, _read(row.results), self.store.get(audit_id))

    def of_run(self, run_id: str) -> list[Audit]:
        """All audits of a run that are not deleted for good, newest first."""
        with self.store.reading() as connection:
            ids = connection.scalars(_OF_RUN, {"run": checked_id(run_id)}).all()
        return [self.get(audit_id) for audit_id in ids]

    def add(self, audit_id: str, result: Audited) -> None:
        """Stores the result at one budget, once if called again; only the process that carries out the audit calls this.

        Raises BadInput for an unknown audit, and where it or its run was deleted for good.
        """
        this_audit = tables.audits.c.id == checked_id(audit_id)
        gone = tables.runs.c.id.in_((tables.audits.c.id, tables.audits.c.run_id)) & tables.runs.c.emptied.is_not(None)
        with self.store.writing() as connection:
            # Locked: whoever empties the trash just now comes before or after.
            results = connection.scalar(select(tables.audits.c.results).where(this_audit).with_for_update())
            if results is None:
                raise BadInput("audit", audit_id, "no such audit in this store")
            if connection.scalar(select(tables.runs.c.id).join(tables.audits, gone).where(this_audit).limit(1)) is not None:
                raise BadInput("audit", audit_id, "it or its run was deleted for good")
            if (document := result.document()) not in results:
                connection.execute(update(tables.audits).where(this_audit).values(results=[*results, document]))


def refusal(spec: RunSpec) -> tuple[str, str | None] | None:
    """The reason why these settings cannot be audited in one training; None: they can.

    With it the command that audits them, if they claim anything to audit.
    """
    from dpcl_core.attacks import play  # loads the engine

    why = play.refusal(spec)
    if why is None:
        return None
    return why, None if play.adds_no_noise(spec) else checks.command_line(spec, "audit")


def _read(documents: Sequence[Mapping[str, JsonValue]]) -> tuple[Audited, ...]:
    from dpcl_core.privacy.audit_bounds import Audited

    return tuple(Audited.read(document) for document in documents)


# The engine of an audit's run: audits the settings at each budget and stores each lower bound.


Play = Callable[[RunSpec, float], "Audited"]


def auditor_engine_of(store: Store, run_id: str, *, play: Play | None = None) -> Engine | None:
    """The engine that carries out the run if it is an audit; None for any other.

    `play` audits one budget (None: the one-run audit; tests put a stand-in here).
    """
    audits = Audits(store)
    if not audits.is_audit(run_id):
        return None

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        # They may have been written while it waited.
        Patience().outlast(lambda: administration.check(store, store.get(audits.get(run_id).run_id)))
        budgets = spec.privacy.epsilons
        yield Started(1, ("audit",), "planted examples", 0, 0)
        yield Progress("training", 0, len(budgets), None, "planting examples")
        from dpcl_core.attacks import one_run  # loads the learners, torch included

        audit = play or one_run.audited
        for done, epsilon in enumerate(budgets):
            yield Progress("training", done, len(budgets), None, f"a training with planted examples at epsilon {epsilon:g}")
            Patience().outlast(partial(audits.add, run_id, audit(spec, epsilon)))
            yield Progress("training", done + 1, len(budgets), None, f"audited at epsilon {epsilon:g}")

    return engine


# Audit of a trained language model: lower bound on epsilon from canaries (planted codes) among its training texts.
#
# Unlike the attacks on a mechanism it carries out the whole run, so it takes as long as the run; its attacker sees only the
# trained model.


NAME = "planted-codes"
_ATTACK = "each planted code ranked among all codes by the trained model's likelihood"
_ADVERSARY = (
    "sees the trained model alone, and knows the text before each code; a bound on one text comes from codes in few texts, "
    "and few codes give a weak one: 0 is no sign that nothing leaks"
)


def is_offered(spec: RunSpec) -> bool:
    """Whether the method trains a language model, so that codes can be planted among its texts."""
    return spec.params.inputs == "text"


def audited(spec: RunSpec, device: str = "cpu") -> list[Audited]:
    """Trains once per budget and seed of the spec; the lower bounds from the planted codes, in the order of the cells.

    Raises BadInput for a method that reads no texts and for data without planted codes, and the errors of `engine.run`.
    """
    from dpcl_core import engine

    if not is_offered(spec):
        raise BadInput("--attack", NAME, f"must be left out: {spec.method} trains no language model")
    return list(results(spec, engine.run(spec, device=device)))


def results(spec: RunSpec, events: Iterator[Event]) -> Iterator[Audited]:
    """The lower bounds from a run's events, one per cell. Raises BadInput where no codes were planted."""
    last: dict[Cell, Leaks] = {}
    for event in events:
        if isinstance(event, Leaks):
            last[event.cell] = event
        elif isinstance(event, CellFinished):
            if event.cell not in last:
                allowed = "must be left out for texts among which no codes are planted: try data.dataset = pii-synthetic"
                raise BadInput("--attack", NAME, f"{allowed} ({datasets.card(spec.data.dataset).title} has none)")
            yield _audited(spec, last[event.cell], event)


def _audited(spec: RunSpec, leaks: Leaks, finished: CellFinished) -> Audited:
    from dpcl_core.privacy.audit_bounds import Audited

    n_planted = sum(count for level, count in zip(leaks.levels, leaks.codes, strict=True) if level > 0)
    return Audited(
        claimed=finished.cell.epsilon,
        accounted=finished.guarantee.epsilon,
        lower_bound=leaks.epsilon_at_least,
        delta=spec.privacy.delta,
        confidence=leaks.confidence,
        trials=n_planted,
        attack=_ATTACK,
        adversary=_ADVERSARY,
        unit="planted codes",
    )
