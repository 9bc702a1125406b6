"""A button with the BibTeX of this project and of its sources."""

from __future__ import annotations

import streamlit as st

from dpcl_core.paths import assets_dir


def button() -> None:
    """Draws the button, which shows the entries for copying or download."""
    with st.popover("BibTeX", help="How to cite this project and the four papers"):
        entries = (assets_dir() / "citations.bib").read_text(encoding="utf-8")
        st.code(entries, language=None, wrap_lines=True)
        st.download_button("Download", lambda: entries, "dpcl.bib", "text/x-bibtex", key="bibtex-file", on_click="ignore")
