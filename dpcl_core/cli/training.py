"""Commands that carry out runs: run, reproduce, tune, audit."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dpcl_core import checks, machine
from dpcl_core.cli import inputs, stopping
from dpcl_core.cli.inputs import asked_of, print_looks, spec_of, spec_of_stored
from dpcl_core.cli.output import print_json, print_study, put, results_alone, say
from dpcl_core.errors import INPUT, BadInput, DataMissing
from dpcl_core.events import Event, Note, Progress
from dpcl_core.spec import RunSpec, fields_of

if TYPE_CHECKING:
    from dpcl_core.privacy.audit_bounds import Audited
    from dpcl_core.runs.run import Run, Split
    from dpcl_core.runs.shards import Set
    from dpcl_core.runs.store import Store
    from dpcl_core.tuning.settings import TuneSpec

MOST_SHARDS = 1000
MOST_TRIALS = 10_000_000  # of an audit, on each side


def run(options: argparse.Namespace) -> int:
    """Carries out one run."""
    from dpcl_core.papers import measured

    spec = own_spec(options) if options.data is not None else spec_of(options)
    checks.check(spec)
    store = inputs.opened(options.store)
    if options.ceiling and not measured.is_tried(spec, store):
        wanted = measured.settings(spec)
        checks.check(wanted)
        first = trained(store, wanted, f"ceiling of {spec.method}", options.device, no_wait=options.no_wait)
        if status := exit_status(first):
            return status
    # A changed preset loses the preset's name: even the data may differ.
    name = None if options.set else options.preset
    return print_run(store, trained(store, spec, name, options.device, split_of(options), no_wait=options.no_wait), options)


def split_of(options: argparse.Namespace) -> Split | None:
    """In how many parts, by which executor and on which devices the command line wants a run; None: whole, here."""
    from dpcl_core.runs import executor
    from dpcl_core.runs.run import Split

    if options.shards is not None and not 1 <= options.shards <= MOST_SHARDS:
        raise BadInput("--shards", options.shards, f"must be from 1 to {MOST_SHARDS}")
    if options.executor is None and options.shards is None:
        return None
    name = executor.checked(options.executor or "local")
    device = options.device or executor.default_device(name)
    return Split(options.shards or executor.n_devices(name, device), name, device)


def resume(options: argparse.Namespace) -> int:
    """Goes on with a run; follows one that is under way already, and prints one that is finished."""
    from dpcl_core.runs import resumption

    # One that has just been killed is lost, and can be resumed at once.
    store = inputs.unlocked(lambda: inputs.checked_store(options.store))
    run = store.get_with_results(options.run_id)
    if run.is_over and run.status != "finished":
        try:
            inputs.unlocked(lambda: resumption.resume(store, run.id))
        except BadInput:
            run = store.get(run.id)  # somebody else may have resumed it since
            if run.is_over and run.status != "finished":
                raise
    if run.status != "finished":
        on_device(run.device)
        say_if_nobody_has(store, run.device)
        run = carried_out(store, run.id, no_wait=options.no_wait, is_mine=run.is_over)
    return print_run(store, run, options)


def print_run(store: Store, run: Run, options: argparse.Namespace) -> int:
    """Prints a run that has ended, as a document or in words; gives the exit status."""
    from dpcl_core import export
    from dpcl_core.papers import measured

    if options.json:
        print_json(export.document_of(store, run))
    elif run.status == "finished":
        put(export.text(store.events(run.id), run.spec, measured.known(run.spec, store=store)), end="")
        print_looks(store, run.spec)
    return exit_status(run)


def own_spec(options: argparse.Namespace) -> RunSpec:
    """The spec of a run on a file of the user's own, which is taken in first; prints what it assumes."""
    from dpcl_core import presets
    from dpcl_core.data import intake
    from dpcl_core.data.schema import Columns
    from dpcl_core.runs import administration

    if options.spec is not None or options.preset is not None:
        raise BadInput("--data", options.data, "cannot be combined with a SPEC.toml or --preset: change settings with --set")
    tell = say if options.json else put
    seen = administration.marks_kept(inputs.opened(options.store))
    with intake.named(options.data, asked_of(options), seen) as name:
        raw = presets.settings(name)
        if any(one.partition("=")[0].strip() == "scenario.kind" for one in options.set):
            del raw["scenario"]  # what is assumed of one kind of stream means something else in another
        spec = checks.parse(checks.apply_sets(raw, options.set))
        checks.check(spec)
        for sentence in presets.assumed(spec):
            tell(sentence)
    said = [f"--{role} {shlex.quote(named)}" for role in fields_of(Columns) if (named := getattr(options, role))]
    said += [f"--per-person {options.per_person}"] if options.per_person is not None else []
    said += ["--no-header" if options.first_line == "data" else "--header"] if options.first_line else []
    check = " ".join(["python -m dpcl_core data", shlex.quote(options.data), *said, "--write-schema"])
    tell(f"A schema makes the result better: {check} writes one to edit.")
    return spec


def print_set(ended: Set, store: Store, options: argparse.Namespace) -> int:
    """Prints the runs of a set that is over, as a list of documents or in words; gives the exit status."""
    from dpcl_core import export
    from dpcl_core.papers import measured

    if options.json:
        print_json([{"label": label, **export.document_of(store, run)} for label, run in ended.runs.items()])
    else:
        for label, run in ended.runs.items():
            if run.status == "finished":
                ceiling = measured.known(run.spec, store=store)
                put(f"{label}\n{export.text(store.events(run.id), run.spec, ceiling)}")
    say(ended.line())
    return max(exit_status(run) for run in ended.runs.values())


def trained(
    store: Store, spec: RunSpec, name: str | None, device: str | None, split: Split | None = None, *, no_wait: bool = False
) -> Run:
    """The finished run: put into the store's queue and carried out in this process, which waits for parts if it is split.

    The own process of such a run stays on this computer, whatever its parts ask for.
    """
    from dpcl_core.runs import process

    here = on_device(found_here(device)) if split is None else process.here(on_device(None))
    refuse_if_taken(store, here, no_wait)
    by = process.me() if process.fits(here, process.here(here)) else None  # another machine's run is carried out there
    run_id = inputs.unlocked(lambda: store.create(spec, name=name, device=here, split=split, attended_by=by))
    say(f"run {run_id}")
    if split is None or split.executor == "local":
        say_if_nobody_has(store, here if split is None else split.device)
    return carried_out(store, run_id, no_wait=no_wait)


def refuse_if_taken(store: Store, device: str, no_wait: bool) -> None:
    """Raises BadInput, for a command that is not to wait, where a run is under way on the device."""
    if no_wait:
        _refuse(store.ahead(device))


def _refuse(runs: Sequence[Run]) -> None:
    if taken := [run.runs_on for run in runs if run.status != "queued"]:
        raise BadInput("--no-wait", taken[0], f"is taken: {stopping.ahead(runs)}")


def found_here(asked: str | None) -> str | None:
    """The asked device. Raises BadInput for a graphics card of this computer that it does not have."""
    from dpcl_core.runs import process

    if asked is None:
        return None
    bare, is_elsewhere = process.bare(process.checked(asked)), asked.rpartition("/")[0] not in ("", process.machine())
    if bare != "cpu" and not is_elsewhere and bare not in (names := [device.name for device in process.found()]):
        allowed = f"must be a device of this computer: {', '.join(names)}; or one of another, such as NAME/cuda:0"
        raise BadInput("--device", asked, allowed)
    return asked


def say_if_nobody_has(store: Store, device: str) -> None:
    """Says that a run will wait, if no machine that looks after the store's queue has this device."""
    from dpcl_core.runs import executor, process

    present = [f"{name}/{one}" for name, names in executor.present_machines(store).items() for one in names]
    known = dict.fromkeys([*process.of_this_machine(device), *present])
    if not any(process.fits(device, one) for one in known):
        say(
            f"device {device}: no machine known to this store has it (known: {', '.join(known) or 'none'}); the run waits "
            "until python -m dpcl_core work is started, on the same store, on a machine that has it"
        )


def on_device(asked: str | None) -> str:
    """The device that was asked for, else the first graphics card, else the processor; hides all cards for the processor."""
    from dpcl_core.runs import process

    device = asked or process.default()
    if device == "cpu" and len(process.found()) > 1:
        process.hide_cards()
    return device


def carried_out(store: Store, run_id: str, *, no_wait: bool = False, is_mine: bool = True) -> Run:
    """Carries out a queued run in this process when its turn comes; reports progress on standard error.

    Ctrl-C and the like stop it, wherever it is carried out, unless it is somebody else's and only followed.
    """
    from dpcl_core.runs import worker

    reporter = Reporter(no_wait)
    try:
        with results_alone():
            run = worker.run_here(store, run_id, on_wait=reporter.queued, on_event=reporter)
    except KeyboardInterrupt:
        if is_mine:
            store.request_stop(run_id)
        stopping.say_how_to_go_on(store, run_id)
        raise
    if run.status == "cancelled":
        stopping.say_how_to_go_on(store, run_id)
    return run


def exit_status(run: Run) -> int:
    """The exit status for a run that has ended; prints the reason if it did not finish."""
    if run.status == "finished":
        return 0
    say(run.error or f"the run was {run.status}")
    return 2 if run.error_kind in INPUT else 1


class Reporter:
    """Prints the progress of a run on standard error: one line per task and phase, not per step. `no_wait`: see `queued`."""

    def __init__(self, no_wait: bool) -> None:
        self._no_wait, self._last, self._waits = no_wait, "", list[str]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._say_once(event.text if event.task is None else f"task {event.task + 1}: {event.text}")
        if isinstance(event, Note):
            say(f"{event.level}: {event.text}")

    def queued(self, runs: Sequence[Run]) -> None:
        """Says what a run waits for, again when that has changed. Raises BadInput where it must not wait."""
        if self._no_wait:
            _refuse(runs)
        if (waits := [run.id for run in runs]) != self._waits:
            self._waits = waits
            say(f"waiting for the device: {stopping.ahead(runs)}")

    def _say_once(self, line: str) -> None:
        if line != self._last:
            say(line)
        self._last = line


def reproduce(options: argparse.Namespace) -> int:
    from dpcl_core.papers import catalog, measured, report
    from dpcl_core.papers.paper import Size

    paper, size = catalog.paper(options.spec), cast(Size, options.size or "small")
    chosen = [catalog.experiment(paper, options.experiment)] if options.experiment else list(paper.experiments)
    if options.record and options.set:
        raise BadInput("--record", options.record, "cannot be combined with --set: a changed run is not the preset's")
    planned = report.planned(chosen, size, options.set, named=options.experiment is not None)
    for runs in planned.values():
        for spec in runs.values():
            checks.check(spec)
    store, status = inputs.opened(options.store), 0
    done = {experiment.name: dict[str, measured.Measured]() for experiment in planned}
    for experiment, runs in planned.items():
        for label, spec in runs.items():
            name = None if options.set else f"{experiment.preset(size)}: {label}"
            run = trained(store, spec, name, options.device, no_wait=options.no_wait)
            status = max(status, exit_status(run))
            if run.status == "cancelled":  # Ctrl-C counts for all
                return status
            if run.status == "finished":
                events = store.events(run.id)
                done[experiment.name][label] = measured.stamped(measured.of_run(run, events))
                if options.record:  # at once: what is recorded stays when a later run is stopped
                    measured.write(Path(options.record), paper.name, [done[experiment.name][label]])
    if options.json:
        print_json(report.document(paper, size, planned, done))
    else:
        put(report.text(paper, size, planned, done), end="")
    return status


def tune(options: argparse.Namespace) -> int:
    from dpcl_core.runs import worker
    from dpcl_core.runs.audits import Studies
    from dpcl_core.tuning import settings

    if missing := machine.lacking(("optuna",)):
        raise DataMissing("command line", "tune", missing)
    tune = tuning(options) if options.resume is None else None
    if tune is not None:
        settings.check(tune)
    elif options.set or any((options.spec, options.preset, options.trials, options.on, options.proxy)):
        raise BadInput("--resume", options.resume, "cannot be combined with other settings: a tuning keeps its own")
    store = inputs.opened(options.store)
    studies = Studies(store)
    if tune is not None:
        refuse_if_taken(store, device := on_device(found_here(options.device)), options.no_wait)
        study_id = run_id = inputs.unlocked(lambda: studies.create(tune, device=device))
    else:
        asked = found_here(options.device)
        study_id, run_id = options.resume, inputs.unlocked(lambda: studies.resume(options.resume, device=asked))
    say(f"tuning {study_id}")
    reporter = Reporter(options.no_wait)
    with suppress(KeyboardInterrupt):  # the run is then cancelled, and the kept trials are reported below
        worker.wait_for_device(store, run_id, reporter.queued)
        worker.carry_out(store, run_id, on_event=reporter, executor=worker.of_command(store, run_id))
    study = studies.get(study_id)
    print_study(study, options.json)
    if study.is_resumable:
        kept = f"{len(study.trials)} of {study.tune.n_trials} trials are kept"
        say(f"{kept}; continue with: python -m dpcl_core tune --resume {study.id}")
    return exit_status(study.turn)


def tuning(options: argparse.Namespace) -> TuneSpec:
    """The tuning that the command line describes."""
    from dpcl_core.tuning import settings

    if options.on is None and options.proxy is None:
        allowed = "give the data to tune on: --on DATASET for a public set, or --on private, which no epsilon covers"
        raise BadInput("--on", "", allowed)
    on, proxy = options.on or "public", options.proxy
    if on not in ("public", "private"):
        on, proxy = "public", on
    raw = {"on": on, "proxy": proxy, "base": spec_of(options)}
    return settings.parse(raw if options.trials is None else {**raw, "n_trials": options.trials})


def audit(options: argparse.Namespace) -> int:
    from dpcl_core.attacks import catalog as attacks
    from dpcl_core.attacks import token_noise_games
    from dpcl_core.methods import catalog as methods
    from dpcl_core.runs import audits as runs_audits
    from dpcl_core.runs import charges

    on_device("cpu")
    inputs.resolve_target(options)
    spec = spec_of(options) if options.run is None else spec_of_stored(options)
    if options.trials is not None and not 100 <= options.trials <= MOST_TRIALS:
        raise BadInput("--trials", options.trials, f"must be from 100 to {MOST_TRIALS:,}")
    if options.run is not None:
        run, results = audited_run(options)
        if run.status != "finished":
            return exit_status(run)
    elif options.attack == runs_audits.NAME:
        charges.check_at_start(inputs.opened(options.store), spec, "numbers")
        results = runs_audits.audited(spec)
    elif options.attack == token_noise_games.INVERSION:
        results = token_noise_games.inversion_audited(spec, options.trials or attacks.TRIALS)
    else:
        attack_names = attacks.fitting(spec)
        text_audits = [runs_audits.NAME] if runs_audits.is_offered(spec) else []
        text_audits += [token_noise_games.INVERSION] if methods.card(spec.method).noises_embeddings(spec.params) else []
        if text_audits and options.attack not in (None, "all", *attack_names):
            raise BadInput(
                "--attack", options.attack, f"must be one of {', '.join([*attack_names, *text_audits])}, all, or left out"
            )
        named = attack_names if options.attack == "all" else (options.attack,)
        trials = options.trials or attacks.audit_of(spec.method).trials
        audits = [attacks.auditor(spec.method, attack)(spec, trials) for attack in named or (None,)]
        results = [result for results in audits for result in results]
    if options.json:
        print_json({"spec": spec.jsonable(), "audits": [result.document() for result in results]})
    else:
        for result in results:
            put(result.sentence())
    if not any(result.exceeds for result in results):
        return 0
    say(f"{spec.method} leaks more than its ledger accounts for: do not release it, and report this")
    return 1


def audited_run(options: argparse.Namespace) -> tuple[Run, Sequence[Audited]]:
    """Audits a stored run in this process, through the store's queue; returns the audit's run and its results."""
    from dpcl_core.runs.audits import Audits

    audits = Audits(inputs.opened(options.store))
    refuse_if_taken(audits.store, "cpu", options.no_wait)
    audit_id = inputs.unlocked(lambda: audits.create(options.run))
    carried_out(audits.store, audit_id, no_wait=options.no_wait)
    audit = audits.get(audit_id)
    return audit.turn, audit.results
