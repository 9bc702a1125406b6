"""The same engine from a terminal: python -m dpcl_core …

Exit status: 0 done, 1 the run or the store failed, 2 the input was wrong (one line on standard error, no traceback).
`verify`: 0 all numbers match, 1 one differs, 2 one cannot be checked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from dpcl_core import checks
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.events import Event, JsonValue, Note, Progress, plain_number
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.audit import Audited
    from dpcl_core.runs.store import Run, Store
    from dpcl_core.runs.studies import Study
    from dpcl_core.tuning.settings import TuneSpec

Command = Callable[[argparse.Namespace], int]
Parser = argparse.ArgumentParser
Make = Callable[..., Parser]
_INPUT = ("wrong-input", "data-missing")  # failures that another input would mend


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise BadInput("command line", " ".join(sys.argv[1:]), f"{message} (see --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    try:
        options = _parser().parse_args(arguments)
        command: Command = options.command
        return command(options)
    except (BadInput, StoreTrouble) as error:
        print(_one_line(error), file=sys.stderr)
        return 2 if error.kind in _INPUT else 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader left (… | head); nothing is wrong
        return 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 1


def _parser() -> Parser:
    parser = _Parser(prog="python -m dpcl_core", description="Differentially private continual learning, from a terminal.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str, kept: str = "", make: Make = commands.add_parser) -> Parser:
        sub = make(name, help=text, description=text)
        sub.set_defaults(command=command)
        sub.add_argument("--json", action="store_true", help="print one JSON document")
        if kept:
            sub.add_argument("--device", help="cpu or cuda:N (default: the first GPU, else the CPU)")
            sub.add_argument("--store", metavar="URL", help=f"where {kept} are kept (default: DPCL_STORE, else the home)")
        return sub

    choices = ("methods", "datasets", "backbones", "scenarios", "presets")
    add("list", _list, "what can be chosen by name").add_argument("what", choices=choices)
    for name, command, text in (
        ("run", _run, "carry out a run and store it"),
        ("audit", _audit, "attack a method: a lower bound on its epsilon; status 1 where that exceeds the ledger's"),
    ):
        sub = add(name, command, text, kept="runs" if name == "run" else "")
        sub.add_argument("spec", nargs="?", metavar="SPEC.toml", help="settings as TOML")
        sub.add_argument("--preset", metavar="NAME", help="settings of a preset")
        sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting, TOML value")
        if name == "audit":
            sub.add_argument("--trials", type=int, help="releases on each side (default: what the attack needs)")
            several = (
                "which attack, where a method has several (default: the one that its runs are audited with); all: each; "
                "planted-codes: train the language model, and see what it tells of codes planted among its texts; "
                "inversion: which tokens are read from noisy embeddings"
            )
            sub.add_argument("--attack", metavar="NAME", help=several)
            once_more = "play a stored run's settings once more with examples of the audit's own, each there by a coin"
            sub.add_argument("--run", metavar="RUN_ID", help=once_more)
            sub.add_argument("--store", metavar="URL", help="where that run is kept (default: DPCL_STORE, else the home)")
    tune = add("tune", _tune, "search for learning rate, batch size and clipping norm", kept="trials")
    tune.add_argument("spec", nargs="?", metavar="SPEC.toml", help="settings as TOML, with one epsilon and one seed")
    tune.add_argument("--preset", metavar="NAME", help="settings of a preset")
    tune.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting, TOML value")
    tune.add_argument("--trials", type=int, help="trainings, each with settings of its own (default 20)")
    tune.add_argument("--on", choices=("public", "private"), help="private: on the data themselves, which is not accounted")
    tune.add_argument("--proxy", metavar="DATASET", help="the public dataset to tune on")
    tune.add_argument("--resume", metavar="STUDY_ID", help="go on with a tuning that was stopped, after the trials it has")
    again = add("reproduce", _reproduce, "a paper's experiments, with published values beside ours", kept="runs")
    again.add_argument("paper", metavar="PAPER", help="such as tobaben")
    again.add_argument("--experiment", metavar="NAME", help="one experiment (default: all)")
    size = again.add_mutually_exclusive_group()
    for form, what in (
        ("small", "a part of the data and a bundled network; minutes on two cores (default)"),
        ("bundled", "all data at hand and a bundled network, where there is such a preset"),
        ("full", "the paper's protocol"),
    ):
        size.add_argument(f"--{form}", dest="size", action="store_const", const=form, help=what)
    again.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every run")
    again.add_argument("--record", metavar="FILE", help="keep the figures of finished runs in a file, as the app shows them")
    for name, command, text in (
        ("show", _show, "a stored run or tuning"),
        ("export", _export, "a run's tables, figures and settings as files"),
    ):
        sub = add(name, command, text)
        sub.add_argument("run_id", metavar="RUN_ID")
        sub.add_argument("--store", metavar="URL")
        if name == "export":
            sub.add_argument("--to", required=True, metavar="DIR", help="folder to write into")
    add("verify", _verify, "recompute a privacy card by a second accountant").add_argument("card", metavar="CARD")
    add("runs", _runs, "all stored runs").add_argument("--store", metavar="URL")
    own = commands.add_parser("data", help="data of your own").add_subparsers(required=True, metavar="COMMAND")
    owned = add("check", _check_data, "what is public about them; for you alone, what is left out", make=own.add_parser)
    owned.add_argument("data", metavar="NAME_OR_PATH", help="its folder")
    owned.add_argument("--write-schema", action="store_true", help="write what is public as schema.toml beside the data")
    account = add("account", _account, "noise for a budget, budget for a noise; give two of epsilon, sigma, delta")
    for option in ("epsilon", "sigma", "delta"):
        account.add_argument(f"--{option}", type=float)
    account.add_argument("--sample-rate", type=float, default=1.0, help="Poisson sampling rate of a step (default 1)")
    account.add_argument("--steps", type=int, default=1, help="noisy steps, or releases of the same people (default 1)")
    account.add_argument("--accountants", action="store_true", help="what PLD, PRV and RDP each say, too (loads torch)")
    account.add_argument("--adjacency", choices=("add-remove", "replace"), default="add-remove")
    return parser


def _list(options: argparse.Namespace) -> int:
    from dpcl_core import listing

    rows = listing.rows(options.what)
    if options.json:
        _print_json(rows)
    else:
        width = max((len(str(row["name"])) for row in rows), default=0)
        for row in rows:
            missing = f"  (not here: {row['missing']})" if row.get("missing") else ""
            layer = f"  [{row['layer']}]" if row.get("layer") else ""
            print(f"{row['name']:<{width}}  {row['title']}{layer}{missing}")
    return 0


def _check_data(options: argparse.Namespace) -> int:
    from dpcl_core.data import owner

    print(owner.printed(options.data, with_schema=options.write_schema, as_json=options.json), end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    from dpcl_core import export
    from dpcl_core.runs.store import Store

    spec = _spec(options)
    checks.check(spec)
    store = Store(options.store)
    # A changed preset does not run under the preset's name: it may not even be the same data.
    run = _trained(store, spec, None if options.set else options.preset, options.device)
    if run.status == "finished" or options.json:
        events = [event for _, event in store.events_after(run.id)]
        if options.json:
            _print_json(export.document_of(store, run))
        else:
            print(export.accuracy_text(events, spec))
            print(export.leaks_text(events, spec) + export.privacy_text(events), end="")
    return _exit_status(run)


def _trained(store: Store, spec: RunSpec, name: str | None, device: str | None) -> Run:
    """The run, kept in the store and carried out in this process when its turn comes."""
    from dpcl_core.runs.worker import default_device

    run_id = store.create(spec, name=name, device=device or default_device())
    print(f"run {run_id}", file=sys.stderr)
    return _carried_out(store, run_id)


def _carried_out(store: Store, run_id: str) -> Run:
    """What the store has queued, carried out in this process when its turn comes; reports on standard error."""
    from dpcl_core.runs import worker

    reporter = _Reporter()
    worker.wait_for_device(store, run_id, reporter.queued)
    worker.carry_out(store, run_id, on_event=reporter)
    return store.get(run_id)


def _exit_status(run: Run) -> int:
    """What the command ends with for a run that is over; says why where it did not finish."""
    if run.status == "finished":
        return 0
    print(run.error or f"the run was {run.status}", file=sys.stderr)
    return 2 if run.error_kind in _INPUT else 1


def _reproduce(options: argparse.Namespace) -> int:
    from dpcl_core.papers import catalog, measured, report
    from dpcl_core.papers.paper import Size
    from dpcl_core.runs.store import Store

    paper, size = catalog.paper(options.paper), cast(Size, options.size or "small")
    chosen = [catalog.experiment(paper, options.experiment)] if options.experiment else list(paper.experiments)
    if options.record and options.set:
        raise BadInput("--record", options.record, "must stand without --set: a changed run is not the preset's")
    planned = report.planned(chosen, size, options.set, named=options.experiment is not None)
    for runs in planned.values():
        for spec in runs.values():
            checks.check(spec)
    store, status = Store(options.store), 0
    done = {experiment.name: dict[str, measured.Measured]() for experiment in planned}
    for experiment, runs in planned.items():
        for label, spec in runs.items():
            name = None if options.set else f"{experiment.preset(size)}: {label}"
            run = _trained(store, spec, name, options.device)
            status = max(status, _exit_status(run))
            if run.status == "finished":
                events = [event for _, event in store.events_after(run.id)]
                done[experiment.name][label] = measured.of_run(run, events)
    if options.record:
        measured.write(Path(options.record), paper.name, [run for runs in done.values() for run in runs.values()])
    if options.json:
        _print_json(report.document(paper, size, planned, done))
    else:
        print(report.text(paper, size, planned, done), end="")
    return status


class _Reporter:
    """Says on standard error how far a run is: a line for each task and phase, not one for each step."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            line = event.text if event.task is None else f"task {event.task + 1}: {event.text}"
            if line != self._last:
                print(line, file=sys.stderr, flush=True)
            self._last = line
        if isinstance(event, Note):
            print(f"{event.level}: {event.text}", file=sys.stderr, flush=True)

    def queued(self, place: int) -> None:
        line = f"waiting for the device: place {place} in the queue"
        if line != self._last:
            print(line, file=sys.stderr, flush=True)
        self._last = line


def _tune(options: argparse.Namespace) -> int:
    from dpcl_core.runs import worker
    from dpcl_core.runs.store import Store
    from dpcl_core.runs.studies import Studies
    from dpcl_core.tuning import settings

    tune = _tuning(options) if options.resume is None else None
    if tune is not None:
        settings.check(tune)
    elif options.set or any((options.spec, options.preset, options.trials, options.on, options.proxy)):
        raise BadInput("--resume", options.resume, "must stand without other settings: a tuning keeps those it has")
    store = Store(options.store)
    studies = Studies(store)
    if tune is not None:
        study_id = run_id = studies.create(tune, device=options.device or worker.default_device())
    else:
        study_id, run_id = options.resume, studies.resume(options.resume, device=options.device)
    print(f"tuning {study_id}", file=sys.stderr)
    reporter = _Reporter()
    with suppress(KeyboardInterrupt):  # its turn is then cancelled, and what is kept is told below
        worker.wait_for_device(store, run_id, reporter.queued)
        worker.carry_out(store, run_id, on_event=reporter)
    study = studies.get(study_id)
    _print_study(study, options.json)
    if study.is_resumable:
        kept = f"{len(study.trials)} of {study.tune.n_trials} trials are kept"
        print(f"{kept}; go on with: python -m dpcl_core tune --resume {study.id}", file=sys.stderr)
    return _exit_status(study.turn)


def _print_study(study: Study, as_json: bool) -> None:
    from dpcl_core.tuning import outcome

    if as_json:
        _print_json(outcome.document(study.id, study.turn.status, study.tune, study.sizes, study.trials))
    else:
        print(outcome.text(study.tune, study.sizes, study.trials), end="")


def _tuning(options: argparse.Namespace) -> TuneSpec:
    """The search that the command line describes."""
    from dpcl_core.tuning import settings

    if options.on is None and options.proxy is None:
        allowed = "say on which data: --proxy DATASET for a public one, or --on private, which no epsilon accounts for"
        raise BadInput("--on", "", allowed)
    raw = {"on": options.on or "public", "proxy": options.proxy, "base": _spec(options)}
    return settings.parse(raw if options.trials is None else {**raw, "n_trials": options.trials})


def _show(options: argparse.Namespace) -> int:
    from dpcl_core import export
    from dpcl_core.runs.store import Store
    from dpcl_core.runs.studies import Studies

    store = Store(options.store)
    run = store.get(options.run_id)
    study_id = Studies(store).of_run(run.id)
    if study_id is not None:
        _print_study(Studies(store).get(study_id), options.json)
        return 0
    if run.readable_spec is None:  # a newer version, or a method since removed, wrote it: show what can be shown
        _print_json({"run_id": run.id, "status": run.status, "spec": run.raw_spec, "error": run.spec_trouble})
        return 0
    events = [event for _, event in store.events_after(run.id)]
    if options.json:
        _print_json({**export.document_of(store, run), "error": run.error})
        return 0
    print(f"{run.id}  {run.name}  {run.status}" + (f"  {run.error}" if run.error else ""))
    print(checks.command_line(run.spec))
    print(export.accuracy_text(events, run.spec))
    print(export.leaks_text(events, run.spec) + export.privacy_text(events), end="")
    return 0


def _runs(options: argparse.Namespace) -> int:
    from dpcl_core.runs.store import Store

    runs = Store(options.store).list_runs()
    if options.json:
        _print_json(
            [
                {"run_id": run.id, "name": run.name, "status": run.status, "created": run.created, "error": run.error}
                for run in runs
            ]
        )
        return 0
    for run in runs:
        print(f"{run.id}  {run.status:<9}  {run.name}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from dpcl_core import export
    from dpcl_core.runs.store import Store

    folder = Path(options.to)
    files = export.bundle(Store(options.store), options.run_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadInput("--to", options.to, f"must be a folder that can be written: {error.strerror}") from error
    if options.json:
        _print_json({"run_id": options.run_id, "files": sorted(files)})
    else:
        print("\n".join(str(folder / name) for name in sorted(files)))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from dpcl_core.privacy import card

    try:
        content = Path(options.card).read_bytes()
    except OSError as error:
        raise BadInput("CARD", options.card, f"must be a file that can be read: {error.strerror}") from error
    found = card.verify(content)
    if options.json:
        _print_json(card.checked_document(found))
    else:
        print("\n".join([*map(card.sentence, found), card.SAID]))
    return card.exit_status(found)


def _account(options: argparse.Namespace) -> int:
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
        from dpcl_core.privacy import cross_check

        accounts = cross_check.accounts(
            answer.sigma, answer.delta, options.sample_rate, options.steps, options.adjacency
        )
        document["accountants"] = accounts.document()
    if options.json:
        _print_json(document)
    else:
        print("  ".join(f"{name} = {value}" for name, value in document.items() if name != "accountants"))
        if options.accountants:
            print(accounts.sentence())
    return 0


def _audit(options: argparse.Namespace) -> int:
    from dpcl_core.attacks import catalog as attacks
    from dpcl_core.methods.language import inverted
    from dpcl_core.runs import planted_codes

    spec = _spec(options) if options.run is None else _spec_of_run(options)
    if options.trials is not None and options.trials < 100:
        raise BadInput("--trials", options.trials, "must be at least 100")
    if options.run is not None:
        run, results = _audited_run(options)
        if run.status != "finished":
            return _exit_status(run)
    elif options.attack == planted_codes.NAME:
        results = planted_codes.audited(spec)
    elif options.attack == inverted.NAME:
        results = inverted.audited(spec, options.trials or attacks.TRIALS)
    else:
        own = attacks.fitting(spec)
        of_texts = [part.NAME for part in (planted_codes, inverted) if part.is_offered(spec)]
        if of_texts and options.attack not in (None, "all", *own):
            raise BadInput("--attack", options.attack, f"must be one of {', '.join([*own, *of_texts])}, all, or left out")
        named = own if options.attack == "all" else (options.attack,)
        trials = options.trials or attacks.trials(spec.method)
        played = [attacks.auditor(spec.method, attack)(spec, trials) for attack in named or (None,)]
        results = [result for results in played for result in results]
    if options.json:
        _print_json({"spec": json.loads(spec.model_dump_json()), "audits": [result.document() for result in results]})
    else:
        for result in results:
            print(result.sentence())
    if not any(result.exceeds for result in results):
        return 0
    print(f"{spec.method} tells more than its ledger says: do not release it, and report this", file=sys.stderr)
    return 1


def _audited_run(options: argparse.Namespace) -> tuple[Run, Sequence[Audited]]:
    """An audit of a stored run, kept in the store and carried out in this process when its turn comes; and its results."""
    from dpcl_core.runs.audits import Audits
    from dpcl_core.runs.store import Store

    audits = Audits(Store(options.store))
    audit_id = audits.create(options.run)
    _carried_out(audits.store, audit_id)
    found = audits.get(audit_id)
    return found.turn, found.results


def _spec_of_run(options: argparse.Namespace) -> RunSpec:
    """What a stored run was asked for. Raises BadInput for one that is not there, or beside settings of another."""
    from dpcl_core.runs.store import Store

    if options.set or any((options.spec, options.preset, options.attack, options.trials)):
        raise BadInput("--run", options.run, "must stand without other settings: the run's own are played")
    return Store(options.store).get(options.run).spec


def _spec(options: argparse.Namespace) -> RunSpec:
    from dpcl_core import presets

    if options.spec is not None and options.preset is not None:
        raise BadInput("command line", options.spec, "give either a SPEC.toml or --preset NAME, not both")
    raw: Mapping[str, object] = {}
    if options.preset is not None:
        raw = presets.raw(options.preset)
    elif options.spec is None:  # settings alone are a run, too: such commands are printed beside every result
        if not options.set:
            raise BadInput("command line", "", "give a SPEC.toml, --preset NAME, or settings as --set KEY=VALUE")
    else:
        try:
            raw = checks.read_toml(Path(options.spec).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput("SPEC.toml", options.spec, "must be a text file that can be read") from error
    return checks.parse(checks.apply_sets(raw, options.set))


def _print_json(document: object) -> None:
    json.dump(document, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
