"""Commands that stop and delete runs and list them, and how a command hears that it is to end."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from dpcl_core.cli.output import print_json, put, say
from dpcl_core.cli.reading import checked_store
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.store import Store

_PATIENCE_SECONDS = 15.0  # a run stops within three seconds, on another machine after a few more


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Takes SIGTERM, as of `timeout` or a cancelled job, and SIGHUP, of a closed terminal, for Ctrl-C.

    Only the first one counts: `timeout` sends two, and the second would break off what ends the run. One that is ignored, as
    under `nohup`, stays so.
    """
    heard: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) == 1:
            raise KeyboardInterrupt

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may ask for signals
    taken = [one for one in known if is_main and signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


def say_how_to_go_on(store: Store, run_id: str) -> None:
    """Says how a run that was broken off goes on."""
    from dpcl_core.runs import resumption

    why = resumption.why_not(store, run_id)
    after = "goes on after the last task that it had learned"
    say(f"run {run_id} is broken off: " + (f"dpcl resume {run_id} {after}" if why is None else f"it cannot go on: {why}"))


def ahead(runs: Sequence[Run]) -> str:
    """What is ahead of a waiting run, how long it takes, and how to stop it."""
    named = "; ".join(map(_one, runs[:3])) + (f"; and {len(runs) - 3} more" if len(runs) > 3 else "")
    return f"{named}. To stop: dpcl stop {' '.join(run.id for run in runs[:3])}"


def _one(run: Run) -> str:
    what = "waits" if run.status == "queued" else f"is {run.status}"
    if run.estimate_seconds is None:
        return f"run {run.id} ({run.name}) {what}, for a time not known yet"
    left = run.estimate_seconds - (run.seconds_taken or 0.0 if run.status != "queued" else 0.0)
    return f"run {run.id} ({run.name}) {what}, about {_duration(max(left, 1.0))}{'' if run.status == 'queued' else ' left'}"


def _duration(seconds: float) -> str:
    for unit, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"


def stop(options: argparse.Namespace) -> int:
    """Stops runs as Stop of a page does, and waits until they are over; `--all` leaves those of visitors alone."""
    store = checked_store(options.store)
    if bool(options.run_id) == options.all:
        raise BadInput("RUN_ID", " ".join(options.run_id), "give runs, or --all")
    unfinished = store.unfinished()
    runs = [run for run in unfinished if run.owner is None] if options.all else [store.get(one) for one in options.run_id]
    if n := len(unfinished) - len(runs) if options.all else 0:
        say(f"{n} of visitors of a shared server go on: name them to stop them")
    before = {run.id: run.status for run in runs if run.is_over}
    for run in runs:
        store.request_stop(run.id)
    asked = [run.id for run in runs]
    _wait_until_over(store, asked)
    now = store.present(asked)
    for one in map(now.__getitem__, asked):
        had = " before; its results are kept" if one.id in before else ""
        say(f"run {one.id} ({one.name}): {one.status}{had}")
    if options.json:
        print_json([{"run_id": one, "status": now[one].status} for one in asked])
    return 0 if all(now[one].status == "cancelled" for one in asked) else 1


def _wait_until_over(store: Store, run_ids: Sequence[str]) -> None:
    from dpcl_core.runs.executor import Supervisor

    supervisor, end = Supervisor(store), time.monotonic() + _PATIENCE_SECONDS
    while not all(run.is_over for run in store.present(run_ids).values()) and time.monotonic() < end:
        supervisor.check()
        time.sleep(0.1)


def delete(options: argparse.Namespace) -> int:
    """Puts runs into the trash of the page Runs, as Delete there does."""
    store = checked_store(options.store)
    for run in [store.get(one) for one in options.run_id]:  # all are known before one goes
        store.delete(run.id)
        say(f"run {run.id} ({run.name}): deleted; until the trash of the page Runs is emptied, it can be restored there")
    if options.json:
        print_json([{"run_id": one, "status": "deleted"} for one in options.run_id])
    return 0


def list_runs(options: argparse.Namespace) -> int:
    """Prints all runs; of those that are not over what each waits for, and who carries it out."""
    store = checked_store(options.store)
    rows = [(run, _waits_for(store, run), _carried_out_by(run)) for run in store.list_runs()]
    if options.json:
        said = ("name", "status", "runs_on", "created", "error")
        print_json([
            {"run_id": run.id, **{name: getattr(run, name) for name in said}, "waits_for": waits, "carried_out_by": by}
            for run, waits, by in rows
        ])  # fmt: skip
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
        return "an app or dpcl work, once one is up" if run.status == "queued" else "a process that is being started"
    where = f"process {run.process.pid} on {run.process.machine.partition(' ')[0]}"
    return f"the command or script of {where}" if run.attended else f"{where}, started by an app or dpcl work"
