"""What has left the runs that this computer carried out, kept outside the store: a restored backup does not know it.

A file for each run, to which a line `GROUP N` is appended before the results of a group's first N tasks leave. It outlives
the run: a backup may have it under way, and it would draw its noise again for what somebody has seen.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dpcl_core import paths
from dpcl_core.errors import StoreRefused, StoreTrouble

_LINE = re.compile(rb"(\d{1,9}) (\d{1,9})")


def n_tasks(run_id: str) -> dict[int, int]:
    """By group, of how many tasks results have left this computer; a group without any is not in it.

    Raises StoreTrouble where that cannot be read, as StoreRefused where this user may not.
    """
    path, found = _path(run_id), dict[int, int]()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return found
    except OSError as error:
        raise _trouble("read", error) from error
    for line in lines:
        if said := _LINE.fullmatch(line):  # a power cut may have left a part of the last one: nothing had left then
            group, n = map(int, said.groups())
            found[group] = max(n, found.get(group, 0))
    return found


def record(run_id: str, group: int, n: int) -> None:
    """Writes down that results of a group's first `n` tasks leave from now on; the disk has it when this returns.

    Raises StoreTrouble where the disk refuses, as StoreRefused where this user may not write: nothing may leave then.
    Written again where it stands already: an earlier attempt may have failed before the disk had it.
    """
    path = _path(run_id)
    try:
        is_new = not path.exists()
        paths.made(path.parent)
        handle = paths.opened(path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(handle, "ab", buffering=0) as file:  # appended whole: parts of a run may write at once
            file.write(b"\n%d %d" % (group, n))  # on a line of its own, also after a part of one
            os.fsync(file.fileno())
        if is_new:
            for folder in (path.parent, path.parent.parent):
                paths.keep_names(folder)
    except OSError as error:
        raise _trouble("written", error) from error


def _path(run_id: str) -> Path:
    return paths.inside(paths.home() / "released", f"{run_id}.txt", "run")


def _trouble(done: str, error: OSError) -> StoreTrouble:
    kind = StoreRefused if isinstance(error, PermissionError) else StoreTrouble
    return kind(f"what has left a run cannot be {done} in released/ of the home folder: {error.strerror or 'unknown error'}")
