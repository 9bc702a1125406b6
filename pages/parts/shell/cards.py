"""A privacy card dropped on the page: every number on it computed anew by the second accountant, and what that finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_label
from pages.parts.shell import layout
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    from dpcl_core.privacy.card import Checked, Verdict

_VERDICTS: dict[Verdict, str] = {"matches": "✓ matches", "differs": "✗ **differs**", "unchecked": "? cannot be checked"}


def check() -> None:
    """The card with the place to drop one, and the verdict."""
    with layout.card("verify"):
        st.markdown("**Check a privacy card**")
        st.markdown(
            "Every export holds `privacy_card.json`: each ε beside the events that it follows from. Drop one here, yours or "
            "anybody's, and a second accountant adds the events up again."
        )
        dropped = st.file_uploader("privacy_card.json", type="json", key="verify-card", max_upload_size=16)
        if dropped is not None:
            _shown(dropped.getvalue())


def _shown(content: bytes) -> None:
    from dpcl_core.privacy import card  # loads the accountants, which take a second

    try:
        with st.spinner("Adding up ..."):
            found = _verified(content)
    except BadInput as refused:
        st.error(plain(str(refused)))
        return
    match card.exit_status(found):
        case 0:
            st.success("Every number matches its events.")
        case 1:
            st.error("A number on this card does not follow from its events.")
        case _:
            st.warning("Not all of this card can be checked.")
    st.markdown(_table(found))
    for one in found:
        if one.verdict != "matches":
            st.markdown(plain(card.sentence(one)))
    st.caption(card.SAID)


@st.cache_data(max_entries=20, show_spinner=False)
def _verified(content: bytes) -> list[Checked]:
    from dpcl_core.privacy import card

    return card.verify(content)


def _table(found: Sequence[Checked]) -> str:
    rows = ""
    for one in found:
        total = one.numbers[0] if one.numbers else None
        stated = "" if total is None else "no bound" if math.isinf(total.stated) else f"{total.stated:.6g}"
        span = "" if total is None else "no bound" if math.isinf(total.low) else f"{total.low:.6g} to {total.high:.6g}"
        name = f"{epsilon_label(one.cell.epsilon)}, seed {one.cell.seed}"
        rows += f"| {name} | {stated} | {span} | {len(one.numbers)} | {_VERDICTS[one.verdict]} |\n"
    head = "| model | stated ε | its events give | numbers | |\n|---|---:|---:|---:|---|\n"
    return head + rows
