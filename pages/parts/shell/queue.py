"""The queue moves for as long as the server is up, page or no page: one thread in each server process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pages.parts.shell import state

if TYPE_CHECKING:
    from streamlit.starlette import App

_FIRST_PAGE_SECONDS: Final = 5.0  # what the queue loads takes a second, and must not hold up the first heading
_LAST_LOOK_SECONDS: Final = 5.0


@asynccontextmanager
async def moving(_app: App) -> AsyncIterator[None]:
    """Moves the queue from the server's start to its end."""
    over = threading.Event()
    mover = threading.Thread(target=_move, args=(over,), name="queue", daemon=True)
    mover.start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(mover.join, _LAST_LOOK_SECONDS)


def _move(over: threading.Event) -> None:
    if not over.wait(_FIRST_PAGE_SECONDS):
        from dpcl_core.runs import mover

        mover.move(state.executor, over)
