"""What an experiment's runs say of its paper: how many claims come out, those still missing, and the layers."""

from __future__ import annotations

import streamlit as st

from dpcl_core.figures.picture import counted
from dpcl_core.papers import tables, verdicts
from pages.parts.published.content import Content, Key
from pages.parts.shell import layout
from pages.parts.shell.still import still


@still
def draw(key: Key, _content: Content) -> None:
    """Draws the lead, the runs that are still missing, a line for each layer, and a verdict on each of the claims."""
    if lead := verdicts.lead(_content.judged):
        st.header(lead, anchor=False)
    if not _content.runs:
        st.info("None of these runs exists yet: open one below and press Start, or use the terminal.")
    elif len(_content.runs) < len(_content.specs):
        missing = ", ".join(label for label in _content.specs if label not in _content.runs)
        st.info(f"Here: {len(_content.runs)} of {counted(len(_content.specs), 'run')}. Still missing: {missing}.")
    _layers(_content)
    _claims(_content)


def _layers(content: Content) -> None:
    """Draws a line for each layer: its runs, what it means, and the claims between two runs of it."""
    counts = verdicts.by_layer(content.specs, content.runs, content.judged)
    if not counts:
        return
    with layout.card("layers"):
        st.markdown("**Layer by layer**")
        st.markdown("\n".join(f"- **{name}**: {what}" for name, what in map(tables.layer, counts)))
        st.caption(tables.LAYERS_NOTE)


def _claims(content: Content) -> None:
    """Draws the table of verdicts; nothing without claims."""
    import pandas as pd

    if not content.judged:
        return
    lines = tables.claims(content.paper, content.experiment, content.specs, content.runs, content.judged)
    with st.container(key="card-claims", gap="small"):
        whose = "Our own" if content.experiment.is_ours else "The paper's"
        st.markdown(f"**{whose} claims, tested in our runs**")
        st.dataframe(pd.DataFrame(lines), hide_index=True, key="claims-table", alt=verdicts.lead(content.judged))
        st.caption(tables.claims_note(content.paper, lines))
