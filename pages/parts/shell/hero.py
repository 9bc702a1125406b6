"""The hero of Start, "take one person out", and the small pictures on its doors, on a page."""

from __future__ import annotations

from dpcl_core.elements import hero
from dpcl_core.elements.element import DOOR, HERO
from dpcl_core.elements.hero import Door
from pages.parts.shell.mount import mounted


def take_one_out() -> None:
    """Draws the element; it computes everything in the browser and reports nothing."""
    mounted(HERO)(key="hero", data=hero.document())


def miniature(door: Door) -> None:
    """Draws the small picture of a door."""
    from dpcl_core.elements import doors  # loads a tokenizer, for which the first picture does not wait

    mounted(DOOR)(key=f"small-{door}", data=doors.document(door))
