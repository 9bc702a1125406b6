"""The bar that says what is protected and what is not, wherever a result is shown. Its words come from the one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.spec import LabelSetting, NoiseSource


def privacy_bar(guarantees: Mapping[float, Guarantee], *, chosen: float | None = None, more: bool = True) -> None:
    """One bar for the guarantees of a run, keyed by the budget that was asked for.

    The words are those of `chosen`, else of the largest budget that has a bound; a run without any bound gets the
    red-edged "not DP" banner. `more`: the full statement of every budget as a popover below (else the caller puts
    `full_statement` elsewhere). Shows nothing for an empty mapping.
    """
    if not guarantees:
        return
    from dpcl_core.privacy.statement import words

    bounded = [budget for budget, guarantee in guarantees.items() if guarantee.is_private]
    shown = chosen if chosen is not None and chosen in guarantees else max(bounded, default=min(guarantees))
    said = words(guarantees[shown])
    if said.claimed is not None:
        cells = [
            ("wide not", said.banner or "", ""),
            ("wide", "", said.audited or said.odds),
            ("not", "Why", guarantees[shown].caveats[0] if guarantees[shown].caveats else ""),
            ("not", "Not covered", _some(said.not_covered)),
        ]
    elif said.is_private:
        cells = [
            ("not", said.banner or "", ""),
            ("wide", "", f"{said.headline} {said.odds}"),
            ("covered", "Covered", _some(said.covered)),
            ("not", "Not covered", _some(said.not_covered)),
        ]
    else:
        cells = [
            ("not", said.banner or said.headline, ""),
            ("wide", "", said.odds),
            ("not", "Not covered", _some(said.not_covered)),
        ]
    layer = guarantees[shown].layer
    if layer is not None:
        cells.append(("", "Layer", layer.title))
    spans = "".join(
        f'<div class="bar-cell {kind}">{f"<b>{escape(head)}</b> " if head else ""}{escape(text)}</div>'
        for kind, head, text in cells
        if head or text
    )
    edge = "" if said.is_private else " not-dp"
    label = "What is protected" if said.is_private else "Not differentially private"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="{label}">{spans}</div>')
    if more:
        full_statement(guarantees)


def full_statement(guarantees: Mapping[float, Guarantee]) -> None:
    """The whole statement of every budget, behind a press."""
    from dpcl_core.privacy.statement import standing

    with st.popover("Full statement", type="tertiary", key="privacy-bar-more"):
        for budget in sorted(guarantees):
            _statement(epsilon_label(budget, standing(guarantees[budget])), guarantees[budget])


def side_by_side(guarantees: Sequence[tuple[str, Guarantee]]) -> None:
    """One cell a run: its guarantee in one sentence, or that there is none."""
    from dpcl_core.privacy.statement import words

    cells, has_bound = "", True
    for name, guarantee in guarantees:
        said = words(guarantee)
        has_bound = has_bound and said.is_private
        kind, text = ("covered", said.headline) if said.is_private else ("not", said.banner or said.headline)
        cells += f'<div class="bar-cell {kind}"><b>{escape(name)}</b> {escape(text)}</div>'
    edge = "" if has_bound else " not-dp"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="What is protected">{cells}</div>')


def _some(texts: tuple[str, ...]) -> str:
    """The first two, and how many more the full statement has."""
    more = f" · and {len(texts) - 2} more" if len(texts) > 2 else ""
    return " · ".join(texts[:2]) + more


def pending(labels: LabelSetting, noise: NoiseSource, method: str, *, is_over: bool) -> None:
    """The bar before a model is finished: the statement needs the whole ledger, but some things hold already."""
    if reason := of_method(method):
        not_dp(reason)
        return
    if labels == "data":
        not_dp("The list of labels is read from the data: no bound holds, whatever ε is.")
        return
    text = "What is covered is stated from the ledger as soon as the first model is finished."
    if is_over:
        text = "No model was finished, so nothing is stated as covered; what was released until then has spent its ε."
    if noise == "seeded":
        text += " <b>Seeded noise: for teaching only.</b>"
    cell = f'<div class="bar-cell not">{text}</div>'
    st.html(f'<div class="privacy-bar" role="note" aria-label="What is protected">{cell}</div>')


def of_method(method: str) -> str:
    """Why no bound holds whatever the settings are; empty for a method that keeps its budget."""
    from dpcl_core.methods import catalog as methods

    if methods.is_nominal(method):
        return "The ε of this method is claimed by its paper and not verified: no bound holds. Every run of it is audited."
    has_none = method in methods.CARDS and methods.CARDS[method].guarantee == "none"
    return "This method adds no noise: no privacy." if has_none else ""


def not_dp(reason: str) -> None:
    """The red-edged banner, in words."""
    cell = f'<div class="bar-cell not"><b>Not DP.</b> {escape(reason)}</div>'
    st.html(f'<div class="privacy-bar not-dp" role="note" aria-label="Not differentially private">{cell}</div>')


def facts(*cells: tuple[str, str]) -> None:
    """A bar of plain facts, each a head and a text, where there is no model whose release could be covered."""
    spans = "".join(f'<div class="bar-cell"><b>{escape(head)}</b> {escape(text)}</div>' for head, text in cells)
    st.html(f'<div class="privacy-bar" role="note" aria-label="What is protected">{spans}</div>')


def _statement(title: str, guarantee: Guarantee) -> None:
    from dpcl_core.privacy.statement import words

    said = words(guarantee)
    st.markdown(f"**{title}** {said.headline}")
    if said.audited:
        st.markdown(said.audited)
    if said.odds:
        st.markdown(said.odds)
    if said.covered:
        st.markdown("Covered: " + "; ".join(said.covered))
    if said.not_covered:
        st.markdown("Not covered: " + "; ".join(said.not_covered))
    if said.layer:
        st.markdown(said.layer)
    for caveat in guarantee.caveats:
        st.markdown(f"- {caveat}")
