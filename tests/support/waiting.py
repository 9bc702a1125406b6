"""Waiting for a state: however long a busy machine takes, and not for ever where something hangs."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 600.0  # ends a test that hangs; says nothing about how fast anything should be
NEVER_SECONDS = 36_000  # what sleeps so long has not ended by itself when a test is over


def python(*words: str, cwd: Path = Path(__file__).parents[2], **options: Any) -> str:
    """What Python says with these words on its command line, in a process of its own that must succeed."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until(what: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Waits for something to be so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
