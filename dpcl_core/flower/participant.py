"""What one process of a run with real clients holds, as a folder: public facts, and its own rows."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from dpcl_core import checks, paths
from dpcl_core.documents import Document
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import Event, Progress, from_json, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.federated.client_release import Question
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import Recurrence, RunSpec, Unit

if TYPE_CHECKING:  # a client, which starts anew for each question, need not load the engine
    from dpcl_core.engine import Opened


FACTS, ROWS, SPEC, SPENT = "facts.json", "rows.safetensors", "spec.toml", "answered"


class TaskFacts(Document):
    """What is public of a task."""

    name: str
    prior: tuple[int, ...]
    task_id: int | None


class Facts(Document):
    """What is public of a run beside its settings, its anchors and its test rows: fields of its context and its stream."""

    n_people: int
    n_tasks: int
    n_classes: int
    recurrence: Recurrence
    n_users: int
    n_inputs: int
    public: tuple[int, ...]
    counted: bool
    n_axes: dict[float, int]
    classes: tuple[str, ...]
    unit: Unit
    assumed: tuple[str, ...]
    metric: Literal["accuracy", "entity-f1"]
    looks_ahead: bool
    tasks: tuple[TaskFacts, ...]

    @classmethod
    def of(cls, context: PublicContext, stream: TaskStream) -> Facts:
        """Those of an opened run."""
        tasks = tuple(TaskFacts(name=task.name, prior=task.prior, task_id=task.task_id) for task in stream.tasks)
        found = {name: getattr(of, name) for of in (context, stream) for name in cls.model_fields if hasattr(of, name)}
        return cls(**{**found, "tasks": tasks})

    def context(self, anchors: NDArray[np.float32] | None) -> PublicContext:
        """The public facts of a learner."""
        names = {field.name for field in fields(PublicContext)} & Facts.model_fields.keys()
        return PublicContext(**{name: getattr(self, name) for name in names}, anchors=anchors)

    def stream(self, tasks: tuple[Task, ...]) -> TaskStream:
        """The stream of these tasks."""
        return TaskStream(tasks, self.classes, self.recurrence, self.unit, self.assumed, self.metric, self.looks_ahead)


class _Own(Document):
    """What is in a folder's facts: the public ones, and who the folder is for. `Participant` says what the fields mean."""

    facts: Facts
    number: int | None
    keys: tuple[str, ...]
    key: str
    events: tuple[str, ...]  # each as JSON


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
    if spec.labels in ("data", "dp-learned"):
        allowed = "must be prior or prior-const: no round asks real clients for the labels that they hold"
        raise BadInput("labels", spec.labels, allowed, {"labels": "prior-const"})
    if not np.isfinite(spec.privacy.epsilons[0]):
        raise BadInput("privacy.epsilons", "inf", "must be finite: real clients release nothing without noise")


def parts(spec: RunSpec, of: Opened, events: Sequence[Event]) -> list[Participant]:
    """The server's part of an opened run, and each client's, in this order."""
    streams, context = of.of_cells(list(spec.cells()))
    (stream,) = streams.values()
    keys = [secrets.token_hex(16) for _ in range(context.n_users or 0)]
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    public = tuple(event for event in events if not isinstance(event, Progress))
    server = Participant(spec, context, _with_rows(stream, None), None, digests, events=public)
    clients = [Participant(spec, context, _with_rows(stream, number), number, key=key) for number, key in enumerate(keys)]
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
    events = tuple(json.dumps(to_json(event), ensure_ascii=False) for event in part.events)
    own = _Own(facts=Facts.of(part.context, part.stream), number=part.number, keys=part.keys, key=part.key, events=events)
    arrays: dict[str, NDArray[np.generic]] = {} if part.context.anchors is None else {"anchors": part.context.anchors}
    for task in part.stream.tasks:
        for split, examples in (("train", task.train), ("test", task.test)):
            arrays[f"{task.index}/{split}/inputs"] = np.ascontiguousarray(examples.inputs)
            arrays[f"{task.index}/{split}/labels"] = examples.labels
            if examples.sentences is not None:
                arrays[f"{task.index}/{split}/sentences"] = examples.sentences
    for name, content in (
        (SPEC, checks.to_toml(part.spec).encode()),
        (FACTS, own.model_dump_json().encode()),
        (ROWS, safetensors.save(arrays)),
    ):
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def read_part(folder: Path) -> Participant:
    """The part in a folder that `write` made. Raises BadInput for any other, and for a client in two tasks of a stream in
    which each client belongs to one alone: its guarantee would not hold.
    """
    spec = checks.parse(checks.read_toml(paths.read_file(folder / SPEC, "folder").decode("utf-8", "replace")))
    try:
        own = _Own.model_validate_json(paths.read_file(folder / FACTS, "folder"))
        arrays = safetensors.load((folder / ROWS).read_bytes())
        tasks = tuple(_task(index, task, arrays, own.number) for index, task in enumerate(own.facts.tasks))
        events = tuple(from_json(json.loads(event)) for event in own.events)
    except (OSError, ValueError, KeyError, AssertionError, SafetensorError) as error:
        allowed = "must be a folder that `dpcl flower SPEC.toml --to DIR` wrote, with all its files as they were"
        raise BadInput("folder", str(folder), allowed) from error
    refuse(spec)
    if own.facts.recurrence == "once" and own.number is not None and sum(len(task.train) > 0 for task in tasks) > 1:
        raise BadInput("folder", str(folder), "must hold rows of one task only: the budget counts each client in one task")
    context = own.facts.context(arrays.get("anchors"))
    return Participant(spec, context, own.facts.stream(tasks), own.number, own.keys, own.key, events)


def digest(part: Participant) -> str:
    """What server and clients must agree on: a digest of the settings and of all public facts that a vector depends on."""
    found = sha256(checks.to_toml(part.spec).encode() + Facts.of(part.context, part.stream).model_dump_json().encode())
    found.update(b"" if part.context.anchors is None else part.context.anchors.tobytes())
    return found.hexdigest()


def _task(index: int, told: TaskFacts, arrays: Mapping[str, NDArray[Any]], number: int | None) -> Task:
    splits = []
    for split in ("train", "test"):
        inputs, labels = arrays[f"{index}/{split}/inputs"], arrays[f"{index}/{split}/labels"]
        assert len(inputs) == len(labels)
        users = np.full(len(labels), -1 if number is None else number)
        sentences = arrays.get(f"{index}/{split}/sentences")
        splits.append(Examples(inputs, labels, users if split == "train" else None, sentences=sentences))
    return Task(index, told.name, splits[0], splits[1], told.prior, told.task_id)


# What a server of real clients leaves in its folder: the run's events, and how it ended.


EVENTS, OUTCOME, LOG = "events.jsonl", "outcome.json", "flower.log"
SAID = "dpcl: "  # begins the lines that are for whoever runs the server


def events(folder: Path) -> tuple[Event, ...]:
    """The events so far, in order; none before the run has begun."""
    if not (folder / EVENTS).exists():
        return ()
    return tuple(from_json(json.loads(line)) for line in (folder / EVENTS).read_text(encoding="utf-8").splitlines())


def failure(folder: Path) -> str | None:
    """Why the run ended without a result, in one sentence; None where it finished."""
    if not (folder / OUTCOME).exists():
        return f"the server's process ended before the run did: see {folder / LOG}"
    return str(json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["error"]) or None


# What travels between server and clients: flat records of numbers, texts and bytes, and what the server makes of them.
#
# Whatever a client sends, reading it gives one vector of the length that was asked for, or `Unusable` with the reason.


Record = dict[str, int | str | bytes | list[int]]
_MOST_STATE = 1 << 28  # bytes that a client takes from a server in one question


class Unusable(ValueError):
    """Why a client's record counts as none, in a few words."""


def question_record(question: Question) -> Record:
    """A question as a record: numbers as little-endian doubles, which hold single precision exactly."""
    return {
        "kind": "question",
        "task": question.task,
        "round": question.round,
        "width": question.width,
        "shape": list(question.state.shape),
        "state": np.ascontiguousarray(question.state, dtype="<f8").tobytes(),
    }


def question_of(record: Mapping[str, object]) -> Question:
    """The question in a record. Raises BadInput for a record that holds none."""
    allowed = "must be one of this version's; is the server another version?"
    with instead_of(KeyError, ValueError, TypeError, say=BadInput("question", "from the server", allowed)):
        numbers = {name: _whole(record, name) for name in ("task", "round", "width")}
        shape, state = record["shape"], record["state"]
        if not isinstance(shape, list) or not isinstance(state, bytes) or len(state) > _MOST_STATE:
            raise Unusable
        values = np.frombuffer(state, dtype="<f8").reshape([int(size) for size in shape])
        if not np.isfinite(values).all():
            raise Unusable
    return Question(state=values, **numbers)


def answered(key: str, question: Question, vector: NDArray[np.floating]) -> Record:
    """A client's answer to a question."""
    sent = np.ascontiguousarray(vector, dtype="<f8").tobytes()
    return {"key": key, "task": question.task, "round": question.round, "vector": sent}


def present_of(record: Mapping[str, object], keys: Sequence[str]) -> tuple[int, str, int]:
    """A client that introduces itself: its number, the digest of its public facts, how many questions it has answered.

    `keys`: SHA-256 of each client's key. Raises Unusable for anybody else.
    """
    _not_refused(record)
    client, n_answered = _whole(record, "client"), _whole(record, "answered")
    if not 0 <= client < len(keys):
        raise Unusable("an unknown client")
    _check_key(record, keys[client])
    return client, str(record.get("facts")), n_answered


def vector_of(record: Mapping[str, object], question: Question, key: str) -> NDArray[np.float64]:
    """The vector [width] in a client's answer; raises Unusable for one that is not exactly this.

    Its length is not looked at here: the mechanism clips it.
    """
    _not_refused(record)
    _check_key(record, key)
    if (_whole(record, "task"), _whole(record, "round")) != (question.task, question.round):
        raise Unusable("an answer to another question")
    sent = record.get("vector")
    if not isinstance(sent, bytes):
        raise Unusable("no vector of doubles")
    if len(sent) != 8 * question.width:
        raise Unusable(f"{len(sent)} bytes where {question.width} doubles were wanted")
    vector = np.frombuffer(sent, dtype="<f8").astype(np.float64)
    if not np.isfinite(vector).all():
        raise Unusable("numbers that are not finite")
    return vector


def _not_refused(record: Mapping[str, object]) -> None:
    if "refused" in record:
        raise Unusable(f"a refusal: {str(record['refused'])[:300]}")


def _check_key(record: Mapping[str, object], digest: str) -> None:
    if not compare_digest(sha256(str(record.get("key")).encode("utf-8", "replace")).hexdigest(), digest):
        raise Unusable("a wrong key")


def _whole(record: Mapping[str, object], name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unusable(f"no whole number {name}")
    return value
