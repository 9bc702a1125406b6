"""What each visitor of a shared server may use: cells and seconds of a run, places in the queue, storage.

A server is shared where `DPCL_SHARED` says so (`dpcl app --shared`); elsewhere nothing is limited and nobody owns a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Text, cast, func, literal, select

from dpcl_core.data import own
from dpcl_core.errors import BadInput, unknown
from dpcl_core.runs.tables import ACTIVE, checkpoints, classifiers, events, runs, turns

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run

VARIABLE = "DPCL_SHARED"
USUAL = "usual"  # the value for limits as they are below


@dataclass(frozen=True, slots=True)
class Limits:
    """For each visitor: `cells` and `seconds` of a run, as estimated and as taken; runs waiting or under way (`places`);
    `megabytes` kept.
    """

    cells: int = 100
    seconds: int = 1800
    places: int = 10
    megabytes: int = 500


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of a shared server. `owner`: digest of the token in the visitor's browser, or of the account."""

    owner: str
    limits: Limits


def limits() -> Limits | None:
    """The limits of this server; None where it is not shared. Raises BadInput for a wrong `DPCL_SHARED`."""
    text = os.environ.get(VARIABLE)
    return None if text is None else read(text)


def read(text: str) -> Limits:
    """Limits as written: `usual`, or such as `cells=60,seconds=900`, the others being as usual.

    Raises BadInput for anything else, and for nothing: who names limits that turn out empty wants no open server.
    """
    found = dict[str, int]()
    for part in text.split(",") if text != USUAL else ():
        name, _, value = part.strip().partition("=")
        if name not in (names := [field.name for field in fields(Limits)]):
            raise unknown(VARIABLE, name, names, also=f", or {USUAL} alone")
        if not value.isdecimal() or not 1 <= int(value) <= 10**9:
            raise BadInput(f"{VARIABLE} {name}", value, "must be a whole number of at least 1")
        found[name] = int(value)
    return Limits(**found)


def check(connection: Connection, visitor: Visitor, n_cells: int, seconds: float | None) -> None:
    """Raises BadInput, with what would mend it, for a run above a limit. `seconds`: its estimate, None if there is none."""
    most = visitor.limits
    if n_cells > most.cells:
        fewer = f"must be at most {most.cells} on this server: take fewer budgets or seeds"
        raise BadInput("budgets times seeds", n_cells, fewer)
    if seconds is not None and seconds > most.seconds:
        shorter = f"must be at most {most.seconds} on this server: take fewer examples, budgets or seeds"
        raise BadInput("estimated seconds", f"{seconds:.0f}", shorter)
    mine = runs.c.owner == visitor.owner
    n_open = connection.scalar(select(func.count()).where(mine, runs.c.status.in_(("queued", *ACTIVE)))) or 0
    if n_open >= most.places:
        wait = f"you may have {most.places} waiting or under way on this server: wait for one to end, or stop one"
        raise BadInput("your runs", n_open, wait)
    check_kept(connection, visitor)


def check_kept(connection: Connection, visitor: Visitor, more: int = 0) -> None:
    """Raises BadInput, with what would mend it, for a visitor who keeps too much. `more`: bytes about to be added."""
    kept, most = stored_bytes(connection, visitor.owner) + more, visitor.limits.megabytes
    if kept > most * 1e6:
        mend = "delete runs on Runs and empty the trash there, or delete data on Your data"
        raise BadInput("megabytes you keep", f"{kept / 1e6:.1f}", f"must be at most {most} on this server: {mend}")


def overrun(run: Run, before: Callable[[str], float]) -> str | None:
    """Why a visitor's run has to stop, as a sentence; None where it may go on.

    `before`: gives the seconds that count beside its own, from its id (`seconds_before`).
    """
    most = None if run.owner is None else limits()  # nobody's runs have no limit, whatever the variable says
    if most is None or (run.seconds_taken or 0.0) + before(run.id) <= most.seconds:
        return None
    return f"It was stopped after {most.seconds} seconds, the most on this server: take fewer examples, budgets or seeds."


def seconds_before(connection: Connection, run_id: str) -> float:
    """What the other turns of a run's tuning took, each a run of its own in the queue; 0 for any other run."""
    mine, other = turns.alias("mine"), turns.alias("other")
    of_tuning = select(other.c.run_id).join(mine, mine.c.study_id == other.c.study_id).where(mine.c.run_id == run_id)
    took = select(func.sum(runs.c.seconds)).where(runs.c.id.in_(of_tuning), runs.c.id != run_id)
    return float(connection.scalar(took) or 0.0)


def stored_bytes(connection: Connection, owner: str) -> int:
    """How much a visitor keeps: runs, those in the trash and the checkpoints of stopped ones included, and data."""
    ids = select(runs.c.id).where(runs.c.owner == owner)
    said = select(func.sum(func.length(cast(events.c.payload, Text)))).where(events.c.run_id.in_(ids))
    released = select(func.sum(func.length(classifiers.c.arrays))).where(classifiers.c.run_id.in_(ids))
    saved = (func.coalesce(func.length(part), 0) for part in (cast(checkpoints.c.events, Text), *_STATE))
    state = select(func.sum(sum(saved, start=literal(0)))).where(checkpoints.c.run_id.in_(ids))
    return sum(int(connection.scalar(query) or 0) for query in (said, released, state)) + own.stored_bytes(owner)


_STATE = (checkpoints.c.document, checkpoints.c.arrays)
