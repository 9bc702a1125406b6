"""What a page shows, kept as its link: widgets start from it, the address bar follows it, undo and redo walk through it.

A view is a set of query parameters. A page reads it once per *epoch* (a link was opened, a preset chosen, undo pressed);
within an epoch its widgets keep their own values, and the page commits what they say after each run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from pages.parts.shell.link import Codec, Read

CHANGES = "changes-of-page"  # how often this visit has gone to another page; app.py counts
_DEPTH = 50  # steps that undo remembers
_LAG_SECONDS = 5.0  # how long a browser may still send an address that this page has replaced


@dataclass
class _Memory:
    """What one page remembers of one visit: what this epoch started from, what was last committed, and the way here."""

    seed: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] | None = None
    epoch: int = 0
    change: int = 0
    past: list[dict[str, str]] = field(default_factory=list)
    future: list[dict[str, str]] = field(default_factory=list)
    replaced: list[tuple[float, dict[str, str]]] = field(default_factory=list)

    def is_behind(self, asked: Mapping[str, str]) -> bool:
        """Whether the address was replaced a moment ago: a quick hand acts before its browser has the new one."""
        return any(asked == address and time.monotonic() - when < _LAG_SECONDS for when, address in self.replaced)


class View:
    """The view of one page in one visit."""

    def __init__(
        self, page: str, codec_for: Callable[[Mapping[str, str]], Codec], start: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """`codec_for` gives the codec for a link's raw parameters (which method it names decides which settings it has).

        `start` gives the view of a first visit without a link.
        """
        memory: _Memory = st.session_state.setdefault(f"view:{page}", _Memory())
        asked = st.query_params.to_dict()
        came_back = memory.change != st.session_state.get(CHANGES, 0)  # widgets do not outlive a change of page
        memory.change = st.session_state.get(CHANGES, 0)
        if memory.written is None or came_back or (asked != memory.written and not memory.is_behind(asked)):
            # An empty address after a change of page means "where I was"; any other difference is a link that was opened.
            memory.seed = asked or memory.written or dict(start())
            memory.epoch += 1
        self._memory, self._page = memory, page
        self.read: Read = codec_for(memory.seed).read(memory.seed)

    def __getitem__(self, name: str) -> object:
        """The value of a field that this epoch started from."""
        return self.read.values[name]

    def key(self, name: str) -> str:
        """The key of a field's widget: new with every epoch, so that the widget starts from the view again."""
        return f"{self._page}-{name}-{self._memory.epoch}"

    def commit(self, values: Mapping[str, object], codec: Codec) -> dict[str, str]:
        """Puts what the page shows now into the address bar and remembers it; gives the query parameters."""
        memory = self._memory
        now = codec.write(values, self.read.unknown)
        if memory.written is not None and now != memory.written:
            memory.past = [*memory.past[-_DEPTH:], memory.written]
            memory.future = []
        memory.written = now
        self._address(now)
        return now

    def go(self, parameters: Mapping[str, str]) -> None:
        """Shows another view from the next run on; undo comes back. The caller reruns (a callback need not)."""
        memory = self._memory
        if memory.written is not None and memory.written != parameters:
            memory.past = [*memory.past[-_DEPTH:], memory.written]
            memory.future = []
        self._jump(dict(parameters))

    @property
    def can_undo(self) -> bool:
        return bool(self._memory.past)

    @property
    def can_redo(self) -> bool:
        return bool(self._memory.future)

    def undo(self) -> None:
        """Back to the view before the last change; a callback."""
        memory = self._memory
        if memory.past:
            memory.future.append(memory.written or {})
            self._jump(memory.past.pop())

    def redo(self) -> None:
        """Forward again; a callback."""
        memory = self._memory
        if memory.future:
            memory.past.append(memory.written or {})
            self._jump(memory.future.pop())

    def _jump(self, parameters: dict[str, str]) -> None:
        self._memory.seed = self._memory.written = parameters
        self._memory.epoch += 1
        self._address(parameters)

    def _address(self, parameters: dict[str, str]) -> None:
        """Puts the parameters into the address bar, and remembers what stood there."""
        before = st.query_params.to_dict()
        if before != parameters:
            self._memory.replaced = [*self._memory.replaced[-7:], (time.monotonic(), before)]
            st.query_params.from_dict(parameters)
