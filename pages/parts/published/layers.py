"""The three layers of an experiment's runs: as printed, made to work, repaired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dpcl_core.papers import tables, verdicts
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Judged
from dpcl_core.spec import RunSpec
from pages.parts.shell import layout


def card(specs: Mapping[str, RunSpec], runs: Mapping[str, Measured], judged: Sequence[Judged]) -> None:
    """Draws a line for each layer: its runs, what it means, and the claims between two runs of it."""
    counts = verdicts.by_layer(specs, runs, judged)
    if not counts:
        return
    with layout.card("layers"):
        st.markdown("**Layer by layer**")
        st.markdown("\n".join(f"- **{name}**: {what}" for name, what in map(tables.layer, counts)))
        st.caption(tables.LAYERS_NOTE)
