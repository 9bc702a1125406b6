"""Output of the commands."""

import argparse
import codecs
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

from dpcl_core.unforeseen import printable

_ESCAPED = "dpcl-escaped"


def printable_anywhere() -> None:
    """From now on a character that the terminal's encoding lacks is printed as \\uXXXX, which in JSON is the same text."""

    def escaped(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error(_ESCAPED, escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where somebody else's object takes what is printed
            stream.reconfigure(errors=_ESCAPED)


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


def put(text: str) -> None:
    """Prints lines on standard output. All that commands print comes here or to `say`: no text of a file commands the
    terminal.
    """
    print(printable(text.removesuffix("\n")))


def put_json(document: object) -> None:
    """Prints one JSON document, whole: half a document is none."""
    put(json.dumps(document, ensure_ascii=False, allow_nan=False))


def put_result(options: argparse.Namespace, document: object, text: str) -> None:
    """Prints a command's result: as JSON if the options ask for it, else the text, if there is any."""
    if options.json:
        put_json(document)
    elif text:
        put(text)


@contextmanager
def results_alone() -> Iterator[None]:
    """Sends to standard error what libraries print meanwhile, so that standard output has results alone."""
    with redirect_stdout(sys.stderr):
        yield


def one_line(said: object) -> str:
    """The text of an error or another value, with line breaks as blanks: no part of it can pass for a line of its own."""
    return " ".join(str(said).split())


def say(line: str) -> None:
    """Prints a line on standard error; if nobody reads it (`... 2>&1 | head`, a closed terminal), the command continues."""
    try:
        print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (later lines need an open file)
