"""The view of a page: what a visitor presses counts, also before the page has been drawn for the first time."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def _page() -> None:
    """A page with one control, which ends before it is whole while `is_cut_off` is set, as one does that is drawn anew."""
    import streamlit as st

    from pages.parts import link
    from pages.parts.state import View

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


def _at(page: AppTest, size: int, *, shown: str | None) -> AppTest:
    """The page after a press that sets the size, in a browser whose address still shows the other one."""
    page.query_params.clear()
    page.query_params.update({} if shown is None else {"v": "1", "s": shown})
    return page.number_input[0].set_value(size).run()


def _whole() -> AppTest:
    page = AppTest.from_function(_page)
    page.session_state["is_cut_off"] = False
    return page.run()


def test_a_browser_that_is_behind_opens_no_link() -> None:
    """It sends each press with the address before the last one or two; each address was the page's own."""
    page = _whole()
    _at(page, 3, shown=None)
    _at(page, 4, shown=None)
    _at(page, 5, shown="3")
    _at(page, 6, shown="4")
    assert page.number_input[0].value == 6
    assert page.query_params["s"] == "6"


@pytest.mark.parametrize("is_history", [True, False])
def test_back_in_the_browser_leads_back(monkeypatch: pytest.MonkeyPatch, is_history: bool) -> None:
    page = _whole()
    _at(page, 3, shown=None)
    _at(page, 4, shown="3")
    monkeypatch.setattr("pages.parts.state._is_history", lambda: is_history)
    page.query_params["s"] = "3"
    page.run()
    assert page.number_input[0].value == (3 if is_history else 4)
