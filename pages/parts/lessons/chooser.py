"""The course on the page Lessons: the choice of part and lesson, the way to the next one, and questions to think about."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dpcl_core.lessons import text
from dpcl_core.lessons.text import Lesson
from pages.parts.shell import layout, link, terms
from pages.parts.shell.view import View


def lesson(view: View, linked: str) -> str:
    """Draws the parts of the course and the lessons of one; returns the name of the chosen lesson. `linked`: the link's."""
    parts = list(text.PARTS)
    counts = {name: f"Part {place} of {len(parts)}: {name}" for place, name in enumerate(parts, start=1)}
    part = st.selectbox("Part", parts, parts.index(text.part(linked)), format_func=counts.__getitem__, key=view.key("part"))
    names = text.PARTS[part]
    key = view.key(f"lesson-{parts.index(part)}")
    return st.radio(
        "Lesson", names, names.index(linked) if linked in names else 0, key=key,
        format_func=lambda name: f"{text.number(name)}. {text.load(name).title}",
        captions=[f"{text.load(name).question} About {text.load(name).minutes} minutes." for name in names],
    )  # fmt: skip


def onward(view: View, name: str, codec: link.Codec, values: Mapping[str, object]) -> None:
    """Draws the ways on from a lesson that is done: its part's exercises and the next one, unless it stands alone.

    `values`: of the page's link.
    """
    place = text.number(name)
    if not view["alone"]:
        label = f":primary[Exercises: {text.part(name)} →]"
        st.page_link("pages/exercises.py", label=label, query_params={"p": part_number(name)})
    if place < len(text.NAMES) and not view["alone"]:
        following = text.NAMES[place]
        query = codec.write({**values, "lesson": following, "step": None})
        label = f":primary[Next lesson: {text.load(following).title} →]"
        st.page_link("pages/lessons.py", label=label, query_params=view.linked(query))
    st.page_link("pages/playground.py", label=":primary[Try it in the Playground →]")


def part_number(name: str) -> str:
    """The part of a lesson as links of Exercises and For teachers have it."""
    return str(list(text.PARTS).index(text.part(name)) + 1)


def questions(of: Lesson) -> None:
    """Draws the questions to think about after a lesson; a press on one opens its answer."""
    with layout.card("lesson-think"):
        st.subheader("Think", anchor=False)
        for one in of.think:
            with st.expander(" ".join(one.question.split())):
                terms.markdown(one.answer)
