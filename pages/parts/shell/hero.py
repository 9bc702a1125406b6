"""The hero of Start, "take one person out", and the small pictures on its doors: browser elements fed from assets/hero."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from html import escape
from typing import Any, Final, Literal

import streamlit as st

from dpcl_core import paths
from dpcl_core.elements.element import HERO
from dpcl_core.privacy import statement
from pages.parts.shell.mount import mounted

Door = Literal["digits", "words", "clients"]
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


def take_one_out() -> None:
    """Draws the element; it computes everything in the browser and reports nothing."""
    mounted(HERO)(key="hero", data=_document())


def miniature(door: Door) -> None:
    """Draws the small picture of a door."""
    _miniature(door)(key=f"door-{door}")


@lru_cache(maxsize=1)
def _document() -> dict[str, object]:
    stops = ["inf" if math.isinf(stop) else stop for stop in STOPS]
    return {"digits": _read("digits"), "stops": stops, "words": WORDS}


def _read(name: str) -> Any:
    return json.loads((paths.assets_dir() / "hero" / f"{name}.json").read_text(encoding="utf-8"))



@lru_cache(maxsize=3)
def _miniature(door: Door) -> Any:
    draw = {"digits": _curve, "words": _sentence, "clients": _points}[door]
    html = draw(_read("doors")[door])
    return st.components.v2.component(f"door_{door}", html=html, isolate_styles=False)  # its classes are the page's


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
