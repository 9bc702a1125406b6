"""Presenter size: letters, lines and markers for a projector, by `large=1` in a link or a switch; kept in the address."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from pages.parts.shell.link import LARGE

FACTOR: Final = 1.3  # of letters, lines and markers; the same in presenter.css
_STATE: Final = "presenter-size"
_SHEET: Final = Path(__file__).with_name("presenter.css")


def take() -> None:
    """Takes the size from the link, else that of the visit, keeps it in the address and applies it."""
    if LARGE in st.query_params:
        st.session_state[_STATE] = st.query_params[LARGE] == "1"
    _write()
    if is_on():
        st.html(f"<style>{_SHEET.read_text(encoding='utf-8')}</style>")


def is_on() -> bool:
    """Whether everything is drawn in presenter size."""
    return bool(st.session_state.get(_STATE, False))


def switch() -> None:
    """Draws the switch."""
    label = "Normal size" if is_on() else "Presenter size"
    st.button(label, key="presenter", on_click=_turn, help="Letters, lines and markers for a projector, on every page")


def _turn() -> None:
    st.session_state[_STATE] = not is_on()
    _write()


def _write() -> None:
    """Writes the size to the address, which holds nothing of the usual one."""
    if is_on():
        st.query_params[LARGE] = "1"
    elif LARGE in st.query_params:
        del st.query_params[LARGE]
