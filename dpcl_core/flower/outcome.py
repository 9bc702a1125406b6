"""What a server of real clients leaves in its folder: the run's events, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path

from dpcl_core.events import Event, from_json

EVENTS, OUTCOME, LOG = "events.jsonl", "outcome.json", "flower.log"
SAID = "dpcl: "  # begins the lines that are for whoever runs the server


def events(folder: Path) -> tuple[Event, ...]:
    """The events so far, in order; none before the run has begun."""
    if not (folder / EVENTS).exists():
        return ()
    return tuple(from_json(json.loads(line)) for line in (folder / EVENTS).read_text(encoding="utf-8").splitlines())


def failure(folder: Path) -> str | None:
    """Why the run ended without a result, in one sentence; None where it finished."""
    if not (folder / OUTCOME).exists():
        return f"the server's process ended before the run did: see {folder / LOG}"
    return str(json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["error"]) or None
