"""Start page: one person taken out of a release, and three doors to the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dpcl_core.elements.element import DOORS, QUESTION, TEACHING, TITLE, Door
from pages.parts import hero, layout, link
from pages.parts.layout import header

HELP = """**ε** bounds how much a release may reveal about one person. A release here is the sum of all pictures of a digit,
plus noise. Subtract a release without a person from one with this person: what is left is the picture and both noises.
Everything here works by keyboard: arrow keys move between pictures and along the slider."""
BEHIND: Final[Mapping[Door, tuple[str, str]]] = {  # page and its name
    "digits": ("playground", "Playground"),
    "words": ("tokens", "Sensitive words"),
    "clients": ("anchors", "Matching clients"),
}


def page() -> None:
    """The page. It imports no numerics: the picture is drawn before anything else has loaded."""
    header(TITLE, QUESTION, help_text=HELP)
    with layout.card("hero"):
        hero.take_one_out()
        st.caption(TEACHING)
    for column, (door, (what, question)) in zip(st.columns(len(DOORS)), DOORS.items(), strict=True):
        name, title = BEHIND[door]
        with column, layout.card(f"door-{door}"):
            st.markdown(f"**{what}** {question}")
            hero.miniature(door)
            st.page_link(f"pages/{name}.py", label=f":primary[{title} →]")
    with st.container(horizontal=True, gap="medium"):
        query = {"v": link.VERSION, "l": "coin", "s": "1"}
        st.page_link("pages/lessons.py", label=":primary[Start lesson 1 →]", query_params=query)
        st.page_link("pages/questions.py", label=":primary[Questions to run for real →]")


if __name__ == "__main__":
    page()
