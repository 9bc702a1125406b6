"""The commands of a run whose clients are processes of their own."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpcl_core import checks, packages
from dpcl_core.cli.output import print_json, put, say
from dpcl_core.cli.settings import spec_of
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from dpcl_core.flower.processes import Tls


def split(options: argparse.Namespace) -> int:
    """Writes the parts of a run: one folder for the server, one for each client."""
    from dpcl_core import engine
    from dpcl_core.cli import waiting
    from dpcl_core.events import Event
    from dpcl_core.flower import participant
    from dpcl_core.runs import budgets

    spec, said, target = spec_of(options), list[Event](), Path(options.to)
    participant.refuse(spec)
    budgets.check(waiting.opened(None), spec, "numbers")  # what real clients release is in no store
    checks.check(spec)
    opening = engine.opened(spec)
    while True:
        try:
            said.append(next(opening))
        except StopIteration as ended:
            opened = ended.value
            break
    parts = participant.parts(spec, opened, said)
    folders = [target / ("server" if part.number is None else f"client-{part.number}") for part in parts]
    for part, folder in zip(parts, folders, strict=True):
        participant.write(part, folder)
    if options.json:
        print_json({"server": str(folders[0]), "clients": [str(folder) for folder in folders[1:]]})
    else:
        put(f"{folders[0]}: settings, public facts and test examples")
        put(f"{folders[1]} to {folders[-1].name}: each client's own examples and key, for it alone")
    return 0


def server(options: argparse.Namespace) -> int:
    """Carries out the run with the clients that join, and prints its result."""
    from dpcl_core import export
    from dpcl_core.flower import outcome, participant, processes

    _prepare()
    folder = Path(options.folder)
    part = participant.read(folder)
    if part.number is not None:
        raise BadInput("folder", options.folder, f"is client {part.number}'s: give the server's")
    given = (options.authority, options.certificate, options.key)
    if any(given) and not all(given):
        raise BadInput("--certificate", options.certificate or "", "goes with --key and --authority: give all three or none")
    tls = None if options.authority is None else processes.Tls(*(Path(path).resolve() for path in given))
    processes.serve(folder, options.address, tls, options.wait, options.patience, say)
    reason, events = outcome.failure(folder), outcome.events(folder)
    if options.json:
        status = "finished" if reason is None else "failed"
        print_json(export.document(folder.resolve().parent.name, status, part.spec, events))
    elif reason is None:
        put(export.text(events, part.spec), end="")
    if reason is not None:
        say(reason)
    return 0 if reason is None else 1


def client(options: argparse.Namespace) -> int:
    """Answers a server until it ends the run."""
    from dpcl_core.flower import participant, processes

    _prepare()
    folder = Path(options.folder)
    part = participant.read(folder)
    if part.number is None:
        raise BadInput("folder", options.folder, "is the server's: give a client's")
    tls: Tls | None = None if options.authority is None else processes.Tls(Path(options.authority).resolve())
    processes.join(folder, options.server, tls, options.patience)
    if options.json:
        print_json({"client": part.number, "status": "finished"})
    else:
        put(f"client {part.number}: the server has ended the run")
    return 0


def _prepare() -> None:
    if missing := packages.lacking(["flwr"]):
        raise BadInput("command", "flower", f"{missing}, in an environment of its own (docs/guides/real_clients.md)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a stop from outside ends Flower's processes, too
