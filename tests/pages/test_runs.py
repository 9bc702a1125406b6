"""The Runs page: every state in the table, and what can be done about each run."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dpcl_core import checks
from dpcl_core.checkpoints import Checkpoint
from dpcl_core.runs import process, resumption
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.store import Store
from pages import runs as runs_page
from tests.pages.conftest import Open, Patch, address, box, labels, press, words
from tests.support import replay
from tests.support.asserting import includes

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)


def _tick(page: AppTest, *rows: int) -> AppTest:
    page.session_state[page.session_state["runs-rows"].key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return page.run()


def test_the_table_shows_every_state(open_page: Open, store: Store) -> None:
    assert "No runs yet" in words(open_page("runs"))
    states = ("queued", "running", "cancelled", "failed", "lost", "finished")
    for state in states:
        replay.fill(store, SPEC, ALL, status=state, name=f"a {state} run")
    page = open_page("runs")
    table = page.dataframe[0].value
    assert (set(table["status"]), table["name"].iloc[0]) == ({*states}, "a finished run")
    assert "Queue on cpu: running “a running run”; 1 waiting." in words(page)


def test_accuracy_is_the_mean_over_seeds_at_the_largest_budget(store: Store) -> None:
    run_id = replay.fill(store, SPEC, ALL)
    frame = runs_page.table([store.get(run_id)], store.final_accuracies([run_id]))
    cells = [cell for cell in store.results([run_id])[run_id] if cell.cell.epsilon == float("inf")]
    expected = 100 * sum(cell.metrics["AA"] or 0.0 for cell in cells) / len(cells)
    assert (str(frame["accuracy"][0]), frame["data"][0]) == (f"{expected:.1f}", "Handwritten digits")


def test_warnings_fit_into_the_table_and_the_rest_is_said_below(open_page: Open, store: Store) -> None:
    raw = {**asdict(SPEC), "labels": "data", "data": {"dataset": "digits", "train_per_class": 20}}
    replay.finished(store, checks.parse(raw))
    page = _tick(open_page("runs"), 0)
    row = page.dataframe[0].value.iloc[0]
    assert (row["data"], row["epsilons"]) == ("Handwritten digits (subset)", "1, 8, ∞ (no bound)")
    assert "DP cosine classifier · Handwritten digits (subset: 200 training and " in words(page)
    assert "largest ε" in json.loads(page.dataframe[0].proto.columns)["accuracy"]["label"]


def test_filters_of_the_link_hold_and_its_run_is_there(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    def listed(**link: str) -> list[str]:
        page = open_page("runs", v="1", **link)
        assert not page.warning
        return list(page.dataframe[0].value["name"])

    monkeypatch.setattr("pages.parts.fields.LISTED", 2)
    oldest, *_ = [replay.fill(store, SPEC, ALL, name=name) for name in ("oldest", "older", "newer", "newest")]
    assert listed() == ["newest", "newer"]
    assert "The table has no more than 2 runs" in words(open_page("runs"))
    assert listed(q="oldest") == ["oldest"]
    assert listed(run=oldest) == ["oldest", "newest", "newer"]
    assert open_page("runs", view="compare", v="1", r=oldest).multiselect[0].value == [oldest]
    replay.fill(store, SPEC, [], status="cancelled", name="left out")
    assert listed(st="finished") == ["newest", "newer"]
    assert "No run matches these filters" in words(open_page("runs", v="1", q="nothing like it"))


def test_a_ticked_run_says_what_it_has_done_and_offers_what_its_state_allows(open_page: Open, store: Store) -> None:
    replay.fill(store, SPEC, ALL)
    replay.fill(store, SPEC, ALL[:-SPEC.n_cells], status="cancelled", name="stopped")
    replay.fill(store, SPEC, ALL[:2], status="running", name="under way")
    page = open_page("runs")
    for row, said, offered, missing in (
        (0, "**under way** · running · computing features with pixels · ", {"Stop"}, "Delete"),
        (1, "**stopped** · cancelled · stopped on request; the curves so far are kept", {"Delete"}, "Stop"),
        (2, " · finished · ", {"Run again", "Delete", "Save name"}, "Stop"),
    ):
        assert said in words(_tick(page, row))
        assert offered <= {*labels(page)}
        assert missing not in labels(page)


def test_delete_can_be_undone_and_ticks_stay_with_their_runs(open_page: Open, store: Store, idle: None) -> None:
    for name in ("oldest", "older", "newer", "newest"):
        replay.fill(store, SPEC, ALL, name=name)
    page = press(_tick(open_page("runs"), 0), "Delete")
    assert [run.name for run in store.list_runs()] == ["newer", "older", "oldest"]
    press(page, "Undo delete")
    assert [run.name for run in store.list_runs()] == ["newest", "newer", "older", "oldest"]
    page = press(_tick(open_page("runs"), 0, 1), "Delete these 2")
    assert [run.name for run in store.list_runs()] == ["older", "oldest"]
    assert "Deleted 2 runs." in words(page)
    assert not any(label.startswith("Delete") for label in labels(page)), "no other run is ticked"
    press(_tick(page, 1), "Run again")
    assert len(store.list_runs()) == 3
    assert "**oldest**" in words(page), "though a run has come above it"


def test_a_link_opens_its_run_which_is_not_called_missing_once_it_is_deleted(open_page: Open, store: Store) -> None:
    ids = [replay.fill(store, SPEC, ALL, name=name) for name in ("older", "newer")]
    page = open_page("runs", run=ids[0])
    assert "older" in words(page)
    opened = [link.proto.query_string for link in page.get("page_link") if link.proto.label == "Open"]
    assert opened == [f"v=1&run={ids[0]}"]
    assert page.query_params["run"] == ids[0]
    assert "newer" in words(_tick(page, 0))
    page = press(open_page("runs", run=ids[0]), "Delete")
    assert "Deleted 1 run." in words(page)
    assert not page.warning


def test_ticked_runs_that_have_finished_are_compared_below_and_in_the_other_view(open_page: Open, store: Store) -> None:
    replay.fill(store, SPEC, ALL, status="cancelled")
    older, newer = (replay.fill(store, SPEC, ALL, name=name) for name in ("older", "newer"))
    page = _tick(open_page("runs"), 0)
    assert "**A** newer" not in words(page), "one run is opened, not compared"
    page = _tick(page, 0, 1)
    includes(words(page), "2 finished runs are compared below", "**A** newer", "**B** older")
    assert address(page)["r"] == f"{newer},{older}"
    again = open_page("runs", **address(page))
    assert "**B** older" in words(again), "the link opens the same comparison"
    again.segmented_control[0].set_value("compare").run()
    assert box(again, "multiselect", "Runs").value == [newer, older]
    assert not again.dataframe, "the list is not drawn beside it"
    assert address(again)["view"] == "compare"
    includes(words(_tick(page, 0, 1, 2)), "2 finished runs are compared below", "**B** older")
    page = _tick(page, 1, 2)
    assert "Only finished runs can be compared" in words(page)
    assert "**A**" not in words(page)
    assert "r" not in address(page)


def test_retry_queues_the_same_settings(open_page: Open, store: Store, idle: None) -> None:
    replay.fill(store, SPEC, [], status="failed")
    page = _tick(open_page("runs"), 0)
    includes(words(page), "This run failed on purpose", "It cannot be resumed: it failed by itself")
    assert "Resume" not in labels(page)
    press(page, "Retry")
    newest = store.list_runs()[0]
    assert (newest.status, newest.spec) == ("queued", SPEC)


def _lost(store: Store, arrays: bytes) -> str:
    """A run whose process died after its first task, with these arrays as the state of its method."""
    run_id = store.create(SPEC)
    assert store.claim(run_id, process.me())
    resumption.Stored(store, run_id).save(Checkpoint(0, 0, (), "{}", arrays))
    store.append(run_id, ALL[:13])
    store.mark_failed(store.get(run_id), replay.a_failure("worker-died"))
    return run_id


def _opened(open_page: Open, where: str, run_id: str) -> AppTest:
    return _tick(open_page("runs"), 0) if where == "runs" else open_page("train", run=run_id)


@pytest.mark.parametrize("where", ["runs", "train"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_lost_run_resumes_unless_damaged(open_page: Open, store: Store, idle: None, where: str, is_damaged: bool) -> None:
    run_id = _lost(store, b"no state" if is_damaged else save({}))
    page = _opened(open_page, where, run_id)
    assert "Retry" in labels(page)
    assert ("Resume" in labels(page)) is not is_damaged
    why = "It cannot be resumed: the checkpoint after task 1 of its group 1 of models is damaged"
    assert (why in words(page)) is is_damaged
    if not is_damaged:
        press(page, "Resume")
        assert store.status(run_id) == "queued"
        assert "Resume" not in labels(page)


def test_rename_refuses_an_empty_name_in_words(open_page: Open, store: Store) -> None:
    run_id = replay.fill(store, SPEC, ALL, name="old")
    page = _tick(open_page("runs"), 0)
    page.text_input(key=f"name-{run_id}").set_value("  ")
    press(page, "Save name")
    assert page.error
    assert store.get(run_id).name == "old"


def test_a_link_to_a_run_that_is_not_here_says_so_and_adds_no_row(open_page: Open, store: Store) -> None:
    run_id = replay.fill(store, SPEC, ALL, name="audited")
    for linked in ("0" * 12, Audits(store).create(run_id), "0\0"):
        page = open_page("runs", v="1", run=linked)
        assert (list(page.dataframe[0].value["name"]), len(page.warning)) == (["audited"], 1)
        assert "Tick a run to open" in words(page)
        if linked == "0" * 12:
            assert page.warning[0].value == f"The link asks for run {linked}, which is not in this store."
