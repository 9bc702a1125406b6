"""Select boxes for a run and for parts of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar, cast

import streamlit as st

from dpcl_core.errors import BadInput
from pages.parts.shell import state
from pages.parts.shell.view import View

T = TypeVar("T")


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
    """Names by id of the started runs on clients' data, or of those that train a language model, newest first, and of the
    linked run.

    Each name contains the id, because a select box cannot tell equal names apart.
    """
    started = [run for run in state.store().list_runs(200) if run.readable_spec is not None and run.status != "queued"]
    matching = [
        run
        for run in started
        if run.id == linked
        or (run.spec.scenario.kind == "federated" if of == "clients" else run.spec.params.inputs == "text")
    ]
    return {run.id: f"{run.name} ({run.status}, {run.id[:4]})" for run in matching}
