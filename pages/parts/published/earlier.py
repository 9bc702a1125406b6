"""The numbers of a paper's earlier version, and the figure of single members against the ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.figures.picture import Provenance, epsilon_text
from dpcl_core.methods.features.cards.adaptation_params import MEMBER
from dpcl_core.papers import comparison, report
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Experiment, Paper
from pages.parts.shell import style
from pages.parts.shell.figure_card import show

if TYPE_CHECKING:
    import pandas as pd

_MEMBERS = (
    "The workshop version states for its Figure A.1, a plot without numbers: single members are better without noise than "
    "with it, and their ensemble is not."
)


def card(
    paper: Paper, experiment: Experiment, rows: Sequence[Row], runs: Mapping[str, Measured], provenance: Provenance
) -> None:
    """Draws the earlier numbers next to the later ones and ours, and the figure; nothing without an earlier version."""
    import pandas as pd

    from dpcl_core.figures import members

    numbers = comparison.earlier(paper, experiment, rows)
    if not numbers:
        return
    with st.container(key="card-earlier", gap="small"):
        st.markdown("**The workshop version** :small[percent, mean ± standard deviation]")
        lines = [
            {
                "method": one.row.name,
                "ε": epsilon_text(one.row.epsilon),
                "quantity": comparison.METRICS[one.row.metric],
                "workshop": report.printed_text(one.row),
                "later": report.printed_text(one.later) if one.later is not None else "–",
                "ours": report.ours_text(one.later) if one.later is not None else "–",
            }
            for one in numbers
        ]
        alt = f"{len(lines)} numbers of the workshop version, beside the later ones"
        st.dataframe(pd.DataFrame(lines), hide_index=True, key="earlier-table", alt=alt, height="content")
        st.caption("The workshop version prints forgetting as a share; here it is in percent.")
    frame = _frame(runs)
    show(
        members.members_and_ensemble(frame, dark=style.is_dark()), provenance, key="members",
        title="Single members and the ensemble", note=_MEMBERS, table=frame, linked=True,
    )  # fmt: skip


def _frame(runs: Mapping[str, Measured]) -> pd.DataFrame:
    """Accuracy in percent of single members and of the ensemble: one row per model of runs that measured both."""
    import pandas as pd

    rows = [
        (model.epsilon, model.seed, 100 * model.by_rule[MEMBER], 100 * (model.value("AA") or 0.0))
        for run in runs.values()
        for model in run.models
        if MEMBER in model.by_rule
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "member", "ensemble"])
