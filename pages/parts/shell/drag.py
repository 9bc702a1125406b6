"""The ε-drag: a browser element that redraws while ε is dragged and sends its value to the server when released.

It gets its data once (`elements/drag.py`). If it cannot load, a plain slider replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dpcl_core.elements.budget_source import Source
from dpcl_core.elements.drag import document
from dpcl_core.elements.element import DRAG
from dpcl_core.figures.picture import epsilon_text
from pages.parts.shell.mount import mounted


def drag(source: Source, start: float, *, key: str, panels: Sequence[str], is_plain: bool = False) -> float:
    """Draws the element and returns the budget at which it was released. `start`: the initial budget.

    `panels`: from accuracy, matrix, classes. `is_plain`, or an element that cannot load, gives a select slider instead.
    """
    start = source.nearest(start)
    if not is_plain:
        with suppress(OSError, StreamlitAPIException):
            reported = mounted(DRAG)(key=key, data=document(source, start, panels), on_epsilon_change=lambda: None)
            return _budget(reported.get("epsilon"), source, start)
    return _plain(source, start, key)


def _plain(source: Source, start: float, key: str) -> float:
    start = min(start, max(source.stops))
    nearest = start if start in source.stops else min(source.stops, key=lambda stop: abs(math.log(stop / start)))
    value = st.select_slider(
        "Privacy budget ε", source.stops, nearest, format_func=epsilon_text, key=f"{key}-plain",
        help="From stronger privacy (left) to higher accuracy (right).",
    )  # fmt: skip
    st.markdown(f"**{source.sentence(value)}**")
    st.caption(source.odds(value))
    return float(value)


def _budget(reported: object, source: Source, start: float) -> float:
    """The budget that the browser reports; `start` if this source cannot show it."""
    try:
        value = float(str(reported))
    except ValueError:
        return start
    return value if value > 0 and source.nearest(value) == value else start
