"""Starts worker processes: detached from the terminal, the store's address in the environment, one log per run."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import dpcl_core
from dpcl_core import paths
from dpcl_core.runs import devices


def environment(url: str, device: str) -> Mapping[str, str]:
    """Environment variables of a worker of the store at this address, for a run on this device."""
    root = str(Path(dpcl_core.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    # The address is not on the command line, which every user can list.
    return {**devices.environment(device), "DPCL_STORE": url, "PYTHONPATH": path}


def spawn(
    command: Sequence[str],
    url: str,
    device: str,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Starts a worker of the store at this address for a run on this device. Raises OSError where the system cannot."""
    started = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,  # a closed terminal or a stopped app ends no run
        env=environment(url, device),
    )
    # Waits for the process so that it leaves no zombie; the thread holds nothing else and ends with this process.
    threading.Thread(target=started.wait, name=f"wait for {started.pid}", daemon=True).start()
    return started


def log_file(run_id: str) -> Path:
    """Log file of a run's process."""
    return paths.inside(paths.home() / "logs", f"{run_id}.log", "run")
