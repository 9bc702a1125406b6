"""Audits of stored runs: each is a run in the processor's queue; results are stored one per budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, insert, select, update

from dpcl_core import checks
from dpcl_core.attacks import auditable
from dpcl_core.errors import BadInput
from dpcl_core.events import JsonValue
from dpcl_core.runs import same_rows, tables
from dpcl_core.runs.durations import workload_of
from dpcl_core.runs.queue import enqueue
from dpcl_core.runs.run import LONGEST_NAME, Run, checked_id
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.lower_bound import Audited

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
        same_rows.check(self.store, run)
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
    why = auditable.refusal(spec)
    if why is None:
        return None
    return why, None if auditable.adds_no_noise(spec) else checks.command_line(spec, "audit")


def _read(documents: Sequence[Mapping[str, JsonValue]]) -> tuple[Audited, ...]:
    from dpcl_core.privacy.lower_bound import Audited

    return tuple(Audited.read(document) for document in documents)
