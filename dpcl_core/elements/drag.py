"""The ε-drag: what it is drawn from. It computes results exactly from products that contain no features
(`explorers/cosine_replay.py`), or looks up trained cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcl_core.elements.budget_source import Source


def document(source: Source, start: float, panels: Sequence[str]) -> dict[str, object]:
    """The data of the element: the same for every budget, so it is sent only once.

    `start`: the initial budget. `panels`: from accuracy, matrix, classes.
    """
    return {
        "key": source.key,
        "stops": [_number(stop) for stop in source.stops],
        "start": _number(start),
        "delta": source.delta,
        "words": dict(source.words),
        "classes": list(source.classes),
        "interval_factor": source.interval_factor,
        "panels": list(panels),
        "replay": source.replay,
        "table": source.table or None,
    }


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
