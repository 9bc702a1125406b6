"""The visitor's own data on this computer: a run on them, and deleting them with everything made of them."""

from __future__ import annotations

import streamlit as st

from dpcl_core import checks, own_runs
from dpcl_core.backbones import kept_files
from dpcl_core.data import intake, own
from dpcl_core.errors import BadInput, DataMissing
from pages.parts.shell import layout, ownership, state
from pages.parts.shell.text import plain
from pages.parts.training import train_form

COMPUTED = ("features", "states")
STAYS = """The number of looks stays, with keyed digests of rows of the public test part: it goes on if the same rows come
back under any name."""


def listing() -> None:
    """Draws the visitor's own datasets, each with its links and buttons."""
    names = [name for name in ownership.mine(own.names()) if intake.was_taken_in(name)]
    if not names:
        return
    st.header("On this computer", anchor=False)
    for name in names:
        with layout.card(f"own-{name.removeprefix('own:')}"), st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(name)}**", width="stretch")
            _start(name)
            _delete(name)


def _start(name: str) -> None:
    """Draws the link to Train with settings that fit the data."""
    try:
        spec = checks.parse(own_runs.settings(name))
    except (BadInput, DataMissing) as trouble:
        st.caption(plain(str(trouble)))
        return
    st.page_link("pages/train.py", label=":primary[Set up a run →]", query_params=train_form.parameters_of(spec))


def _delete(name: str) -> None:
    key = name.removeprefix("own:")
    with st.popover("Delete"):
        from dpcl_core.runs import purge

        n_runs = len(purge.runs_on(state.store(), name))
        st.markdown(
            f"Deletes {plain(name)}, all results on it ({n_runs} run{'s' * (n_runs != 1)}), and the features kept on this "
            "computer; those of other data are computed again when they are needed."
        )
        st.caption(STAYS)
        if st.button("Delete all of it", key=f"delete-{key}", type="primary"):
            try:
                purge.purge(state.store(), name)
                intake.forget(name)
            except BadInput as refused:
                st.error(plain(str(refused)))
                return
            for kind in COMPUTED:
                kept_files.clean(kind)
            st.rerun()
