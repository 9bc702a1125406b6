"""A file that one process holds at a time. The system lets go of it when the process ends, however that happens."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dpcl_core import paths

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextmanager
def held(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Within this context this process holds the file, which is made where there is none. Raises OSError.

    False: it does not, because another one does and `wait` is not set, or because this file system holds no files.
    """
    writers = path.parent.stat().st_mode & 0o022  # whoever may write the folder takes turns with the file, which is empty
    handle = paths.opened(path, os.O_RDWR, 0o600 | writers | writers << 1)
    try:
        yield _is_held(handle, wait=wait)
    finally:
        os.close(handle)


def _is_held(handle: int, *, wait: bool) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# Writes a file in one step, so that no reader sees half of it.


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, readable by its owner only, that takes the place of `path` at the end; nothing is left after an error.

    Of several writers the last one wins.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem[:16]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
