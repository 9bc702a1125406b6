"""The view of a page: what a visitor presses counts, also before the page has been drawn for the first time."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def _page() -> None:
    """A page with one control, which ends before it is whole while `is_cut_off` is set, as one does that is drawn anew."""
    import streamlit as st

    from pages.parts.shell import link
    from pages.parts.shell.view import View

    codec = link.Codec([link.Field("size", "s", "size", link.Whole(1, 9), 1)])
    view = View("made-up", lambda _: codec)
    size = st.number_input("Size", 1, 9, int(str(view["size"])), key=view.key("size"))
    if st.session_state["is_cut_off"]:
        st.stop()
    view.commit({"size": size}, codec)


@pytest.mark.parametrize("address", [{}, {"v": "1", "s": "3"}])
def test_a_press_before_the_page_is_whole_is_kept(address: dict[str, str]) -> None:
    page = AppTest.from_function(_page)
    page.session_state["is_cut_off"] = True
    page.query_params.update(address)
    page.run()
    page.number_input[0].set_value(5).run()
    page.session_state["is_cut_off"] = False
    page.run()
    assert page.number_input[0].value == 5
    assert page.query_params["s"] == "5"


def test_a_link_that_is_opened_meanwhile_counts() -> None:
    page = AppTest.from_function(_page)
    page.session_state["is_cut_off"] = True
    page.run()
    page.number_input[0].set_value(5).run()
    page.session_state["is_cut_off"] = False
    page.query_params["s"] = "7"
    page.run()
    assert page.number_input[0].value == 7
