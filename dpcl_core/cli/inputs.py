"""What a command is given: settings, columns of a file, and a store that may be away for a while; and a run's result."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from dpcl_core import checks, paths, presets
from dpcl_core.cli.output import one_line, say
from dpcl_core.data.intake import Asked
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput, StoreLocked, StoreTrouble, StoreUnknown, StoreUnusable, unknown
from dpcl_core.runs import administration, database
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec, fields_of

T = TypeVar("T")
_OF_A_FILE = ("target", "text", "source", "person", "time", "per_person", "header", "private")  # options beside --data


def resolve_target(options: argparse.Namespace) -> None:
    """Takes a command's first argument for what it names: a preset, own data, a stored run; else a file of settings.

    Raises BadInput for a name that is none of these.
    """
    target = options.spec
    if target is None or options.preset is not None:
        return
    path = Path(target)
    if target in presets.known():
        options.preset, options.spec = target, None
    elif hasattr(options, "data") and options.data is None and path.suffix not in ("", ".toml") and path.exists():
        options.data, options.spec = target, None
    elif hasattr(options, "run") and re.fullmatch("[0-9a-f]{12}", target) and not path.exists():
        options.run, options.spec = target, None
    elif re.fullmatch(r"[\w-]+", target) and not path.exists():
        raise unknown("TARGET", target, presets.names(), ", a paper (tobaben, lifelong, pecl, cslr) or a file")


def spec_of(options: argparse.Namespace) -> RunSpec:
    """The settings that a command line describes. Raises BadInput."""
    resolve_target(options)
    if named := [role for role in _OF_A_FILE if getattr(options, role, None) not in (None, [])]:
        raise BadInput("command line", f"--{named[0].replace('_', '-')}", "is said of a file: give --data PATH, too")
    if options.spec is not None and options.preset is not None:
        raise BadInput("command line", options.spec, "give either a file of settings or a preset, not both")
    raw: Mapping[str, object] = {}
    if options.preset is not None:
        raw = presets.raw(options.preset, here=True)
    elif options.spec is None:  # settings alone are enough: the command printed with every result has only these
        if not options.set:
            raise BadInput("command line", "", "give a preset, a SPEC.toml, your data, or settings as --set KEY=VALUE")
    else:
        try:
            raw = checks.read_toml(paths.read_file(Path(options.spec), "SPEC.toml").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadInput("SPEC.toml", options.spec, "must be a text file that can be read") from error
    return checks.parse(checks.apply_sets(raw, options.set))


def asked_of(options: argparse.Namespace) -> Asked:
    """What the command line says of the columns of a file."""
    columns = Columns(**{role: getattr(options, role) for role in fields_of(Columns)})
    first_line: Literal["names", "data"] | None = None if options.header is None else "names" if options.header else "data"
    return Asked(columns, options.per_person, first_line, private=tuple(options.private))


def open_store(url: str | None) -> Store:
    """The store, once it can be opened; of one that `--store` names a mistyped path makes none.

    Raises StoreTrouble at once where no waiting helps.
    """
    database.check_there(url)
    return unlocked(lambda: Store(url), StoreTrouble)


def unlocked(act: Callable[[], T], passing: type[StoreTrouble] = StoreLocked) -> T:
    """The result of `act`, which is called again while another program keeps the store locked.

    Any other trouble is raised at once: it may have come after what was written, and would then be written twice.
    """
    lasting = (StoreUnknown, StoreUnusable)
    return Patience().outlast(
        act, passing=passing, lasting=lasting, tell=lambda trouble: say(f"waiting for the store: {one_line(trouble)}")
    )


def result_text(store: Store, run: Run) -> str:
    """The result of a stored run in words; of one on a person's own data also how often these were used so far."""
    from dpcl_core import export, results

    return export.result_text(results.of_run(store, run)) + administration.sentence(store, run.spec.data.dataset)


def checked_store(url: str | None) -> Store:
    """The store, after a look for runs whose process is gone and for results that a dead process has left in a file."""
    database.check_there(url)
    store = Store(url)
    with suppress(StoreTrouble):  # one that can only be read is read as it is
        LocalExecutor(store).settle()
    return store
