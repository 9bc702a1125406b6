"""Commands that carry out runs: run, resume, work, tune, audit."""

import argparse
import itertools
import shlex
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

from dpcl_core import checks, machine, presets
from dpcl_core.cli import common
from dpcl_core.cli.common import asked_of, checked_store, open_store, resolve_target, result_text, spec_of, unlocked
from dpcl_core.cli.output import one_line, put, put_json, put_result, results_alone, say
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.papers import measured
from dpcl_core.runs import administration, audits, executor, process, resumption, worker
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.run import Run, Split
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec, fields_of
from dpcl_core.tuning import settings

MOST_SHARDS = 1000
MOST_TRIALS = 10_000_000  # of an audit, on each side


def run(options: argparse.Namespace) -> int:
    """Carries out the experiments of a paper, a grid or every run of a preset, or one run."""
    if options.spec in measured.papers() or options.on is not None:
        for option in ("all", "over", "ceiling", "executor", "shards", "data", "preset"):
            if getattr(options, option) not in (None, False, []):
                raise BadInput(f"--{option}", options.spec, "cannot be combined with a paper, which says what runs")
        return _reproduce(options) if options.on is None else _on_other_data(options)
    resolve_target(options)
    if beside := [name for name in ("experiment", "size", "record") if getattr(options, name) is not None]:
        raise BadInput(f"--{beside[0]}", getattr(options, beside[0]), "goes with a paper, such as tobaben")
    return _sweep(options) if options.all or options.over else _run_one(options)


def _run_one(options: argparse.Namespace) -> int:
    """Carries out one run, after its ceiling if that is asked for and not known."""
    spec = own_spec(options) if options.data is not None else spec_of(options)
    checks.check_run(spec)
    store = open_store(options.store)
    if options.ceiling and not measured.is_tried(spec, store):
        wanted = measured.settings(spec)
        checks.check_run(wanted)
        first = common.carry_out(store, wanted, f"ceiling of {spec.method}", options.device, no_wait=options.no_wait)
        if status := common.exit_status(first):
            return status
    # A changed preset loses the preset's name: even the data may differ.
    name = None if options.set else options.preset
    run = common.carry_out(store, spec, name, options.device, _split(options), no_wait=options.no_wait)
    return _put_run(store, run, options)


def _split(options: argparse.Namespace) -> Split | None:
    """In how many parts, by which executor and on which devices the command line wants a run; None: whole, here."""
    if options.shards is not None and not 1 <= options.shards <= MOST_SHARDS:
        raise BadInput("--shards", options.shards, f"must be from 1 to {MOST_SHARDS}")
    if options.executor is None and options.shards is None:
        return None
    name = executor.checked(options.executor or "local")
    device = options.device or executor.default_device(name)
    return Split(options.shards or executor.n_devices(name, device), name, device)


def _sweep(options: argparse.Namespace) -> int:
    """Carries out a grid of settings, or every run of a preset, as one entry of the queue; a stop ends all of them."""
    from dpcl_core import export
    from dpcl_core.papers import questions

    if options.ceiling or options.data is not None:
        raise BadInput("--all" if options.all else "--over", "", "cannot be combined with your data or --ceiling")
    specs = specs_of(options)
    for spec in specs.values():
        checks.check_run(spec)
    wanted = _split(options) or Split(1, "local", options.device or executor.default_device("local"))
    # Whoever looks at the queue carries out the parts: the executor's workers are on their machines already.
    split = Split(options.shards, "local", wanted.device) if options.shards else None
    store, patience = open_store(options.store), process.Patience()
    sets, ids = Sets(store), set[str]()
    # What it starts here ends with it; on other machines, with a stop.
    starts = executor.executor_for(wanted.executor, store, local=LocalExecutor(store, own=lambda run: run.id in ids))
    common.refuse_if_taken(store.ahead(wanted.device), options.no_wait)
    cheap = questions.cheapest_first(specs, store, wanted.device)
    titles = None if options.over else questions.question_names(specs)  # what varies names the runs of a grid
    name = options.preset or "sweep"
    set_id = unlocked(lambda: sets.create(name, cheap, device=wanted.device, split=split, titles=titles))
    say(f"set {set_id}: {len(specs)} runs")
    ids |= {run.id for run in sets.get(set_id).runs.values()}
    if wanted.executor == "local":
        common.say_if_nobody_has(store, wanted.device)
    line = ""
    try:
        with results_alone():
            while not (now := patience.outlast(lambda: sets.get(set_id))).is_over:
                patience.outlast(starts.schedule)
                if now.line() != line:
                    line = now.line()
                    say(line)
                time.sleep(executor.PAUSE_SECONDS)
    except KeyboardInterrupt:
        sets.request_stop(set_id)
        say(f"set {set_id} is broken off: dpcl resume RUN_ID goes on with one of its runs, which dpcl runs lists")
        raise
    if options.json:
        put_json([{"label": label, **export.document_of(store, run)} for label, run in now.runs.items()])
    else:
        for label, run in now.runs.items():
            if run.status == "finished":
                put(f"{label}\n{result_text(store, run)}\n")
    say(now.line())
    return max(common.exit_status(run) for run in now.runs.values())


def specs_of(options: argparse.Namespace) -> dict[str, RunSpec]:
    """Every combination of the settings that vary; of a preset of which none do, its own runs."""
    grid = {}
    for text in options.over:
        key, _, listed = text.partition("=")
        values = checks.read_value(listed)
        if not isinstance(values, list) or not values:
            raise BadInput("--over", text, "must be KEY=[VALUE, ...], values as in TOML")
        grid[key.strip()] = values
    if not grid:
        if options.preset is None or options.spec is not None:
            raise BadInput("--all", "", "needs a preset, or settings that vary: --over 'KEY=[VALUE, ...]'")
        return presets.variants(options.preset, options.set, here=True)
    raw: Mapping[str, object] = asdict(spec_of(options))
    found = {}
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        spec = checks.parse(checks.changed(raw, chosen))  # before its label: what is refused may be too large to print
        found[", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in chosen.items())] = spec
    return found


def resume(options: argparse.Namespace) -> int:
    """Goes on with a run or a tuning; follows a run that is under way already, and prints one that is finished."""
    # One that has just been killed is lost, and can be resumed at once.
    store = unlocked(lambda: checked_store(options.store))
    if (study_id := audits.Studies(store).of_run(options.run_id)) is not None:
        _refuse_without_optuna()
        asked = common.found_here(options.device)
        return _searched(store, study_id, unlocked(lambda: audits.Studies(store).resume(study_id, device=asked)), options)
    run = store.get_with_results(options.run_id)
    if options.device is not None:
        raise BadInput("--device", options.device, f"must be left out: run {run.id} goes on where it was")
    if run.is_over and run.status != "finished":
        try:
            unlocked(lambda: resumption.resume(store, run.id))
        except BadInput:
            run = store.get(run.id)  # somebody else may have resumed it since
            if run.is_over and run.status != "finished":
                raise
    if run.status != "finished":
        common.on_device(run.device)
        common.say_if_nobody_has(store, run.device)
        run = common.carried_out(store, run.id, no_wait=options.no_wait, is_mine=run.is_over)
    return _put_run(store, run, options)


def _put_run(store: Store, run: Run, options: argparse.Namespace) -> int:
    """Prints a run that has ended, as a document or in words; gives the exit status."""
    from dpcl_core import export

    if options.json:
        put_json(export.document_of(store, run))
    elif run.status == "finished":
        put(result_text(store, run))
    return common.exit_status(run)


def own_spec(options: argparse.Namespace) -> RunSpec:
    """The spec of a run on a file of the user's own, which is taken in first; prints what it assumes."""
    if options.spec is not None or options.preset is not None:
        raise BadInput("--data", options.data, "cannot be combined with a SPEC.toml or --preset: change settings with --set")
    tell = say if options.json else put
    with intake.own_name(options.data, asked_of(options), administration.marks_kept(open_store(options.store))) as name:
        spec = presets.on_own(name, checks.read_sets(options.set))
        for sentence in presets.assumed(spec):
            tell(sentence)
    said = [f"--{role} {shlex.quote(named)}" for role in fields_of(Columns) if (named := getattr(options, role))]
    said += [f"--per-person {options.per_person}"] if options.per_person is not None else []
    said += [] if options.header is None else ["--header" if options.header else "--no-header"]
    check = " ".join(["python -m dpcl_core data", shlex.quote(options.data), *said, "--write-schema"])
    tell(f"A schema makes the result better: {check} writes one to edit.")
    return spec


def _reproduce(options: argparse.Namespace) -> int:
    """Carries out the experiments of a paper one after another, and prints our numbers beside the printed ones."""
    from dpcl_core.papers import catalog, claims, report
    from dpcl_core.papers.paper import Size

    paper, size = catalog.paper(options.spec), cast(Size, options.size or "small")
    chosen = [catalog.experiment(paper, options.experiment)] if options.experiment else list(paper.experiments)
    if options.record and options.set:
        raise BadInput("--record", options.record, "cannot be combined with --set: a changed run is not the preset's")
    planned = report.planned(chosen, size, options.set, named=options.experiment is not None)
    for runs in planned.values():
        for spec in runs.values():
            checks.check_run(spec)
    store, status, done = open_store(options.store), 0, dict[str, dict[str, measured.Measured]]()
    for experiment, runs in planned.items():
        of, done[experiment.name] = "" if options.set else experiment.preset(size), {}
        ended = _each(store, runs, of, paper.name, options, done[experiment.name])
        status = max(status, abs(ended))
        if ended < 0:
            return status
    forms = [claims.form(paper, experiment, size, done[experiment.name], runs) for experiment, runs in planned.items()]
    if options.json:
        put_json(report.document(forms))
    else:
        put(report.text(forms))
    return status


def _on_other_data(options: argparse.Namespace) -> int:
    """Carries out a paper's experiment on other data, and says which of its claims hold there."""
    from dpcl_core.methods.references import of_labels
    from dpcl_core.papers import claims, other_data, questions

    if options.spec in measured.papers() and options.experiment is None:
        raise BadInput("--on", options.on, "takes one experiment at a time: name it by --experiment")
    paper, experiment = other_data.of_experiment(options.experiment or options.spec or "")
    size = options.size or experiment.sizes[0]
    if size not in experiment.sizes:
        raise BadInput("--size", size, f"{experiment.name} has no such form; there are {', '.join(experiment.sizes)}")
    specs, refused = other_data.planned(experiment, size, options.on, options.set)
    if datasets.card(options.on).is_own:
        n_models = sum(len(spec.privacy.epsilons) * len(spec.seeds) for spec in specs.values())
        say(f"{n_models} models will learn from {options.on}, and what they cost adds up: dpcl data {options.on} --budget")
    runs: dict[str, measured.Measured] = {}
    status = _each(open_store(options.store), specs, f"{experiment.name} on {options.on}", paper.name, options, runs)
    if status < 0:
        return -status
    chances = questions.chances(of_labels(next(iter(specs.values()))).chance, specs, specs)
    form = claims.form(paper, experiment, size, runs, specs, chances)
    put_result(options, other_data.document(form, refused), other_data.text(form, refused))
    return status


def _each(
    store: Store, specs: Mapping[str, RunSpec], name: str, paper: str, options: argparse.Namespace,
    done: dict[str, measured.Measured],
) -> int:  # fmt: skip
    """Carries out runs one after another and puts their results into `done`; gives the exit status, negative once stopped.

    A stop (Ctrl-C) counts for all. What is recorded by then stays.
    """
    status = 0
    for label, spec in specs.items():
        run = common.carry_out(store, spec, f"{name}: {label}" if name else None, options.device, no_wait=options.no_wait)
        status = max(status, common.exit_status(run))
        if run.status == "cancelled":
            return -status
        if run.status == "finished":
            done[label] = measured.stamped(measured.measured_run(run, store.events(run.id)))
            if options.record:  # at once: a later run may be stopped
                measured.write(Path(options.record), paper, [done[label]])
    return status


def tune(options: argparse.Namespace) -> int:
    """Searches for settings."""
    _refuse_without_optuna()
    tune = tuning(options)
    settings.check_search(tune)
    store, device = open_store(options.store), common.on_device(common.found_here(options.device))
    common.refuse_if_taken(store.ahead(device), options.no_wait)
    study_id = unlocked(lambda: audits.Studies(store).create(tune, device=device))
    return _searched(store, study_id, study_id, options)


def _refuse_without_optuna() -> None:
    if missing := machine.lacking(("optuna",)):
        raise DataMissing("command line", "tune", missing)


def _searched(store: Store, study_id: str, run_id: str, options: argparse.Namespace) -> int:
    """Carries out a tuning's run in the queue; prints the tuning."""
    from dpcl_core.cli.reading import put_study

    say(f"tuning {study_id}")
    reporter = common.Reporter(options.no_wait)
    with suppress(KeyboardInterrupt):  # the run is then cancelled, and the kept trials are reported below
        worker.run_here(store, run_id, on_wait=reporter.queued, on_event=reporter)
    study = audits.Studies(store).get(study_id)
    put_study(study, options)
    if study.is_resumable:
        kept = f"{len(study.trials)} of {study.tune.n_trials} trials are kept"
        say(f"{kept}; continue with: python -m dpcl_core resume {study.id}")
    return common.exit_status(study.turn)


def tuning(options: argparse.Namespace) -> settings.TuneSpec:
    """The tuning that the command line describes."""
    if options.on is None and options.proxy is None:
        allowed = "give the data to tune on: --on DATASET for a public set, or --on private, which no epsilon covers"
        raise BadInput("--on", "", allowed)
    on, proxy = options.on or "public", options.proxy
    if on not in ("public", "private"):
        on, proxy = "public", on
    raw = {"on": on, "proxy": proxy, "base": spec_of(options)}
    return settings.parse(raw if options.trials is None else {**raw, "n_trials": options.trials})


def audit(options: argparse.Namespace) -> int:
    """Attacks a method, or repeats the training of a stored run with planted examples."""
    from dpcl_core.attacks import catalog, token_noise_games
    from dpcl_core.methods import catalog as methods

    common.on_device("cpu")
    resolve_target(options)
    spec = spec_of(options) if options.run is None else spec_of_stored(options)
    if options.trials is not None and not 100 <= options.trials <= MOST_TRIALS:
        raise BadInput("--trials", options.trials, f"must be from 100 to {MOST_TRIALS:,}")
    if options.run is not None:
        stored = audits.Audits(open_store(options.store))
        common.refuse_if_taken(stored.store.ahead("cpu"), options.no_wait)
        audit_id = unlocked(lambda: stored.create(options.run))
        common.carried_out(stored.store, audit_id, no_wait=options.no_wait)
        if (turn := stored.get(audit_id).turn).status != "finished":
            return common.exit_status(turn)
        results = list(stored.get(audit_id).results)
    elif options.attack == audits.NAME:
        administration.check_at_start(open_store(options.store), spec, "numbers")
        results = audits.audited(spec)
    elif options.attack == token_noise_games.INVERSION:
        results = token_noise_games.inversion_audited(spec, options.trials or catalog.TRIALS)
    else:
        attack_names = catalog.fitting(spec)
        text_audits = [audits.NAME] if audits.is_offered(spec) else []
        text_audits += [token_noise_games.INVERSION] if methods.card(spec.method).noises_embeddings(spec.params) else []
        if text_audits and options.attack not in (None, "all", *attack_names):
            raise BadInput(
                "--attack", options.attack, f"must be one of {', '.join([*attack_names, *text_audits])}, all, or left out"
            )
        named = attack_names if options.attack == "all" else (options.attack,)
        trials = options.trials or catalog.audit_of(spec.method).trials
        audited = [catalog.auditor(spec.method, attack)(spec, trials) for attack in named or (None,)]
        results = [result for of_attack in audited for result in of_attack]
    document = {"spec": spec.jsonable(), "audits": [result.document() for result in results]}
    put_result(options, document, "\n".join(result.sentence() for result in results))
    if not any(result.exceeds for result in results):
        return 0
    say(f"{spec.method} leaks more than its ledger accounts for: do not release it, and report this")
    return 1


def spec_of_stored(options: argparse.Namespace) -> RunSpec:
    """The settings of a stored run. Raises BadInput for an unknown run, or if other settings are given too."""
    if options.set or any((options.spec, options.preset, options.attack, options.trials)):
        raise BadInput("--run", options.run, "cannot be combined with other settings: the audit uses the run's own")
    return open_store(options.store).get_with_results(options.run).spec


def work(options: argparse.Namespace) -> int:
    """Carries out the queued runs of a store until stopped; with `--once`, until none is left."""
    store = open_store(options.store)
    over, open_runs, ended = threading.Event(), dict[str, Run](), dict[str, str]()

    def look() -> None:
        now = {run.id: run for run in store.unfinished()}
        for run in now.values():
            if run.status != "queued" and (run.id not in open_runs or open_runs[run.id].status == "queued"):
                say(f"run {run.id} ({run.name}): started on {run.runs_on or run.device}")
        gone = [run_id for run_id in open_runs if run_id not in now]
        there = store.present(gone) if gone else {}
        for run_id in gone:
            last = there.get(run_id)  # none: its data were deleted, and it with them
            ended[run_id] = "deleted" if last is None else last.status
            why = f", {last.error}" if last is not None and last.error else ""
            say(f"run {run_id} ({open_runs[run_id].name}): {ended[run_id]}{why}")
        open_runs.clear()
        open_runs.update(now)
        if options.once and not now:
            over.set()

    with suppress(KeyboardInterrupt):
        opening = partial(LocalExecutor, store, tie="wait")
        executor.move(opening, over, after_each=look, on_trouble=lambda trouble: say(one_line(trouble)))
    if any(run.status != "queued" for run in open_runs.values()):
        say("stopped; the run under way goes on after its last task when an app or dpcl work is up again")
    put_result(options, [{"run_id": run_id, "status": status} for run_id, status in ended.items()], "")
    return 0 if set(ended.values()) <= {"finished", "cancelled", "deleted"} else 1
