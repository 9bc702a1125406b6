"""Select boxes for a run and for parts of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, cast, get_args

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.runs.run import Status
from pages.parts.shell import state
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.runs.run import Named

T = TypeVar("T")
_OFFERED = 200  # runs in a select box at most
_STARTED = tuple(status for status in get_args(Status) if status != "queued")


def select(
    view: View, name: str, title: str, titles: Mapping[T, str], *, help_text: str | None = None, width: int | None = None
) -> T:
    """The option chosen in a select box of a link's field; `titles`: the options and their titles.

    Starts from the link, or from the first option if the link has another value.
    """
    options = list(titles)
    start = options.index(cast(T, view[name])) if view[name] in titles else 0
    return st.selectbox(
        title, options, index=start, format_func=titles.__getitem__, key=view.key(name), help=help_text,
        width=width or "stretch",
    )  # fmt: skip


def missing_run(view: View) -> list[str]:
    """A notice if the link names a run that the store does not have."""
    if view["run"] is not None:
        try:
            state.store().get(str(view["run"]))
        except BadInput as refused:
            return [f"{refused}."]
    return []


def one_of(title: str, options: Sequence[T], view: View, name: str, shown: Callable[[T], str]) -> T:
    """The option chosen in a select box; the only option, without a box, if there is just one."""
    if len(options) == 1:
        return options[0]
    start = options.index(cast(T, view[name])) if view[name] in options else 0
    return st.selectbox(title, options, index=start, format_func=shown, key=view.key(f"{name}-{len(options)}"))


@st.cache_data(ttl=3, show_spinner=False)
def runs(where: tuple[str, str, str], linked: str | None, of: Literal["clients", "texts"]) -> dict[str, str]:
    """Names by id of the newest started runs on clients' data, or that train a language model, and of the linked run.

    Each name contains the id, because a select box cannot tell equal names apart.
    """
    language = {name for name, card in methods.CARDS.items() if card.params().inputs == "text"}

    def is_wanted(run: Named) -> bool:
        return run.scenario == "federated" if of == "clients" else run.method in language

    store = state.store()
    found = store.list_runs(_OFFERED, states=_STARTED, only=is_wanted)
    if linked not in {run.id for run in found}:  # of another kind, or older than all that are offered
        found += store.list_runs(1, states=_STARTED, only=lambda run: run.id == linked)
    return {run.id: f"{run.name} ({run.status}, {run.id[:4]})" for run in found if run.readable_spec is not None}
