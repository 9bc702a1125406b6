"""Output of the commands."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING

from dpcl_core.unforeseen import printable

if TYPE_CHECKING:
    from dpcl_core.runs.audits import Study

_ESCAPED = "dpcl-escaped"


def printable_anywhere() -> None:
    """From now on a character that the terminal's encoding lacks is printed as \\uXXXX, which in JSON is the same text."""
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where somebody else's object takes what is printed
            stream.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def is_unwritable() -> bool:
    """Whether standard output takes no more, such as on a full disk; what waits to be written is then given up."""
    try:
        print(end="", flush=True)
    except OSError:
        give_up()
        return True
    return False


def give_up() -> None:
    """Lets go of what standard output did not take, which Python would try to write again at its end."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # ValueError: no file lies behind it
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def put(text: str, *, end: str = "\n") -> None:
    """Prints on standard output. All that commands print comes here or to `say`: no text of a file commands the terminal."""
    print(printable(text), end=end)


def print_json(document: object) -> None:
    put(json.dumps(document, ensure_ascii=False, allow_nan=False))  # whole: half a document is none


@contextmanager
def results_alone() -> Iterator[None]:
    """Sends to standard error what libraries print meanwhile, so that standard output has results alone."""
    with redirect_stdout(sys.stderr):
        yield


def one_line(said: object) -> str:
    """The text of an error or another value, of which no part can pass for a line of its own."""
    return " ".join(str(said).split())


def print_study(study: Study, as_json: bool) -> None:
    from dpcl_core.tuning import search

    if as_json:
        print_json(search.document(study.id, study.turn.status, study.tune, study.sizes, study.trials))
    else:
        put(search.text(study.tune, study.sizes, study.trials), end="")


def say(line: str) -> None:
    """Prints a line on standard error; if nobody reads it (`... 2>&1 | head`, a closed terminal), the command continues."""
    try:
        print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (later lines need an open file)
