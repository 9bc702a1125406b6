"""The style sheet for cards, bars and narrow screens, which Streamlit's configuration cannot express."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

from dpcl_core.elements import element

_SHEET = Path(__file__).with_name("style.css")
_ACKNOWLEDGE = Path(__file__).with_name("acknowledge.html")


@dataclass(frozen=True)
class _Markup:
    """Markup to insert as it is. A string Streamlit would take for the name of a file first, and search for indentation."""

    text: str

    def _repr_html_(self) -> str:
        return self.text


def apply() -> None:
    """Inserts the style sheets."""
    st.html(_sheets())


def acknowledge() -> None:
    """Inserts the script that answers a press on Start or Stop; at the page's end, as its place shows while it loads."""
    st.html(_acknowledgement(), unsafe_allow_javascript=True)


@cache
def _sheets() -> _Markup:
    return _Markup(f"<style>{element.theme()}{_SHEET.read_text(encoding='utf-8')}</style>")


@cache
def _acknowledgement() -> _Markup:
    return _Markup(_ACKNOWLEDGE.read_text(encoding="utf-8"))


def is_dark() -> bool:
    """Whether the dark theme is active (False until the browser reports its theme)."""
    return st.context.theme.type == "dark"
