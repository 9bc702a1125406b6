"""What is kept on this computer to save time, with buttons that delete it: on About or Administration."""

from __future__ import annotations

import streamlit as st

from dpcl_core.backbones import kept_files
from pages.parts.shell.text import plain


def draw() -> None:
    """Draws what is kept, with a button for each kind. Never for visitors: sizes depend on the texts of others' runs."""
    st.header("Kept on this computer", anchor=False)
    st.caption("To save time. What is deleted here is fetched or computed again when a run needs it; runs stay.")
    for kept in kept_files.listed():
        words, button = st.columns([4, 1], vertical_alignment="center")
        words.markdown(f"**{plain(kept.title)}** {kept.size / 1e6:,.1f} MB")
        if button.button(f"Delete {kept.name}", key=f"clean-{kept.name}", disabled=not kept.size):
            kept.clean()
            st.rerun()
