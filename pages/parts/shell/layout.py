"""The layout of a page: two columns, cards, views and tables."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.shell import address, state

_IS_FIRST: Final = "picture-is-first"  # session key: whether a part is drawn by itself and has drawn no picture yet
_PAINT_SECONDS: Final = 0.1
_TAG: Final = re.compile(r"(?<!\\)<")


def controls_and_answer() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two containers: controls (320 px, a card) and answer (the rest).

    From 700 to 1,099 px the controls are in two columns above the answer; below 700 px, and on Lessons, they follow the
    answer. At most one pair per page.
    """
    split = st.container(key="split", horizontal=True, gap="medium")
    return split.container(key="controls", width=320, gap="small"), split.container(key="answer", gap="small")


def link_to_controls(controls: DeltaGenerator, answer: DeltaGenerator, label: str) -> None:
    """Draws a link from the top of the answer to the controls, where a narrow screen has them far below it."""
    controls.container(key="controls-place").html('<span id="to-controls"></span>')
    answer.container(key="controls-link").markdown(f"[{label}](#to-controls)")


def card(key: str) -> DeltaGenerator:
    """A container with a thin border and a white background, for a figure or a form."""
    return st.container(key=f"card-{key}", gap="small")


def folded(title: str, key: str, *, is_open: bool = False) -> DeltaGenerator | None:
    """An expander for what few visitors need; None until it is opened, since every element costs the server time.

    From then on it is drawn even while closed: a field that is left out forgets its value.
    """
    box = st.expander(title, expanded=is_open, key=key, on_change="rerun")
    was_open = f"{key}-was-open"
    if box.open:
        st.session_state[was_open] = True
    return box if was_open in st.session_state else None


def popover(label: str, key: str, **looks: Any) -> DeltaGenerator | None:
    """A popover for what few visitors need; None while it is closed, since every element costs the server time.

    `looks`: what else `st.popover` takes.
    """
    box = st.popover(label, key=key, on_change="rerun", **looks)
    return box if box.open else None


def views(draw: Mapping[str, Callable[[], None]], key: str, default: str | None = None) -> None:
    """Draws one of several views by title, under the choice of it. `default`: the one open at first, else the first.

    Not `st.tabs`: while a page is drawn again, those lose the keyboard's focus or return to the tab before the last.
    """
    opened = st.segmented_control(
        "View", list(draw), default=default or next(iter(draw)), key=key, required=True, label_visibility="collapsed"
    )
    draw[opened]()


def apart(draw: Callable[[], None], settle: Callable[[], None], *, every: float | None = None) -> None:
    """Draws a part of a page. A press or a move inside it draws the part again, without the page around it.

    `settle` then does what the rest of the page needs: it writes the address, or draws the page again. `every`: seconds
    after which the part is drawn again by itself.
    """

    def part() -> None:
        context = get_script_run_ctx()
        is_alone = context is not None and bool(context.fragment_ids_this_run)
        st.session_state[_IS_FIRST] = is_alone
        if is_alone:
            address.begin()
        draw()
        if is_alone:
            settle()

    st.fragment(state.guarded(part), run_every=every)()


def await_paint() -> None:
    """Lets the browser draw the first picture of a part that is drawn by itself, before the rest of it comes.

    A browser draws at once all that it has received. What a slider moves need not wait for the figures below it.
    """
    if st.session_state.pop(_IS_FIRST, False):
        time.sleep(_PAINT_SECONDS)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1, title: str = "") -> None:
    """Draws a table, under its title if any: the first `names` columns are words, the others right-aligned numbers.

    Cells are Markdown without tags. On a narrow screen the table scrolls by itself, so it can take the focus.
    """
    rule = ["---"] * names + ["---:"] * (len(heads) - names)
    lines = "".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in (heads, rule, *rows))
    lines = _TAG.sub(r"\\<", lines)
    name = escape(title or f"Table: {', '.join(filter(None, heads))}").replace("*", "")
    frame = f'<div class="table" role="group" tabindex="0" aria-label="{name}">\n\n{lines}\n</div>'
    st.markdown(f"**{title}**\n\n{frame}" if title else frame, unsafe_allow_html=True)
