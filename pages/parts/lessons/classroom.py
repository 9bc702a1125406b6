"""A lesson in a classroom: a member's predictions are votes, and its teacher asks the class a step's question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.elements.element import BALLOT, ROOM
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.lessons.text import Step
from pages.parts.shell import state, visitor
from pages.parts.shell.mount import mounted
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    from dpcl_core.runs.rooms import Rooms


def strip(step: Step) -> None:
    """Draws what a visitor who is in a room, or who has opened one, needs beside a step; nothing for others."""
    store = state.store_if_any()
    if store is None:
        return
    from dpcl_core.elements import room as element
    from dpcl_core.runs.rooms import Rooms

    rooms, token = Rooms(store), visitor.token()
    try:
        if owned := rooms.of_owner(token):
            _teacher(rooms, token, *owned[0], step)
        elif (code := rooms.room_of(token)) is not None:
            mounted(BALLOT)(data=element.ballot(code), key=f"ballot-{code}")
            st.page_link("pages/room.py", label=":primary[Classroom →]", query_params={"room": code})
    except (BadInput, StoreTrouble) as trouble:  # the room has ended in this moment, or the disk is full
        st.caption(plain(str(trouble)))


def _teacher(rooms: Rooms, token: str, code: str, title: str, step: Step) -> None:
    """Draws the button that asks the class; then the votes, as they come in."""
    from dpcl_core.elements import room as element

    poll = rooms.state(code).poll
    if poll is not None and not poll.is_about(step.predict, step.choices):
        poll = None
    with st.container(horizontal=True, gap="small", key="lesson-classroom"):
        is_open = poll is not None and poll.is_open  # asking once more would forget the answers so far
        if not is_open and st.button("Ask my class this question", key="lesson-ask", help=f"In “{plain(title)}”."):
            rooms.ask(code, token, step.predict, step.choices)
            st.rerun()
        st.page_link("pages/room.py", label=f":primary[Classroom {plain(title)} →]", query_params={"room": code})
    if poll is not None:
        mounted(ROOM)(data=element.document(code, is_poll_alone=True), key=f"lesson-votes-{code}")
