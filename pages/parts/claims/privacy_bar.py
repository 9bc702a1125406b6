"""The privacy bar next to every result: what is protected and what is not, in the words of the statement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import streamlit as st

from dpcl_core.data import catalog as datasets
from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.spec import RunSpec
from pages.parts.shell import layout, state
from pages.parts.shell.text import plain

NO_NOISE = "No noise is added: no privacy."
_PROTECTED, _NOT_DP = "What is protected", "Not differentially private"


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
        ]
    elif statement.is_private:
        cells = [
            ("not", statement.banner or "", ""),
            ("wide", "", f"{statement.headline} {statement.odds}"),
            ("covered", "Covered", _first_two(statement.covered)),
        ]
    else:
        cells = [("not", statement.banner or statement.headline, ""), ("wide", "", statement.odds)]
    cells.append(("not", "Not covered", _first_two(statement.not_covered)))
    layer = guarantees[shown].layer
    if layer is not None:
        cells.append(("", "Layer", layer.title))
    html = "".join(_cell(*cell) for cell in cells if any(cell[1:]))
    _bar(html, is_dp=statement.is_private, label=_PROTECTED if statement.is_private else _NOT_DP)
    if more:
        full_statement(guarantees)


def looks(dataset: str) -> None:
    """Draws how often a person's own data were used so far, and what that adds up to; nothing for public data."""
    from dpcl_core.runs import looks

    if found := looks.of(state.store(), dataset):
        st.caption(plain(replace(found, dataset=datasets.called(dataset)).sentence))


def full_statement(guarantees: Mapping[float, Guarantee]) -> None:
    """Draws the full statement of every ε in a popover."""
    from dpcl_core.privacy.statement import standing

    box = layout.popover("Full statement", "privacy-bar-more", type="tertiary")
    if box is not None:
        parts = (_statement(epsilon_label(budget, standing(one)), one) for budget, one in sorted(guarantees.items()))
        box.markdown("\n\n---\n\n".join(parts))


def side_by_side(guarantees: Sequence[tuple[str, Guarantee]]) -> None:
    """Draws one cell per run: its guarantee in one sentence, or that there is none."""
    from dpcl_core.privacy.statement import words

    statements = [(name, words(guarantee)) for name, guarantee in guarantees]
    html = "".join(
        _cell("covered", name, one.headline) if one.is_private else _cell("not", name, one.banner or one.headline)
        for name, one in statements
    )
    _bar(html, is_dp=all(one.is_private for _, one in statements))


def _first_two(texts: tuple[str, ...]) -> str:
    """The first two texts, and how many more the full statement has."""
    more = f" · and {len(texts) - 2} more" if len(texts) > 2 else ""
    return " · ".join(texts[:2]) + more


def pending(spec: RunSpec, *, is_over: bool) -> None:
    """Draws the bar before a model is finished: the full statement needs the whole ledger, some facts do not."""
    if all(map(math.isinf, spec.privacy.epsilons)):
        not_dp(NO_NOISE)
        return
    if reason := no_bound_reason(spec.method):
        not_dp(reason)
        return
    if spec.reads_labels:
        not_dp("The list of labels is read from the data: no bound holds, whatever ε is.")
        return
    text = "The statement appears when the first model is finished; it is computed from the ledger."
    if is_over:
        text = "No model was finished, so no protection is stated. What was released before the end has spent its ε."
    if spec.privacy.noise == "seeded":
        text += " <b>Seeded noise: for teaching only.</b>"
    _bar(f'<div class="bar-cell not">{text}</div>')


def no_bound_reason(method: str) -> str:
    """Why this method has no bound under any settings; empty for a method with a bound."""
    from dpcl_core.methods import catalog as methods

    if methods.is_nominal(method):
        return "The ε of this method is claimed by its paper and not verified: no bound holds. Every run of it is audited."
    has_none = method in methods.CARDS and methods.CARDS[method].guarantee == "none"
    return "This method adds no noise: no privacy." if has_none else ""


def not_dp(reason: str) -> None:
    """Draws the red-edged "not DP" banner with the reason."""
    _bar(_cell("not", "Not DP.", reason), is_dp=False, label=_NOT_DP)


def facts(*cells: tuple[str, str]) -> None:
    """Draws a bar of facts, each a heading and a text, for views without a released model."""
    _bar("".join(_cell("", head, text) for head, text in cells))


def _cell(kind: str, head: str, text: str) -> str:
    bold = f"<b>{escape(head)}</b> " if head else ""
    return f'<div class="bar-cell {kind}">{bold}{escape(text)}</div>'


def _bar(cells: str, *, is_dp: bool = True, label: str = _PROTECTED) -> None:
    edge = "" if is_dp else " not-dp"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="{label}">{cells}</div>')


def _statement(title: str, guarantee: Guarantee) -> str:
    from dpcl_core.privacy.statement import words

    statement = words(guarantee)
    lists = (("Covered", statement.covered), ("Not covered", statement.not_covered))
    listed = (f"{name}: {'; '.join(items)}" for name, items in lists if items)
    caveats = "\n".join(f"- {caveat}" for caveat in guarantee.caveats)
    texts = (f"**{title}** {statement.headline}", statement.audited, statement.odds, *listed, statement.layer, caveats)
    return "\n\n".join(filter(None, texts))
