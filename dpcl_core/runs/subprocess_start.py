"""How worker processes are started: apart from the terminal, the store's address out of sight, each run with a log."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import dpcl_core
from dpcl_core import paths


def environment(url: str) -> Mapping[str, str]:
    """What a worker of the store at this address finds in its environment."""
    root = str(Path(dpcl_core.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "DPCL_STORE": url, "PYTHONPATH": path}  # not on the command line, which anyone may list


def spawn(
    command: Sequence[str],
    url: str,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Starts a worker of the store at this address. Raises OSError where the system cannot."""
    started = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,  # a closed terminal or a stopped app takes no run along
        env=environment(url),
    )
    # Collected when it ends, so that it leaves no zombie; the thread holds nothing else and ends with this process.
    threading.Thread(target=started.wait, name=f"wait for {started.pid}", daemon=True).start()
    return started


def log_file(run_id: str) -> Path:
    """Where the process of a run writes what it has to say beyond its events."""
    return paths.inside(paths.home() / "logs", f"{run_id}.log", "run")
