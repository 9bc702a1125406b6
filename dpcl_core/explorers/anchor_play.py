"""Reads the lists of simulated clients that the browser moves and matches; `scripts/make_anchors.py` makes them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpcl_core import paths
from dpcl_core.errors import DataMissing

DRAW = 1  # seeds clients, anchors and noise


@lru_cache(maxsize=2)
def read(length: int) -> dict[str, Any]:
    """The document of vectors of this length, as `scripts.make_anchors.document` gives it. Raises DataMissing."""
    try:
        found: dict[str, Any] = json.loads(path(length).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataMissing("lists", path(length).name, "missing: run python scripts/make_anchors.py") from error
    return found


def path(length: int) -> Path:
    """The document's file."""
    return paths.assets_dir() / "anchors" / f"lists-{length}.json"
