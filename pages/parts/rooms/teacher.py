"""What the one who opened a room does: shows the way in, asks, ends a question, shows a run, closes the room."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.lessons import text
from pages.parts.rooms import membership
from pages.parts.shell import layout, link, visitor
from pages.parts.shell.text import labelled, plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.runs.rooms import Room

OWN = "A question of my own"
_SHOWN = "room-run"  # session key
_HERE = ("localhost", "127.0.0.1", "::1")


def panel(view: View, room: Room) -> None:
    """Draws the teacher's side of a room."""
    way_in, ask, show = st.columns([1.1, 2, 1.3])
    with way_in:
        _way_in(room)
    with ask, layout.card("room-ask"):
        _ask(room)
    with show, layout.card("room-show"):
        _show(view, room)


def _way_in(room: Room) -> None:
    address = link.address(st.context.url or "", {"room": room.code})
    st.title(f"{room.code[:3]} {room.code[3:]}", anchor=False)
    st.image(_qr(address), width=180)
    st.code(address, language=None, wrap_lines=True)
    if urlsplit(address).hostname in _HERE:
        st.warning(
            "Only this computer reaches this address. Start with `dpcl app --address 0.0.0.0`, and open this page under "
            "the computer's name or number in your network."
        )


@st.cache_data(max_entries=20, show_spinner=False)
def _qr(address: str) -> str:
    """The address as a picture: dark on white in both themes, as cameras expect it, with its quiet border."""
    import segno

    picture = io.BytesIO()
    segno.make(address, error="m").save(picture, kind="svg", scale=4, border=4, light="white", title=address)
    return picture.getvalue().decode()


def _ask(room: Room) -> None:
    rooms, token = membership.rooms(), visitor.token()
    if room.poll is not None and room.poll.is_open:
        answers = list(room.poll.choices)
        right = st.selectbox("The right answer", answers, index=None, placeholder="not shown", key="room-truth")
        if st.button("End the question", type="primary", key="room-end"):
            _done(lambda: rooms.end_poll(room.code, token, None if right is None else answers.index(right)))
        return
    lessons = map(text.load, text.NAMES)
    predictions = {f"{lesson.title}: {step.title}": step for lesson in lessons for step in lesson.steps}
    picked = st.selectbox("Question", [OWN, *predictions], key="room-question", help="A lesson's prediction, or your own.")
    step = predictions.get(picked)
    question = st.text_area("Ask", "" if step is None else step.predict, key=f"room-ask-{picked}", max_chars=500)
    typed = st.text_area(
        "Answers, one per line", "Yes\nNo" if step is None else "\n".join(step.choices), key=f"room-answers-{picked}"
    )
    if st.button("Ask", type="primary", key="room-ask"):
        _done(lambda: rooms.ask(room.code, token, question, [line for line in typed.splitlines() if line.strip()]))


def _show(view: View, room: Room) -> None:
    rooms, token = membership.rooms(), visitor.token()
    names = {run_id: f"{name}, {run_id[:4]}" for run_id, name in room.runs.items()}

    def choose() -> None:
        with suppress(BadInput):  # run or room are gone in this moment, and the page then shows neither
            rooms.show(room.code, token, st.session_state[_SHOWN])

    st.session_state[_SHOWN] = room.shown  # it may have been chosen in the teacher's other window
    st.selectbox(
        "Show a run to everybody", [None, *names], key=_SHOWN, on_change=choose,
        format_func=lambda run_id: "none" if run_id is None else names[run_id],
    )  # fmt: skip
    if st.button("Look for new runs", key="room-look"):
        st.rerun()
    with st.popover("Close the room"):
        st.markdown("Names, answers and the plot are deleted; the runs stay.")
        # A callback comes first; the choice above may start the page again, and the press would be lost.
        st.button("Close it", key="room-close", on_click=lambda: _close(view, room))


def _close(view: View, room: Room) -> None:
    with suppress(BadInput):  # closed already, in another window
        membership.rooms().close(room.code, visitor.token())
    view.go({"v": "1"})


def _done(act: Callable[[], None]) -> None:
    try:
        act()
    except BadInput as refused:
        st.error(plain(labelled(refused, membership.FIELDS)))
        return
    st.rerun()
