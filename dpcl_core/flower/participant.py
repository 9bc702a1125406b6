"""What one process of a run with real clients holds, as a folder: public facts, and its own rows."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from dpcl_core import checks, paths
from dpcl_core.engine import Opened
from dpcl_core.errors import BadInput
from dpcl_core.events import Event, JsonValue, Progress, from_json, plain, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import RunSpec

FACTS, ROWS, SPEC, SPENT = "facts.json", "rows.safetensors", "spec.toml", "answered"
_SIZES = ("n_people", "n_tasks", "n_classes", "recurrence", "n_users", "n_inputs", "public", "classes", "counted")
_OF_STREAM = ("classes", "recurrence", "unit", "assumed", "metric", "looks_ahead")
_Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, eq=False)
class Participant:
    """What one process knows.

    `stream`: the tasks; a client has its own training rows in them, the server the public test rows, and neither has more.
    `number`: the client's, from 0; None: the server. `keys`: SHA-256 of every client's key, for the server; a client has its
    `key`. `events`: what is public of the run before its first task, for the server.
    """

    spec: RunSpec
    context: PublicContext
    stream: TaskStream
    number: int | None
    keys: tuple[str, ...] = ()
    key: str = ""
    events: tuple[Event, ...] = ()


def refuse(spec: RunSpec) -> None:
    """Raises BadInput for a run that cannot have real clients: a method that does not ask them, several models, no noise."""
    if not methods.card(spec.method).asks_clients:
        able = ", ".join(name for name, card in methods.CARDS.items() if card.asks_clients)
        raise BadInput("method", spec.method, f"must be one whose clients can be processes of their own: {able}")
    if spec.n_cells != 1:
        allowed = "must be one budget with one seed: what clients hold is released once, and models would add up"
        raise BadInput("privacy.epsilons x seeds", spec.n_cells, allowed)
    if not np.isfinite(spec.privacy.epsilons[0]):
        raise BadInput("privacy.epsilons", "inf", "must be finite: real clients release nothing without noise")


def parts(spec: RunSpec, of: Opened, events: Sequence[Event]) -> list[Participant]:
    """The server's part of an opened run, and each client's, in this order."""
    streams, context = of.of_cells(list(of.spec.cells()))
    (stream,) = streams.values()
    n_clients = context.n_users or 0
    keys = [secrets.token_hex(16) for _ in range(n_clients)]
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    public = tuple(event for event in events if not isinstance(event, Progress))
    server = Participant(spec, context, _with_rows(stream, None), None, digests, events=public)
    clients = [
        Participant(spec, context, _with_rows(stream, number), number, key=key) for number, key in enumerate(keys)
    ]
    return [server, *clients]


def _with_rows(stream: TaskStream, number: int | None) -> TaskStream:
    """The stream with one client's training rows alone, or, for the server, with the test rows alone."""
    tasks = []
    for task in stream.tasks:
        assert task.train.users is not None
        own, test = np.zeros(0, dtype=np.int64), task.test
        if number is not None:
            own, test = np.flatnonzero(task.train.users == number), test.take(own)
        tasks.append(replace(task, train=task.train.take(own), test=test))
    return replace(stream, tasks=tuple(tasks))


def write(part: Participant, folder: Path) -> None:
    """Writes a part into a new folder that only its owner can read. Raises BadInput where there is one already."""
    if folder.exists():
        raise BadInput("--to", str(folder), "must be a new folder: parts of another run must not be mixed with these")
    folder.mkdir(parents=True, mode=0o700)
    facts = {
        "number": part.number,
        "keys": part.keys,
        "key": part.key,
        "context": {name: getattr(part.context, name) for name in _SIZES},
        "stream": {name: getattr(part.stream, name) for name in _OF_STREAM},
        "tasks": [{"name": task.name, "prior": task.prior, "task_id": task.task_id} for task in part.stream.tasks],
        "events": [to_json(event) for event in part.events],
    }
    arrays: _Arrays = {} if part.context.anchors is None else {"anchors": part.context.anchors}
    for task in part.stream.tasks:
        for split, examples in (("train", task.train), ("test", task.test)):
            arrays[f"{task.index}/{split}/inputs"] = np.ascontiguousarray(examples.inputs)
            arrays[f"{task.index}/{split}/labels"] = examples.labels
            if examples.sentences is not None:
                arrays[f"{task.index}/{split}/sentences"] = examples.sentences
    for name, content in (
        (SPEC, checks.to_toml(part.spec).encode()),
        (FACTS, json.dumps(plain(facts), ensure_ascii=False).encode()),
        (ROWS, safetensors.save(arrays)),
    ):
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def read(folder: Path) -> Participant:
    """The part in a folder that `write` made. Raises BadInput for any other, and for a client in two tasks of a stream in
    which each client belongs to one alone: its guarantee would not hold.
    """
    spec = checks.parse(checks.read_toml(_content(folder, SPEC).decode("utf-8", "replace")))
    try:
        facts = json.loads(_content(folder, FACTS))
        arrays = safetensors.load((folder / ROWS).read_bytes())
        number = TypeAdapter(int | None).validate_python(facts["number"])
        context = PublicContext(**_tuples(facts["context"]), anchors=cast("NDArray[np.float32]", arrays.get("anchors")))
        tasks = tuple(_task(index, _tuples(told), arrays, number) for index, told in enumerate(facts["tasks"]))
        stream = TaskStream(tasks, **_tuples(facts["stream"]))
        events = tuple(from_json(event) for event in facts["events"])
        keys, key = tuple(map(str, facts["keys"])), str(facts["key"])
    except (OSError, ValueError, KeyError, TypeError, AssertionError, SafetensorError, ValidationError) as error:
        raise _refusal(folder) from error
    refuse(spec)
    if stream.recurrence == "once" and sum(len(task.train) > 0 for task in tasks) > 1:
        raise BadInput("folder", str(folder), "must hold rows of one task only: the budget counts each client in one task")
    return Participant(spec, context, stream, number, keys, key, events)


def digest(part: Participant) -> str:
    """What server and clients must agree on: a digest of the settings and of all public facts that a vector depends on."""
    facts = asdict(replace(part.context, anchors=None)), [(task.name, task.prior, task.task_id) for task in part.stream.tasks]
    found = sha256(json.dumps(plain([part.spec.model_dump(mode="json"), *facts]), sort_keys=True).encode())
    found.update(b"" if part.context.anchors is None else part.context.anchors.tobytes())
    return found.hexdigest()


def _content(folder: Path, name: str) -> bytes:
    return paths.read_file(folder / name, "folder")


def _refusal(folder: Path) -> BadInput:
    return BadInput("folder", str(folder), "must be a folder that `dpcl flower split` wrote, with all its files unchanged")


def _tuples(facts: Mapping[str, JsonValue]) -> dict[str, object]:  # the fields' own types have tuples where JSON has lists
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _task(index: int, told: Mapping[str, object], arrays: _Arrays, number: int | None) -> Task:
    splits = []
    for split in ("train", "test"):
        inputs, labels = arrays[f"{index}/{split}/inputs"], cast("NDArray[np.int64]", arrays[f"{index}/{split}/labels"])
        assert len(inputs) == len(labels)
        users = np.full(len(labels), -1 if number is None else number)
        sentences = cast("NDArray[np.int64] | None", arrays.get(f"{index}/{split}/sentences"))
        splits.append(Examples(inputs, labels, users if split == "train" else None, sentences=sentences))
    prior = TypeAdapter(tuple[int, ...]).validate_python(told["prior"])
    return Task(index, str(told["name"]), splits[0], splits[1], prior, cast("int | None", told["task_id"]))
