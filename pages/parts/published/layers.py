"""The three layers of an experiment's runs: as printed, made to work, repaired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dpcl_core.papers import verdicts
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Judged
from dpcl_core.spec import RunSpec
from pages.parts.shell import layout
from pages.parts.shell.text import capital


def card(specs: Mapping[str, RunSpec], runs: Mapping[str, Measured], judged: Sequence[Judged]) -> None:
    """Draws a line for each layer: its runs, what it means, and the claims between two runs of it."""
    counts = verdicts.by_layer(specs, runs, judged)
    if not counts:
        return
    with layout.card("layers"):
        st.markdown("**Layer by layer**")
        st.markdown("\n".join(f"- {_line(count)}" for count in counts))
        st.caption("Claims are counted here where both of their runs are in one layer and the seeds decide.")


def _line(count: verdicts.LayerCount) -> str:
    """One layer in words, as Markdown."""
    claims = f" {count.n_found} of {count.n_claims} decided claims come out." if count.n_claims else ""
    return f"**{capital(count.layer)}** ({count.n_here} of {count.n_runs} runs): {verdicts.MEANING[count.layer]}{claims}"
