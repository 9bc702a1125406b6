"""Parts of a page that stand still: they are drawn once, and shown again to everybody whose arguments are alike."""

from __future__ import annotations

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from pages.parts.figure_card import still
from tests.pages.conftest import ROOT

DRAWN: list[str] = []


@still
def part(words: str, _rest: object) -> None:
    DRAWN.append(words)
    with st.container(key=f"part-{words}"):
        st.markdown(f"**{words}**")
        st.caption(str(_rest))


@pytest.mark.usefixtures("home")
def test_a_part_is_drawn_once_for_everybody_and_anew_for_other_arguments() -> None:
    def script(words: str, rest: str) -> None:
        from tests.pages.test_still import part

        part(words, rest)

    DRAWN.clear()
    for words, rest, shown in (("one", "a", "a"), ("one", "b", "a"), ("two", "b", "b"), ("one", "c", "a")):
        page = AppTest.from_function(script, kwargs={"words": words, "rest": rest}).run()
        assert [page.markdown[0].value, page.caption[0].value] == [f"**{words}**", shown]
    assert DRAWN == ["one", "two"]


def test_no_part_that_stands_still_asks_or_looks_at_a_visitor() -> None:
    """What a visitor sees must follow from arguments: a session, a theme or a widget would be another visitor's."""
    forbidden = ("session_state", "is_dark", "visitor", "ownership", "state.", "st.context", "st.query_params", "presenter")
    widgets = ("st.button", "download_button", "selectbox", "segmented_control", "text_input", "on_change", "figure_card")
    paths = (ROOT / "pages" / "parts").glob("*.py")
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    parts = [(path, body.split("\n\n\n")[0]) for path, text in texts.items() for body in text.split("@still\n")[1:]]
    assert len(parts) >= 6
    for path, function in parts:
        assert not [word for word in (*forbidden, *widgets) if word in function], f"{path}: {function[:80]}"
