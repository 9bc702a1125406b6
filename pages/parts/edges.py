"""Sharp edges, the second view of Lessons: pitfalls of private learning, how each is prevented here, each demonstrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.lessons import text
from pages.parts import layout, link
from pages.parts.state import View

if TYPE_CHECKING:
    from dpcl_core.lessons.edges import Shown


def draw(view: View) -> None:
    """Draws a card for each pitfall. `view`: the page's, which leads to the lesson that teaches it."""
    columns, edges = st.columns(2), text.edges()
    for number, edge in enumerate(edges, start=1):
        with columns[number > (len(edges) + 1) // 2]:
            _card(view, number, edge)


def _card(view: View, number: int, edge: text.Edge) -> None:
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
                query = view.linked({"view": "steps", "v": link.VERSION, "l": edge.lesson})
                layout.arrow("lessons", f"Lesson {text.number(edge.lesson)}", query)
        if (shown := cast("Shown | None", st.session_state.get(key))) is not None:
            layout.draw_table(shown.head, shown.rows)
            st.markdown(f"**{shown.finding}**")
