"""What the administrator of a shared server sees and may do: how much each visitor uses, stops, and deletions.

Whoever can read the server's home folder is its administrator: the key lies there.
"""

import hmac
import json
import math
import shutil
import time
from base64 import b32encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Select, Table, func, insert, inspect, or_, select, update
from sqlalchemy import delete as sqlalchemy_delete
from sqlalchemy.exc import SQLAlchemyError

from dpcl_core import checks, paths, unforeseen
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake, own, sheets
from dpcl_core.errors import BadInput, StoreUnusable, instead_of
from dpcl_core.events import Planned, plain_number
from dpcl_core.privacy.budgets import check_accounted, check_budget
from dpcl_core.privacy.statement import shown_number
from dpcl_core.runs import charges, database, queue, tables
from dpcl_core.runs.process import log_file
from dpcl_core.runs.run import Run, spec_of
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE, OPEN, audits, cells, classifiers, events, kept_looks, metadata, runs, studies
from dpcl_core.spec import RunSpec
from dpcl_core.unforeseen import masked

# How often a person's own data were looked at: every launched run, tuning and audit in a store, and what they add up to.
#
# Each run's bound is about that run alone. Whoever tries several and shows the best one has used the data several times.
# What is counted is public: settings, under the name of the data. Data under another name are the same if they share rows of
# their public test parts (`data.own`); a hash of the private rows would tell neighbours apart. Deleted runs are looks as
# well, and so are runs on data that were deleted and came back.


_COUNTED = ("runs", "models", "tuned", "audits", "epsilon", "delta")
_KNOWN = "Uses of the same rows under another name, or deleted since, count."


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at one dataset. `runs` with `models` in all; `tuned`: settings tried on it; `audits`: trainings repeated.

    `epsilon`, `delta`: of all releases together, by basic composition of runs; infinite where one has no known bound.
    `is_known`: some of them were at data of another name, or deleted since, that share rows with these.
    """

    dataset: str
    runs: int
    models: int
    tuned: int
    audits: int
    epsilon: float
    delta: float
    is_known: bool = False

    @property
    def sentence(self) -> str:
        """The count in words, with what it adds up to."""
        if not (n := self.models + self.tuned + self.audits):
            return "Nobody has used these data yet."
        total = f"ε adds up to at most {shown_number(self.epsilon)} (δ = {self.delta:.2g})"
        total = total if math.isfinite(self.epsilon) else "one of these uses has no bound, so the sum has none"
        known = f" {_KNOWN}" if self.is_known else ""
        return f"These data have been used {'once' if n == 1 else f'{n:,} times'}: {total}. It cannot be undone.{known}"

    def document(self) -> dict[str, str | int | float]:
        """As JSON."""
        return {"dataset": self.dataset, **{name: plain_number(getattr(self, name)) for name in _COUNTED}}


def looks_at(store: Store, dataset: str) -> Looks | None:
    """The looks so far at a dataset, and at data that share rows with it; None for public ones, which nobody counts."""
    if not dataset.startswith(charges.OWN):
        return None
    known = own.kept_marks(dataset)
    with store.reading() as connection:
        found = of_names(connection, list(dict.fromkeys([dataset, *own.named_by_marks(known)])))
        before = [row for row in connection.execute(select(kept_looks)) if known.intersection(row.marks)]
    added = {name: getattr(found, name) + sum(getattr(row, name) for row in before) for name in _COUNTED}
    return Looks(dataset, **added, is_known=bool(before) or found.is_known)


def of_names(connection: Connection, names: Sequence[str]) -> Looks:
    """The looks at the datasets of these names by runs that are in the store.

    A tuning on the data and an audit of a run have no bound: their numbers are read without noise.
    """
    launched = select(runs.c.id, runs.c.spec).where(tables.dataset.in_(names), runs.c.started.is_not(None))
    found = connection.execute(launched.where(runs.c.id.not_in(tables.of_others))).all()
    of_cells = select(cells.c.run_id, cells.c.guarantee).where(cells.c.run_id.in_([row.id for row in found]))
    stated = {row.run_id: row.guarantee for row in connection.execute(of_cells)}  # of one of its models
    launches = [(spec_of(row.spec), stated.get(row.id)) for row in found]
    specs = [spec for spec, _ in launches if spec is not None]
    totals = [(math.inf, 0.0) if spec is None else charges.released_bound(spec, said) for spec, said in launches]
    epsilon, delta = (math.fsum(column) for column in zip(*totals, (0.0, 0.0), strict=True))
    tried = select(studies.c.settings, func.count(tables.trials.c.number)).outerjoin(tables.trials).group_by(studies.c.id)
    tuned = sum(n for settings, n in connection.execute(tried) if _is_on(settings, names))
    n_audits = len(connection.execute(launched.where(runs.c.id.in_(select(audits.c.id)))).all())
    dataset, *others = names
    looked = any(spec.data.dataset in others for spec in specs)
    n_models = sum(spec.n_cells for spec in specs)
    return Looks(dataset, len(found), n_models, tuned, n_audits, math.inf if tuned or n_audits else epsilon, delta, looked)


def keep(connection: Connection, dataset: str) -> None:
    """Keeps the number of looks at data that are about to be deleted, so that it goes on if the same rows come back."""
    found, known = of_names(connection, [dataset]), own.kept_marks(dataset)
    counts = {name: getattr(found, name) for name in _COUNTED}
    if known and any(counts.values()):
        specs = map(spec_of, connection.scalars(select(runs.c.spec).where(tables.dataset == dataset)))
        units = {None if spec is None else charges.unit_of(spec) for spec in specs}
        unit = units.pop() if len(units) == 1 else None
        connection.execute(insert(kept_looks).values(marks=sorted(known), unit=unit, **counts))


def marks_kept(store: Store) -> own.Marks:
    """The marks of data that were deleted since somebody looked at them."""
    return frozenset(mark for row in store.rows(select(kept_looks.c.marks)) for mark in row.marks)


def sentence(store: Store, dataset: str) -> str:
    """The looks at a dataset in words; empty for public data."""
    found = looks_at(store, dataset)
    return "" if found is None else found.sentence


def _is_on(settings: object, names: Sequence[str]) -> bool:
    """Whether a tuning reads the private data of one of these names, not a public stand-in."""
    if not isinstance(settings, dict) or settings.get("on") != "private":
        return False
    return settings.get("base", {}).get("data", {}).get("dataset") in names


# The tables of which a look is made, a charge or a budget, each with the layout that first had it.
_COUNTING = {
    "runs": 1, "events": 1, "cells": 1, "studies": 2, "turns": 2, "trials": 2, "audits": 3, "kept_looks": 6, "shards": 7,
    "budgets": 10,
}  # fmt: skip
_OF_A_RUN = {"id", "spec", "digest", "workload", "n_cells", "device", "created", "started", "owner"}


def carry_over(store: Store, url: str) -> int:
    """Counts the runs of another store, of this or an earlier layout, in this one; gives their number.

    What they spent, the budgets, and the looks at data deleted since come along. Results stay behind: the runs are there as
    if they were deleted for good. Raises BadInput for a store that was carried over before, StoreTrouble for one whose looks
    cannot be read; nothing is changed then.
    """
    database.check_there(url)
    url = database.absolute(url)
    unread = StoreUnusable(f"store {masked(url)}: has looks that cannot be read, so that none is carried over")
    with (
        instead_of(SQLAlchemyError, say=lambda error: database.trouble(error, url)),
        instead_of(ValueError, TypeError, KeyError, say=unread),
        database.connected(url).connect() as there,
    ):
        layout = str(database.layout_of(there, masked(url)))
        if layout not in database.LAYOUTS:
            raise BadInput("OLD_STORE", masked(url), "must be a store of this or an earlier version of the program")
        found = [table for table in metadata.sorted_tables if _COUNTING.get(table.name, math.inf) <= int(layout)]
        rows = {table: _counting_rows(there, table) for table in found}
    ids = [row["id"] for row in rows[runs]]
    with store.writing() as here:
        tables.take(here, tables.QUEUE)
        if here.scalar(select(runs.c.id).where(runs.c.id.in_(ids)).limit(1)) is not None:
            raise BadInput("OLD_STORE", masked(url), "has runs that this store counts already")
        for table, of_table in rows.items():
            if of_table:
                here.execute(insert(table), of_table)
    return len(ids)


def _counting_rows(there: Connection, table: Table) -> list[dict[str, Any]]:
    """The rows of an old store's table, as they count. Raises ValueError, TypeError and KeyError for a damaged one."""
    lacking = {"owner", "unit"} - {column["name"] for column in inspect(there).get_columns(table.name)}
    names = (_OF_A_RUN if table is runs else set(table.c.keys())) - lacking
    kept = [column for column in table.c if column.name in names and column.autoincrement is not True]
    query = select(*kept).where(events.c.kind == Planned.__name__) if table is events else select(*kept)
    rows = [dict(row._mapping) for row in there.execute(query)]
    changed: dict[Table, dict[str, object]] = {
        runs: {"name": "deleted", "status": "cancelled", "deleted": time.time(), "emptied": time.time()},
        audits: {"results": []}, cells: {"metrics": {}},
    }  # fmt: skip
    for row in rows:
        if table is runs and not isinstance(json.loads(row["spec"])["data"]["dataset"], str):
            raise ValueError(row["id"])
        row.update(changed.get(table, {}))
    return rows


# Deletes runs for good: those of a dataset that its owner deletes, with the data, and those in the trash.


def runs_on(store: Store, dataset: str) -> list[str]:
    """The ids of all runs on a dataset, those of tunings and audits and deleted ones included, oldest first."""
    return [row.id for row in store.rows(_on(dataset))]


def purge(store: Store, dataset: str) -> int:
    """Deletes every run on a dataset with all that is stored of it, and data that were taken in; gives the number of runs.

    How many looks and turns they were is kept (`looks.keep`, `queue.keep_turns`). Raises BadInput while one is under way,
    for data that cannot be deleted, and for a visitor of a shared server who did not bring them: others may have runs there.
    """
    if store.visitor is not None and own.owner(dataset) != store.visitor.owner:
        raise BadInput("data", dataset, "was not brought by you: only who did can delete it")
    with store.writing() as connection:
        ids = list(connection.scalars(_on(dataset)))
        states = connection.execute(select(runs.c.id, runs.c.status).where(runs.c.id.in_(ids)).with_for_update())
        under_way = next((run_id for run_id, status in states if status in ACTIVE), None)
        if under_way is not None:
            raise BadInput("run", under_way, "is under way on these data: stop it first")
        keep(connection, dataset)
        queue.keep_turns(connection, ids)
        for table in reversed(metadata.sorted_tables):
            # Ids of studies, audits and sets are ids of runs, so that whatever refers to one of these goes with it.
            of_run = [runs.c.id] if table is runs else [one for one in table.c if one.foreign_keys and one.name != "room"]
            if of_run:
                connection.execute(sqlalchemy_delete(table).where(or_(*(column.in_(ids) for column in of_run))))
    try:
        if intake.was_taken_in(dataset):
            intake.forget(dataset)
    finally:
        _forget_files(ids)
        unforeseen.forget()  # an error may quote the data
    return len(ids)


def empty_trash(store: Store) -> int:
    """Deletes for good the results of all runs in the trash, a visitor's own on a shared server; gives their number.

    What stays of a run is that it was: its settings are a look at the data.
    """
    seen = [run.id for run in store.trash() if run.is_over]
    with store.writing() as connection:
        # Asked for again and locked: a run restored in between keeps its results.
        still = select(runs.c.id).where(runs.c.id.in_(seen), runs.c.deleted.is_not(None), runs.c.emptied.is_(None))
        ids = connection.scalars(still.with_for_update()).all()
        for table in (events, cells, classifiers):
            connection.execute(sqlalchemy_delete(table).where(table.c.run_id.in_(ids)))
        connection.execute(update(audits).where(or_(audits.c.id.in_(ids), audits.c.run_id.in_(ids))).values(results=[]))
        gone = {"emptied": time.time(), "name": "deleted", "error": None, "error_log": None}
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(**gone))
    _forget_files(ids)
    return len(ids)


def _forget_files(ids: Sequence[str]) -> None:
    """Deletes what runs have written beside the store, but for what belongs to another user of this computer."""
    for run_id in ids:
        with suppress(OSError):
            log_file(run_id).unlink()


def _on(dataset: str) -> Select[str]:
    return select(runs.c.id).where(tables.dataset == dataset).order_by(runs.c.number)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a visitor uses. `owner`: digest of the visitor's token, or its first letters where only an upload is there; runs
    `waiting`, under way (`active`), `over` and in the `trash`; number of `datasets`; whether there are `uploads` that were
    not kept; `megabytes` of all; `latest`: when the last run was started, in seconds since 1970, if any was.
    """

    owner: str
    waiting: int = 0
    active: int = 0
    over: int = 0
    trash: int = 0
    datasets: int = 0
    uploads: bool = False
    megabytes: float = 0.0
    latest: float | None = None


def key() -> str:
    """The administrator's key, as it is typed. Raises StoreTrouble where it cannot be kept."""
    return b32encode(paths.kept_key(paths.home() / "administrator.key", "the administrator")[:20]).decode().lower()


def is_key(typed: str) -> bool:
    """Whether this is the administrator's key. Raises StoreTrouble where that cannot be kept."""
    return hmac.compare_digest(typed.strip().lower().encode(), key().encode())


def usage(store: Store) -> Sequence[Usage]:
    """What every visitor with a run, data or an upload uses, who uses most first."""
    is_kept = runs.c.deleted.is_(None)
    columns = (
        runs.c.owner,
        func.count().filter(is_kept & (runs.c.status == "queued")).label("waiting"),
        func.count().filter(runs.c.status.in_(ACTIVE)).label("active"),
        func.count().filter(is_kept & runs.c.status.not_in(OPEN)).label("over"),
        func.count().filter(~is_kept & runs.c.emptied.is_(None)).label("trash"),
        func.max(runs.c.created).label("latest"),
    )
    with store.reading() as connection:
        found = connection.execute(select(*columns).where(runs.c.owner.is_not(None)).group_by(runs.c.owner)).all()
        of_runs = {row.owner: dict(row._mapping) for row in found}
        data, uploaders = own.of_visitors(), own.uploaders()
        known = {paths.uploads(owner).name for owner in (*of_runs, *data)}
        used = [
            Usage(
                **of_runs.get(owner, {"owner": owner}),
                datasets=len(data.get(owner, ())),
                uploads=paths.uploads(owner).name in uploaders,
                megabytes=queue.stored_bytes(connection, {owner}) / 1e6,
            )
            for owner in dict.fromkeys((*of_runs, *data, *(short for short in uploaders if short not in known)))
        ]
    return sorted(used, key=lambda one: -one.megabytes)


def check_cost(store: Store, spec: RunSpec, seconds: float | None) -> None:
    """Raises BadInput where a run of these settings, estimated to take so long, is above a limit of the store's visitor."""
    if store.visitor is not None:
        with store.reading() as connection:
            queue.check_limits(connection, store.visitor, spec.n_cells, seconds)


def check_kept(store: Store, more: int = 0) -> None:
    """Raises BadInput where the store's visitor, with so many more bytes, keeps more than the server allows."""
    if store.visitor is not None:
        with store.writing() as connection:
            if more:  # data without a run, which count for others, too
                queue.note(connection, store.visitor)
            queue.check_kept(connection, store.visitor, more)


def bytes_left(store: Store) -> int:
    """How many more bytes the store's visitor may keep; where nothing is limited, as many as data may have."""
    if store.visitor is None:
        return sheets.MAX_BYTES
    with store.reading() as connection:
        left = (most * 10**6 - kept for _, kept, most in queue.kept_by(connection, store.visitor))
        return max(0, min(sheets.MAX_BYTES, *left))


def stop(store: Store, owner: str) -> int:
    """Asks all runs of a visitor that wait or are under way to stop; gives their number."""
    found = store.rows(select(runs.c.id).where(runs.c.owner == owner, runs.c.status.in_(OPEN)))
    for row in found:
        store.request_stop(row.id)
    return len(found)


def delete(store: Store, visitor: queue.Visitor) -> int:
    """Deletes for good all results of a visitor's runs that are over; gives their number."""
    over = runs.c.deleted.is_(None) & runs.c.status.not_in(OPEN)
    for row in store.rows(select(runs.c.id).where(runs.c.owner == visitor.owner, over)):
        store.delete(row.id)
    return empty_trash(store.as_visitor(visitor))


def delete_data(store: Store, owner: str) -> int:
    """Deletes a visitor's data with every run on them, and uploads; gives the number of datasets.

    Raises BadInput while a run on them is under way, and where they cannot be deleted.
    """
    shutil.rmtree(paths.uploads(owner), ignore_errors=True)
    names = own.of_visitors().get(owner, [])
    for name in names:
        purge(store, name)
    return len(names)


# Runs that belong to an earlier one, as an audit or as the next of a set, read the rows that it read, or refuse.
#
# What is compared is when own data were last written: that is what somebody has done, and public. Rows are not compared,
# because whether one has changed would differ between neighbours, and everybody who sees the run would hear of it.


def check_own_files(store: Store, earlier: Run) -> None:
    """Raises BadInput where the files of a run's own data were written after it had first started."""
    name = earlier.spec.data.dataset
    began = _began(store, earlier)
    if began is not None and max(own.written_at(name).values(), default=0) > began * 1e9:
        allowed = f"must be as run {earlier.id} read it, but was written again since: start that run anew"
        raise BadInput("data.dataset", name, allowed)


def check_set(store: Store, run_id: str) -> None:
    """The same of a run in a set and the first of the others, on the same data, that was started."""
    if (set_id := Sets(store).of_run(run_id)) is not None:
        of_set = {run.id: run for run in Sets(store).get(set_id).runs.values()}
        name = of_set.pop(run_id).spec.data.dataset
        same = [run for run in of_set.values() if run.spec.data.dataset == name]
        if began := [(at, run) for run in same if (at := _began(store, run)) is not None]:
            check_own_files(store, min(began, key=itemgetter(0))[1])


def _began(store: Store, run: Run) -> float | None:
    """When a run started, in seconds since 1970; None if it never did.

    One that was resumed has the start of its last process alone: then it is when it was asked for, which is safe.
    """
    first = store.scalar(select(func.min(events.c.at)).where(events.c.run_id == run.id))
    return run.created if run.started is not None and first is not None and first < run.started else run.started


# Declaring a budget. It belongs to the rows, known again by marks of their public test part (`data.own`): another copy,
# another schema and a part of them count against the same one, and it outlives the data. It is public; on a shared server
# nobody else sees or changes it.


def budgets_of(store: Store, dataset: str) -> list[charges.Budget]:
    """The budgets that hold for own:NAME: none, one, or those of several datasets whose rows it joins.

    Raises BadInput for data that are not here, and for a visitor of a shared server who did not bring them.
    """
    _check_owner(store, dataset)
    with store.reading() as connection:
        found = charges.declared(connection, dataset)
        return [replace(one, spent=charges.together(charges.charges(connection, one))) for one in found]


def declare_budget(store: Store, dataset: str, epsilon: float | None, delta: float | None = None) -> None:
    """Declares a budget in place of those that hold; None: there is none from now on. What was spent stays counted.

    `delta`: None for the largest power of ten below 1/n, which is public. Raises BadInput as `budgets_of` does, and for
    numbers that promise nothing.
    """
    _check_owner(store, dataset)
    if epsilon is not None:
        check_budget(epsilon)
        n_train = datasets.facts(dataset).n_train
        delta = float(f"{10 * checks.default_delta(n_train):.3g}") if delta is None else delta
        check_accounted(delta)
        if delta >= 1 / n_train:
            allowed = f"must be below 1/{n_train}, one over the number of training examples: else one could be published"
            raise BadInput("delta", delta, allowed)
    known, unit = own.kept_marks(dataset), charges.people(dataset) or ""
    with store.writing() as connection:
        tables.take(connection, tables.QUEUE)
        before = charges.declared(connection, dataset)
        is_before = tables.budgets.c.number.in_([one.number for one in before])
        connection.execute(sqlalchemy_delete(tables.budgets).where(is_before))
        if epsilon is not None:
            rows = {"dataset": None if known else dataset, "marks": sorted(known.union(*(one.marks for one in before)))}
            connection.execute(insert(tables.budgets).values(**rows, unit=unit, epsilon=epsilon, delta=delta))


def check_at_start(store: Store, spec: RunSpec, gives: charges.Gives = "models") -> None:
    """Raises BadInput for what would exceed a budget if it were started now."""
    with store.reading() as connection:
        charges.check_spend(connection, spec, gives)


def _check_owner(store: Store, dataset: str) -> None:
    owner = own.owner(dataset) if dataset.startswith(charges.OWN) else None
    if owner is None:
        raise BadInput("data", dataset, "must be data of your own on this computer, as own:NAME")
    if store.visitor is not None and owner != store.visitor.owner:
        raise BadInput("data", dataset, "was not brought by you: only who did can see or set its budget")
