"""What a paper's claims came to on other data: one table of an experiment, on Questions."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dpcl_core.papers import other_data
from dpcl_core.papers.paper import Experiment, Paper
from pages.parts import layout
from pages.parts.text import plain


def draw(paper: Paper, experiment: Experiment) -> None:
    """Draws the verdicts on other data, as recorded, and the command that tests the claims on one's own."""
    with layout.card("other-data"):
        st.markdown("**Other data, same claims**")
        for place, (_, form) in enumerate(one for one in other_data.recorded(paper) if one[1].experiment is experiment):
            said = plain(f"{other_data.data_title(form)}: {other_data.sentence(paper, form)}")
            st.markdown(said)
            lines = pd.DataFrame(other_data.lines(paper, form), columns=list(other_data.HEAD))
            st.dataframe(lines, hide_index=True, key=f"other-data-{place}", alt=said)
            st.caption(plain(other_data.changes(form)))
        st.caption("On data of your own, or any of the catalogue; what your own cost is counted:")
        st.code(f"dpcl run {experiment.name} --on own:NAME", language=None, wrap_lines=True)
