"""What a page shows, kept as its link: widgets start from it, the address bar follows it, undo and redo walk through it.

A view is a set of query parameters. A page reads it once per *epoch* (a link was opened, a preset chosen, undo pressed);
within an epoch its widgets keep their own values, and the page commits what they say after each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from pages.parts.link import Codec, Read

_DEPTH = 50  # steps that undo remembers


@dataclass
class _Memory:
    """What one page remembers of one visit: what this epoch started from, what was last committed, and the way here."""

    seed: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] | None = None
    epoch: int = 0
    past: list[dict[str, str]] = field(default_factory=list)
    future: list[dict[str, str]] = field(default_factory=list)


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
        if asked != memory.written or memory.written is None:
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
        if st.query_params.to_dict() != now:
            st.query_params.from_dict(now)
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
        st.query_params.from_dict(parameters)
