"""The command that carries out what others have put into the queue."""

from __future__ import annotations

import argparse
import threading
from contextlib import suppress
from functools import partial

from dpcl_core.cli.output import one_line, print_json, say


def work(options: argparse.Namespace) -> int:
    """Carries out the queued runs of a store until stopped; with `--once`, until none is left."""
    from dpcl_core.cli import waiting
    from dpcl_core.runs import mover
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.run import Run

    store = waiting.opened(options.store)
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
        mover.move(opened, over, after_each=look, on_trouble=lambda trouble: say(one_line(trouble)))
    if any(run.status != "queued" for run in open_runs.values()):
        say("stopped; the run under way goes on after its last task when an app or dpcl work is up again")
    if options.json:
        print_json([{"run_id": run_id, "status": status} for run_id, status in ended.items()])
    return 0 if set(ended.values()) <= {"finished", "cancelled", "deleted"} else 1
