"""Sharp edges page: pitfalls of private learning, how each is prevented here, and a demonstration of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.lessons import text
from pages.parts import layout

if TYPE_CHECKING:
    from dpcl_core.lessons.edges import Shown

HELP = """Each card shows one way in which a program with the right formula still leaks private data. **Show it** runs a
small computation on invented numbers: the first row of its table shows the mistake, the last row the version used here. The
noise is fresh at every press."""


def page() -> None:
    """The page."""
    layout.header("Sharp edges", "Where does private learning go wrong?", help_text=HELP)
    columns, edges = st.columns(2), text.edges()
    for number, edge in enumerate(edges, start=1):
        with columns[number > (len(edges) + 1) // 2]:
            _card(number, edge)


def _card(number: int, edge: text.Edge) -> None:
    key = f"edge:{edge.key}"
    with layout.card(f"edge-{edge.key}"):
        st.header(f"{number}. {edge.title}", anchor=False)
        layout.markdown(edge.wrong)
        st.markdown(f"**Here:** {edge.prevented} :small[`{edge.where}`]")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if st.button("Show it", key=f"show-{edge.key}", help=f"Demonstrates the mistake: {edge.title}"):
                from dpcl_core.lessons import edges  # loads the accountants, which take a second

                st.session_state[key] = edges.demonstration(edge.key)
            if edge.lesson is not None:
                layout.arrow("lessons", f"Lesson {text.number(edge.lesson)}", {"v": "1", "l": edge.lesson})
        if (shown := cast("Shown | None", st.session_state.get(key))) is not None:
            layout.draw_table(shown.head, shown.rows)
            st.markdown(f"**{shown.finding}**")


if __name__ == "__main__":
    page()
