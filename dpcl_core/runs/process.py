"""Which process carries out a run: told apart from a later one that was given the same number."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for ever: its machine (name and boot), its number there, and when it started.

    `ticks`: hundredths of a second, since boot on Linux, since 1970 elsewhere: only equality means something.

    `ticks` is None where the system does not tell; then nobody can say whether it lives, and nobody ends it from outside.
    """

    machine: str
    pid: int
    ticks: int | None


def me() -> Process:
    """This process."""
    return Process(_machine(), os.getpid(), _ticks(os.getpid()))


def of(pid: int) -> Process:
    """The process that has this number now."""
    return Process(_machine(), pid, _ticks(pid))


def is_alive(process: Process) -> bool | None:
    """Whether it still runs; None where that cannot be known (another machine, no start times)."""
    if process.machine != _machine() or process.ticks is None:
        return None
    return _ticks(process.pid) == process.ticks


def end(process: Process) -> None:
    """Ends it at once, if it is on this machine and still the same one; a stranger with its number is left alone."""
    if not is_alive(process):
        return
    if not hasattr(os, "pidfd_open"):  # not Linux: asked just now, and a number is not given again so soon
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).kill()
        return
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):  # asked again: from here on the handle means this very process, whatever its number
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _ticks(pid: int) -> int | None:
    """When a process started; None for none, and for one that has ended but was not collected."""
    if not _PROC.is_dir():
        try:
            found = psutil.Process(pid)
            return None if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else round(100 * found.create_time())
        except psutil.Error:
            return None
    # Read here, not by psutil: its times since 1970 move when the clock is set, and a living run would be taken for dead.
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()
