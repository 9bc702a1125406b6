"""Exceptions of runs and settings; each message is one sentence that says what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")
FailureKind = Literal["wrong-input", "out-of-memory", "diverged", "data-missing", "worker-died", "store", "internal"]
INPUT: tuple[FailureKind, ...] = ("wrong-input", "data-missing")  # failures that a changed input repairs


class BadInput(ValueError):
    """An unusable input. The message reads `field = value: what is allowed`.

    `fix`: new values by dotted setting that mend it; empty where it takes a decision.
    """

    kind: FailureKind = "wrong-input"

    def __init__(self, field: str, value: object, allowed: str, fix: Mapping[str, object] | None = None) -> None:
        self.field, self.value, self.allowed, self.fix = field, value, allowed, fix or {}
        super().__init__(f"{field} = {_shown(value)}: {allowed}")


class DataMissing(BadInput):
    """A dataset, weights file or package is not on this computer and cannot be fetched."""

    kind: FailureKind = "data-missing"


def unknown(field: str, name: str, known: Iterable[str], also: str = "") -> BadInput:
    """The error for an unknown name: suggests the nearest one and lists all. `also`: other allowed values, in words."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    guess = f"did you mean {near[0]}? It " if near else ""
    return BadInput(field, name, f"{guess}must be one of {', '.join(names)}{also}")


def entry(field: str, name: str, known: Mapping[str, T]) -> T:
    """What a table has under a name. Raises the error of `unknown` where it has none."""
    if name not in known:
        raise unknown(field, name, known)
    return known[name]


def at_most(field: str, value: int, most: int, why: str) -> int:
    """The value. Raises BadInput, mended by `most`, where it is larger; `why` ends the sentence."""
    if value > most:
        raise BadInput(field, value, f"must be at most {most}{why}", {field: most})
    return value


@contextmanager
def instead_of(*kinds: type[Exception], say: Exception | Callable[[Any], Exception]) -> Iterator[None]:
    """Within this context `say` is raised in the place of errors of these kinds; what is refused as BadInput stays.

    So does a lack of memory, which is nothing that the input says. `say`: the error, or what makes it of the one before.
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, BadInput | MemoryError):
            raise
        raise (say if isinstance(say, Exception) else say(error)) from error


@contextmanager
def read_as(field: str, value: str, must: str, *kinds: type[Exception]) -> Iterator[None]:
    """Within this context errors of these kinds become BadInput: what the value must be, and why it is not, in one line."""
    try:
        yield
    except kinds as error:
        reason = str(error).strip().partition("\n")[0]
        raise BadInput(field, value, f"{must} ({reason})") from error


class Diverged(RuntimeError):
    """Training produced a non-finite number; the message says where and at which learning rate."""

    kind: FailureKind = "diverged"


class RunFailed(RuntimeError):
    """A run failed; the message names the run and says why in one sentence."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id}: {reason}")


class StoreTrouble(RuntimeError):
    """The store cannot be read or written (read-only, full, locked, damaged)."""

    kind: FailureKind = "store"


class StoreLocked(StoreTrouble):
    """Another program keeps the store locked: nothing of what was to be written is there."""


class StoreUnusable(StoreTrouble):
    """A trouble that no waiting mends: the store is damaged, another program's, or refuses this user."""


class StoreGone(StoreUnusable):
    """The store's file was taken away while it was open: what is written reaches nobody."""


class StoreRefused(StoreUnusable):
    """A file beside the store is another user's: nobody changes that while a run waits."""


class StoreUnknown(StoreTrouble):
    """The given store address is not a valid one: an input to change, not a failure of a store."""

    kind: FailureKind = "wrong-input"


def failure_kind(error: BaseException) -> FailureKind:
    """The kind of a failure, from which a page chooses its words and the repair."""
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
    """The first error of a pydantic model as BadInput, naming the field by its dotted key.

    `known`: all valid dotted keys, from which a mistyped one is corrected.
    """
    details = error.errors(include_url=False)[0]
    if isinstance(cause := details.get("ctx", {}).get("error"), BadInput):
        return cause
    # Tuple positions and union branches would confuse a reader, who typed only the key.
    keys: Iterable[str] = (part for part in details["loc"] if isinstance(part, str) and part.isidentifier())
    field = ".".join(filter(None, [prefix, *keys])) or "spec"
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if details["type"] in ("extra_forbidden", "unexpected_keyword_argument"):  # of a model, of a dataclass
        near = get_close_matches(field, known, n=1)
        return BadInput(field, details["input"], f"no such setting; did you mean {near[0]}?" if near else "no such setting")
    if details["type"] == "missing":
        return BadInput(field, None, "must be given")
    if details["type"] == "too_short":
        return BadInput(field, "nothing", f"must have at least {details['ctx']['min_length']}")
    if details["type"] == "tuple_type":
        return BadInput(field, details["input"], "must be a list, such as [1, 2]")
    must = message if message.startswith(("must", "allowed", "each")) else f"must be {message}"
    return BadInput(field, details["input"], must)


def _shown(value: object) -> str:
    if isinstance(value, float) and 1000 <= value < 1e15 and value.is_integer():
        return f"{value:,.0f}"  # as forms write it
    try:
        text = value if isinstance(value, str) else repr(value)
    except (RecursionError, ValueError):  # tables inside tables, a number of thousands of digits
        text = f"a {type(value).__name__} too large to show"
    text = " ".join(text.splitlines())  # a value must not break the one line of its sentence
    return text if len(text) <= 80 else text[:77] + "..."
