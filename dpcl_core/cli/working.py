"""The command that carries out what others have put into the queue."""

from __future__ import annotations

import argparse
import threading
from contextlib import suppress

from dpcl_core.cli.output import one_line, print_json, say


def work(options: argparse.Namespace) -> int:
    """Carries out the queued runs of a store until stopped; with `--once`, until none is left."""
    from dpcl_core.cli import waiting
    from dpcl_core.runs import mover
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.run import Run

    store = waiting.opened(options.store)
    over, open_runs, ended = threading.Event(), dict[str, Run](), list[Run]()

    def look() -> None:
        now = {run.id: run for run in store.unfinished()}
        for run in now.values():
            if run.status != "queued" and (run.id not in open_runs or open_runs[run.id].status == "queued"):
                say(f"run {run.id} ({run.name}): started on {run.runs_on or run.device}")
        for run_id in open_runs.keys() - now.keys():
            run = store.get(run_id)
            ended.append(run)
            say(f"run {run.id} ({run.name}): {run.status}" + (f", {run.error}" if run.error else ""))
        open_runs.clear()
        open_runs.update(now)
        if options.once and not now:
            over.set()

    with suppress(KeyboardInterrupt):
        mover.move(
            lambda: LocalExecutor(store), over, after_each=look, on_trouble=lambda trouble: say(one_line(trouble))
        )
    if any(run.status != "queued" for run in open_runs.values()):
        say("stopped; the run under way goes on")
    if options.json:
        print_json([{"run_id": run.id, "status": run.status} for run in ended])
    return 0 if all(run.status in ("finished", "cancelled") for run in ended) else 1
