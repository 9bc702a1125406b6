"""Start: what is this, in 60 seconds? A picture to drag, three questions to try, and what this computer has."""

from __future__ import annotations

import streamlit as st

from pages.parts import drag
from pages.parts.header import header


def page() -> None:
    """The page."""
    header("What does privacy cost a learner?", "Drag.")
    drag.drag(drag.digits("prior-const", 5), 1.0, key="hero", panels=("accuracy", "matrix"))


if __name__ == "__main__":
    page()
