"""What an object needs to go on in another process, as named arrays and one JSON document, and back. Nothing is unpickled.

A class says by `KEPT` which of its attributes change while it learns. Their values may be numbers, strings, arrays, tensors,
containers of these, and records of the dataclasses in its `kept_records`: a file can name no other class. Parts that exist
in a fresh object and have a state of their own (objects with `KEPT`, generators of random numbers, networks) are set in
place; of a network only trained weights are kept. Anything else raises TypeError: examples are not copied by accident.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import JsonValue
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
