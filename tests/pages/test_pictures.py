"""Pictures are built once for all visitors."""

from __future__ import annotations

import pandas as pd
import pytest
import streamlit as st

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture
from pages.parts import figure_card, layout
from tests.pages.conftest import Open, drawings


def test_equal_tables_give_the_picture_that_was_built_and_others_a_new_one() -> None:
    built: list[float] = []

    def build(table: pd.DataFrame, *, dark: bool = False) -> Picture:
        built.append(float(table["value"].sum()))
        return theme.nothing("", dark, 100)

    draw = figure_card.kept(build)
    first = draw(pd.DataFrame({"value": [1.0, 2.0]}))
    assert figure_card.kept(build)(pd.DataFrame({"value": [1.0, 2.0]})) is first
    assert draw(pd.DataFrame({"value": [1.0, 3.0]})) is not first
    assert draw(pd.DataFrame({"value": [1.0, 2.0]}), dark=True) is not first
    assert built == [3.0, 4.0, 3.0]


@pytest.mark.parametrize("name", ["train", "privacy", "published", "anchors"])
def test_a_page_seen_before_builds_no_figure(name: str, open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page(name)
    assert page.get("plotly_chart") or drawings(page)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a figure is built again")

    monkeypatch.setattr(theme, "layout", refused)
    page.run()
    assert not page.exception
    assert page.get("plotly_chart") or drawings(page)


def test_a_part_that_is_drawn_by_itself_pauses_once_after_its_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser has it then before the rest; a whole page, and later pictures, do not wait."""
    pauses: list[float] = []
    monkeypatch.setattr("pages.parts.layout.time.sleep", pauses.append)
    monkeypatch.setattr("pages.parts.link.begin", lambda: None)
    monkeypatch.setattr(st, "session_state", {})
    monkeypatch.setattr(st, "fragment", lambda part, run_every: part)

    class Context:
        fragment_ids_this_run: list[str]

    def part() -> None:
        layout.await_paint()
        layout.await_paint()

    for alone in ([], ["part"]):
        Context.fragment_ids_this_run = alone
        monkeypatch.setattr(layout, "get_script_run_ctx", Context)
        layout.apart(part, lambda: None)
        assert len(pauses) == len(alone)
    layout.await_paint()
    assert len(pauses) == 1
