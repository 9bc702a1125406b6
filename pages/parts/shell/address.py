"""The address bar: the parameters of the visited page's view, and beside them the presenter's size."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from pages.parts.shell.link import LARGE


def parameters() -> dict[str, str]:
    """The parameters of the page's own view."""
    return {key: text for key, text in st.query_params.to_dict().items() if key != LARGE}


def put(view: Mapping[str, str]) -> None:
    """Writes a view to the address bar and leaves the presenter's size as it is there."""
    size = {LARGE: st.query_params[LARGE]} if LARGE in st.query_params else {}
    st.query_params.from_dict({**view, **size})
