"""Audits of stored runs: each is a run in the processor's queue; results are stored one per budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import CellFinished, Event, Leaks, Progress, Started
from dpcl_core.runs import administration, tables
from dpcl_core.runs.process import Patience
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.run import LONGEST_NAME, Run, checked_id, workload_of
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import OPEN, audits, runs, studies, trials, turns
from dpcl_core.spec import Cell, RunSpec
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec, parse

if TYPE_CHECKING:
    from dpcl_core.privacy.audit_bounds import Audited


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
            study_id = self._enqueue(connection, tune, tune.n_trials, device)
            connection.execute(insert(studies).values(id=study_id, settings=tune.jsonable()))
            connection.execute(insert(turns).values(run_id=study_id, study_id=study_id))
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
            is_turn = runs.c.id.in_(select(turns.c.run_id).where(turns.c.study_id == study_id))
            states = connection.execute(select(runs.c.status, runs.c.error_kind).where(is_turn)).all()
            if any(state.status in OPEN for state in states):
                raise BadInput("tuning", study_id, "is under way: stop it before resuming it")
            if any(state.status == "cancelled" and state.error_kind is not None for state in states):
                raise BadInput("tuning", study_id, "took longer than its server allows; start a new one with fewer trials")
            left = study.tune.n_trials - len(study.trials)
            run_id = self._enqueue(connection, study.tune, left, device or study.turn.device)
            connection.execute(insert(turns).values(run_id=run_id, study_id=study_id))
        return run_id

    def _enqueue(self, connection: Connection, tune: TuneSpec, n_trials: int, device: str) -> str:
        """Queues a run of `n_trials` trials, which count as its cells when its duration is estimated; gives its id."""
        base = tune.base
        return enqueue(
            connection, base, name=f"tuning {base.method} on {base.data.dataset}", n_cells=n_trials, device=device,
            workload=_digest(f"tuning {tune.on} {tune.proxy} {workload_of(base)}"), visitor=self.store.visitor,
            gives="numbers" if tune.on == "private" else "nothing",
        )  # fmt: skip

    def get(self, study_id: str) -> Study:
        """The tuning with this id. Raises BadInput if there is none, and if its settings can no longer be read."""
        found = self.store.rows(select(studies).where(studies.c.id == checked_id(study_id)))
        if not found:
            raise BadInput("tuning", study_id, "no such tuning in this store")
        return self._study(found[0])

    def newest(self, limit: int = 20) -> list[Study]:
        """The newest tunings whose settings can be read, newest first."""
        query = select(studies).join(runs, runs.c.id == studies.c.id).order_by(runs.c.number.desc())
        readable = []
        for row in self.store.rows(query.limit(limit)):
            with suppress(BadInput):  # a newer version of the program, or a method since removed, wrote it
                readable.append(self._study(row))
        return readable

    def of_run(self, run_id: str) -> str | None:
        """The id of the tuning that a run belongs to; None for an ordinary run."""
        return self.store.scalar(select(turns.c.study_id).where(turns.c.run_id == checked_id(run_id)))

    def add_sizes(self, study_id: str, sizes: Sizes) -> None:
        """Stores how many examples the trials have; only the process that carries out the tuning calls this."""
        self.store.change(update(studies).where(studies.c.id == checked_id(study_id)).values(sizes=asdict(sizes)))

    def add_trial(self, study_id: str, trial: Trial) -> None:
        """Stores a finished trial, once if called again; only the tuning's own process calls this.

        Raises BadInput for another trial of the same number.
        """
        row = {"study_id": checked_id(study_id), "number": trial.number, "payload": asdict(trial)}
        this_trial = (trials.c.study_id == study_id, trials.c.number == trial.number)
        with self.store.writing() as connection:
            stored = connection.scalar(select(trials.c.payload).where(*this_trial))
            if stored is not None and Trial(**stored) == trial:
                return
            wrong = BadInput("tuning", study_id, "must be a tuning of this store, each trial ending once")
            with instead_of(IntegrityError, say=wrong):
                connection.execute(insert(trials).values(row))

    def _study(self, row: Row[*tuple[object, ...]]) -> Study:
        newest = select(turns.c.run_id).join(runs, runs.c.id == turns.c.run_id).where(turns.c.study_id == row.id)
        payloads = select(trials.c.payload).where(trials.c.study_id == row.id).order_by(trials.c.number)
        sizes, done = Sizes(**row.sizes) if row.sizes else None, self.store.rows(payloads)
        turn = self.store.get(str(self.store.scalar(newest.order_by(runs.c.number.desc()).limit(1))))
        return Study(row.id, parse(row.settings), sizes, tuple(Trial(**one.payload) for one in done), turn)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


# Made once, as the queries of `store` are.
_OF_RUN = (
    select(audits.c.id).join(runs, runs.c.id == audits.c.id)
    .where(audits.c.run_id == bindparam("run"), runs.c.emptied.is_(None)).order_by(runs.c.number.desc())
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
        administration.check_own_files(self.store, run)
        name, workload = f"audit of {run.name}"[:LONGEST_NAME], _digest(f"audit {workload_of(run.spec)}")
        with self.store.writing() as connection:
            audit_id = enqueue(  # on the processor
                connection, run.spec, name=name, workload=workload, n_cells=len(run.spec.privacy.epsilons), device="cpu",
                visitor=self.store.visitor, gives="numbers",
            )  # fmt: skip
            connection.execute(insert(audits).values(id=audit_id, run_id=run_id, results=[]))
        return audit_id

    def is_audit(self, run_id: str) -> bool:
        """Whether a run is an audit."""
        return self.store.scalar(select(audits.c.id).where(audits.c.id == checked_id(run_id))) is not None

    def get(self, audit_id: str) -> Audit:
        """The audit with this id. Raises BadInput if there is none."""
        from dpcl_core.privacy.audit_bounds import Audited

        found = self.store.rows(select(audits.c.run_id, audits.c.results).where(audits.c.id == checked_id(audit_id)))
        if not found:
            raise BadInput("audit", audit_id, "no such audit in this store")
        return Audit(found[0].run_id, tuple(map(Audited.read, found[0].results)), self.store.get(audit_id))

    def of_run(self, run_id: str) -> list[Audit]:
        """All audits of a run that are not deleted for good, newest first."""
        return [self.get(row.id) for row in self.store.rows(_OF_RUN, {"run": checked_id(run_id)})]

    def add(self, audit_id: str, result: Audited) -> None:
        """Stores the result at one budget, once if called again; only the process that carries out the audit calls this.

        Raises BadInput for an unknown audit, and where it or its run was deleted for good.
        """
        this_audit = audits.c.id == checked_id(audit_id)
        gone = runs.c.id.in_((audits.c.id, audits.c.run_id)) & runs.c.emptied.is_not(None)
        with self.store.writing() as connection:
            # Locked: whoever empties the trash just now comes before or after.
            results = connection.scalar(select(audits.c.results).where(this_audit).with_for_update())
            if results is None:
                raise BadInput("audit", audit_id, "no such audit in this store")
            if connection.scalar(select(runs.c.id).join(audits, gone).where(this_audit).limit(1)) is not None:
                raise BadInput("audit", audit_id, "it or its run was deleted for good")
            if (document := result.document()) not in results:
                connection.execute(update(audits).where(this_audit).values(results=[*results, document]))


def refusal(spec: RunSpec) -> tuple[str, str | None] | None:
    """The reason why these settings cannot be audited in one training; None: they can.

    With it the command that audits them, if they claim anything to audit.
    """
    from dpcl_core.attacks import play  # loads the engine

    why = play.refusal(spec)
    if why is None:
        return None
    return why, None if play.adds_no_noise(spec) else checks.command_line(spec, "audit")


# What carries out the run of a tuning or an audit: stores each trial and each lower bound as it ends.


Engine = Callable[[RunSpec, str], Iterator[Event]]


def engine_of(store: Store, run_id: str) -> Engine | None:
    """The engine that carries out the run if it is a tuning's or an audit; None for any other."""
    if (study_id := Studies(store).of_run(run_id)) is not None:
        return lambda spec, device: _searched(Studies(store), study_id, device)
    return (lambda spec, device: _played(store, run_id, spec)) if Audits(store).is_audit(run_id) else None


def _searched(tunings: Studies, study_id: str, device: str) -> Iterator[Event]:
    """Continues the search."""
    from dpcl_core.tuning import search  # loads Optuna and the engine

    patience = Patience()
    study = patience.outlast(partial(tunings.get, study_id))
    for item in search.search(study.tune, device, earlier=study.trials, earlier_sizes=study.sizes, prepare=search.prepared):
        if isinstance(item, Trial):
            patience.outlast(partial(tunings.add_trial, study_id, item))
        elif isinstance(item, Sizes):
            patience.outlast(partial(tunings.add_sizes, study_id, item))
        else:
            yield item


def _played(store: Store, run_id: str, spec: RunSpec) -> Iterator[Event]:
    """Audits the settings at each budget."""
    of_store, patience, budgets = Audits(store), Patience(), spec.privacy.epsilons
    # The data may have been written while it waited.
    patience.outlast(lambda: administration.check_own_files(store, store.get(of_store.get(run_id).run_id)))
    yield Started(1, ("audit",), "planted examples", 0, 0)
    yield Progress("training", 0, len(budgets), None, "planting examples")
    from dpcl_core.attacks import one_run  # loads the learners, torch included

    for done, epsilon in enumerate(budgets):
        yield Progress("training", done, len(budgets), None, f"a training with planted examples at epsilon {epsilon:g}")
        patience.outlast(partial(of_store.add, run_id, one_run.audited(spec, epsilon)))
        yield Progress("training", done + 1, len(budgets), None, f"audited at epsilon {epsilon:g}")


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
    from dpcl_core.privacy.audit_bounds import Audited

    last: dict[Cell, Leaks] = {}
    for event in events:
        if isinstance(event, Leaks):
            last[event.cell] = event
        elif isinstance(event, CellFinished):
            if event.cell not in last:
                allowed = "must be left out for texts among which no codes are planted: try data.dataset = pii-synthetic"
                raise BadInput("--attack", NAME, f"{allowed} ({datasets.card(spec.data.dataset).title} has none)")
            leaks = last[event.cell]
            yield Audited(
                claimed=event.cell.epsilon,
                accounted=event.guarantee.epsilon,
                lower_bound=leaks.epsilon_at_least,
                delta=spec.privacy.delta,
                confidence=leaks.confidence,
                trials=sum(count for level, count in zip(leaks.levels, leaks.codes, strict=True) if level > 0),
                attack=_ATTACK,
                adversary=_ADVERSARY,
                unit="planted codes",
            )
