"""The machines that share a store on a server: each says every few seconds that it looks after the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from sqlalchemy import insert, make_url, select, update

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import database, devices
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import machines

EVERY_SECONDS = 10.0
_PRESENT_SECONDS = 60.0  # one that has said nothing for so long is not counted on


def can_share(store: Store) -> bool:
    """Whether several machines can reach a store: not one that is a file."""
    return make_url(store.url).get_backend_name() != "sqlite"


def announce(store: Store) -> None:
    """Says that this machine looks after the queue of a store, and with which devices; says nothing while it is away."""
    name = devices.machine()
    said = {"devices": [device.name for device in devices.found()], "seen": database.now()}
    with suppress(StoreTrouble), store.writing(durable=False) as connection:  # also if another process here was first
        if connection.execute(update(machines).where(machines.c.name == name).values(**said)).rowcount == 0:
            connection.execute(insert(machines).values(name=name, **said))


def present(store: Store) -> Mapping[str, Sequence[str]]:
    """The devices of each machine that looks after the queue now, by name."""
    with store.reading() as connection:
        is_here = database.now() - machines.c.seen < _PRESENT_SECONDS
        rows = connection.execute(select(machines).where(is_here).order_by(machines.c.name)).all()
    return {row.name: row.devices for row in rows}
