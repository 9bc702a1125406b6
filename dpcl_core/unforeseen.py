"""Errors that nobody foresaw: one sentence for whoever meets them, and the traceback under its number in a log."""

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from textwrap import indent
from urllib.parse import unquote

from dpcl_core import paths

# Text without secrets and without what commands a terminal: the one place that decides what either is.


MASK = "***"
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*(?:@|%40)")  # up to the last @: a password may contain one
# The same without `://`, as in an address that was mistyped. Times, and addresses of mail behind `mailto:`, are none.
_BARE_PASSWORD = re.compile(r"(?<![\w.%+-])((?!mailto:|\d+:)[\w.%+-]+:)[^:@\s/]+@(?=[\w\[])")
_SETTING = re.compile(r"(?i)(?<![?&;])\b(password\s*=\s*)('(?:\\.|[^'\\])*'|\S+)")  # as PostgreSQL's own programs write it
_NAMES_A_SECRET = "pass|secret|key|token"
_PARAMETER = re.compile(rf"(?i)([?&;][^=&;\s]*(?:{_NAMES_A_SECRET})[^=&;\s]*=)[^&;\s]*")  # of an address, behind the name
_SHOWN = (
    (_PASSWORD, rf"\1{MASK}@"), (_BARE_PASSWORD, rf"\1{MASK}@"), (_PARAMETER, rf"\1{MASK}"), (_SETTING, rf"\1{MASK}"),
)  # fmt: skip
_VARIABLE = re.compile(f"(?i){_NAMES_A_SECRET}|password")
_STORE = "DPCL_STORE"
# Control characters but tab and line feed, those above ASCII, and those that turn the direction of writing.
_COMMAND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SHORTEST = 8  # of a variable's value: a shorter one is no secret worth the name, and may be a word of any text


def masked(text: str) -> str:
    """The text without passwords in addresses, parameters that are called secret, and this process's own secrets."""
    for secret in _own():
        text = text.replace(secret, MASK)
    for pattern, shown in _SHOWN:
        text = pattern.sub(shown, text)
    return text


def printable(text: str) -> str:
    """The text with \\uXXXX, which in JSON is the same text, in the place of every character that commands a terminal.

    Foreign files bring such characters along, which could rewrite what is on the screen.
    """
    return _COMMAND.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def is_secret(parameter: str) -> bool:
    """Whether a parameter of an address has a secret for its value, by its name."""
    return _PARAMETER.match(f"?{parameter}=") is not None


def _own() -> Iterator[str]:
    """The password of the store, and what is called secret in the environment and by logins, longest first."""
    named = [*os.environ.items(), *_of_logins()]
    found = {value for name, value in named if _VARIABLE.search(name) and len(value) >= _SHORTEST}
    store = os.environ.get(_STORE, "")
    if address := re.match(r"(?:[\w+.-]+:(?=/))?+/*+[^:/@\s]*:(.*)@", store):  # however many slashes it has
        found |= {address[1], unquote(address[1])}
    found |= {setting[2].strip("'") for setting in _SETTING.finditer(store)}
    yield from sorted(filter(None, found), key=len, reverse=True)


def _of_logins() -> Iterator[tuple[str, str]]:
    """The settings in the files where Streamlit looks for the secrets of logins, by name."""
    for folder in (Path.home(), Path.cwd(), paths.app_file().parent):
        with suppress(OSError, ValueError):  # there is none, or none that a login could use
            yield from _texts(tomllib.loads((folder / ".streamlit" / "secrets.toml").read_text(encoding="utf-8")))


def _texts(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            yield from _texts(value)


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
    import traceback

    number, lines, path = os.urandom(4).hex(), traceback.extract_tb(error.__traceback__), log_file()
    at = sha256(repr((type(error), sorted({(one.filename, one.lineno) for one in lines}))).encode()).hexdigest()[:8]
    try:
        there = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if len(known := re.findall(rf"^error (\w+), .*, at {at}$", there, re.MULTILINE)) >= _OFTEN:
            number = known[-1]
        else:
            paths.make_folder(path.parent)
            if path.exists() and path.stat().st_size > _LARGEST:
                path.replace(_older())
            with open(paths.open_file(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8", errors="replace") as log:
                log.write(f"error {number}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, at {at}\n")
                log.write(f"{indent(trace(error), ' ')}\n")
    except OSError:
        say(f"error {number}\n{trace(error)}")
        return f"The program itself went wrong; what happened is on the server's standard error as error {number}."
    place = path.relative_to(paths.home())
    return f"The program itself went wrong; what happened is in {place} of its home folder as error {number}."


def say(text: str) -> None:
    """Writes to standard error, which may be a log on a disk that is full: that ends no run."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)


def trace(error: BaseException) -> str:
    """The traceback of an error without secrets and without what commands a terminal, on which a log is read, too."""
    import traceback  # for errors alone: even `--version` would load it

    return printable(masked("".join(traceback.format_exception(error))))


def forget() -> None:
    """Deletes the log, unless it is another user's: what it quotes may be of data that are deleted."""
    for path in (log_file(), _older()):
        with suppress(OSError):
            path.unlink()


def _older() -> Path:
    return log_file().with_suffix(".log.1")
