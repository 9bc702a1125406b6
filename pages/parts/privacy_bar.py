"""The bar that says what is protected and what is not, wherever a result is shown. Its words come from the one statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import epsilon_label


def privacy_bar(guarantees: Mapping[float, Guarantee], *, chosen: float | None = None) -> None:
    """One bar for the guarantees of a run, keyed by the budget that was asked for.

    The words are those of `chosen`, else of the largest budget that has a bound; a run without any bound gets the
    red-edged "not DP" banner. The full statement of every budget is one press away. Shows nothing for an empty mapping.
    """
    if not guarantees:
        return
    from dpcl_core.privacy.statement import words

    bounded = [budget for budget, guarantee in guarantees.items() if guarantee.is_private]
    shown = chosen if chosen is not None and chosen in guarantees else max(bounded, default=min(guarantees))
    said = words(guarantees[shown])
    cells = [
        ("covered", "Covered", " · ".join(said.covered)) if said.is_private else ("not", "Not DP", said.headline),
        ("", "", said.headline) if said.is_private else ("", "", ""),
        ("not", "Not covered", " · ".join(said.not_covered)),
        ("", "", said.odds),
    ]
    spans = "".join(
        f'<div class="bar-cell {kind}">{f"<b>{escape(head)}</b> " if head else ""}{escape(text)}</div>'
        for kind, head, text in cells
        if text
    )
    edge = "" if said.is_private else " not-dp"
    label = "What is protected" if said.is_private else "Not differentially private"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="{label}">{spans}</div>')
    with st.popover("Full statement", type="tertiary", key="privacy-bar-more"):
        for budget in sorted(guarantees):
            _statement(epsilon_label(budget), guarantees[budget])
        if math.isinf(shown) and bounded:
            st.caption(f"The bar speaks of {epsilon_label(shown)}; other budgets of this run do have a bound.")


def _statement(title: str, guarantee: Guarantee) -> None:
    from dpcl_core.privacy.statement import words

    said = words(guarantee)
    st.markdown(f"**{title}** {said.headline}")
    if said.odds:
        st.markdown(said.odds)
    if said.covered:
        st.markdown("Covered: " + "; ".join(said.covered))
    if said.not_covered:
        st.markdown("Not covered: " + "; ".join(said.not_covered))
    for caveat in guarantee.caveats:
        st.markdown(f"- {caveat}")
