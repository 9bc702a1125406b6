"""The command that carries out many runs, on as many machines as there are."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Mapping

from dpcl_core import checks, presets
from dpcl_core.cli import training, waiting
from dpcl_core.cli.output import results_alone, say
from dpcl_core.cli.settings import spec_of
from dpcl_core.errors import BadInput
from dpcl_core.runs.run import Split
from dpcl_core.spec import RunSpec

_PAUSE_SECONDS = 0.5


def sweep(options: argparse.Namespace) -> int:
    """Carries out a grid of settings, or every run of a preset, as one entry of the queue; a stop ends all of them."""
    from dpcl_core.papers import questions
    from dpcl_core.runs import executors
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.patience import Patience
    from dpcl_core.runs.sets import Sets

    specs = specs_of(options)
    for spec in specs.values():
        checks.check(spec)
    wanted = training.split_of(options) or Split(1, "local", options.device or executors.default_device("local"))
    # Whoever looks at the queue carries out the parts: the executor's workers are on their machines already.
    split = Split(options.shards, "local", wanted.device) if options.shards else None
    store, patience = waiting.opened(options.store), Patience()
    sets, ids = Sets(store), set[str]()
    # What it starts here ends with it; on other machines, with a stop.
    executor = executors.opened(wanted.executor, store, local=LocalExecutor(store, own=lambda run: run.id in ids))
    training.refuse_if_taken(store, wanted.device, options.no_wait)
    cheap = questions.cheapest_first(specs, store, wanted.device)
    titles = None if options.over else questions.named(specs)  # what varies names the runs of a grid
    name = options.preset or "sweep"
    set_id = waiting.unlocked(lambda: sets.create(name, cheap, device=wanted.device, split=split, titles=titles))
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
            raise BadInput("--over", "", "give settings that vary, --over 'KEY=[VALUE, ...]', or --preset NAME alone")
        return presets.startable_variants(options.preset, options.set)
    raw: Mapping[str, object] = spec_of(options).model_dump()
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
