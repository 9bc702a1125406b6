"""The hero, "take one person out", and the small pictures on its doors: what they are drawn from, in `assets/hero/`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from typing import Any, Final, Literal

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
TEACHING: Final = "Public digits, fixed noise: for teaching, never for private data."
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
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_OUTLINE = ' stroke="currentColor" stroke-width="2"'
_HEIGHT, _WIDTH = 96, 240


@lru_cache(maxsize=1)
def document() -> dict[str, object]:
    """The data of the element: public digits with their releases, the stops of the slider, and its words."""
    stops = ["inf" if math.isinf(stop) else stop for stop in STOPS]
    return {"digits": _read("digits"), "stops": stops, "words": WORDS}


@lru_cache(maxsize=3)
def miniature(door: Door) -> str:
    """The small picture of a door as HTML; its classes are those of `assets/shared/theme.css`."""
    draw = {"digits": _curve, "words": _sentence, "clients": _points}[door]
    return draw(_read("doors")[door])


def _read(name: str) -> Any:
    return json.loads((paths.assets_dir() / "hero" / f"{name}.json").read_text(encoding="utf-8"))


def _curve(points: list[list[float]]) -> str:
    low, high = math.log(points[0][0]), math.log(points[-1][0])
    line = " ".join(
        f"{8 + (_WIDTH - 16) * (math.log(epsilon) - low) / (high - low):.1f},{_HEIGHT - 6 - (_HEIGHT - 12) * share:.1f}"
        for epsilon, share in points
    )
    ends = f"{100 * points[0][1]:.0f} % at ε = {points[0][0]:g}, {100 * points[-1][1]:.0f} % at ε = {points[-1][0]:g}"
    drawn = f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="3"/>'
    return _svg(f"Accuracy rises with ε: {ends}", drawn)


def _sentence(words: list[list[Any]]) -> str:
    spans = (f'<i class="t{shade}" title="score {score:.2f}">{escape(word)}</i>' for word, shade, score in words)
    return f'<p class="heat door-words">{" ".join(spans)}</p>'


def _points(entries: list[list[Any]]) -> str:
    marks = (
        f'<circle cx="{10 + (_WIDTH - 20) * x:.1f}" cy="{10 + (_HEIGHT - 20) * y:.1f}" r="3.5" fill="{_COLOURS[group]}"'
        f"{'' if is_right else _OUTLINE}/>"
        for x, y, group, is_right in entries
    )
    n_right = sum(is_right for *_, is_right in entries)
    return _svg(f"{n_right} of {len(entries)} entries of twenty clients' lists lie in the right group", "".join(marks))


def _svg(finding: str, marks: str) -> str:
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" height="{_HEIGHT}"'
    return f'<svg class="door-picture" role="img" aria-label="{escape(finding)}" {box}>{marks}</svg>'
