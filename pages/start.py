"""Start page: one person taken out of a release, and three doors to the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dpcl_core.elements import element
from pages.parts import layout, link
from pages.parts.figure_card import mounted, written_once

HELP = """**ε** bounds how much a release may reveal about one person. A release here is the sum of all pictures of a digit,
plus noise. Subtract a release without a person from one with this person: what is left is the picture and both noises.
Everything here works by keyboard: arrow keys move between pictures and along the slider."""
BEHIND: Final[Mapping[element.Door, tuple[str, str]]] = {  # page and its name
    "digits": ("playground", "Playground"),
    "words": ("tokens", "Sensitive words"),
    "clients": ("anchors", "Matching clients"),
}


def page() -> None:
    """The page. It imports no numerics: the picture is drawn before anything else has loaded."""
    layout.header(element.TITLE, element.QUESTION, help_text=HELP)
    with layout.card("hero"):
        mounted(element.HERO)(key="hero", data=written_once(element.hero_document))
        st.caption(element.TEACHING)
    for column, (door, (what, question)) in zip(st.columns(len(element.DOORS)), element.DOORS.items(), strict=True):
        name, title = BEHIND[door]
        with column, layout.card(f"door-{door}"):
            st.markdown(f"**{what}** {question}")
            mounted(element.DOOR)(key=f"small-{door}", data=written_once(element.doors_document, door, public="model"))
            layout.arrow(name, title)
    with st.container(horizontal=True, gap="medium"):
        layout.arrow("lessons", "Start lesson 1", {"v": link.VERSION, "l": "coin", "s": "1"})
        layout.arrow("questions", "Questions to run for real")


if __name__ == "__main__":
    page()
