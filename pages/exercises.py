"""Exercises page: a part's questions with the visitor's own numbers, and a code to hand in for those that are right."""

from __future__ import annotations

import streamlit as st

from dpcl_core.lessons import exercises, text
from pages.parts import layout, lesson_stage, state
from pages.parts.text import plain

HELP = """Each exercise has a number for its answer. The numbers in the questions follow from the **name** that you enter:
the same name gets the same numbers on every computer, and your neighbour gets others. Answers can be changed and checked
again as often as you like. Nothing of it is stored. The **code** holds the name, the part and which answers were right."""
PROVES = (
    "It proves that this server has checked these answers for this name. It does not prove who typed them. Only the server "
    "that made it can read it."
)


@state.guarded
def page() -> None:
    """The page."""
    view = state.View("exercises", lambda _: lesson_stage.CODEC)
    place = layout.heading("Exercises", "Can you work it out yourself?", notices=view.read.notices)
    of_part, of_name = st.columns(2)
    with of_part:
        part = lesson_stage.draw_choice(view)
    with of_name:
        typed = st.text_input(
            "Your invented name", max_chars=exercises.LONGEST, placeholder="amber fox", key="exercises-name",
            help="Any name will do, or the one you have in the classroom. It goes into your code.",
        )  # fmt: skip
    number = lesson_stage.number(part)
    if typed.strip():
        _sheet(part, number, exercises.clean_name(typed))
    else:
        st.markdown("Enter a name to see the questions of this part, with numbers of your own.")
    view.commit({"part": number}, lesson_stage.CODEC)
    layout.actions(place, is_shared=True, help_text=HELP)


def _sheet(part: str, number: int, name: str) -> None:
    """Draws the questions, what was right when they were last checked, and the code."""
    with st.spinner("Drawing your numbers ..."):
        asked = exercises.sheet(part, name)
    key = f"exercises-{number}-{name}"
    given: dict[str, float | None] = st.session_state.get(f"{key}-given", {})

    def check() -> None:
        st.session_state[f"{key}-given"] = {one.letter: st.session_state[f"{key}-{one.letter}"] for one in asked}

    with st.form(key, border=False):
        for one in asked:
            with layout.card(f"exercise-{number}{one.letter}"):
                _question(one, number, key, given)
        st.form_submit_button("Check", type="primary", key=f"{key}-check", on_click=check)
    if given:
        right = "".join(one.letter for one in asked if one.is_right(given[one.letter]))
        st.html(f'<p role="status" class="lesson-verdict"><b>{len(right)} of {len(asked)} right.</b></p>')
        st.markdown(f"**Your code to hand in.** {PROVES}")
        st.code(exercises.sealed(exercises.Handed(name, number, right)), language=None, wrap_lines=True)


def _question(one: exercises.Exercise, number: int, key: str, given: dict[str, float | None]) -> None:
    st.caption(f"Lesson {text.number(one.lesson)}, {text.load(one.lesson).title}")
    layout.markdown(f"**{number}{one.letter}.** {one.ask}")
    answer = st.number_input(
        f"Answer {number}{one.letter}, {one.wanted}", value=None, step=10.0**-one.digits, format=f"%.{one.digits}f",
        key=f"{key}-{one.letter}", width=340,
    )  # fmt: skip
    if one.letter in given and given[one.letter] == answer:
        verdict = "✓ Right." if one.is_right(answer) else "No answer yet." if answer is None else "Not yet."
        st.markdown(f"**{verdict}** {plain(one.how) if answer is not None else ''}")


if __name__ == "__main__":
    page()
