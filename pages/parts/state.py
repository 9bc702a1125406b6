"""The view of a page, stored as its link: widgets start from it, the address bar shows it, undo and redo step through it.

A view is a set of query parameters. A page reads it once per *epoch* (a link was opened, a preset chosen, undo pressed);
within an epoch the widgets keep their own values, and the page commits these after each run.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.starlette import App

from dpcl_core import checks, events, paths
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.methods import catalog
from dpcl_core.papers import measured
from dpcl_core.results import Result
from dpcl_core.runs import queue
from dpcl_core.runs.run import Run
from dpcl_core.spec import RunSpec
from pages.parts import link, served, visitor
from pages.parts.text import plain

if TYPE_CHECKING:
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.process import WarmWorker
    from dpcl_core.runs.store import Store


T = TypeVar("T")
_CHANGES = "changes-of-page"  # session key: number of page changes
LED_TO = "history-led-to"  # session key: the query to which Back or Forward led, until the page there is drawn
_FROM = "from"  # parameter of a link within a page: the epoch that it was drawn in
_DEPTH = 50  # steps that undo remembers
_REPLACED = 16  # addresses that a browser may still send although this page has written others


def n_changes() -> int:
    """How many changes of page there were in this visit."""
    return int(st.session_state.get(_CHANGES, 0))


def change_page() -> None:
    """Counts a change of page: what is drawn next has widgets of its own."""
    st.session_state[_CHANGES] = n_changes() + 1


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

    def __init__(self, page: str, codec: link.Codec, start: Callable[[], Mapping[str, str]] = dict) -> None:
        """`start` gives the view of a first visit without a link.

        `values`: what the link will say, by the names of its fields; at first what it says. Widgets put theirs into it.
        """
        link.begin()
        memory: _Memory = st.session_state.setdefault(f"view:{page}", _Memory())
        parameters = link.parameters()
        followed = parameters.pop(_FROM, None)
        is_followed = followed is not None and followed != memory.followed
        memory.followed = followed or memory.followed
        is_return = memory.change != n_changes()  # a change of page discards the widgets
        memory.change = n_changes()
        # A fast visitor, or one with a slow browser, acts before the browser has the newest address.
        is_behind = parameters in memory.replaced and not is_followed and not is_history()
        # Back from a view that was not drawn to its end leads to the one committed last.
        is_left = is_history() and memory.opened not in (None, parameters)
        is_other = is_left or (parameters != memory.written and not is_behind)
        # A press while the page is drawn for the first time ends that before it is committed, and belongs to the same epoch.
        is_unfinished = parameters == memory.opened and not is_return and not is_followed
        if (memory.written is None or is_return or is_other) and not is_unfinished:
            # An empty address after a change of page means "where I was"; any other difference is a link that was opened.
            memory.seed = parameters or memory.written or dict(start())
            memory.epoch += 1
            memory.opened = parameters
        self._memory, self._page = memory, page
        self._codec, self.read = codec, codec.read(memory.seed)
        self.values, self.kinds = dict(self.read.values), {field.name: field.kind for field in codec.fields}

    def __getitem__(self, name: str) -> Any:
        """The value of a field at the start of this epoch."""
        return self.read.values[name]

    def keep(self, name: str, value: T) -> T:
        """Puts a field's value into what the link will say, and returns it."""
        self.values[name] = value
        return value

    def key(self, name: str) -> str:
        """The key of a field's widget: new with every epoch, so that the widget starts from the view again."""
        return f"{self._page}-{name}-{self._memory.epoch}"

    def linked(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """The parameters of a link from this page to another view of it, which counts even where it was just left."""
        return {**link.open_view(), **parameters, _FROM: str(self._memory.epoch)}

    def commit(self) -> None:
        """Writes the current values to the address bar and the history."""
        now = self._codec.write(self.values, self.read.unknown)
        if is_history():
            st.session_state[LED_TO].clear()
        self._memory.record(now)
        self._memory.opened = None
        self._address(now)
        link.settle()

    def settle(self) -> None:
        """Commits what a part of the page has changed by itself; draws the page again where its Undo and Redo change."""
        before = self.steps()
        self.commit()
        if self.steps() != before:
            st.rerun()

    def go(self, parameters: Mapping[str, str]) -> None:
        """Switches to another view on the next rerun; undo returns. The caller reruns, unless it is a callback."""
        self._memory.record(parameters)
        self._jump(dict(parameters))

    def steps(self) -> tuple[bool, bool]:
        """Whether there is a step back, and one forward again."""
        return bool(self._memory.past), bool(self._memory.future)

    def step(self, *, is_back: bool) -> None:
        """Back to the view before the last change, or forward again; a callback."""
        past, future = self._memory.past, self._memory.future
        left, reached = (past, future) if is_back else (future, past)
        if left:
            reached.append(self._memory.written or {})
            self._jump(left.pop())

    def _jump(self, parameters: dict[str, str]) -> None:
        self._memory.seed, self._memory.opened = parameters, None
        self._memory.epoch += 1
        self._address(parameters)

    def _address(self, parameters: dict[str, str]) -> None:
        """Writes the parameters to the address bar."""
        before = link.parameters()
        if before != parameters:
            link.put(parameters)
            before.pop(_FROM, None)
        self._memory.write(parameters, before)


def is_history() -> bool:
    """Whether the visitor pressed Back or Forward in the browser, and the page there has not been drawn yet.

    The framework says so of one message alone. Another from the same address, such as a figure's width, may end its run
    before the page began.
    """
    context, led_to = get_script_run_ctx(), st.session_state.setdefault(LED_TO, [])
    return context is not None and (context.is_history_navigation or context.query_string in led_to)


# The store and the executor of this app process.


_GO_ON = "Runs under way go on and lose nothing."
P = ParamSpec("P")


def store() -> Store:
    """The store as this visitor sees and may use it; if it cannot be opened, shows the reason and ends the page."""
    try:
        opened = _store(place=_place())
    except StoreTrouble as trouble:
        st.error(plain(str(trouble)))
        st.stop()
    opened = opened.seen_by(visitor.is_mine) if visitor.is_shared() else opened
    limits = queue.limits()
    return opened if limits is None else opened.as_visitor(queue.Visitor(visitor.digest(), limits, visitor.address()))


def whole_store() -> Store:
    """The store with everything in it, for the administrator and for rooms. Raises StoreTrouble if there is none."""
    return _store(place=_place())


def executor() -> LocalExecutor:
    """The executor, which carries out the queued runs of the store."""
    return _executor(place=_place())


def expect_run(method: str, device: str) -> None:
    """Announces that a run of this method may start soon on this device.

    An idle process preloads its modules when nothing else runs.
    """
    card = catalog.card(method)
    models = ["dpcl_core.backbones.causal"] if card.params().inputs == "text" else []
    _warm_worker().expect(store().url, card.module, *models, device=device)


def guarded(draw: Callable[P, None]) -> Callable[P, None]:
    """Wraps a page or fragment so that StoreTrouble and BadInput are shown as their one sentence."""

    @wraps(draw)
    def drawn(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            draw(*arguments, **named)
        except (StoreTrouble, BadInput) as error:
            goes_on = isinstance(error, StoreTrouble) and error.kind == "store"
            st.error(plain(f"{str(error).rstrip('.')}. {_GO_ON}" if goes_on else str(error)))

    return drawn


def unless_refused(make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """What a call gives; None where it is refused."""
    with suppress(BadInput):
        return make(*arguments, **named)
    return None


def each_second(draw: Callable[P, None]) -> Callable[P, None]:
    """Wraps a part of a page that is drawn again every second by itself, guarded."""
    return st.fragment(guarded(draw), run_every=1.0)


def where() -> tuple[str, str, str]:
    """What selects the store and what is seen of it: part of every cache key, so that neither is ever mixed up."""
    return *_place(), visitor.digest() if visitor.is_shared() else ""


def _place() -> tuple[str, str]:
    return os.environ.get("DPCL_STORE", ""), os.environ.get("DPCL_HOME", "")


# Not Streamlit's cache, which takes longer to answer than many a query: a page asks a dozen times.
@cache
def _store(place: tuple[str, str]) -> Store:
    from dpcl_core.runs.store import Store

    return Store()


# Called by keyword, here and elsewhere: for an argument by position Streamlit inspects the function's signature every time.
@st.cache_resource(show_spinner=False)
def _executor(place: tuple[str, str]) -> LocalExecutor:
    from dpcl_core.runs.executor import LocalExecutor

    return LocalExecutor(_store(place=place), warm=_warm_worker())


@st.cache_resource(show_spinner=False)
def _warm_worker() -> WarmWorker:
    from dpcl_core.runs.executor import WORKER
    from dpcl_core.runs.process import WarmWorker

    return WarmWorker(WORKER)


# The result of a stored run, cached, or of the bundled example.


EXAMPLE = "digits-cosine"


def run_result(run: Run) -> Result:
    """The result of a run so far, reading only new events. Raises BadInput if its spec cannot be read."""
    cached: dict[str, tuple[int, tuple[events.Event, ...]]] = st.session_state.setdefault("events", {})
    if run.is_over:
        cached.pop(run.id, None)
        ceiling, _ = _ceiling(where=where(), digest=run.spec.digest(), _spec=run.spec)
        return _over(where=where(), run_id=run.id, name=run.name, ceiling=ceiling)
    # Events of an active run are kept for the session, so that each refresh reads only new ones.
    seq, seen = cached.get(run.id, (0, ()))
    if fresh := store().events_after(run.id, seq):
        cached[run.id] = (fresh[-1][0], seen + tuple(event for _, event in fresh))
    return Result(run.id, run.name, run.spec, cached.get(run.id, (0, ()))[1])


@st.cache_resource(max_entries=50, show_spinner=False)
def _over(where: tuple[str, str, str], run_id: str, name: str, ceiling: float | None) -> Result:
    run = store().get(run_id)
    return Result(run.id, name, run.spec, store().events(run_id), ceiling=ceiling)


def is_ceiling_tried(spec: RunSpec) -> bool:
    """Whether its ceiling was trained, as far as `of` knows: if that gave none, the run was no ceiling."""
    return _ceiling(where=where(), digest=spec.digest(), _spec=spec)[1]


def look_for_ceilings() -> None:
    """Makes `of` look for ceilings anew, after the run of one has ended."""
    _ceiling.clear()


@st.cache_data(ttl=5, show_spinner=False)
def _ceiling(where: tuple[str, str, str], digest: str, _spec: RunSpec) -> tuple[float | None, bool]:
    """The ceiling that records or the store have by now, and whether one was tried; `digest`: the spec, for the cache."""
    return measured.known(_spec, store=store()), measured.is_tried(_spec, store())


@st.cache_resource(show_spinner=False)
def example() -> Result:
    """The bundled example: a recorded run of the first preset."""
    folder = paths.assets_dir() / "examples"
    spec = checks.parse(checks.read_toml((folder / f"{EXAMPLE}.toml").read_text(encoding="utf-8")))
    lines = (folder / f"{EXAMPLE}.jsonl").read_text(encoding="utf-8").splitlines()
    return Result(None, "Example", spec, tuple(events.from_json(json.loads(line)) for line in lines))


# The queue moves for as long as the server is up, page or no page: one thread in each server process.


_FIRST_PAGE_SECONDS: Final = 5.0  # what the queue loads takes a second, and must not hold up the first heading
_LAST_LOOK_SECONDS: Final = 5.0


@asynccontextmanager
async def moving(_app: App) -> AsyncIterator[None]:
    """Moves the queue from the server's start to its end; compresses what browsers load, where nothing has done so."""
    over = threading.Event()
    mover = threading.Thread(target=_move, args=(over,), name="queue", daemon=True)
    mover.start()
    threading.Thread(target=served.fill, name="served", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(mover.join, _LAST_LOOK_SECONDS)


def _move(over: threading.Event) -> None:
    if not over.wait(_FIRST_PAGE_SECONDS):
        from dpcl_core.runs.executor import move

        move(executor, over)
