"""A paper's claims, each with the verdict of our runs, the difference and what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dpcl_core.papers import tables, verdicts
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Judged
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.spec import RunSpec


def card(
    paper: Paper,
    experiment: Experiment,
    specs: Mapping[str, RunSpec],
    runs: Mapping[str, Measured],
    judged: Sequence[Judged],
) -> None:
    """Draws the table of verdicts; nothing without claims."""
    import pandas as pd

    if not judged:
        return
    lines = tables.claims(paper, experiment, specs, runs, judged)
    with st.container(key="card-claims", gap="small"):
        st.markdown("**The paper's claims, tested in our runs**")
        st.dataframe(pd.DataFrame(lines), hide_index=True, key="claims-table", alt=verdicts.lead(judged))
        st.caption(tables.claims_note(paper, lines))
