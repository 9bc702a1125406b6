"""What holds for all pages: they open, a broken store says so in one sentence, and no text promises too much."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st

from dpcl_core.errors import StoreTrouble
from pages.parts import layout
from tests.pages.conftest import ROOT, Open, words

CITED = (
    ("software", "dpcl2026"), ("article", "tobaben2025"), ("inproceedings", "lai2022"), ("article", "zhan"),
    ("article", "shihab2026"),
)  # fmt: skip
PAGES = ("train", "runs", "compare", "published", "about")
_FORBIDDEN = re.compile(r"\b(anonymous|anonymised|guaranteed|zero risk|encrypted|100 ?% private|completely private)\b", re.I)


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_without_an_exception(open_page: Open, name: str) -> None:
    page = open_page(name)
    assert not page.exception
    assert page.title[0].value


@pytest.mark.parametrize("name", ["train", "runs", "compare", "published"])
def test_a_store_that_cannot_be_opened_says_so_in_one_sentence(
    open_page: Open, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (home / "file").write_text("not a folder")
    monkeypatch.setenv("DPCL_HOME", str(home / "file"))
    page = open_page(name)
    assert not page.exception
    assert len(page.error) == 1
    assert "\n" not in page.error[0].value


@pytest.mark.parametrize("name", ["train", "runs", "compare", "published"])
def test_a_store_in_trouble_is_told_in_its_sentence(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreTrouble("The disk is full: free some space.")

    monkeypatch.setattr("dpcl_core.runs.store.Store.reading", full)
    page = open_page(name)
    assert not page.exception
    shown = [error.value.replace("\\", "") for error in page.error]
    assert shown == ["The disk is full: free some space. Runs under way go on and lose nothing."]


def test_no_text_promises_too_much() -> None:
    for path in [*(ROOT / "pages").rglob("*.py"), *(ROOT / "dpcl_core" / "figures").rglob("*.py")]:
        found = _FORBIDDEN.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found}"


def test_no_icon_asks_a_font_host() -> None:
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        assert ":material/" not in path.read_text(encoding="utf-8"), path


def test_about_names_every_method_and_its_source(open_page: Open) -> None:
    from dpcl_core.methods import catalog

    shown = words(open_page("about"))
    for card in catalog.CARDS.values():
        assert card.title in shown
        assert card.source in shown
    assert "Trained on: a billion public pairs of sentences; none of the datasets here is known to be among them." in shown


def test_about_shows_the_version_and_how_to_cite(open_page: Open) -> None:
    from dpcl_core import __version__

    page = open_page("about").segmented_control(key="about-views").set_value("Limits, version, citation").run()
    assert f"dpcl {__version__}" in words(page)
    shown = "\n".join(block.value for block in page.code)
    assert all(f"@{kind}{{{key}," in shown for kind, key in CITED)


def test_citations_are_those_of_the_citation_file() -> None:
    """`python -m scripts.citations` writes them."""
    from dpcl_core import __version__
    from scripts import citations

    assert citations.BIBTEX.read_text(encoding="utf-8") == citations.bibtex()
    assert f"Version {__version__}" in citations.bibtex()


def test_a_browser_sees_the_first_heading_before_the_rest_and_waits_for_no_other(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(layout, "time", SimpleNamespace(sleep=waits.append))
    open_page("about").run()
    assert not waits, "no browser, nobody who looks"
    monkeypatch.setattr(type(st.context), "headers", {"User-Agent": "a browser"})
    assert not open_page("start").exception
    assert not waits, "the picture of Start is what a visitor waits for"
    page = open_page("about")
    page.run()
    page.switch_page("pages/runs.py").run()
    assert len(waits) == 1
