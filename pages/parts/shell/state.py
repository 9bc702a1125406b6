"""The store and the executor of this app process."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec

import streamlit as st

from dpcl_core.errors import BadInput, StoreTrouble
from pages.parts.shell import ownership, visitor
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    from dpcl_core.runs.executor import LocalExecutor
    from dpcl_core.runs.store import Store
    from dpcl_core.runs.warm_worker import WarmWorker

_GO_ON = "Runs under way go on and lose nothing."
P = ParamSpec("P")


def store() -> Store:
    """The store as this visitor sees and may use it; if it cannot be opened, shows the reason and ends the page."""
    try:
        opened = _store(place=_place())
    except StoreTrouble as trouble:
        st.error(plain(str(trouble)))
        st.stop()
    from dpcl_core.runs import visitors

    opened = opened.seen_by(ownership.is_mine) if ownership.is_shared() else opened
    limits = visitors.limits()
    return opened if limits is None else opened.as_visitor(visitors.Visitor(visitor.digest(), limits, visitor.address()))


def whole_store() -> Store:
    """The store with everything in it, for the administrator alone."""
    return _store(place=_place())


def store_if_any() -> Store | None:
    """The store, or None if it cannot be opened, for pages that can do without."""
    try:
        return _store(place=_place())
    except StoreTrouble:
        return None


def executor() -> LocalExecutor:
    """The executor, which carries out the queued runs of the store."""
    return _executor(place=_place())


def expect_run(method: str, device: str) -> None:
    """Announces that a run of this method may start soon on this device.

    An idle process preloads its modules when nothing else runs.
    """
    from dpcl_core.methods import catalog

    card = catalog.card(method)
    models = ["dpcl_core.backbones.language.libraries"] if card.params().inputs == "text" else []
    _warm_worker().expect(store().url, card.module, *models, device=device)


def guarded(draw: Callable[P, None]) -> Callable[P, None]:
    """Wraps a page or fragment so that StoreTrouble and BadInput are shown as their one sentence."""

    @wraps(draw)
    def drawn(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            draw(*arguments, **named)
        except StoreTrouble as trouble:
            st.error(plain(f"{str(trouble).rstrip('.')}. {_GO_ON}" if trouble.kind == "store" else str(trouble)))
        except BadInput as refused:
            st.error(plain(str(refused)))

    return drawn


def where() -> tuple[str, str, str]:
    """What selects the store and what is seen of it: part of every cache key, so that neither is ever mixed up."""
    return *_place(), visitor.digest() if ownership.is_shared() else ""


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
    from dpcl_core.runs.warm_worker import WarmWorker

    return WarmWorker(WORKER)
