"""The command that carries out many runs, on as many machines as there are."""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from dpcl_core import checks, presets
from dpcl_core.cli import inputs, training
from dpcl_core.cli.inputs import spec_of
from dpcl_core.cli.output import one_line, print_json, results_alone, say
from dpcl_core.errors import BadInput
from dpcl_core.runs.run import Split
from dpcl_core.spec import RunSpec

_PAUSE_SECONDS = 0.5


def run(options: argparse.Namespace) -> int:
    """Carries out the experiments of a paper, a grid or every run of a preset, or one run."""
    from dpcl_core.papers import catalog

    if options.spec in catalog.PAPERS:
        for option in ("all", "over", "ceiling", "executor", "shards", "data", "preset"):
            if getattr(options, option) not in (None, False, []):
                raise BadInput(f"--{option}", options.spec, "cannot be combined with a paper, which says what runs")
        return training.reproduce(options)
    inputs.resolve_target(options)
    if beside := [name for name in ("experiment", "size", "record") if getattr(options, name) is not None]:
        raise BadInput(f"--{beside[0]}", getattr(options, beside[0]), "goes with a paper, such as tobaben")
    return sweep(options) if options.all or options.over else training.run(options)


def sweep(options: argparse.Namespace) -> int:
    """Carries out a grid of settings, or every run of a preset, as one entry of the queue; a stop ends all of them."""
    from dpcl_core.papers import questions
    from dpcl_core.runs.executor import LocalExecutor, default_device, opened
    from dpcl_core.runs.process import Patience
    from dpcl_core.runs.shards import Sets

    if options.ceiling or options.data is not None:
        raise BadInput("--all" if options.all else "--over", "", "cannot be combined with your data or --ceiling")
    specs = specs_of(options)
    for spec in specs.values():
        checks.check(spec)
    wanted = training.split_of(options) or Split(1, "local", options.device or default_device("local"))
    # Whoever looks at the queue carries out the parts: the executor's workers are on their machines already.
    split = Split(options.shards, "local", wanted.device) if options.shards else None
    store, patience = inputs.opened(options.store), Patience()
    sets, ids = Sets(store), set[str]()
    # What it starts here ends with it; on other machines, with a stop.
    executor = opened(wanted.executor, store, local=LocalExecutor(store, own=lambda run: run.id in ids))
    training.refuse_if_taken(store, wanted.device, options.no_wait)
    cheap = questions.cheapest_first(specs, store, wanted.device)
    titles = None if options.over else questions.named(specs)  # what varies names the runs of a grid
    name = options.preset or "sweep"
    set_id = inputs.unlocked(lambda: sets.create(name, cheap, device=wanted.device, split=split, titles=titles))
    say(f"set {set_id}: {len(specs)} runs")
    ids |= {run.id for run in sets.get(set_id).runs.values()}
    if wanted.executor == "local":
        training.say_if_nobody_has(store, wanted.device)
    line = ""
    try:
        with results_alone():
            while not (now := patience.outlast(lambda: sets.get(set_id))).is_over:
                patience.outlast(executor.schedule)
                if now.line() != line:
                    line = now.line()
                    say(line)
                time.sleep(_PAUSE_SECONDS)
    except KeyboardInterrupt:
        sets.request_stop(set_id)
        say(f"set {set_id} is broken off: dpcl resume RUN_ID goes on with one of its runs, which dpcl runs lists")
        raise
    return training.print_set(now, store, options)


def specs_of(options: argparse.Namespace) -> dict[str, RunSpec]:
    """Every combination of the settings that vary; of a preset of which none do, its own runs."""
    grid = dict(_values(text) for text in options.over)
    if not grid:
        if options.preset is None or options.spec is not None:
            raise BadInput("--all", "", "needs a preset, or settings that vary: --over 'KEY=[VALUE, ...]'")
        return presets.startable_variants(options.preset, options.set)
    raw: Mapping[str, object] = asdict(spec_of(options))
    found = {}
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        spec = checks.parse(checks.changed(raw, chosen))  # before its label: what is refused may be too large to print
        found[", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in chosen.items())] = spec
    return found


def _values(text: str) -> tuple[str, list[object]]:
    key, _, listed = text.partition("=")
    values = checks.read_value(listed)
    if not isinstance(values, list) or not values:
        raise BadInput("--over", text, "must be KEY=[VALUE, ...], values as in TOML")
    return key.strip(), values


# The command that carries out what others have put into the queue.


def work(options: argparse.Namespace) -> int:
    """Carries out the queued runs of a store until stopped; with `--once`, until none is left."""
    from dpcl_core.runs import executor
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.run import Run

    store = inputs.opened(options.store)
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
        opened = partial(LocalExecutor, store, tie="wait")
        executor.move(opened, over, after_each=look, on_trouble=lambda trouble: say(one_line(trouble)))
    if any(run.status != "queued" for run in open_runs.values()):
        say("stopped; the run under way goes on after its last task when an app or dpcl work is up again")
    if options.json:
        print_json([{"run_id": run_id, "status": status} for run_id, status in ended.items()])
    return 0 if set(ended.values()) <= {"finished", "cancelled", "deleted"} else 1
