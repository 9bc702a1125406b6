"""What the administrator of a shared server sees and may do: how much each visitor uses, stops, and deletions.

Whoever can read the server's home folder is its administrator: the key lies there.
"""

from __future__ import annotations

import hmac
import shutil
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select

from dpcl_core import keys, paths
from dpcl_core.data import own
from dpcl_core.runs import purge, visitors
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE, runs

_OPEN = ("queued", *ACTIVE)


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
    return b32encode(keys.kept(paths.administrator_key(), "the administrator")[:20]).decode().lower()


def is_key(typed: str) -> bool:
    """Whether this is the administrator's key. Raises StoreTrouble where that cannot be kept."""
    return hmac.compare_digest(typed.strip().lower().encode(), key().encode())


def usage(store: Store) -> Sequence[Usage]:
    """What every visitor with a run, data or an upload uses, who uses most first."""
    is_kept = runs.c.deleted.is_(None)

    def counted(condition: ColumnElement[bool], name: str) -> ColumnElement[int]:
        return func.sum(case((condition, 1), else_=0)).label(name)

    columns = (
        runs.c.owner,
        counted(is_kept & (runs.c.status == "queued"), "waiting"),
        counted(runs.c.status.in_(ACTIVE), "active"),
        counted(is_kept & runs.c.status.not_in(_OPEN), "over"),
        counted(~is_kept & runs.c.emptied.is_(None), "trash"),
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
                megabytes=visitors.stored_bytes(connection, {owner}) / 1e6,
            )
            for owner in dict.fromkeys((*of_runs, *data, *(short for short in uploaders if short not in known)))
        ]
    return sorted(used, key=lambda one: -one.megabytes)


def stop(store: Store, owner: str) -> int:
    """Asks all runs of a visitor that wait or are under way to stop; gives their number."""
    with store.reading() as connection:
        ids = connection.scalars(select(runs.c.id).where(runs.c.owner == owner, runs.c.status.in_(_OPEN))).all()
    for run_id in ids:
        store.request_stop(run_id)
    return len(ids)


def delete(store: Store, visitor: visitors.Visitor) -> int:
    """Deletes for good all results of a visitor's runs that are over; gives their number."""
    over = runs.c.deleted.is_(None) & runs.c.status.not_in(_OPEN)
    with store.reading() as connection:
        ids = connection.scalars(select(runs.c.id).where(runs.c.owner == visitor.owner, over)).all()
    for run_id in ids:
        store.delete(run_id)
    return purge.empty_trash(store.as_visitor(visitor))


def delete_data(store: Store, owner: str) -> int:
    """Deletes a visitor's data with every run on them, and uploads; gives the number of datasets.

    Raises BadInput while a run on them is under way, and where they cannot be deleted.
    """
    shutil.rmtree(paths.uploads(owner), ignore_errors=True)
    names = own.of_visitors().get(owner, [])
    for name in names:
        purge.purge(store, name)
    return len(names)
