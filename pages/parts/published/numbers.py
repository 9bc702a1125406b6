"""The numbers of a paper beside ours, why they differ, and the runs that ours come from."""

from __future__ import annotations

import streamlit as st

from dpcl_core import presets
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import comparison, tables
from pages.parts.published.content import Content, Key
from pages.parts.shell.still import still
from pages.parts.shell.text import plain
from pages.parts.training import train_form


@still
def table(key: Key, metric: str, _content: Content) -> None:
    """Draws the numbers of one metric and the reasons for their differences."""
    import pandas as pd

    lines, notes = tables.numbers(_content.of_metric(metric))
    with st.container(key="card-reproduction-table", gap="small"):
        st.markdown("**The numbers** :small[percent, mean ± standard deviation over seeds]")
        if lines:
            alt = f"{len(lines)} numbers, published and ours, in percent"
            st.dataframe(pd.DataFrame(lines), hide_index=True, key="reproduction-table", alt=alt, height="content")
        remarks = [f"Note {number}: {remark}" for number, remark in enumerate(notes, start=1)]
        for remark in (*remarks, *comparison.table_remarks(_content.paper, _content.experiment)):
            st.caption(plain(remark))
        reasons = comparison.reasons(_content.paper, _content.experiment, _content.size, _content.runs.values())
        if reasons:
            st.markdown("**Why our numbers differ**")
            st.markdown("\n".join(f"- {plain(reason)}" for reason in reasons))


@still
def runs(key: Key, _content: Content) -> None:
    """Draws a line for each run of the preset, with its link, and the command for all."""
    experiment, size = _content.experiment, _content.size
    with st.container(key="card-reproduction-runs", gap="small"):
        st.markdown("**The runs**")
        for label, spec in _content.specs.items():
            run = _content.runs.get(label)
            with st.container(key=f"reproduction-run-{label}", horizontal=True, vertical_alignment="center", gap="small"):
                layer = methods.layer(spec)
                suffix = "" if layer is None else f" · {layer.title}"
                more = " ".join([*([layer.words] if layer else []), *(run.made_before if run else ())])
                st.markdown(plain(f"{tables.source(label, run)}{suffix}"), width="stretch", help=plain(more) or None)
                st.page_link(
                    "pages/train.py", label=":primary[Open in Train →]", query_params=train_form.parameters_of(spec)
                )
        seconds = presets.about(experiment.preset(size)).seconds_in_all
        st.caption("All runs from a terminal" + (f", about {seconds:g} s on two cores:" if seconds is not None else ":"))
        command = f"python -m dpcl_core reproduce {_content.paper.name} --experiment {experiment.name} --{size}"
        st.code(command, language=None, wrap_lines=True)
