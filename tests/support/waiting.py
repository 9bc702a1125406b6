"""Waiting for a state: however long a busy machine takes, and not for ever where something hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 600.0  # ends a test that hangs; says nothing about how fast anything should be
NEVER_SECONDS = 36_000  # what sleeps so long has not ended by itself when a test is over


def until(what: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Waits for something to be so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
