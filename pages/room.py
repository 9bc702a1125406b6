"""Room page: a class votes, and sees everybody's runs on one plot; the teacher asks and shows."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dpcl_core.elements import element
from dpcl_core.errors import BadInput
from pages.parts import figure_card, layout, link, state, visitor
from pages.parts.rooms import FIELDS, open_rooms, panel, room_of_code
from pages.parts.text import labelled, plain

HELP = """A teacher **opens** a room and shows its code. Everybody else **joins** with the code: no account, a name drawn by
lot. Answers gather live, and runs that somebody in the room starts appear on one plot. The room keeps these names, the
answers and which runs were shared, and forgets all of it a day after it was opened. A device is a vote: who opens a second
browser can vote twice, so counts show what a class thinks and decide nothing."""

CODEC = link.Codec([link.Field("room", "room", "room", link.Text(12), "")])


@state.guarded
def page() -> None:
    """The page."""
    view = state.View("room", lambda _: CODEC)
    code = str(view["room"])
    place = layout.heading("Classroom", "What does everybody think, and what did everybody find?", notices=view.read.notices)
    if code:
        _room(view, code)
    else:
        _door(view)
    view.commit({"room": code}, CODEC)
    layout.actions(place, is_shared=True, help_text=HELP)


def _door(view: state.View) -> None:
    """Draws the ways in: a code, a new room, and the rooms that this browser has opened."""
    join, start = st.columns(2)
    with join, layout.card("room-join"), st.form("room-join-form", border=False):
        st.header("Join a room", anchor=False)
        typed = st.text_input("Code", max_chars=12, placeholder="six letters", key="room-code")
        if st.form_submit_button("Join", type="primary", key="room-join-button"):
            _go(view, lambda: room_of_code(typed).code)
    with start, layout.card("room-open"), st.form("room-open-form", border=False):
        st.header("Open a room", anchor=False)
        title = st.text_input("Title", max_chars=80, placeholder="Privacy, Monday at ten", key="room-title")
        if st.form_submit_button("Open", key="room-open-button"):
            _go(view, lambda: open_rooms().open(title, visitor.token()))
    layout.arrow("teacher", "For teachers: notes, plans, handouts, codes handed in")
    mine = open_rooms().of_owner(visitor.token())
    if mine:
        st.header("Your rooms", anchor=False)
        for code, name in mine:
            label = f":primary[{plain(name)} · {code}]"
            st.page_link("pages/room.py", label=label, query_params=view.linked({"room": code}))


def _go(view: state.View, find: Callable[[], str]) -> None:
    """Goes to the room with the code found, or says why there is none."""
    try:
        code = find()
    except BadInput as refused:
        st.error(plain(labelled(refused, FIELDS)))
        return
    st.switch_page("pages/room.py", query_params=view.linked({"room": code}))


def _room(view: state.View, code: str) -> None:
    rooms, token = open_rooms(), visitor.token()
    try:
        room = room_of_code(code)
    except BadInput as refused:
        st.error(plain(labelled(refused, FIELDS)))
        layout.arrow("room", "Join or open another room", view.linked({"v": "1"}))
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
                st.switch_page("pages/room.py", query_params=view.linked({"v": "1"}))
    figure_card.mounted(element.ROOM)(data=element.room_document(room.code), key=f"room-{room.code}")


if __name__ == "__main__":
    page()
