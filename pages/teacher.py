"""Page for teachers: a part's notes, its plan and handout, and the codes that students hand in."""

from __future__ import annotations

import csv
import io

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.lessons import exercises, text
from pages.parts import layout, lesson_stage, state
from pages.parts.text import plain

HELP = """**Plan** has what a teacher needs for one part of the course, and the same on paper. **Codes** reads what students
hand in after their exercises. A code is read only on the server that made it. It proves that this server has checked the
answers for that name, not who typed them."""
HEADS = ("name", "part", "right", "which", "valid", "why not")
VALID = "yes"


@state.guarded
def page() -> None:
    """The page."""
    view = state.View("teacher", lambda _: lesson_stage.CODEC)
    place = layout.heading("For teachers", "What does a class need, and what has it handed in?", notices=view.read.notices)
    part = lesson_stage.draw_choice(view, width=420)
    layout.views({"Plan": lambda: _plan(part, lesson_stage.number(part)), "Codes": _codes}, "teacher-views")
    view.commit({"part": lesson_stage.number(part)}, lesson_stage.CODEC)
    layout.actions(place, is_shared=True, help_text=HELP)


def _plan(part: str, number: int) -> None:
    """Draws the notes on a part, its plan, and what a class is given."""
    with st.spinner("One moment ..."):
        from dpcl_core.lessons import in_browser  # loads the mechanisms, which takes seconds: after the heading

    notes = text.notes(part)
    with layout.card("teacher-notes"):
        st.header("Notes", anchor=False)
        layout.markdown(f"**What to look for.** {notes.look_for}")
        layout.markdown("**What students often believe**")
        layout.markdown("\n".join(f"- *“{_line(one.belief)}”* {_line(one.reply)}" for one in notes.misconceptions))
        layout.markdown(f"**A question to ask.** {notes.ask}")
        layout.markdown(f"**When a prediction is wrong.** {notes.when_wrong}")
    with layout.card("teacher-one-class"):
        st.header(f"If you have one class only: {in_browser.MINUTES} minutes", anchor=False)
        lesson_stage.draw_one_class()
    with layout.card("teacher-plan"):
        st.header(f"A plan for {in_browser.MINUTES} minutes", anchor=False)
        titles = {name: f"{text.number(name)}. {text.load(name).title}" for name in text.PARTS[part]}
        rows = [(f"{start} to {end}", titles[name]) for start, end, name in in_browser.plan(part)]
        if (start := in_browser.run_from(part)) is not None:
            rows.append((f"{start} to {in_browser.MINUTES}", "A run of everybody's own, in the classroom"))
        layout.draw_table(("minutes", "what"), rows, names=2)
        with st.container(horizontal=True):
            st.download_button(
                "Handout", lambda: in_browser.page(part), f"{part.lower().replace(' ', '-')}.html", "text/html",
                key="handout",
                on_click="ignore", help="On paper: notes and plan, a sheet to fill in, its answers apart.",
            )  # fmt: skip
            layout.arrow("exercises", "Its exercises", {"p": str(number)})
            layout.arrow("room", "Classroom", {"v": "1"})


def _line(words: str) -> str:
    return " ".join(words.split())


def _codes() -> None:
    """Draws a place for codes, and a table of what they say."""
    with st.form("teacher-codes", border=False):
        pasted = st.text_area("Codes, with blanks or new lines between them", height=140, key="teacher-pasted")
        st.form_submit_button("Check the codes", type="primary", key="teacher-check")
    rows = [_row(code) for code in exercises.codes_in(pasted)]
    if not rows:
        return
    n_valid = sum(row[4] == VALID for row in rows)
    st.html(f'<p role="status" class="lesson-verdict"><b>{n_valid} of {len(rows)} valid.</b></p>')
    layout.draw_table(HEADS[:5], [tuple(map(plain, row[:5])) for row in rows], names=5)
    with layout.card("teacher-refused"):
        st.caption("A valid code proves that this server has checked the answers, not who typed them.")
        for name, *_, valid, why in rows:
            if valid != VALID:
                st.markdown(f"**{plain(name)}**: {plain(why)}.")
        st.download_button("CSV", lambda: _written(rows), "codes.csv", "text/csv", key="teacher-csv", on_click="ignore")


def _row(code: str) -> tuple[str, ...]:
    """What a code says, or why it is none, in the columns of `HEADS`."""
    try:
        handed = exercises.read_code(code)
    except BadInput as refused:
        return code[:60], "", "", "", "no", refused.allowed
    part = list(text.PARTS)[handed.part - 1]
    n_asked = sum(len(text.load(name).exercises) for name in text.PARTS[part])
    return handed.name, part, f"{len(handed.right)} of {n_asked}", handed.right or "–", VALID, ""


def _written(rows: list[tuple[str, ...]]) -> str:
    """The table as CSV; what was pasted and is no code may be a formula, and then begins with an apostrophe."""
    written = io.StringIO()
    names = [name if name[:1].isalnum() else f"'{name}" for name, *_ in rows]
    csv.writer(written).writerows([HEADS, *((name, *row[1:]) for name, row in zip(names, rows, strict=True))])
    return written.getvalue()


if __name__ == "__main__":
    page()
