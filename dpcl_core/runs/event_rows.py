"""Events as rows of the store: numbered, each once; finished cells and classifiers in tables of their own."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from typing import cast

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from dpcl_core.errors import BadInput
from dpcl_core.events import Classifier, Event, JsonValue, Note, from_json, to_json
from dpcl_core.runs.tables import cells, classifiers, events, runs


def last_number(connection: Connection, run_id: str) -> int:
    """The number of a run's last event; 0 if it has none."""
    return connection.scalar(select(func.max(events.c.seq)).where(events.c.run_id == run_id)) or 0


def append(connection: Connection, run_id: str, new_events: Sequence[Event], first: int | None) -> None:
    """Adds events, those that the store has already left out; see `Store.append`."""
    now = time.time()
    connection.execute(select(runs.c.id).where(runs.c.id == run_id).with_for_update())  # one writer of a run at a time
    last = last_number(connection, run_id)
    documents = [to_json(event) for event in new_events if not isinstance(event, Classifier)]
    numbered = list(enumerate(documents, start=last + 1 if first is None else first))
    rows = [
        {"run_id": run_id, "seq": seq, "kind": document["event"], "at": now, "payload": document}
        for seq, document in numbered
        if seq > last
    ]
    done = [_cell_row(run_id, document) for seq, document in numbered if seq > last and document["event"] == "CellFinished"]
    kept = [_classifier_row(run_id, event) for event in new_events if isinstance(event, Classifier)]
    if first is not None and kept:
        place = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
        there = {tuple(row) for row in connection.execute(select(*place).where(classifiers.c.run_id == run_id))}
        kept = [row for row in kept if (row["epsilon"], row["seed"], row["task"]) not in there]
    try:
        if rows:
            connection.execute(insert(events), rows)
        if kept:
            connection.execute(insert(classifiers), kept)
        if done:
            connection.execute(insert(cells), done)
    except IntegrityError as error:
        raise BadInput("run", run_id, "must be a run of this store, each of its cells finishing once") from error


def _cell_row(run_id: str, document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    cell = cast(Mapping[str, float | str | int], document["cell"])
    return {
        "run_id": run_id,
        "epsilon": float(cell["epsilon"]),
        "seed": int(cell["seed"]),
        "metrics": document["metrics"],
        "guarantee": document["guarantee"],
        "seconds": document["seconds"],
    }


def _classifier_row(run_id: str, event: Classifier) -> dict[str, object]:
    place = {"run_id": run_id, "epsilon": event.cell.epsilon, "seed": event.cell.seed, "task": event.task}
    about = {name: value for name, value in to_json(event).items() if name != "content"}
    return {**place, "about": about, "arrays": base64.b64decode(event.content)}


def classifiers_of(connection: Connection, run_id: str) -> list[Classifier]:
    """What the models of a run had released by the end of each task, in order of budget, seed and task."""
    order = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
    query = select(classifiers.c.about, classifiers.c.arrays).where(classifiers.c.run_id == run_id)
    rows = connection.execute(query.order_by(*order)).all()
    found = [from_json({**row.about, "content": base64.b64encode(row.arrays).decode("ascii")}) for row in rows]
    return cast(list[Classifier], found)


def read(document: Mapping[str, JsonValue]) -> Event:
    """The event of a stored document; a warning in place of one that cannot be read."""
    try:
        return from_json(document)
    except (KeyError, TypeError, ValueError):
        return Note("warning", "One entry of this run can no longer be read by this version of the program.")
