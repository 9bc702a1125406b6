"""The hero of Start, "take one person out", and the small pictures on its doors, on a page."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from dpcl_core.elements import hero
from dpcl_core.elements.element import HERO
from dpcl_core.elements.hero import Door
from pages.parts.shell.mount import mounted


def take_one_out() -> None:
    """Draws the element; it computes everything in the browser and reports nothing."""
    mounted(HERO)(key="hero", data=hero.document())


def miniature(door: Door) -> None:
    """Draws the small picture of a door."""
    _miniature(door)(key=f"door-{door}")


@lru_cache(maxsize=3)
def _miniature(door: Door) -> Any:
    return st.components.v2.component(f"door_{door}", html=hero.miniature(door), isolate_styles=False)
