"""Commands that stop and delete runs and list them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcl_core.cli import reading
from dpcl_core.cli.inputs import checked_store
from dpcl_core.cli.output import print_json, put, say
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.store import Store

_PATIENCE_SECONDS = 15.0  # a run stops within three seconds, on another machine after a few more


def say_how_to_go_on(store: Store, run_id: str) -> None:
    """Says how a run that was broken off goes on; of one that somebody else carries out, that it does."""
    from dpcl_core.runs import resumption

    goes_on = f"dpcl resume {run_id} goes on after the last task that it had learned"
    if (status := store.status(run_id)) in ("queued", "starting", "running"):
        say(f"run {run_id} goes on: dpcl stop {run_id} ends it")
        return
    why = None if status == "stopping" else resumption.why_not(store, run_id)
    say(f"run {run_id} is broken off: {goes_on if why is None else f'it cannot go on: {why}'}")


def ahead(runs: Sequence[Run]) -> str:
    """What is ahead of a waiting run, how long it takes, and how to stop it."""
    named = "; ".join(map(_one, runs[:3])) + (f"; and {len(runs) - 3} more" if len(runs) > 3 else "")
    return f"{named}. To stop: dpcl stop {' '.join(run.id for run in runs[:3])}"


def _one(run: Run) -> str:
    whole = f"about {_duration(run.estimate_seconds)}" if run.estimate_seconds is not None else "a time not known yet"
    took = "" if run.status == "queued" else f"{_duration(run.seconds_taken or 0.0)} of "
    return f"run {run.id} ({run.name}), {run.status}, {took}{whole}"


def _duration(seconds: float) -> str:
    return f"{seconds / 60.0:.0f} minutes" if seconds >= 90.0 else f"{seconds:.0f} seconds"


def stop(options: argparse.Namespace) -> int:
    """Stops runs as Stop of a page does, and waits until they are over; `--all` leaves those of visitors alone."""
    from dpcl_core.runs.executor import Supervisor

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
    if options.json:
        print_json([{"run_id": run.id, "status": run.status} for run in now])
    return 0 if all(run.status == "cancelled" for run in now) else 1


def delete(options: argparse.Namespace) -> int:
    """Puts runs into the trash of the page Runs, as Delete there does."""
    store = checked_store(options.store)
    for run in [store.get(one) for one in options.run_id]:  # all are known before one goes
        store.delete(run.id)
        say(f"run {run.id} ({run.name}): deleted; until the trash of the page Runs is emptied, it can be restored there")
    if options.json:
        print_json([{"run_id": one, "status": "deleted"} for one in options.run_id])
    return 0


def runs(options: argparse.Namespace) -> int:
    """Lists all runs, shows one, or deletes those named."""
    if options.delete:
        if not options.run_id:
            raise BadInput("--delete", "", "needs the runs that are to go: RUN_ID ...")
        return delete(options)
    if len(options.run_id) > 1:
        raise BadInput("RUN_ID", " ".join(options.run_id), "must be one run: its result is one document")
    return reading.show(options.run_id[0], options) if options.run_id else list_runs(options)


def list_runs(options: argparse.Namespace) -> int:
    """Prints all runs; of those that are not over what each waits for, and who carries it out."""
    store = checked_store(options.store)
    rows = [(run, _waits_for(store, run), _carried_out_by(run)) for run in store.list_runs()]
    if options.json:
        said = [{name: getattr(run, name) for name in ("name", "status", "runs_on", "created", "error")} for run, *_ in rows]
        both = zip(rows, said, strict=True)
        print_json([{"run_id": run.id, **of, "waits_for": waits, "carried_out_by": by} for (run, waits, by), of in both])
        return 0
    for run, waits, by in rows:
        place = f"  on {run.runs_on}" if run.runs_on is not None and not run.is_over else ""
        waiting = f"  waits for {waits[0]}" + (f" and {len(waits) - 1} more" if len(waits) > 1 else "") if waits else ""
        put(f"{run.id}  {run.status:<9}  {run.name}{place}{waiting}" + (f"  by {by}" if by else ""))
    return 0


def _waits_for(store: Store, run: Run) -> list[str]:
    """The ids of the runs that a queued one waits for, in their order; none for any other."""
    return [one.id for one in store.ahead(run.device, run.id)] if run.status == "queued" else []


def _carried_out_by(run: Run) -> str | None:
    """Who carries out a run that is not over, in words; None for one that is."""
    if run.is_over:
        return None
    if run.process is None:
        waits = run.status == "queued"
        return "an app, dpcl work or its sweep, once one is up" if waits else "a process that is being started"
    where = f"process {run.process.pid} on {run.process.machine.partition(' ')[0]}"
    return f"the command or script of {where}" if run.attended else f"{where}, started by an app or dpcl work"
