"""How often an anchor separates two list entries: CSLR's Table 8 next to the visitor's own run."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers.cslr_theorems import TABLE_8
from dpcl_core.papers.measured import Measured
from pages.parts.shell import layout, state, stored_results


def card(runs: Mapping[str, Measured]) -> None:
    """Draws the printed p̂ and margins, ours if a run of the visitor recorded them, and a link to Matching clients."""
    run_ids = (run.run_id for run in runs.values() if run.run_id)
    scores_by_run = {run_id: scores for run_id in run_ids if (scores := _scores(run_id)) is not None}
    run_id, scores = max(scores_by_run.items(), key=lambda item: len(item[1].m), default=(None, None))
    ours = {} if scores is None else {
        m: (f"{mean:.2f}", f"{least:.2f}", f"{gap:.2g}")
        for m, mean, least, gap in zip(scores.m, scores.mean_rate, scores.least_rate, scores.least_gap, strict=True)
    }  # fmt: skip
    with st.container(key="card-match-rates", gap="small"):
        st.markdown("**How often an anchor separates two entries** :small[Table 8; not a metric of models]")
        layout.table(
            ("m", "p̂ printed", "margin printed", "ours: p̂, mean", "p̂, worst pair", "least gap"),
            ((f"{m}", f"{rate:.2f}", f"{margin:.2f}", *ours.get(m, "–––")) for m, (rate, margin) in TABLE_8.items()),
            names=0,
        )
        whose = (
            "No own numbers yet: recorded runs keep models, not lists."
            if scores is None
            else f"Ours: your run {str(run_id)[:4]}, entries of all its clients' lists; separated if signatures differ by "
            f"{scores.gap:g} standard deviations."
        )
        st.caption(f"{whose} The paper prints neither γ nor the margin's unit, so no difference is formed.")
        query = {"v": "1", "sh": "run", "run": str(run_id)} if run_id else {"v": "1"}
        where = "this run" if run_id else "a simulation, or a run of yours"
        label = f":primary[p̂ by number of anchors, for {where}: tab Anchors of Matching clients →]"
        st.page_link("pages/anchors.py", label=label, query_params=query)


def _scores(run_id: str) -> AnchorScores | None:
    """The anchor scores that a run measured at its end; None if it did not."""
    events = stored_results.of(state.store().get(run_id)).events
    scores = [event.anchors for event in events if isinstance(event, Signatures) and event.anchors is not None]
    return scores[-1] if scores else None
