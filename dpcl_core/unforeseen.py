"""Errors that nobody foresaw: one sentence for whoever meets them, and the traceback under its number in a log."""

from __future__ import annotations

import os
import re
import secrets
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from textwrap import indent

from dpcl_core import paths
from dpcl_core.masking import masked, printable

_LARGEST = 5_000_000  # bytes of the log; the one before it is kept beside it
_OFTEN = 10  # times that an error of the same lines is written into a log


def log_file() -> Path:
    """The log of this computer's unforeseen errors. A message may quote data, so only its owner may read it."""
    return paths.home() / "logs" / "errors.log"


def recorded(error: BaseException) -> str:
    """Writes the error's traceback into the log, without secrets; gives the sentence for the reader, with its number.

    Where the log cannot be written, the traceback goes to standard error. One that the log has often is not written again,
    and has the number of the last: who repeats an error pushes no other one out.
    """
    number, lines = secrets.token_hex(4), traceback.extract_tb(error.__traceback__)
    at = sha256(repr((type(error), sorted({(one.filename, one.lineno) for one in lines}))).encode()).hexdigest()[:8]
    try:
        if len(known := re.findall(rf"^error (\w+), .*, at {at}$", _written(), re.MULTILINE)) >= _OFTEN:
            number = known[-1]
        else:
            _append(f"error {number}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, at {at}\n{indent(trace(error), ' ')}\n")
    except OSError:
        print(f"error {number}\n{trace(error)}", file=sys.stderr)
        return f"The program itself went wrong; what happened is on the server's standard error as error {number}."
    log = log_file().relative_to(paths.home())
    return f"The program itself went wrong; what happened is in {log} of its home folder as error {number}."


def trace(error: BaseException) -> str:
    """The traceback of an error without secrets and without what commands a terminal, on which a log is read, too."""
    return printable(masked("".join(traceback.format_exception(error))))


def forget() -> None:
    """Deletes the log, unless it is another user's: what it quotes may be of data that are deleted."""
    for path in (log_file(), _older()):
        with suppress(OSError):
            path.unlink()


def _written() -> str:
    return log_file().read_text(encoding="utf-8", errors="replace") if log_file().exists() else ""


def _append(entry: str) -> None:
    path = log_file()
    paths.made(path.parent)
    if path.exists() and path.stat().st_size > _LARGEST:
        path.replace(_older())
    with open(paths.opened(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8", errors="replace") as log:
        log.write(entry)


def _older() -> Path:
    return log_file().with_suffix(".log.1")
