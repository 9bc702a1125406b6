"""The view of a page, stored as its link: widgets start from it, the address bar shows it, undo and redo step through it.

A view is a set of query parameters. A page reads it once per *epoch* (a link was opened, a preset chosen, undo pressed);
within an epoch the widgets keep their own values, and the page commits these after each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.shell import address
from pages.parts.shell.link import Codec, Read

CHANGES = "changes-of-page"  # session key: number of page changes, counted by app.py
_FROM = "from"  # parameter of a link within a page: the epoch that it was drawn in
_DEPTH = 50  # steps that undo remembers
_REPLACED = 16  # addresses that a browser may still send although this page has written others


@dataclass
class _Memory:
    """A page's memory in one session: the view that started this epoch, the last committed view, and the undo history.

    `opened`: the address that this epoch was opened with, until its first commit. `replaced`: the last addresses that the
    browser had, or was about to get, when the page wrote another view into the address bar.
    """

    seed: dict[str, str] = field(default_factory=dict)
    opened: dict[str, str] | None = None
    written: dict[str, str] | None = None
    epoch: int = 0
    change: int = 0
    followed: str | None = None
    past: list[dict[str, str]] = field(default_factory=list)
    future: list[dict[str, str]] = field(default_factory=list)
    replaced: list[dict[str, str]] = field(default_factory=list)

    def write(self, parameters: dict[str, str], shown: dict[str, str]) -> None:
        """Notes that the page writes a view into the address bar, which shows another or the same."""
        old = [one for one in (shown, self.written) if one is not None and one != parameters]
        kept = [one for one in self.replaced if one != parameters and one not in old]
        self.replaced, self.written = [*kept, *old][-_REPLACED:], parameters

    def record(self, parameters: Mapping[str, str]) -> None:
        """Adds the last view to the history if these parameters differ from it."""
        if self.written is not None and self.written != parameters:
            self.past = [*self.past[-_DEPTH:], self.written]
            self.future = []


class View:
    """The view of one page in one visit."""

    def __init__(
        self, page: str, codec_for: Callable[[Mapping[str, str]], Codec], start: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """`codec_for` gives the codec for a link's raw parameters (its method determines its settings).

        `start` gives the view of a first visit without a link.
        """
        address.begin()
        memory: _Memory = st.session_state.setdefault(f"view:{page}", _Memory())
        parameters = address.parameters()
        followed = parameters.pop(_FROM, None)
        is_followed = followed is not None and followed != memory.followed
        memory.followed = followed or memory.followed
        is_return = memory.change != st.session_state.get(CHANGES, 0)  # a change of page discards the widgets
        memory.change = st.session_state.get(CHANGES, 0)
        # A fast visitor, or one with a slow browser, acts before the browser has the newest address.
        is_behind = parameters in memory.replaced and not is_followed and not _is_history()
        is_other = parameters != memory.written and not is_behind
        # A press while the page is drawn for the first time ends that before it is committed, and belongs to the same epoch.
        is_unfinished = parameters == memory.opened and not is_return and not is_followed
        if (memory.written is None or is_return or is_other) and not is_unfinished:
            # An empty address after a change of page means "where I was"; any other difference is a link that was opened.
            memory.seed = parameters or memory.written or dict(start())
            memory.epoch += 1
            memory.opened = parameters
        self._memory, self._page = memory, page
        self.read: Read = codec_for(memory.seed).read(memory.seed)

    def __getitem__(self, name: str) -> object:
        """The value of a field at the start of this epoch."""
        return self.read.values[name]

    def key(self, name: str) -> str:
        """The key of a field's widget: new with every epoch, so that the widget starts from the view again."""
        return f"{self._page}-{name}-{self._memory.epoch}"

    def linked(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """The parameters of a link from this page to another view of it, which counts even where it was just left."""
        return {**parameters, _FROM: str(self._memory.epoch)}

    def commit(self, values: Mapping[str, object], codec: Codec) -> dict[str, str]:
        """Writes the current values to the address bar and the history; returns the query parameters."""
        now = codec.write(values, self.read.unknown)
        self._memory.record(now)
        self._memory.opened = None
        self._address(now)
        address.settle()
        return now

    def settle(self, values: Mapping[str, object], codec: Codec) -> None:
        """Commits what a part of the page has changed by itself; draws the page again where its Undo and Redo change."""
        before = self.can_undo, self.can_redo
        self.commit(values, codec)
        if (self.can_undo, self.can_redo) != before:
            st.rerun()

    def go(self, parameters: Mapping[str, str]) -> None:
        """Switches to another view on the next rerun; undo returns. The caller reruns, unless it is a callback."""
        self._memory.record(parameters)
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
        self._memory.seed, self._memory.opened = parameters, None
        self._memory.epoch += 1
        self._address(parameters)

    def _address(self, parameters: dict[str, str]) -> None:
        """Writes the parameters to the address bar."""
        before = address.parameters()
        if before != parameters:
            address.put(parameters)
            before.pop(_FROM, None)
        self._memory.write(parameters, before)


def _is_history() -> bool:
    """Whether the visitor pressed Back or Forward in the browser."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation
