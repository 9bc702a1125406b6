"""This server's own keys: made once by the operating system, in files that only their owner can read."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dpcl_core import paths
from dpcl_core.errors import StoreTrouble

N_BYTES = 32


def kept(path: Path, what: str) -> bytes:
    """The key in this file, which is made where there is none.

    Raises StoreTrouble, with `what` the key is of, where it cannot be kept or is damaged.
    """
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreTrouble(f"the key of {what} cannot be kept in {path.name}: {error.strerror}") from error
    if len(key) != N_BYTES:
        raise StoreTrouble(f"{path.name} in the home folder is damaged: delete it, and a new key is made")
    return key


def _make(path: Path) -> None:
    """Writes the whole key beside its place first: of two processes that begin at once, one key stays."""
    paths.made(path.parent)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = paths.opened(beside, os.O_WRONLY | os.O_EXCL)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(N_BYTES))
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
