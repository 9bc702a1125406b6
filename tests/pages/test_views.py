"""Pages of several views: the address names the open one, each keeps its own settings, and no other is drawn."""

from __future__ import annotations

import sys

import pytest
from streamlit.testing.v1 import AppTest

from pages import explore, lessons, runs, teach
from tests.pages.conftest import Open, address, words

PAGES = {"explore": explore.VIEWS, "runs": runs.VIEWS, "teach": teach.VIEWS, "lessons": lessons.VIEWS}
VIEWS = [(page, view) for page, views in PAGES.items() for view in views]


def turn(page: AppTest, view: str) -> AppTest:
    return page.segmented_control[0].set_value(view).run()


@pytest.mark.parametrize(("name", "view"), VIEWS)
def test_the_address_opens_a_view_and_names_it(open_page: Open, name: str, view: str) -> None:
    page = open_page(name, view=view)
    assert page.segmented_control[0].value == view
    assert address(page)["view"] == view
    assert not page.warning


@pytest.mark.parametrize("name", PAGES)
def test_without_a_view_the_first_opens_and_a_wrong_one_is_named(open_page: Open, name: str) -> None:
    first = next(iter(PAGES[name]))
    assert open_page(name).segmented_control[0].value == first
    page = open_page(name, view="none")
    assert page.segmented_control[0].value == first
    assert f"view = none: must be one of {', '.join(PAGES[name])}" in page.warning[0].value.replace("\\", "")


def test_each_view_keeps_its_settings_while_others_are_open(open_page: Open) -> None:
    page = open_page("explore", view="playground", plain="1", e="4")
    turn(page, "words")
    assert address(page) == {"view": "words", "v": "1"}, "settings of one view are none of another's"
    assert not page.warning
    turn(page, "playground")
    assert address(page) == {"view": "playground", "v": "1", "e": "4", "plain": "1"}
    assert page.select_slider[0].value == 4.0


def test_only_the_open_view_is_computed(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sensitive_words", "matching_clients"):
        monkeypatch.setitem(sys.modules, f"pages.parts.{name}", None)  # an import of it raises
    page = open_page("explore", view="playground")
    assert "What happens if I change this?" in words(page)


def test_a_browser_that_is_behind_stays_in_the_view_just_chosen(open_page: Open) -> None:
    page = open_page("teach", view="plan", p="2")
    before = address(page)
    turn(page, "classroom")
    page.query_params.clear()
    for key, value in before.items():
        page.query_params[key] = value
    page.run()
    assert page.segmented_control[0].value == "classroom"
    assert address(page)["view"] == "classroom"


def test_coming_back_to_a_page_finds_the_view_that_was_open(open_page: Open) -> None:
    page = open_page("explore", view="words", th="0.3")
    page.query_params.clear()
    page.switch_page("pages/about.py").run()
    assert "view" not in address(page)
    page.query_params.clear()
    page.switch_page("pages/explore.py").run()
    assert address(page) == {"view": "words", "v": "1", "th": "0.3"}
