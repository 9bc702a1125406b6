"""Elements drawn in the browser, mounted on a page."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st

from dpcl_core.elements.element import Element


@cache
def mounted(element: Element) -> Any:
    """The element as a component: a call draws it and returns what it reports."""
    return st.components.v2.component(
        element.folder, html=element.html, css=element.css, js=element.module, isolate_styles=element.is_isolated
    )
