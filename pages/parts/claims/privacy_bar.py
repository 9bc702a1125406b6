"""The bar that says what is protected and what is not, next to every result; its words are those of the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.spec import LabelSetting, NoiseSource


def privacy_bar(guarantees: Mapping[float, Guarantee], *, chosen: float | None = None, more: bool = True) -> None:
    """Draws one bar for the guarantees of a run, keyed by requested ε.

    The words are those of `chosen`, else of the largest ε with a bound; a run without a bound gets the red-edged "not DP"
    banner. `more`: adds the full statement of every ε as a popover (else the caller draws `full_statement` elsewhere).
    Draws nothing for an empty mapping.
    """
    if not guarantees:
        return
    from dpcl_core.privacy.statement import words

    bounded = [budget for budget, guarantee in guarantees.items() if guarantee.is_private]
    shown = chosen if chosen is not None and chosen in guarantees else max(bounded, default=min(guarantees))
    statement = words(guarantees[shown])
    if statement.claimed is not None:
        cells = [
            ("wide not", statement.banner or "", ""),
            ("wide", "", statement.audited or statement.odds),
            ("not", "Why", guarantees[shown].caveats[0] if guarantees[shown].caveats else ""),
            ("not", "Not covered", _first_two(statement.not_covered)),
        ]
    elif statement.is_private:
        cells = [
            ("not", statement.banner or "", ""),
            ("wide", "", f"{statement.headline} {statement.odds}"),
            ("covered", "Covered", _first_two(statement.covered)),
            ("not", "Not covered", _first_two(statement.not_covered)),
        ]
    else:
        cells = [
            ("not", statement.banner or statement.headline, ""),
            ("wide", "", statement.odds),
            ("not", "Not covered", _first_two(statement.not_covered)),
        ]
    layer = guarantees[shown].layer
    if layer is not None:
        cells.append(("", "Layer", layer.title))
    spans = "".join(
        f'<div class="bar-cell {kind}">{f"<b>{escape(head)}</b> " if head else ""}{escape(text)}</div>'
        for kind, head, text in cells
        if head or text
    )
    edge = "" if statement.is_private else " not-dp"
    label = "What is protected" if statement.is_private else "Not differentially private"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="{label}">{spans}</div>')
    if more:
        full_statement(guarantees)


def full_statement(guarantees: Mapping[float, Guarantee]) -> None:
    """Draws the full statement of every ε in a popover."""
    from dpcl_core.privacy.statement import standing

    with st.popover("Full statement", type="tertiary", key="privacy-bar-more"):
        for budget in sorted(guarantees):
            _statement(epsilon_label(budget, standing(guarantees[budget])), guarantees[budget])


def side_by_side(guarantees: Sequence[tuple[str, Guarantee]]) -> None:
    """Draws one cell per run: its guarantee in one sentence, or that there is none."""
    from dpcl_core.privacy.statement import words

    cells, has_bound = "", True
    for name, guarantee in guarantees:
        statement = words(guarantee)
        has_bound = has_bound and statement.is_private
        kind = "covered" if statement.is_private else "not"
        text = statement.headline if statement.is_private else statement.banner or statement.headline
        cells += f'<div class="bar-cell {kind}"><b>{escape(name)}</b> {escape(text)}</div>'
    edge = "" if has_bound else " not-dp"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="What is protected">{cells}</div>')


def _first_two(texts: tuple[str, ...]) -> str:
    """The first two texts, and how many more the full statement has."""
    more = f" · and {len(texts) - 2} more" if len(texts) > 2 else ""
    return " · ".join(texts[:2]) + more


def pending(labels: LabelSetting, noise: NoiseSource, method: str, *, is_over: bool) -> None:
    """Draws the bar before a model is finished: the full statement needs the whole ledger, some facts do not."""
    if reason := no_bound_reason(method):
        not_dp(reason)
        return
    if labels == "data":
        not_dp("The list of labels is read from the data: no bound holds, whatever ε is.")
        return
    text = "The statement appears when the first model is finished; it is computed from the ledger."
    if is_over:
        text = "No model was finished, so no protection is stated. What was released before the end has spent its ε."
    if noise == "seeded":
        text += " <b>Seeded noise: for teaching only.</b>"
    cell = f'<div class="bar-cell not">{text}</div>'
    st.html(f'<div class="privacy-bar" role="note" aria-label="What is protected">{cell}</div>')


def no_bound_reason(method: str) -> str:
    """Why this method has no bound under any settings; empty for a method with a bound."""
    from dpcl_core.methods import catalog as methods

    if methods.is_nominal(method):
        return "The ε of this method is claimed by its paper and not verified: no bound holds. Every run of it is audited."
    has_none = method in methods.CARDS and methods.CARDS[method].guarantee == "none"
    return "This method adds no noise: no privacy." if has_none else ""


def not_dp(reason: str) -> None:
    """Draws the red-edged "not DP" banner with the reason."""
    cell = f'<div class="bar-cell not"><b>Not DP.</b> {escape(reason)}</div>'
    st.html(f'<div class="privacy-bar not-dp" role="note" aria-label="Not differentially private">{cell}</div>')


def facts(*cells: tuple[str, str]) -> None:
    """Draws a bar of facts, each a heading and a text, for views without a released model."""
    spans = "".join(f'<div class="bar-cell"><b>{escape(head)}</b> {escape(text)}</div>' for head, text in cells)
    st.html(f'<div class="privacy-bar" role="note" aria-label="What is protected">{spans}</div>')


def _statement(title: str, guarantee: Guarantee) -> None:
    from dpcl_core.privacy.statement import words

    statement = words(guarantee)
    st.markdown(f"**{title}** {statement.headline}")
    if statement.audited:
        st.markdown(statement.audited)
    if statement.odds:
        st.markdown(statement.odds)
    if statement.covered:
        st.markdown("Covered: " + "; ".join(statement.covered))
    if statement.not_covered:
        st.markdown("Not covered: " + "; ".join(statement.not_covered))
    if statement.layer:
        st.markdown(statement.layer)
    for caveat in guarantee.caveats:
        st.markdown(f"- {caveat}")
