"""What a run needs to go on in another process: an object's state as named arrays and a JSON document; checkpoints of tasks.

A class says by `KEPT` which of its attributes change while it learns. Their values may be numbers, strings, arrays, tensors,
containers of these, and records of the dataclasses in its `kept_records`: a file can name no other class, and nothing is
unpickled. Parts that exist in a fresh object and have a state of their own (objects with `KEPT`, generators of random
numbers, networks) are set in place; of a network only trained weights are kept. Anything else raises TypeError: examples are
not copied by accident.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Event, JsonValue, Progress, TokensScored
from dpcl_core.later import torch
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell

Arrays = Mapping[str, NDArray[np.generic]]
Records = tuple[type, ...]
_Named = Mapping[str, type]


@runtime_checkable
class Durable(Protocol):
    """An object whose state is that of the attributes named in `KEPT`.

    It may also have `kept_records`, the classes of records that occur in them. Fields that such a class names in `UNKEPT`
    come back as None.
    """

    KEPT: ClassVar[tuple[str, ...]]


@runtime_checkable
class Reopening(Protocol):
    """An object some of whose parts exist only once a first task has begun."""

    def reopen(self) -> None:
        """Makes those parts that are None and have a state of their own. Reads no example."""


@runtime_checkable
class Recalling(Protocol):
    """A learner that keeps examples. Its state has their places at most; they are read again where they lie."""

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads again what it had kept of the tasks learned so far, by seed, in order; called last."""


def saved(parts: Mapping[str, Durable]) -> tuple[dict[str, JsonValue], Arrays]:
    """The state of named objects. Raises TypeError for a value that cannot be kept."""
    writer = _Writer()
    return {name: writer.written(one, _with_own({}, one)) for name, one in parts.items()}, writer.arrays


def restore(parts: Mapping[str, Durable], document: Mapping[str, JsonValue], arrays: Arrays) -> None:
    """Gives freshly made objects the state that `saved` wrote."""
    reader = _Reader(arrays)
    for name, one in parts.items():
        reader.read(document[name], one, _with_own({}, one))


def _with_own(records: _Named, one: object) -> _Named:
    """The classes of records that may occur in an object: those of its owners, and its own."""
    return {Cell.__name__: Cell, **records, **{kind.__name__: kind for kind in getattr(one, "kept_records", ())}}


def _weights(network: torch.nn.Module) -> Mapping[str, torch.Tensor]:
    """A network's trained weights by name: all of them, unless it says which."""
    named = network.trainable() if hasattr(network, "trainable") else network.named_parameters()  # type: ignore[operator]
    return dict(named)


def _is_part(document: JsonValue) -> bool:
    """Whether a value was one that is set in place."""
    return isinstance(document, dict) and bool({"object", "generator", "network"} & document.keys())


class _Writer:
    """Turns values into JSON; arrays are put aside, each only once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[np.generic]] = {}
        self._seen: dict[int, tuple[str, object]] = {}  # by identity; holds the object, so that no other gets its number

    def written(self, value: object, records: _Named) -> JsonValue:
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), value)}
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, np.ndarray):
            return {"array": self._array(value, value)}
        if isinstance(value, list | tuple | set):
            kind = type(value).__name__ if type(value) in (list, tuple, set) else "tuple"
            if hasattr(value, "_fields"):
                return self._record(value, value._fields, records)
            return {kind: [self.written(one, records) for one in (sorted(value) if kind == "set" else value)]}
        if isinstance(value, Mapping):
            return {"dict": [[self.written(key, records), self.written(one, records)] for key, one in value.items()]}
        if isinstance(value, Durable):
            own = _with_own(records, value)
            return {"object": {name: self.written(getattr(value, name), own) for name in value.KEPT}}
        if isinstance(value, np.random.Generator):
            return {"generator": cast(JsonValue, value.bit_generator.state)}
        if is_dataclass(value):
            left_out = getattr(value, "UNKEPT", ())
            return self._record(value, [field.name for field in fields(value) if field.name not in left_out], records)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            return {"network": {name: self._tensor(weights) for name, weights in _weights(value).items()}}
        if torch is not None and isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value), "device": str(value.device)}
        raise TypeError(f"{type(value).__name__} cannot be kept in a checkpoint")

    def _record(self, value: object, names: Sequence[str], records: _Named) -> JsonValue:
        kind = type(value).__name__
        if records.get(kind) is not type(value):
            raise TypeError(f"{kind} cannot be kept in a checkpoint: it is not among kept_records")
        return {"record": kind, "fields": {name: self.written(getattr(value, name), records) for name in names}}

    def _tensor(self, value: object) -> str:
        return self._array(value.detach().cpu().numpy(), value)  # type: ignore[attr-defined]  # torch may not be loaded

    def _array(self, array: NDArray[np.generic], owner: object) -> str:
        if id(owner) not in self._seen:
            name = f"a{len(self.arrays)}"
            self._seen[id(owner)] = name, owner
            # A copy: training goes on in place. The file's format writes memory as it lies, so in C order.
            self.arrays[name] = np.array(array, order="C")
        return self._seen[id(owner)][0]


class _Reader:
    """Turns JSON back into values. What was one array is one array again."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._tensors: dict[str, object] = {}

    def read(self, document: JsonValue, fresh: object, records: _Named) -> object:
        """The value; `fresh` is the one in its place in the fresh object, and is returned where it was set in place."""
        if not isinstance(document, dict):
            return document
        match document:
            case {"array": str(name)}:
                return self._arrays[name]
            case {"scalar": str(name)}:
                return self._arrays[name][()]
            case {"tensor": str(name), "device": str(device)}:
                return self._tensor(name, device)
            case {"list": list(items)}:
                return self._items(items, fresh, records)
            case {"tuple": list(items)}:
                return tuple(self._items(items, fresh, records))
            case {"set": list(items)}:
                return set(self._items(items, None, records))
            case {"dict": list(pairs)}:
                there, named = fresh if isinstance(fresh, Mapping) else {}, cast("list[list[JsonValue]]", pairs)
                keys = [self.read(key, None, records) for key, _ in named]
                return {key: self.read(one, there.get(key), records) for key, (_, one) in zip(keys, named, strict=True)}
            case {"record": str(name), "fields": dict(values)}:
                kind = records[name]
                left_out: Mapping[str, object] = dict.fromkeys(getattr(kind, "UNKEPT", ()))
                return kind(**left_out, **{field: self.read(value, None, records) for field, value in values.items()})
            case {"object": dict(values)}:
                return self._object(values, fresh, records)
            case {"generator": dict(state)}:
                assert isinstance(fresh, np.random.Generator)
                fresh.bit_generator.state = state
                return fresh
            case {"network": dict(weights)}:
                return self._network(cast("dict[str, str]", weights), fresh)
        raise ValueError(f"a checkpoint cannot have {sorted(document)}")

    def _items(self, items: Sequence[JsonValue], fresh: object, records: _Named) -> list[object]:
        is_alike = isinstance(fresh, list | tuple) and len(fresh) == len(items)
        there = cast("Sequence[object]", fresh) if is_alike else [None] * len(items)
        return [self.read(item, one, records) for item, one in zip(items, there, strict=True)]

    def _object(self, values: Mapping[str, JsonValue], fresh: object, records: _Named) -> object:
        assert isinstance(fresh, Durable), "its owner makes it before its state is set"
        missing = [name for name in fresh.KEPT if getattr(fresh, name) is None and _is_part(values[name])]
        if missing and isinstance(fresh, Reopening):
            fresh.reopen()
        own = _with_own(records, fresh)
        for name in fresh.KEPT:
            setattr(fresh, name, self.read(values[name], getattr(fresh, name), own))
        return fresh

    def _network(self, weights: Mapping[str, str], fresh: object) -> object:
        assert isinstance(fresh, torch.nn.Module)
        parameters = _weights(fresh)
        with torch.no_grad():
            for name, array in weights.items():
                parameters[name].copy_(torch.from_numpy(self._arrays[array]))
        return fresh

    def _tensor(self, name: str, device: str) -> object:
        if name not in self._tensors:
            self._tensors[name] = torch.from_numpy(self._arrays[name]).to(device)
        return self._tensors[name]


# Checkpoints: what left a run at the end of each task, and what it needs to go on after its process has died.
#
# Nothing of a task leaves the engine before its checkpoint is saved, but events that are functions of public facts
# (`is_public`: `tests/test_neighbours.py` compares them on neighbouring datasets). So if a process dies, each task is in
# one of two states. Its checkpoint is saved: then its noise was drawn once, its entries are in the ledger, and a resumed
# run passes on the very events that were saved. Or it is not: then no function of its noise or of its batches has left, so
# that the task may be learned again with fresh noise, and is charged once, for what then leaves. Nobody can choose between
# the two outcomes by killing the process, because nothing that depends on them was seen. The death itself and its time are
# outside every guarantee here, as running times are. A power cut is no other death: what is saved is on the disk when
# `save` returns. A store that is restored from a backup forgets checkpoints whose events have left: `runs.resumption` says
# so outside the store, and such a run is refused.
#
# In release mode noise and batches come from the operating system and are never recorded: a checkpoint has what they led
# to, released numbers and the learner's memory, and of kept examples only their places in the data. It lies in the store
# beside the run, and is deleted when the run ends or is deleted.


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The end of a task for one group of cells: the events that leave after it, and the state to go on from.

    `group`: place of the group in the run; `task`: index. `document`: JSON, `arrays`: a safetensors file; both None where
    there is no way back: the learner cannot be kept, or the task is the last one and the events have finished its cells.
    """

    group: int
    task: int
    events: tuple[Event, ...]
    document: str | None
    arrays: bytes | None


def are_from_the_first_on(kept: Sequence[Checkpoint]) -> bool:
    """Whether a group's checkpoints are those of its tasks 0, 1, 2, …: after a gap, tasks would be learned as others."""
    return [checkpoint.task for checkpoint in kept] == list(range(len(kept)))


class Keep(Protocol):
    """Where the checkpoints of a run lie. Only the newest of a group needs to keep its state."""

    def of(self, group: int) -> Sequence[Checkpoint]:
        """The group's checkpoints, in order of their tasks, from the first one on."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Saves a checkpoint; it is durable when this returns."""


class Division(Protocol):
    """How the groups of a run are shared out among processes. A group, whose cells share work or noise, is never divided."""

    def begin(self, n_groups: int, n_tasks: int) -> None:
        """Called once, when the run has started and before the first group begins."""

    def events(self, group: int, here: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """The events of a group that leave this process; `here` carries it out in this process."""


def is_public(event: Event) -> bool:
    """Whether an event of a task that is being learned is a function of public facts alone, so that it may leave at once.

    Progress has public counts. Tokens scored by the frozen network are shown of public and synthetic texts only.
    """
    return isinstance(event, Progress) or (isinstance(event, TokensScored) and event.model == "base")
