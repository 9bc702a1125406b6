"""The journal of a run: a file in which events wait while the store is away, and its process's sign of life.

JSON lines: first who carries the run out, then the events that the store has not taken yet, in batches, last how the run
ended. A process deletes its journal when the store has everything. One that a dead process has left is taken in by the next
that looks at the runs: whole, in one transaction that adds nothing twice, so that it may be tried by many at once. A file
that is no journal, or a damaged one, is set aside under another name, so that it holds up no other run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast

from pydantic import Field, TypeAdapter
from sqlalchemy.exc import DataError, IntegrityError

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.events import Classifier, Event, JsonValue, from_json, to_json
from dpcl_core.runs import process
from dpcl_core.runs.process import Process
from dpcl_core.runs.run import End, Failure, checked_id
from dpcl_core.runs.store import Store

_ENDING = ".jsonl"
_ASIDE = ".damaged"  # behind the ending: such a file is read no more
_LARGEST = 2**31 - 1  # of a process id, and of an event's number in the store
_END_BEGINS = b'{"end"'


class Journal:
    """The journal that this process writes for a run. Where the disk refuses, no method raises: memory has them, too."""

    def __init__(self, run_id: str) -> None:
        self.path = _path(run_id)
        self._first_line = _line(asdict(process.me()))
        self._size = 0  # bytes of whole lines; 0: there is no file yet
        self.holds_end = False

    @property
    def holds_events(self) -> bool:
        """Whether anything waits in the file, and the file is there."""
        return self._size > len(self._first_line) and self._is_mine()

    def begin(self) -> None:
        """Makes the file, which is from now on the sign of life of this process."""
        with suppress(OSError):
            paths.made(self.path.parent)
            os.close(paths.opened(self.path, os.O_WRONLY | os.O_TRUNC))
            self._append(self._first_line)
            paths.keep_names(self.path.parent)

    def beat(self) -> None:
        """Gives a sign of life, whether or not the store can take one."""
        if self._is_mine():
            with suppress(OSError):
                os.utime(self.path)

    def keep(self, first: int, events: Sequence[Event]) -> bool:
        """Keeps a batch whose first event has this number; False: the disk refused it."""
        return self._keep({"at": time.time(), "first": first, "events": [to_json(event) for event in events]})

    def keep_end(self, end: End, failure: Failure | None) -> bool:
        """Keeps how the run ended, after all its events; False: the disk refused it."""
        self.holds_end = self._keep({"end": end, "failure": None if failure is None else asdict(failure), "at": time.time()})
        return self.holds_end

    def clear(self) -> None:
        """Empties the file but for its first line: the store has taken all events."""
        if self._is_mine():
            with suppress(OSError):
                os.truncate(self.path, len(self._first_line))
                self._size, self.holds_end = len(self._first_line), False

    def remove(self) -> None:
        """Deletes the file: the store has everything, the end included."""
        if self._is_mine():
            _delete(self.path)

    def _is_mine(self) -> bool:
        """Whether the file is still this process's: another one that has taken the run begins it anew."""
        try:
            with self.path.open("rb") as file:
                return file.read(len(self._first_line)) == self._first_line
        except OSError:
            return False

    def _keep(self, document: Mapping[str, object]) -> bool:
        if self._size == 0:
            self.begin()  # the disk may have been full until now
        try:
            if self._size > 0 and self._is_mine():
                self._append(_line(document))
                return True
        except OSError:
            pass
        return False

    def _append(self, line: bytes) -> None:
        """Appends a line and waits until the disk has it; a line of which only a part fits is taken back."""
        with self.path.open("r+b", buffering=0) as file:
            try:
                file.seek(self._size)
                rest = memoryview(line)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(self._size)
                raise
        self._size += len(line)


def last_beat(run_id: str) -> int | None:
    """When the process of a run gave its last sign of life here, to be compared for equality; None if it has no journal."""
    try:
        return _path(run_id).stat().st_mtime_ns
    except OSError:
        return None


def needed_since(run_id: str) -> float | None:
    """When the oldest of the results that wait in a run's journal was put there (seconds since 1970); None if none waits."""
    lines = _lines(run_id)
    if len(lines) < 2:
        return None
    try:
        return float(json.loads(lines[1])["at"])
    except (ValueError, KeyError, TypeError):
        return 0.0  # written by an earlier version, or damaged: long ago


def abandoned() -> list[str]:
    """The runs whose journal nobody writes any more: their process is dead, or has written down its end and given up.

    Sets aside what is no journal of a run, such as the copy that a program for shared folders has made.
    """
    try:
        names = [entry.name for entry in os.scandir(_folder()) if entry.name.endswith(_ENDING) and entry.is_file()]
    except OSError:
        return []
    ids = []
    for name in names:
        try:
            lines = _lines(run_id := checked_id(name.removesuffix(_ENDING)))
        except BadInput:
            _set_aside(_folder() / name, "its name is none of a run")
            continue
        if lines and _owner(lines[0]) is None:
            _set_aside(_folder() / name, "it does not say which process wrote it")
        elif _is_abandoned(lines):
            ids.append(run_id)
    return ids


def _is_abandoned(lines: Sequence[bytes]) -> bool:
    """Called for every run under way at every look at the queue, so it reads no events."""
    if not lines or (by := _owner(lines[0])) is None:
        return False
    return lines[-1].startswith(_END_BEGINS) or process.is_alive(by) is False


def take_in(store: Store, run_id: str) -> bool:
    """Takes the journal of a run that nobody carries out any more into the store and deletes it; gives whether it did.

    A journal of a run that this store does not have is left alone; one that a later process of the run has superseded is
    deleted; of a damaged one all is taken up to the damage. Raises StoreTrouble while the store is away; the journal then
    waits on.
    """
    found = _read(run_id)
    if found is None:
        return False
    damage = None if found.is_whole else "not all of its lines can be read"
    try:
        taken = store.take_in(run_id, found.by, found.batches, found.end)
    except (BadInput, OverflowError):
        taken, damage = False, _REFUSED
    except StoreTrouble as trouble:
        if not isinstance(trouble.__cause__, (DataError, IntegrityError)):
            raise
        taken, damage = False, _REFUSED
    if taken is None:
        return False
    if damage is None:
        _delete(_path(run_id))
    else:
        _set_aside(_path(run_id), damage)
    return taken


_REFUSED = "what it holds contradicts the store"  # nothing that another try could change


def forget(run_id: str) -> None:
    """Deletes the journal of a run, if there is one, and what was set aside of it."""
    _delete(path := _path(run_id))
    _delete(_aside(path))


def _delete(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _set_aside(path: Path, why: str) -> None:
    """Keeps a file that cannot be used under a name that is not read again, and says so once, on standard error."""
    with suppress(OSError):  # another process was faster, or the folder can only be read
        path.replace(_aside(path))
        print(f"journal {path.name!a}: {why}; it is kept as {_aside(path).name!a}", file=sys.stderr)


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _ASIDE)


@dataclass(frozen=True, slots=True)
class _Content:
    by: Process
    batches: tuple[tuple[int, tuple[Event, ...]], ...]
    end: tuple[End, Failure | None] | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    first: Annotated[int, Field(ge=1, le=_LARGEST)]
    events: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class _Ending:
    end: End
    failure: Failure | None


_PROCESS = TypeAdapter(Process)
_LINE: TypeAdapter[_Batch | _Ending] = TypeAdapter(_Batch | _Ending)


def _read(run_id: str) -> _Content | None:
    """What a journal holds, up to the first line that cannot be read; None if there is none that says whose it is."""
    lines = _lines(run_id)
    by = _owner(lines[0]) if lines else None
    if by is None:
        return None
    batches: list[tuple[int, tuple[Event, ...]]] = []
    end: tuple[End, Failure | None] | None = None
    is_whole = False
    with suppress(ValueError, KeyError, TypeError):  # a failing disk, or another version of the program
        for line in lines[1:]:
            said = _LINE.validate_json(line, strict=True)
            if isinstance(said, _Ending):
                end = said.end, said.failure
            else:
                events = (from_json(cast("Mapping[str, JsonValue]", event)) for event in said.events)
                batches.append((said.first, tuple(events)))
        is_whole = True
    return _Content(by, tuple(batches), end, is_whole)


def _lines(run_id: str) -> list[bytes]:
    """The whole lines of a journal; none if there is no such file. A process may have died in the middle of the last one."""
    try:
        return _path(run_id).read_bytes().split(b"\n")[:-1]
    except OSError:
        return []


def _owner(line: bytes) -> Process | None:
    try:
        by = _PROCESS.validate_json(line, strict=True)
    except ValueError:
        return None
    return by if 0 < by.pid <= _LARGEST else None


def _line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def n_numbered(events: Sequence[Event]) -> int:
    """How many of the events have a number in the store: all but classifiers, which are kept aside."""
    return sum(not isinstance(event, Classifier) for event in events)


def _folder() -> Path:
    return paths.home() / "journals"


def _path(run_id: str) -> Path:
    return paths.inside(_folder(), f"{run_id}{_ENDING}", "run")
