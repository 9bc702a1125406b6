"""What one process of a run with real clients holds, as a folder: public facts, and its own rows."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core import arrays, checks, paths
from dpcl_core.documents import Document
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import Event, Progress, plain, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.scenarios.stream import Examples, TaskStream
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:  # a client, which starts anew for each question, need not load the engine
    from dpcl_core.engine import Opened

FACTS, ROWS, SPEC, EVENTS = "facts.json", "rows.safetensors", "spec.toml", "events.jsonl"


class Participant(Document, arbitrary_types_allowed=True):
    """What one process knows.

    `stream`: the tasks; a client has its own training rows in them, the server the public test rows, and neither has more.
    `number`: the client's, from 0; None: the server. `keys`: SHA-256 of every client's key, for the server; a client has its
    `key`. `events`: what is public of the run before its first task, for the server, each as a JSON document.
    """

    spec: RunSpec
    context: PublicContext
    stream: TaskStream
    number: int | None = None
    keys: tuple[str, ...] = ()
    key: str = ""
    events: tuple[Mapping[str, Any], ...] = ()


def refuse(spec: RunSpec) -> None:
    """Raises BadInput for a run that cannot have real clients: a method that does not ask them, several models, no noise."""
    if not methods.card(spec.method).asks_clients:
        able = ", ".join(name for name, card in methods.CARDS.items() if card.asks_clients)
        raise BadInput("method", spec.method, f"must be one whose clients can be processes of their own: {able}")
    if spec.n_cells != 1:
        allowed = "must be one budget with one seed: what clients hold is released once, and models would add up"
        raise BadInput("privacy.epsilons x seeds", spec.n_cells, allowed)
    if spec.labels in ("data", "dp-learned"):
        allowed = "must be prior or prior-const: no round asks real clients for the labels that they hold"
        raise BadInput("labels", spec.labels, allowed, {"labels": "prior-const"})
    if not np.isfinite(spec.privacy.epsilons[0]):
        raise BadInput("privacy.epsilons", "inf", "must be finite: real clients release nothing without noise")


def parts(spec: RunSpec, of: Opened, events: Sequence[Event]) -> dict[str, Participant]:
    """The server's part of an opened run, and then each client's, by the name of its folder."""
    streams, context = of.of_cells(list(spec.cells()))
    (stream,) = streams.values()
    context = replace(context, form=None, texts=None, canaries=(), undeclared=())  # clients' methods ask for none of these
    keys = [secrets.token_hex(16) for _ in range(context.n_users or 0)]
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    public = tuple(to_json(event) for event in events if not isinstance(event, Progress))
    part = partial(Participant, spec=spec, context=context)
    clients = {f"client-{n}": part(stream=_with_rows(stream, n), number=n, key=key) for n, key in enumerate(keys)}
    return {"server": part(stream=_with_rows(stream, None), keys=digests, events=public), **clients}


def _with_rows(stream: TaskStream, number: int | None) -> TaskStream:
    """The stream with one client's training rows alone, or, for the server, with the test rows alone."""
    tasks = []
    for task in stream.tasks:
        assert task.train.users is not None
        own, test = np.flatnonzero(task.train.users == number), np.arange(len(task.test) if number is None else 0)
        tasks.append(replace(task, train=_alone(task.train, own), test=_alone(task.test, test)))
    return replace(stream, tasks=tuple(tasks))


def _alone(of: Examples, places: NDArray[np.intp]) -> Examples:
    """The examples at these places, without the table of all that they come from."""
    of = of.take(places)
    return Examples(np.ascontiguousarray(of.inputs), of.labels, of.users, sentences=of.sentences)


def write(part: Participant, folder: Path) -> None:
    """Writes a part into a new folder that only its owner can read. Raises BadInput where there is one already."""
    if folder.exists():
        raise BadInput("--to", str(folder), "must be a new folder: parts of another run must not be mixed with these")
    folder.mkdir(parents=True, mode=0o700)
    rows: dict[str, NDArray[Any]] = {}

    def as_place(array: NDArray[Any]) -> dict[str, str]:
        rows[name := str(len(rows))] = array
        return {"array": name}

    facts = json.dumps(plain({name: value for name, value in part if name != "spec"}), default=as_place)
    contents = {SPEC: checks.to_toml(part.spec).encode(), FACTS: facts.encode(), ROWS: arrays.save(rows)}
    for name, content in contents.items():
        with open(paths.open_file(folder / name, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(content)


def read_part(folder: Path) -> Participant:
    """The part in a folder that `write` made. Raises BadInput for any other, and for a client in two tasks of a stream in
    which each client belongs to one alone: its guarantee would not hold.
    """
    spec = checks.parse(checks.read_toml(paths.read_file(folder / SPEC, "folder").decode("utf-8", "replace")))
    refuse(spec)
    allowed = "must be a folder that `dpcl flower SPEC.toml --to DIR` wrote, with all its files as they were"
    with instead_of(OSError, ValueError, KeyError, TypeError, say=BadInput("folder", str(folder), allowed)):
        rows = arrays.load((folder / ROWS).read_bytes())
        facts = json.loads((folder / FACTS).read_bytes(), object_hook=lambda of: rows[of["array"]] if "array" in of else of)
        part = Participant(spec=spec, **facts)
    n_tasks = sum(len(task.train) > 0 for task in part.stream.tasks)
    if part.stream.recurrence == "once" and part.number is not None and n_tasks > 1:
        raise BadInput("folder", str(folder), "must hold rows of one task only: the budget counts each client in one task")
    return part
