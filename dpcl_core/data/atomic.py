"""Writes a file in one step, so that no reader sees half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


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
