"""The door to the page that trains: which questions have one, and what the server hands out behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dpcl_core import paths, presets
from pages import questions
from pages.parts import layout, served
from tests.pages.conftest import Open


def test_a_question_has_a_door_where_a_page_can_repeat_one_of_its_runs() -> None:
    assert (questions.repeated([presets.load("digits-cosine")]) or "").startswith("#run=")
    assert questions.repeated([presets.load("pecl-synthetic")]) is None
    both = [presets.load("pecl-synthetic"), presets.load("digits-cosine")]
    assert questions.repeated(both) == questions.repeated(both[1:])


def test_the_server_hands_out_the_page_where_it_was_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = tmp_path / "environment", tmp_path / "cache"
    monkeypatch.setattr(paths, "shared_dirs", lambda what: tuple(place / what for place in places))
    assert served.routes() == []
    (places[1] / "live").mkdir(parents=True)
    (places[1] / "live" / "train-here.html").write_text("the page", encoding="utf-8")
    client = TestClient(Starlette(routes=served.routes()))
    assert client.get("/here/train-here.html").text == "the page"
    assert client.get("/here/../cache").status_code == 404


def test_start_has_a_door_or_the_commands_that_make_one(open_page: Open) -> None:
    page = open_page("start")
    assert layout.IN_BROWSER in [one.proto.popover.label for one in page.get("popover")]
