"""Identifies the process of a run, also when a later process gets the same process id."""

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
    """A process, unique for all time: its machine (name, boot and, on Linux, PID namespace), its process id, its start time.

    `ticks`: start time in hundredths of a second, since boot on Linux, since 1970 elsewhere; compare for equality only.
    None where the system does not give it: then the process cannot be checked or ended from outside.
    """

    machine: str
    pid: int
    ticks: int | None


def me() -> Process:
    """This process."""
    return Process(_machine(), os.getpid(), _ticks(os.getpid()))


def of(pid: int) -> Process:
    """The process that has this id now."""
    return Process(_machine(), pid, _ticks(pid))


def is_alive(process: Process) -> bool | None:
    """Whether the process is still running; None where this is unknown (another machine or container, no start times)."""
    if process.machine != _machine() or process.ticks is None:
        return None
    return _ticks(process.pid) == process.ticks


def end(process: Process) -> None:
    """Kills the process if it is on this machine and still the same one; another process with its id is left alone."""
    if not is_alive(process):
        return
    if not hasattr(os, "pidfd_open"):  # not Linux: checked just above, and an id is not reused so soon
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).kill()
        return
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):  # checked again: from here on the handle refers to this very process, whatever its id
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _ticks(pid: int) -> int | None:
    """Start time of a process; None if there is none or it has ended but was not reaped."""
    if not _PROC.is_dir():
        try:
            info = psutil.Process(pid)
            return None if info.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else round(100 * info.create_time())
        except psutil.Error:
            return None
    # Read here, not by psutil: its times since 1970 move when the clock is set, and a running process would look dead.
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _machine() -> str:
    boot = namespace = ""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):  # two containers may have one host name, and the same process ids for different processes
        namespace = os.readlink(_PROC / "self/ns/pid")
    return " ".join(filter(None, [socket.gethostname(), boot, namespace]))
