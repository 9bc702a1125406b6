"""Start page: one story, of what privacy costs a model that keeps learning, and three doors to the rest."""

import streamlit as st

from dpcl_core.elements import element
from pages.parts import layout, link
from pages.parts.figure_card import mounted, written_once
from pages.parts.text import WORDS

_BEHIND = {
    "Learn": ("lessons", {"view": "steps", "v": link.VERSION, "l": "coin", "s": "1"}),
    "Ask": ("questions", None),
    "Use my data": ("data", None),
}


def page() -> None:
    """The page. It imports no numerics: the picture is drawn before anything else has loaded."""
    layout.header(element.TITLE, element.QUESTION, help_text=WORDS["start"]["help"])
    with layout.card("hero"):
        mounted(element.HERO)(key="hero", data=written_once(element.hero_document))
        st.caption(element.TEACHING)
    for column, (door, what) in zip(st.columns(len(element.DOORS)), element.DOORS.items(), strict=True):
        with column, layout.card(f"door-{door}"):
            page_name, query = _BEHIND[door]
            st.page_link(f"pages/{page_name}.py", label=f":primary[**{door}** {what}]", query_params=query)
    layout.way_here()


if __name__ == "__main__":
    page()
