"""The hero, "take one person out": what it is drawn from, in `assets/hero/`. And what Start's doors ask."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from dpcl_core import paths
from dpcl_core.privacy import statement

Door = Literal["digits", "words", "clients"]
DOORS: Final[Mapping[Door, tuple[str, str]]] = {  # what is behind it, and its question
    "digits": ("Digits", "What does ε cost?"),
    "words": ("Words", "Which are taken for private?"),
    "clients": ("Clients", "Can twenty agree without naming?"),
}
TITLE: Final = "Take one person out"
QUESTION: Final = "What can others learn about one person?"
TEACHING: Final = "Public digits, fixed noise: for teaching only."
STOPS: Final = (0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 30, 100, 300, 1000, math.inf)
WORDS: Final = {
    "clean": "Without noise, subtracting brings the {digit} back exactly.",
    "seen": "The {digit} still shows: the noise is only {times} times its size.",
    "hidden": "The {digit} drowns in noise {times} times its size.",
    "shared": "The same noise cancels: the {digit} is back.",
    "accuracy": "{percent} % of new digits recognised.",
    "odds": statement.ODDS,
    "no_odds": statement.NO_ODDS,
}


@lru_cache(maxsize=1)
def document() -> dict[str, object]:
    """The data of the element: public digits with their releases, the stops of the slider, and its words."""
    stops = ["inf" if math.isinf(stop) else stop for stop in STOPS]
    digits = json.loads((paths.assets_dir() / "hero" / "digits.json").read_text(encoding="utf-8"))
    return {"digits": digits, "stops": stops, "words": WORDS}
