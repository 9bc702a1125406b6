"""The choice of a part of the course, on pages about one part."""

from __future__ import annotations

import streamlit as st

from dpcl_core.lessons import text
from pages.parts.shell import link
from pages.parts.shell.view import View

CODEC = link.Codec([link.Field("part", "p", "part", link.Whole(1, len(text.PARTS)), 1, word="part")])


def chosen(view: View, width: int | None = None) -> str:
    """Draws the choice, as wide as its column or so many pixels; returns the part's name."""
    parts = list(text.PARTS)
    return st.selectbox(
        "Part", parts, int(str(view["part"])) - 1, format_func=lambda one: f"{parts.index(one) + 1}. {one}",
        key=view.key("part"), width=width or "stretch",
    )  # fmt: skip


def number(part: str) -> int:
    """The number of a part, from 1."""
    return list(text.PARTS).index(part) + 1
