"""The privacy-card check: every number of an uploaded card is recomputed by the second accountant."""

from __future__ import annotations

import math

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.privacy import card
from dpcl_core.privacy.card import Checked, Verdict
from pages.parts import layout
from pages.parts.text import plain

_VERDICTS: dict[Verdict, str] = {"matches": "✓ matches", "differs": "✗ **differs**", "unchecked": "? cannot be checked"}


def check() -> None:
    """Draws the upload field and the verdict."""
    with layout.card("verify"):
        st.markdown("**Check a privacy card**")
        st.markdown(
            "Every export holds `privacy_card.json`: each ε with the events from which it follows. Drop any such card here, "
            "and a second accountant recomputes its numbers."
        )
        dropped = st.file_uploader("privacy_card.json", type="json", key="verify-card", max_upload_size=16)
        if dropped is not None:
            _shown(dropped.getvalue())


def _shown(content: bytes) -> None:
    try:
        with st.spinner("Checking ..."):
            models = _verified(content)
    except BadInput as refused:
        st.error(plain(str(refused)))
        return
    match card.exit_status(models):
        case 0:
            st.success("Every number matches its events.")
        case 1:
            st.error("A number on this card does not follow from its events.")
        case _:
            st.warning("Parts of this card cannot be checked.")
    layout.table(("model", "stated ε", "ε from its events", "numbers", "verdict"), map(_row, models))
    for model in models:
        if model.verdict != "matches":
            st.markdown(plain(card.sentence(model)))
    st.caption(card.CHECK_FINDS)


@st.cache_data(max_entries=20, show_spinner=False)
def _verified(content: bytes) -> list[Checked]:
    return card.verify(content)


def _row(model: Checked) -> tuple[str, ...]:
    """A model's row: name, stated ε, recomputed ε, how many numbers were checked, verdict."""
    stated = span = ""
    if model.numbers:
        total = model.numbers[0]
        stated = "no bound" if math.isinf(total.stated) else f"{total.stated:.6g}"
        span = "no bound" if math.isinf(total.low) else f"{total.low:.6g} to {total.high:.6g}"
    name = f"{epsilon_label(model.cell.epsilon)}, seed {model.cell.seed}"
    return name, stated, span, str(len(model.numbers)), _VERDICTS[model.verdict]
