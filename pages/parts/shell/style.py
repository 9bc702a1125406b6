"""The style sheet for cards, bars and narrow screens, which Streamlit's configuration cannot express."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dpcl_core.elements import element

_SHEET = Path(__file__).with_name("style.css")
_ACKNOWLEDGE = Path(__file__).with_name("acknowledge.html")


def apply() -> None:
    """Inserts the style sheets."""
    sheets = (element.theme(), _SHEET.read_text(encoding="utf-8"))
    st.html(f"<style>{''.join(sheets)}</style>")


def acknowledge() -> None:
    """Inserts the script that answers a press on Start or Stop; at the page's end, as its place shows while it loads."""
    st.html(_ACKNOWLEDGE.read_text(encoding="utf-8"), unsafe_allow_javascript=True)


def is_dark() -> bool:
    """Whether the dark theme is active (False until the browser reports its theme)."""
    return st.context.theme.type == "dark"
