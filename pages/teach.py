"""Teach page: exercises with the visitor's own numbers, what a teacher needs for a class, and the classroom."""

import streamlit as st

from dpcl_core.elements import element
from dpcl_core.errors import BadInput
from dpcl_core.later import pd
from dpcl_core.lessons import exercises, text
from pages.parts import figure_card, layout, lesson_stage, link, state, visitor
from pages.parts.rooms import FIELDS, attempt, open_rooms, panel, room_of_code
from pages.parts.text import WORDS, labelled, plain

VIEWS = {"exercises": "Exercises", "plan": "For teachers", "classroom": "Classroom"}
HEADS = ("name", "part", "right", "which", "valid", "why not")
VALID = "yes"
_EXAMPLE = "amber fox"  # an invented name
ROOM_CODEC = link.Codec(link.Field("room", "room", "room", link.Text(12), ""))


@state.guarded
def page() -> None:
    """The page."""
    name = layout.open_view(VIEWS)
    of, codec = ("classroom", ROOM_CODEC) if name == "classroom" else ("teach", lesson_stage.CODEC)
    view = state.View(of, codec)
    question, draw = {
        "exercises": ("Can you work it out yourself?", _exercises),
        "plan": ("What does a class need, and what has it handed in?", _for_teachers),
        "classroom": ("What does everybody think, and what did everybody find?", _classroom),
    }[name]
    place = layout.heading("Teach", question, notices=view.read.notices)
    draw(view)
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["teach"][f"help_{name}"])


def _exercises(view: state.View) -> None:
    """Draws the exercises of a part."""
    of_part, of_name = st.columns(2)
    with of_part:
        part = lesson_stage.draw_choice(view)
    with of_name:
        typed = st.text_input(
            "Your invented name", max_chars=exercises.LONGEST, placeholder=_EXAMPLE, key="exercises-name",
            help="Any name will do, or the one you have in the classroom. It goes into your code.",
        )  # fmt: skip
    number = lesson_stage.number(part)
    if typed.strip():
        _sheet(part, number, exercises.clean_name(typed))
    else:
        st.markdown(f"Enter a name: the questions get numbers of your own. With *{_EXAMPLE}* they begin:")
        with layout.card("exercise-example"), st.spinner("Drawing its numbers ..."):
            layout.markdown("\n".join(f"1. {one.ask}" for one in exercises.sheet(part, _EXAMPLE)[:3]))


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
                st.caption(f"Lesson {text.number(one.lesson)}, {text.load(one.lesson).title}")
                layout.markdown(f"**{number}{one.letter}.** {one.ask}")
                answer = st.number_input(
                    f"Answer {number}{one.letter}, {one.wanted}", value=None, step=10.0**-one.digits,
                    format=f"%.{one.digits}f", key=f"{key}-{one.letter}", width=340,
                )  # fmt: skip
                if one.letter in given and given[one.letter] == answer:
                    verdict = "✓ Right." if one.is_right(answer) else "No answer yet." if answer is None else "Not yet."
                    st.markdown(f"**{verdict}** {plain(one.how) if answer is not None else ''}")
        st.form_submit_button("Check", type="primary", key=f"{key}-check", on_click=check)
    if given:
        right = "".join(one.letter for one in asked if one.is_right(given[one.letter]))
        st.html(f'<p role="status" class="lesson-verdict"><b>{len(right)} of {len(asked)} right.</b></p>')
        st.markdown(WORDS["teach"]["code"])
        st.code(exercises.sealed(exercises.Handed(name, number, right)), language=None, wrap_lines=True)


def _for_teachers(view: state.View) -> None:
    """Draws a part's notes, plan and handout, or the codes handed in."""
    part = lesson_stage.draw_choice(view, width=420)
    layout.views({"Plan": lambda: _plan(part, lesson_stage.number(part)), "Codes": _codes}, "teacher-views")


def _plan(part: str, number: int) -> None:
    """Draws the notes on a part, its plan, and what a class is given."""
    with st.spinner("One moment ..."):
        from dpcl_core.lessons import in_browser  # loads the mechanisms, which takes seconds: after the heading

    with layout.card("teacher-one-class"):
        st.header(f"If you have one class only: {in_browser.MINUTES} minutes", anchor=False)
        asked, now = [], 0
        for block in text.one_class():
            steps = ", ".join(map(str, block.steps))
            what = f"{text.load(block.lesson).title}: lesson {text.number(block.lesson)}, steps {steps}"
            asked.append((f"{now} to {now + block.minutes}", what, block.ask))
            now += block.minutes
        layout.draw_table(("minutes", "what", "then ask"), asked, names=3)
        st.caption("Each step asks first: let everybody choose an answer before you press the button.")
        with st.container(horizontal=True):
            for block in text.one_class():  # in presenter size
                query = {"view": "steps", "v": link.VERSION, "l": block.lesson, "s": str(block.steps[0]), link.LARGE: "1"}
                layout.arrow("lessons", f"Lesson {text.number(block.lesson)}", query)
    with layout.card("teacher-plan"):
        st.header(f"A plan for {in_browser.MINUTES} minutes", anchor=False)
        titles = {name: f"{text.number(name)}. {text.load(name).title}" for name in text.PARTS[part]}
        rows = [(f"{start} to {end}", titles[name]) for start, end, name in in_browser.plan(part)]
        if (start := in_browser.run_from(part)) is not None:
            rows.append((f"{start} to {in_browser.MINUTES}", "A run of everybody's own, in the classroom"))
        layout.draw_table(("minutes", "what"), rows, names=2)
        with st.container(horizontal=True):
            paper = "On paper: notes and plan, a sheet to fill in, its answers apart."
            layout.download("Handout", lambda: in_browser.page(part), f"{part.lower().replace(' ', '-')}.html", paper)
            layout.arrow("teach", "Its exercises", {"view": "exercises", "p": str(number)})
            layout.arrow("teach", "Classroom", {"view": "classroom", "v": "1"})
    if (box := layout.folded("Notes: what to look for, and what students often believe", "teacher-notes")) is not None:
        notes = text.notes()[part]
        believed = [(" ".join(words.split()) for words in (one.belief, one.reply)) for one in notes.misconceptions]
        with box:
            layout.markdown(f"**What to look for.** {notes.look_for}")
            layout.markdown("**What students often believe**")
            layout.markdown("\n".join(f"- *“{belief}”* {reply}" for belief, reply in believed))
            layout.markdown(f"**A question to ask.** {notes.ask}")
            layout.markdown(f"**When a prediction is wrong.** {notes.when_wrong}")


def _codes() -> None:
    """Draws a place for codes, and a table of what they say."""
    with st.form("teacher-codes", border=False):
        pasted = st.text_area("Codes, with blanks or new lines between them", height=140, key="teacher-pasted")
        st.form_submit_button("Check the codes", type="primary", key="teacher-check")
    if not (rows := [_row(code) for code in exercises.codes_in(pasted)]):
        return
    n_valid = sum(row[4] == VALID for row in rows)
    st.html(f'<p role="status" class="lesson-verdict"><b>{n_valid} of {len(rows)} valid.</b></p>')
    layout.draw_table(HEADS[:5], [tuple(map(plain, row[:5])) for row in rows], names=5)
    with layout.card("teacher-refused"):
        st.caption("A valid code proves that this server has checked the answers, not who typed them.")
        for name, *_, valid, why in rows:
            if valid != VALID:
                st.markdown(f"**{plain(name)}**: {plain(why)}.")
        layout.download("CSV", lambda: _written(rows), "codes.csv")


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
    safe = [(name if name[:1].isalnum() else f"'{name}", *of) for name, *of in rows]
    return str(pd.DataFrame(safe, columns=HEADS).to_csv(index=False, lineterminator="\r\n"))


def _classroom(view: state.View) -> None:
    """Draws a room, or the ways into one."""
    (_room if view["room"] else _door)(view)


def _door(view: state.View) -> None:
    """Draws the ways in: a code, a new room, and the rooms that this browser has opened."""
    join, start = st.columns(2)
    with join, layout.card("room-join"), st.form("room-join-form", border=False):
        st.header("Join a room", anchor=False)
        typed = st.text_input("Code", max_chars=12, placeholder="six letters", key="room-code")
        if st.form_submit_button("Join", type="primary", key="room-join-button"):
            attempt(lambda: _go(view, room_of_code(typed).code))
    with start, layout.card("room-open"), st.form("room-open-form", border=False):
        st.header("Open a room", anchor=False)
        title = st.text_input("Title", max_chars=80, placeholder="Privacy, Monday at ten", key="room-title")
        if st.form_submit_button("Open", key="room-open-button"):
            attempt(lambda: _go(view, open_rooms().open(title, visitor.token())))
    layout.arrow("teach", "For teachers: notes, plans, handouts, codes handed in", {"view": "plan"})
    if mine := open_rooms().of_owner(visitor.token()):
        st.header("Your rooms", anchor=False)
        for code, name in mine:
            label = f":primary[{plain(name)} · {code}]"
            st.page_link("pages/teach.py", label=label, query_params=view.linked({"room": code}))


def _go(view: state.View, code: str) -> None:
    st.switch_page("pages/teach.py", query_params=view.linked({"room": code}))


def _room(view: state.View) -> None:
    """Draws the room that the link names, or says why there is none."""
    rooms, token = open_rooms(), visitor.token()
    try:
        room = room_of_code(str(view["room"]))
    except BadInput as refused:
        st.error(plain(labelled(refused, FIELDS)))
        layout.arrow("teach", "Join or open another room", view.linked({"v": "1"}))
        return
    st.header(plain(room.title), anchor=False)
    if room.belongs_to(token):
        panel(view, room)
    else:
        name = rooms.join(room.code, token)
        st.markdown(f"You are **{name}**. Runs that you start in this browser appear below, under this name.")
        with st.container(horizontal=True):
            layout.arrow("questions", "Start a run")
            if st.button("Leave the room", key="room-leave"):
                rooms.leave(room.code, token)
                st.switch_page("pages/teach.py", query_params=view.linked({"v": "1"}))
    figure_card.mounted(element.ROOM)(data=element.room_document(room.code), key=f"room-{room.code}")


if __name__ == "__main__":
    page()
