"""The style sheet for cards, bars and narrow screens, which Streamlit's configuration cannot express, and the script that
answers a press. A page's document has both, so that they come before any message and only once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

from dpcl_core.elements import element

_SHEET = Path(__file__).with_name("style.css")
_ACKNOWLEDGE = Path(__file__).with_name("acknowledge.js")


@dataclass(frozen=True)
class _Markup:
    """Markup to insert as it is. A string Streamlit would take for the name of a file first, and search for indentation."""

    text: str

    def _repr_html_(self) -> str:
        return self.text


@cache
def in_document() -> str:
    """What every document has at the start of its body: the style sheets, and the script that answers Start and Stop."""
    return f"{_sheets().text}<script>{element.in_html(_ACKNOWLEDGE.read_text(encoding='utf-8'))}</script>"


def apply() -> None:
    """Inserts the style sheets where the document is the framework's own, as at an address that no page has."""
    st.html(_sheets())


@cache
def _sheets() -> _Markup:
    return _Markup(f"<style>{element.theme()}{_SHEET.read_text(encoding='utf-8')}</style>")


def is_dark() -> bool:
    """Whether the dark theme is active (False until the browser reports its theme)."""
    return st.context.theme.type == "dark"
