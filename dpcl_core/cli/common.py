"""What commands share: the settings, columns and store that they are given, and how one run is carried out here."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from dpcl_core import checks, paths, presets
from dpcl_core.cli.output import one_line, results_alone, say
from dpcl_core.data.intake import Asked
from dpcl_core.data.schema import Columns
from dpcl_core.errors import INPUT, BadInput, StoreLocked, StoreTrouble, StoreUnknown, StoreUnusable, instead_of, unknown
from dpcl_core.events import Event, Note, Progress
from dpcl_core.runs import administration, database, executor, process, resumption, worker
from dpcl_core.runs.run import Run, Split
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec, fields_of

T = TypeVar("T")
_OF_A_FILE = ("target", "text", "source", "person", "time", "per_person", "header", "private")  # options beside --data


def resolve_target(options: argparse.Namespace) -> None:
    """Takes a command's first argument for what it names: a preset, own data, a stored run; else a file of settings.

    Raises BadInput for a name that is none of these.
    """
    target = options.spec
    if target is None or options.preset is not None:
        return
    path = Path(target)
    if target in presets.known():
        options.preset, options.spec = target, None
    elif hasattr(options, "data") and options.data is None and path.suffix not in ("", ".toml") and path.exists():
        options.data, options.spec = target, None
    elif hasattr(options, "run") and re.fullmatch("[0-9a-f]{12}", target) and not path.exists():
        options.run, options.spec = target, None
    elif re.fullmatch(r"[\w-]+", target) and not path.exists():
        raise unknown("TARGET", target, presets.names(), ", a paper (tobaben, lifelong, pecl, cslr) or a file")


def spec_of(options: argparse.Namespace) -> RunSpec:
    """The settings that a command line describes. Raises BadInput."""
    resolve_target(options)
    if named := [role for role in _OF_A_FILE if getattr(options, role, None) not in (None, [])]:
        raise BadInput("command line", f"--{named[0].replace('_', '-')}", "is said of a file: give --data PATH, too")
    if options.spec is not None and options.preset is not None:
        raise BadInput("command line", options.spec, "give either a file of settings or a preset, not both")
    raw: Mapping[str, object] = {}
    if options.preset is not None:
        raw = presets.raw(options.preset, here=True)
    elif options.spec is None:  # settings alone are enough: the command printed with every result has only these
        if not options.set:
            raise BadInput("command line", "", "give a preset, a SPEC.toml, your data, or settings as --set KEY=VALUE")
    else:
        with instead_of(UnicodeDecodeError, say=BadInput("SPEC.toml", options.spec, "must be a text file that can be read")):
            raw = checks.read_toml(paths.read_file(Path(options.spec), "SPEC.toml").decode("utf-8"))
    return checks.parse(checks.apply_sets(raw, options.set))


def asked_of(options: argparse.Namespace) -> Asked:
    """What the command line says of the columns of a file."""
    columns = Columns(**{role: getattr(options, role) for role in fields_of(Columns)})
    first_line: Literal["names", "data"] | None = None if options.header is None else "names" if options.header else "data"
    return Asked(columns, options.per_person, first_line, private=tuple(options.private))


def open_store(url: str | None) -> Store:
    """The store, once it can be opened; of one that `--store` names a mistyped path makes none.

    Raises StoreTrouble at once where no waiting helps.
    """
    database.check_there(url)
    return unlocked(lambda: Store(url), StoreTrouble)


def unlocked(act: Callable[[], T], passing: type[StoreTrouble] = StoreLocked) -> T:
    """The result of `act`, which is called again while another program keeps the store locked.

    Any other trouble is raised at once: it may have come after what was written, and would then be written twice.
    """
    lasting = (StoreUnknown, StoreUnusable)
    return process.Patience().outlast(
        act, passing=passing, lasting=lasting, tell=lambda trouble: say(f"waiting for the store: {one_line(trouble)}")
    )


def result_text(store: Store, run: Run) -> str:
    """The result of a stored run in words; of one on a person's own data also how often these were used so far."""
    from dpcl_core import export, results

    return export.result_text(results.of_run(store, run)) + administration.sentence(store, run.spec.data.dataset)


def checked_store(url: str | None) -> Store:
    """The store, after a look for runs whose process is gone and for results that a dead process has left in a file."""
    database.check_there(url)
    store = Store(url)
    with suppress(StoreTrouble):  # one that can only be read is read as it is
        executor.LocalExecutor(store).settle()
    return store


def carry_out(
    store: Store, spec: RunSpec, name: str | None, device: str | None, split: Split | None = None, *, no_wait: bool = False
) -> Run:
    """The finished run: put into the store's queue and carried out in this process, which waits for parts if it is split.

    The own process of such a run stays on this computer, whatever its parts ask for.
    """
    here = on_device(found_here(device)) if split is None else process.here(on_device(None))
    refuse_if_taken(store.ahead(here), no_wait)
    by = process.me() if process.fits(here, process.here(here)) else None  # another machine's run is carried out there
    run_id = unlocked(lambda: store.create(spec, name=name, device=here, split=split, attended_by=by))
    say(f"run {run_id}")
    if split is None or split.executor == "local":
        say_if_nobody_has(store, here if split is None else split.device)
    return carried_out(store, run_id, no_wait=no_wait)


def refuse_if_taken(ahead: Sequence[Run], no_wait: bool) -> None:
    """Raises BadInput, for a command that is not to wait, where one of the runs ahead of its own is under way."""
    if no_wait and (taken := [run.runs_on for run in ahead if run.status != "queued"]):
        raise BadInput("--no-wait", taken[0], f"is taken: {_in_words(ahead)}")


def found_here(asked: str | None) -> str | None:
    """The asked device. Raises BadInput for a graphics card of this computer that it does not have."""
    if asked is None:
        return None
    bare, is_elsewhere = process.bare(process.checked(asked)), asked.rpartition("/")[0] not in ("", process.machine())
    if bare != "cpu" and not is_elsewhere and bare not in (names := [device.name for device in process.devices()]):
        allowed = f"must be a device of this computer: {', '.join(names)}; or one of another, such as NAME/cuda:0"
        raise BadInput("--device", asked, allowed)
    return asked


def say_if_nobody_has(store: Store, device: str) -> None:
    """Says that a run will wait, if no machine that looks after the store's queue has this device."""
    present = [f"{name}/{one}" for name, names in executor.present_machines(store).items() for one in names]
    known = dict.fromkeys([*process.of_this_machine(device), *present])
    if not any(process.fits(device, one) for one in known):
        say(
            f"device {device}: no machine known to this store has it (known: {', '.join(known) or 'none'}); the run waits "
            "until python -m dpcl_core work is started, on the same store, on a machine that has it"
        )


def on_device(asked: str | None) -> str:
    """The device that was asked for, else the first graphics card, else the processor; hides all cards for the processor."""
    device = asked or process.default()
    if device == "cpu" and len(process.devices()) > 1:
        process.hide_cards()
    return device


def carried_out(store: Store, run_id: str, *, no_wait: bool = False, is_mine: bool = True) -> Run:
    """Carries out a queued run in this process when its turn comes; reports progress on standard error.

    Ctrl-C and the like stop it, wherever it is carried out, unless it is somebody else's and only followed.
    """
    reporter = Reporter(no_wait)
    try:
        with results_alone():
            run = worker.run_here(store, run_id, on_wait=reporter.queued, on_event=reporter)
    except KeyboardInterrupt:
        if is_mine:
            store.request_stop(run_id)
        _say_how_to_go_on(store, run_id)
        raise
    if run.status == "cancelled":
        _say_how_to_go_on(store, run_id)
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
            line = event.text if event.task is None else f"task {event.task + 1}: {event.text}"
            if line != self._last:
                say(line)
            self._last = line
        if isinstance(event, Note):
            say(f"{event.level}: {event.text}")

    def queued(self, runs: Sequence[Run]) -> None:
        """Says what a run waits for, again when that has changed. Raises BadInput where it must not wait."""
        refuse_if_taken(runs, self._no_wait)
        if (waits := [run.id for run in runs]) != self._waits:
            self._waits = waits
            say(f"waiting for the device: {_in_words(runs)}")


def _in_words(runs: Sequence[Run]) -> str:
    """What is ahead of a waiting run, how long it takes, and how to stop it."""

    def duration(seconds: float) -> str:
        return f"{seconds / 60.0:.0f} minutes" if seconds >= 90.0 else f"{seconds:.0f} seconds"

    named = []
    for run in runs[:3]:
        whole = f"about {duration(run.estimate_seconds)}" if run.estimate_seconds is not None else "a time not known yet"
        took = "" if run.status == "queued" else f"{duration(run.seconds_taken or 0.0)} of "
        named.append(f"run {run.id} ({run.name}), {run.status}, {took}{whole}")
    more = f"; and {len(runs) - 3} more" if len(runs) > 3 else ""
    return f"{'; '.join(named)}{more}. To stop: dpcl stop {' '.join(run.id for run in runs[:3])}"


def _say_how_to_go_on(store: Store, run_id: str) -> None:
    """Says how a run that was broken off goes on; of one that somebody else carries out, that it does."""
    goes_on = f"dpcl resume {run_id} goes on after the last task that it had learned"
    if (status := store.status(run_id)) in ("queued", "starting", "running"):
        say(f"run {run_id} goes on: dpcl stop {run_id} ends it")
        return
    why = None if status == "stopping" else resumption.why_not(store, run_id)
    say(f"run {run_id} is broken off: {goes_on if why is None else f'it cannot go on: {why}'}")
