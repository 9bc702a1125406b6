"""The room that this visitor is in, and the runs started there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from dpcl_core.data import own
from dpcl_core.errors import BadInput
from pages.parts.rooms import guessing
from pages.parts.shell import state, visitor

if TYPE_CHECKING:
    from dpcl_core.runs.rooms import Room, Rooms

FIELDS = {"title": "Title", "question": "Question", "answers": "Answers", "room": "Code"}  # labels, for refusals


def rooms() -> Rooms:
    """The rooms of the store; if it cannot be opened, shows the reason and ends the page."""
    from dpcl_core.runs.rooms import Rooms

    return Rooms(state.store())


def found(code: str) -> Room:
    """The room with a code that somebody typed or has a link with. Raises BadInput where there is none."""
    with guessing.counted(visitor.host(), code):
        return rooms().state(code)


def share(run_ids: Iterable[str]) -> None:
    """Puts runs that this visitor has started on the plot of the room that the visitor is in, if any.

    Not runs on the visitor's own data, which the others must not see.
    """
    token = visitor.token()
    if (code := rooms().room_of(token)) is not None:
        for run_id in run_ids:
            dataset = state.store().get(run_id).spec.data.dataset
            if dataset.startswith("own:") and own.owner(dataset) != "":
                continue
            with suppress(BadInput):  # the room has ended in this moment
                rooms().add_run(code, token, run_id)
