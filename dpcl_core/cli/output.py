"""Output of the commands."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dpcl_core import checks, paths
from dpcl_core.errors import BadInput, StoreLocked, StoreTrouble, StoreUnknown, StoreUnusable
from dpcl_core.runs import database
from dpcl_core.runs.process import Patience
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from dpcl_core.unforeseen import printable

if TYPE_CHECKING:
    from dpcl_core.data.intake import Asked
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


def print_looks(store: Store, spec: RunSpec) -> None:
    """Prints how often a person's own data were used so far; nothing for public data."""
    from dpcl_core.runs import administration

    if line := administration.sentence(store, spec.data.dataset):
        put(line)


def say(line: str) -> None:
    """Prints a line on standard error; if nobody reads it (`... 2>&1 | head`, a closed terminal), the command continues."""
    try:
        print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (later lines need an open file)


# The settings that a command line describes.


_OF_A_FILE = ("target", "text", "source", "person", "time", "per_person", "first_line", "private")  # options beside --data


def spec_of(options: argparse.Namespace) -> RunSpec:
    from dpcl_core import presets

    if named := [role for role in _OF_A_FILE if getattr(options, role, None) not in (None, [])]:
        option = "header" if named[0] == "first_line" else named[0].replace("_", "-")
        raise BadInput("command line", f"--{option}", "is said of a file: give --data PATH, too")
    if options.spec is not None and options.preset is not None:
        raise BadInput("command line", options.spec, "give either a SPEC.toml or --preset NAME, not both")
    raw: Mapping[str, object] = {}
    if options.preset is not None:
        raw = presets.raw_startable(options.preset)
    elif options.spec is None:  # settings alone are enough: the command printed with every result has only these
        if not options.set:
            raise BadInput("command line", "", "give a SPEC.toml, --preset NAME, or settings as --set KEY=VALUE")
    else:
        try:
            raw = checks.read_toml(paths.read_file(Path(options.spec), "SPEC.toml").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadInput("SPEC.toml", options.spec, "must be a text file that can be read") from error
    return checks.parse(checks.apply_sets(raw, options.set))


def asked_of(options: argparse.Namespace) -> Asked:
    """What the command line says of the columns of a file."""
    from dpcl_core.data.intake import Asked
    from dpcl_core.data.schema import Columns

    columns = Columns(**{role: getattr(options, role) for role in Columns.model_fields})
    return Asked(columns, options.per_person, options.first_line, private=tuple(options.private))


def spec_of_stored(options: argparse.Namespace) -> RunSpec:
    """The spec of a stored run. Raises BadInput for an unknown run, or if other settings are given too."""

    if options.set or any((options.spec, options.preset, options.attack, options.trials)):
        raise BadInput("--run", options.run, "cannot be combined with other settings: the audit uses the run's own")
    return opened(options.store).get_with_results(options.run).spec


# Waiting for a store that is away for a while, said once.


T = TypeVar("T")


def opened(url: str | None) -> Store:
    """The store, once it can be opened; of one that `--store` names a mistyped path makes none.

    Raises StoreTrouble at once where no waiting helps.
    """
    database.check_there(url)
    return _outlasted(lambda: Store(url), StoreTrouble)


def unlocked(act: Callable[[], T]) -> T:
    """The result of `act`, which is called again while another program keeps the store locked.

    Any other trouble is raised at once: it may have come after what was written, and would then be written twice.
    """
    return _outlasted(act, StoreLocked)


def _outlasted(act: Callable[[], T], passing: type[StoreTrouble]) -> T:
    """The result of `act`, once troubles of this kind have passed."""
    is_said = False

    def tried() -> tuple[T] | StoreTrouble:
        nonlocal is_said
        try:
            return (act(),)
        except (StoreUnknown, StoreUnusable) as lasting:
            return lasting
        except StoreTrouble as trouble:
            if not isinstance(trouble, passing):
                return trouble
            if not is_said:
                say(f"waiting for the store: {one_line(trouble)}")
            is_said = True
            raise

    found = Patience().outlast(tried)
    if isinstance(found, StoreTrouble):
        raise found
    return found[0]
