"""A paper's claims, each with the verdict of our runs, the difference and what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dpcl_core.papers import comparison, orderings, p_values, report, verdicts
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import ALIKE_POINTS, Judged
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.spec import RunSpec

_INTERVALS = (
    "Differences are formed seed by seed; brackets: their 95 % interval. “Not found”: the interval shows the opposite. "
    "“Cannot tell”: it shows neither. A claim of no difference is found if the interval stays within "
    f"{ALIKE_POINTS:g} points, and otherwise not found if the interval excludes zero."
)
_UNPAIRED = (
    "Published intervals, and ours in the last column, do not pair seeds (the paper's Eq. 23): they are wider than "
    "necessary where runs share seeds."
)
_P_VALUES = (
    "p: a two-tailed t-test of the two curves over all tasks, paired by task, of means over seeds. Descriptive only: the "
    "points of a curve are no independent samples."
)


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
    lines = [_line(paper, experiment, specs, runs, verdict) for verdict in judged]
    with st.container(key="card-claims", gap="small"):
        st.markdown("**The paper's claims, tested in our runs**")
        st.dataframe(pd.DataFrame(lines), hide_index=True, key="claims-table", alt=verdicts.lead(judged))
        has_tests = any("p, published" in line for line in lines)
        st.caption(" ".join([_INTERVALS, *([_UNPAIRED] if paper.is_unpaired else ()), *([_P_VALUES] if has_tests else ())]))


def _line(
    paper: Paper, experiment: Experiment, specs: Mapping[str, RunSpec], runs: Mapping[str, Measured], verdict: Judged
) -> dict[str, str]:
    ordering = verdict.ordering
    printed = comparison.printed_difference(paper, experiment, ordering, specs)
    line = {
        "ours": verdict.state,
        "claim": ordering.statement,
        "at": report.budgets_of(verdict),
        "our difference": report.range_text(verdict) if verdict.difference is not None else "",
        "published": f"{printed:+.1f} points" if printed is not None else "",
    }
    bound = p_values.printed(paper, experiment, ordering)
    if bound is not None:
        own = p_values.ours(ordering, runs)
        line["p, ours"] = "" if own is None or own.p is None else f"{own.p:.2g}"
        line["p, published"] = f"below {bound.printed}"
    if paper.is_unpaired:
        interval = comparison.printed_interval(paper, experiment, ordering, specs)
        line["published"] = report.interval_text(interval) if interval is not None else line["published"]
        line["ours, unpaired"] = report.interval_text(orderings.unpaired(ordering, runs))
    return line
