"""The look that configuration cannot say: cards, bars, the narrow screen. One style sheet, written once per page view."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_SHEET = Path(__file__).with_name("style.css")
_ACKNOWLEDGE = Path(__file__).with_name("acknowledge.html")


def apply() -> None:
    """Puts the style sheet into the page, and what answers a press on Stop before the server can."""
    st.html(f"<style>{_SHEET.read_text(encoding='utf-8')}</style>")
    st.html(_ACKNOWLEDGE.read_text(encoding="utf-8"), unsafe_allow_javascript=True)


def is_dark() -> bool:
    """Whether the visitor looks at the dark theme (light where the browser has not said yet)."""
    return st.context.theme.type == "dark"
