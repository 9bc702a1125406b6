"""The ways a run can go wrong, each told in one sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal

from pydantic import ValidationError

FailureKind = Literal[
    "wrong-input", "out-of-memory", "diverged", "data-missing", "worker-died", "store", "internal"
]


INPUT: tuple[FailureKind, ...] = ("wrong-input", "data-missing")  # failures that another input would mend


class BadInput(ValueError):
    """Something a person wrote cannot be used. Reads `field = value: what is allowed`."""

    kind: FailureKind = "wrong-input"

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {_shown(value)}: {allowed}")


class DataMissing(BadInput):
    """A dataset or a weights file is not on this computer and cannot be fetched."""

    kind: FailureKind = "data-missing"


def unknown(field: str, name: str, known: Iterable[str], also: str = "") -> BadInput:
    """The refusal of a name that nothing has: the nearest known one, then all of them. `also`: what else would do."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    guess = f"did you mean {near[0]}? It " if near else ""
    return BadInput(field, name, f"{guess}must be one of {', '.join(names)}{also}")


class Diverged(RuntimeError):
    """Training produced a number that is not finite; says where and at which learning rate."""

    kind: FailureKind = "diverged"


class RunFailed(RuntimeError):
    """A run ended on its way; says which, and why in one sentence."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id}: {reason}")


class StoreTrouble(RuntimeError):
    """The store cannot be read or written (read-only, full, locked, damaged)."""

    kind: FailureKind = "store"


class StoreUnknown(StoreTrouble):
    """What was given as a store's address is none: an input to be changed, not a store in trouble."""

    kind: FailureKind = "wrong-input"


def failure_kind(error: BaseException) -> FailureKind:
    """The kind of a failure, for the page to choose its words and its fix."""
    kind: FailureKind | None = getattr(error, "kind", None)
    if kind is not None:
        return kind
    # By name and text: torch, whose errors these are, is not loaded everywhere; its CPU allocator raises RuntimeError.
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
        return "out-of-memory"
    if isinstance(error, OSError) and error.errno == 28:  # ENOSPC: wherever the disk filled up, the store is next
        return "store"
    return "internal"


def first_of(error: ValidationError, prefix: str = "", known: Sequence[str] = ()) -> BadInput:
    """The first complaint of a pydantic model, as one sentence naming the field by its dotted key.

    `known`: the dotted keys that there are, to guess from what a mistyped one was meant to be.
    """
    found = error.errors(include_url=False)[0]
    if isinstance(said := found.get("ctx", {}).get("error"), BadInput):
        return said
    # Tuple positions and union branches are noise to a reader; the key he typed is not.
    keys: Iterable[str] = (part for part in found["loc"] if isinstance(part, str) and part.isidentifier())
    field = ".".join(filter(None, [prefix, *keys])) or "spec"
    message = found["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):  # of a model, of a dataclass
        near = get_close_matches(field, known, n=1)
        return BadInput(field, found["input"], f"no such setting; did you mean {near[0]}?" if near else "no such setting")
    if found["type"] == "missing":
        return BadInput(field, None, "must be given")
    if found["type"] == "too_short":
        return BadInput(field, "nothing", f"must have at least {found['ctx']['min_length']}")
    if found["type"] == "tuple_type":
        return BadInput(field, found["input"], "must be a list, such as [1, 2]")
    must = message if message.startswith(("must", "allowed", "each")) else f"must be {message}"
    return BadInput(field, found["input"], must)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
