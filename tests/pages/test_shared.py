"""Pages of a shared server: limits with their reason before Start, and buttons only for one's own runs."""

from __future__ import annotations

import re

import pytest

from dpcl_core.runs import queue
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.store import Store
from pages.parts import visitor
from tests.pages.conftest import Open, words
from tests.pages.test_runs import ALL, SPEC, _labels, _tick
from tests.support import replay


@pytest.fixture
def mine(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store as the visitor of the pages uses it."""
    monkeypatch.setenv(queue.VARIABLE, "cells=12,places=2")
    monkeypatch.setattr(visitor, "digest", lambda: "anna")
    return store.as_visitor(Visitor("anna", Limits(cells=12, places=2)))


def test_start_says_what_is_above_a_limit_and_stays_shut(open_page: Open, mine: Store) -> None:
    link = {"v": "1", "s.tasks": "2", "e": "0.5,inf"}
    page = open_page("train", sd="0,1", **link)
    assert not page.exception
    assert not page.button(key="start").disabled
    page = open_page("train", sd="0,1,2,3,4,5,6", **link)
    assert page.button(key="start").disabled
    shown = [error.value.replace("\\", "") for error in page.error]
    assert shown == ["budgets times seeds = 14: must be at most 12 on this server: take fewer budgets or seeds"]
    for _ in range(2):
        mine.create(SPEC)
    page = open_page("train", sd="0,1", **link)
    assert page.button(key="start").disabled
    assert "wait for one to end, or stop one" in page.error[0].value


def test_a_run_started_here_is_ones_own(open_page: Open, mine: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, run_id: None)
    open_page("train", v="1", e="0.5,inf", sd="0", l="prior", **{"s.tasks": "2"}).button(key="start").click().run()
    assert [run.owner for run in mine.list_runs()] == ["anna"]


def test_another_visitors_run_can_be_opened_and_repeated_but_not_changed(open_page: Open, store: Store, mine: Store) -> None:
    others = replay.fill(store, SPEC, ALL, name="others", status="running")
    own = replay.fill(mine, SPEC, ALL, name="own")
    page = _tick(open_page("runs"), 1)
    assert not page.exception
    assert not {"Stop", "Delete", "Save name"} & _labels(page)
    assert {"Delete", "Save name"} <= _labels(_tick(open_page("runs"), 0))
    assert "Stop" not in _labels(open_page("train", run=others))
    assert "Delete these 2" not in _labels(_tick(open_page("runs"), 0, 1))
    assert store.status(own) == "finished"


def test_the_trash_is_restored_and_emptied(open_page: Open, store: Store) -> None:
    """On one's own computer, too."""
    assert "Trash" not in words(open_page("runs"))
    run_id, kept = replay.fill(store, SPEC, ALL, name="first"), replay.fill(store, SPEC, ALL, name="kept")
    store.delete(run_id)
    page = open_page("runs")
    assert re.search("“first”. Emptying deletes their results for good", words(page))
    page = page.button(key="trash-restore").click().run()
    assert not store.trash()
    store.delete(run_id)
    page = open_page("runs").button(key="trash-empty").click().run()
    assert not page.exception
    assert "The trash is empty." in words(page)
    assert not store.trash()
    assert [run.id for run in store.list_runs()] == [kept]
    assert store.events(run_id) == ()
