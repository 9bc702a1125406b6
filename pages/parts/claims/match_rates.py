"""How often an anchor tells two list entries apart, as CSLR's table 8 prints it, beside what the visitor's own run found."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers.cslr_theorems import TABLE_8
from dpcl_core.papers.measured import Measured
from pages.parts.claims.calculator import table
from pages.parts.shell import state, stored_results


def card(runs: Mapping[str, Measured]) -> None:
    """The printed p̂ and margins, ours where a run of the visitor's told them, and the way to the page that shows them."""
    own = {run.run_id: scores for run in runs.values() if run.run_id and (scores := _scores(run.run_id)) is not None}
    run_id, scores = max(own.items(), key=lambda item: len(item[1].m), default=(None, None))
    ours = {} if scores is None else {
        m: (f"{mean:.2f}", f"{least:.2f}", f"{gap:.2g}")
        for m, mean, least, gap in zip(scores.m, scores.mean_rate, scores.least_rate, scores.least_gap, strict=True)
    }  # fmt: skip
    with st.container(key="card-match-rates", gap="small"):
        st.markdown("**How often an anchor tells two entries apart** :small[table 8; no number of models]")
        table(
            ("m", "p̂ printed", "margin printed", "ours: p̂, mean", "p̂, worst pair", "least gap"),
            ((f"{m}", f"{rate:.2f}", f"{margin:.2f}", *ours.get(m, "–––")) for m, (rate, margin) in TABLE_8.items()),
            names=0,
        )
        whose = (
            "Ours are of none of these runs yet: recorded ones keep models, not lists."
            if scores is None
            else f"Ours: your run {str(run_id)[:4]}, entries of all its clients' lists, apart where signatures differ by "
            f"{scores.gap:g} of their standard deviation."
        )
        st.caption(f"{whose} Neither γ nor the margin's unit is printed, so that no difference is formed.")
        query = {"v": "1", "sh": "run", "run": str(run_id)} if run_id else {"v": "1"}
        where = "of this run" if run_id else "of a simulation, and of any run of yours"
        label = f":primary[p̂ over the number of anchors, {where}: the Anchors page, under Anchors →]"
        st.page_link("pages/anchors.py", label=label, query_params=query)


def _scores(run_id: str) -> AnchorScores | None:
    """What a run measured of its anchors at its end; None where it did not."""
    said = stored_results.of(state.store().get(run_id)).events
    found = [event.anchors for event in said if isinstance(event, Signatures) and event.anchors is not None]
    return found[-1] if found else None
