"""The hero of Start, "take one person out", and the small pictures on its doors, on a page."""

from __future__ import annotations

from functools import cache

from dpcl_core.elements import element
from dpcl_core.elements.element import DOOR, HERO, Door
from pages.parts.figure_card import mounted, written


def take_one_out() -> None:
    """Draws the element; it computes everything in the browser and reports nothing."""
    mounted(HERO)(key="hero", data=_hero())


def miniature(door: Door) -> None:
    """Draws the small picture of a door."""
    mounted(DOOR)(key=f"small-{door}", data=_door(door))


@cache
def _hero() -> bytes:
    return written(element.hero_document())


@cache
def _door(door: Door) -> bytes:
    return written(element.doors_document(door))
