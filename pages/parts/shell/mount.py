"""Elements drawn in the browser, mounted on a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from dpcl_core.elements.element import Element


@cache
def mounted(element: Element) -> Callable[..., Any]:
    """The element as a component: a call draws it and returns what it reports.

    A call takes `key`, `data` (a document, or one that `written` has made bytes of) and the component's callbacks.
    """
    component = st.components.v2.component(
        element.folder, html=element.html, css=element.css, js=element.module_of_bytes, isolate_styles=element.is_isolated
    )

    def draw(*, key: str, data: bytes | Mapping[str, object], **on_change: Any) -> Any:
        return component(key=key, data=data if isinstance(data, bytes) else written(data), **on_change)

    return draw


def written(document: Mapping[str, object], **parts: bytes) -> bytes:
    """A document that is not empty as bytes of JSON, with `parts`, which are JSON already, as further entries.

    Given the document itself, Streamlit would write it twice each time that a page is drawn.
    """
    text = json.dumps(document, separators=(",", ":")).encode()
    return b"".join([text[:-1], *(f',"{name}":'.encode() + part for name, part in parts.items()), b"}"])
