"""What travels between server and clients: flat records of numbers, texts and bytes, and what the server makes of them.

Whatever a client sends, reading it gives one vector of the length that was asked for, or `Unusable` with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.questions import Question

Value = int | str | bytes | list[int]
Record = dict[str, Value]
_MOST_STATE = 1 << 28  # bytes that a client takes from a server in one question


class Unusable(ValueError):
    """Why a client's record counts as none, in a few words."""


@dataclass(frozen=True, slots=True)
class Present:
    """A client that has shown its key: its number, the digest of its public facts, and how many questions it answered."""

    client: int
    facts: str
    n_answered: int


def hello() -> Record:
    """Asks a node who it is."""
    return {"kind": "hello"}


def goodbye() -> Record:
    """Says that the run is over."""
    return {"kind": "goodbye"}


def asked(question: Question) -> Record:
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
    try:
        numbers = {name: _whole(record, name) for name in ("task", "round", "width")}
        shape, state = record["shape"], record["state"]
        if not isinstance(shape, list) or not isinstance(state, bytes) or len(state) > _MOST_STATE:
            raise Unusable
        values = np.frombuffer(state, dtype="<f8").reshape([int(size) for size in shape])
        if not np.isfinite(values).all():
            raise Unusable
    except (KeyError, ValueError, TypeError) as error:
        allowed = "must be one of this version's; is the server another version?"
        raise BadInput("question", "from the server", allowed) from error
    return Question(state=values, **numbers)


def introduced(client: int, key: str, facts: str, n_answered: int) -> Record:
    """A client's answer to `hello`."""
    return {"client": client, "key": key, "facts": facts, "answered": n_answered}


def answered(key: str, question: Question, vector: NDArray[np.floating]) -> Record:
    """A client's answer to a question."""
    sent = np.ascontiguousarray(vector, dtype="<f8").tobytes()
    return {"key": key, "task": question.task, "round": question.round, "vector": sent}


def refused(sentence: str) -> Record:
    """A client's answer to what it does not do."""
    return {"refused": sentence}


def present_of(record: Mapping[str, object], keys: Sequence[str]) -> Present:
    """Who introduces itself; `keys`: SHA-256 of each client's key. Raises Unusable for anybody else."""
    _not_refused(record)
    client, n_answered = _whole(record, "client"), _whole(record, "answered")
    if not 0 <= client < len(keys):
        raise Unusable("an unknown client")
    _check_key(record, keys[client])
    return Present(client, str(record.get("facts")), n_answered)


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
