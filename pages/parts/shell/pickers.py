"""Choosing which run to look at, and which part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar, cast

import streamlit as st

from pages.parts.shell import state
from pages.parts.shell.view import View

T = TypeVar("T")


def one_of(title: str, options: Sequence[T], view: View, name: str, shown: Callable[[T], str]) -> T:
    """A select box where there is a choice; the only one where there is none."""
    if len(options) == 1:
        return options[0]
    start = options.index(cast(T, view[name])) if view[name] in options else 0
    return st.selectbox(title, options, index=start, format_func=shown, key=view.key(f"{name}-{len(options)}"))


@st.cache_data(ttl=3, show_spinner=False)
def runs(where: tuple[str, str], asked: str | None, of: Literal["clients", "texts"]) -> dict[str, str]:
    """Names of the runs on clients' data, or of those that train a language model, which have begun, newest first; and the
    one that a link asks for.

    Each has its id in its name: of two that are called the same, a select box would always give the last.
    """
    begun = [run for run in state.store().list_runs(200) if run.readable_spec is not None and run.status != "queued"]
    found = [
        run
        for run in begun
        if run.id == asked
        or (run.spec.scenario.kind == "federated" if of == "clients" else run.spec.params.inputs == "text")
    ]
    return {run.id: f"{run.name} ({run.status}, {run.id[:4]})" for run in found}
