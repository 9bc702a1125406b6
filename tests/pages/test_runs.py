"""The Runs page: every state in the table, what can be done about each run, and comparisons."""

import json
import math
import re
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.events import CellFinished, References
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.papers import measured
from dpcl_core.runs import resumption
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, RunSpec, fields_of
from pages import runs as runs_page
from pages.parts import comparison, fields, train_form
from tests.pages.conftest import Open, Patch, address, box, drawings, labels, press, words
from tests.support import replay
from tests.support.asserting import excludes, includes

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)


def _tick(page: AppTest, *rows: int) -> AppTest:
    page.session_state[page.session_state["runs-rows"].key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return page.run()


def test_the_table_shows_every_state(open_page: Open, store: Store) -> None:
    assert "No runs yet" in words(open_page("runs"))
    for state in (states := ("queued", "running", "cancelled", "failed", "lost", "finished")):
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
    assert (listed(q="oldest"), listed(run=oldest)) == (["oldest"], ["oldest", "newest", "newer"])
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


@pytest.mark.parametrize("where", ["runs", "train"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_lost_run_resumes_unless_damaged(open_page: Open, store: Store, idle: None, where: str, is_damaged: bool) -> None:
    run_id = replay.claim(store, SPEC)  # whose process dies after its first task
    resumption.Stored(store, run_id).save(Checkpoint(0, 0, (), "{}", b"no state" if is_damaged else save({})))
    store.append(run_id, ALL[:13])
    store.mark_failed(store.get(run_id), replay.a_failure("worker-died"))
    page = _tick(open_page("runs"), 0) if where == "runs" else open_page("train", run=run_id)
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


# Compare: which runs, their differences, and the arithmetic behind.


STATES: dict[Status, str] = {
    "cancelled": "was cancelled", "failed": "failed", "lost": "was lost", "queued": "is still queued",
    "running": "has not finished yet",
}  # fmt: skip


def _filled(store: Store, **more: object) -> str:
    """A finished run of these settings."""
    spec = replay.a_spec(**more)  # type: ignore[arg-type]
    return replay.finished(store, spec, n_tasks=spec.scenario.tasks, name=f"run {more}")  # type: ignore[attr-defined]


def test_nothing_to_compare_shows_the_example_and_the_next_step(open_page: Open) -> None:
    page = open_page("runs", view="compare")
    assert "Nothing to compare yet" in words(page)
    assert drawings(page)


@pytest.mark.parametrize(("first", "second", "query", "said", "not_said"), [
    ({}, {"tasks": 2}, {}, ["A and B had different streams", "No difference is drawn."], []),
    ({"epsilons": (1.0,)}, {"epsilons": (2.0,)}, {}, ["share no ε"], []),
    ({}, {"labels": "data"}, {}, ["privacy-bar not-dp", "Whatever is published is at most"], []),
    ({}, {"labels": "prior"}, {}, ["A minus B, final accuracy", "- At ε = 1: ", "- Without noise: "], ["ε = ∞: "]),
    ({}, {"epsilons": (math.inf,)}, {"want": "20"}, ["B: No finite ε", "20 % accuracy needs"], []),
    ({}, {"labels": "data"}, {"want": "20"}, ["B: The list of labels is read from the data: no ε bounds that"], []),
])  # fmt: skip
def test_two_runs_are_told_apart_by_what_they_share(
    open_page: Open, store: Store, first: dict[str, Any], second: dict[str, Any], query: dict[str, str], said: list[str],
    not_said: list[str],
) -> None:  # fmt: skip
    page = open_page("runs", view="compare", v="1", r=f"{_filled(store, **first)},{_filled(store, **second)}", **query)
    includes(words(page), *said)
    excludes(words(page), *not_said)


@pytest.mark.parametrize("run", [{"labels": "data"}, {"epsilons": (math.inf,)}])
def test_a_run_without_a_bound_by_itself_needs_no_epsilon(open_page: Open, store: Store, run: dict[str, Any]) -> None:
    assert "20 % accuracy needs" not in words(open_page("runs", view="compare", v="1", r=_filled(store, **run), want="20"))


def test_a_link_to_a_deleted_run_or_an_audit_leads_to_no_run(open_page: Open, store: Store) -> None:
    """Nor does one to an id with NUL, which no database of PostgreSQL reads."""
    first, deleted = _filled(store), _filled(store)
    audit = Audits(store).create(first)
    store.delete(deleted)
    page = open_page("runs", view="compare", v="1", r=",".join([first, deleted, audit, "0\0"]))
    named = [warning.value.split(", ")[0] for warning in page.warning]
    assert named == [f"The link names run {run}" for run in (deleted, audit, "0\0")]
    assert page.multiselect[0].value == [first]
    assert store.listed([first, deleted, audit, "0\0"]).keys() == {first}
    assert store.present([first, deleted, "0\0"]).keys() == {first, deleted}


def test_a_run_of_a_link_that_has_not_finished_is_not_called_missing(open_page: Open, store: Store) -> None:
    first = _filled(store)
    ended = {state: replay.fill(store, SPEC, [], status=state, name=state) for state in STATES}
    page = open_page("runs", view="compare", v="1", r=",".join([first, *ended.values()]))
    said = " ".join(warning.value for warning in page.warning)
    assert "this store does not have" not in said
    for state, words_of_it in STATES.items():
        assert f"Run “{state}” {words_of_it}; only finished runs can be compared." in said
    assert page.multiselect[0].value == [first]


def test_one_run_asks_for_another_and_opens_its_settings(open_page: Open, store: Store) -> None:
    page = open_page("runs", view="compare", v="1", r=_filled(store))
    assert "A difference needs two runs" in words(page)
    (link,) = (one.proto for one in page.get("page_link") if "Open the settings of" in one.label)
    assert dict(parse_qsl(link.query_string)) == train_form.parameters_of(SPEC)


PRIOR = {"labels": "prior"}


@pytest.mark.parametrize(("runs", "opened", "said"), [
    ([{}, PRIOR, {"tasks": 2}], [0, 1], "agree exactly"),  # the newest has another stream
    ([{}, PRIOR, {"labels": "data"}], [0, 1], "agree exactly"),  # of the newest it would warn
    ([{}, PRIOR, {"epsilons": (math.inf,)}], [0, 1], "agree exactly"),  # shares ∞ alone with the others
    # The same settings twice: nothing to compare.
    ([{}, {}, {"tasks": 2}], [2], "Open this run's settings, change one, press Start"),
])  # fmt: skip
def test_it_opens_on_the_newest_pair_that_can_be_compared_else_on_the_newest_run(
    open_page: Open, store: Store, runs: list[dict[str, Any]], opened: list[int], said: str
) -> None:
    ids = [_filled(store, **run) for run in runs]
    page = open_page("runs", view="compare")
    assert set(page.multiselect[0].value) == {ids[place] for place in opened}
    includes(words(page), said)
    excludes(words(page), "only what was asked for")


def test_a_ceiling_is_not_what_it_opens_on(open_page: Open, store: Store) -> None:
    private, wanted = {_filled(store), _filled(store, **PRIOR)}, measured.settings(SPEC)
    replay.finished(store, wanted)
    assert set(open_page("runs", view="compare").multiselect[0].value) == private


def test_a_wanted_accuracy_gives_an_epsilon_for_every_run(open_page: Open, store: Store) -> None:
    page = open_page("runs", view="compare", v="1", r=f"{_filled(store)},{_filled(store, labels='prior')}", want="20")
    assert page.number_input[0].value == 20
    assert re.search(r"A: .*20 % accuracy needs .*B: .*20 % accuracy needs ", words(page))
    page.number_input[0].set_value(100).run()
    assert "A: No ε tried gives 100 % accuracy" in words(page)


def test_a_needed_epsilon_comes_with_what_the_ledger_accounts_for(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    said = replay.altered(replay.recorded(spec), CellFinished, lambda event: replace(
        event, guarantee=replace(event.guarantee, epsilon=2.5 * event.guarantee.epsilon)))  # fmt: skip
    page = open_page("runs", view="compare", v="1", r=replay.fill(store, spec, said), want="20")
    assert "ε = 1 (accounted ε = 2.5) gives " in words(page)


def test_runs_that_share_too_few_seeds_say_so_once_and_what_to_start(open_page: Open, store: Store) -> None:
    first, second = _filled(store, seeds=(0, 1, 2)), _filled(store, labels="prior", seeds=(0,))
    page = open_page("runs", view="compare", v="1", r=f"{first},{second}")
    said = words(page)
    assert said.count("Cannot tell at ε = 1, at ε = 8, without noise from 1 seed") == said.count("Cannot tell") == 1
    assert "dot and bar" not in words(page)
    (link,) = (one.proto for one in page.get("page_link") if "Open the settings of" in one.label)
    assert "Open the settings of B with 3 seeds" in link.label
    assert dict(parse_qsl(link.query_string)) == train_form.parameters_of(replay.a_spec(labels="prior", seeds=(0, 1, 2)))


def test_levels_are_drawn_where_all_runs_share_them() -> None:
    one = References(0.1, None, n_tested=400.0, ceiling=0.9)
    assert comparison.shared_references([one, one]) == one
    assert comparison.shared_references([one, References(0.25, None, n_tested=400.0, ceiling=0.9)]) is None
    other = References(0.1, 0.5, n_tested=400.0, ceiling=0.8)
    assert comparison.shared_references([one, other]) == References(0.1, None, n_tested=400.0)


# Which runs can be compared, and where settings differ.


def _with(**changes: object) -> RunSpec:
    return checks.parse({"scenario": {"tasks": 5}, "privacy": {"epsilons": [1.0, 8.0]}, **changes})


@pytest.mark.parametrize(("other", "words"), [
    ({"labels": "prior", "seeds": [0]}, None),
    ({"data": {"dataset": "mnist"}}, "different data (Handwritten digits, MNIST)"),
    ({"data": {"test_per_class": 5}}, "different subsets"),
    ({"public_labels": ["0", "1"]}, "different classes"),
    ({"scenario": {"tasks": 2}}, "different streams"),
])  # fmt: skip
def test_different_tests_are_named(other: dict[str, object], words: str | None) -> None:
    warning = comparison.different_tests({"A": _with(), "B": _with(**other)})
    assert warning is None if words is None else str(warning).startswith("A and B") and words in str(warning)


def test_runs_of_one_method_and_dataset_are_told_apart_in_a_line() -> None:
    one = {"A": _with(), "B": _with(labels="prior")}
    assert comparison.what_differs(one) == "They differ in: Label list (One public list / A public list per task)."
    several = {"A": _with(), "B": _with(labels="prior", seeds=[0], scenario={"tasks": 2}, privacy={"epsilons": [2.0]})}
    said = str(comparison.what_differs(several))
    assert "; Label list (" in said
    assert said.endswith(" and 1 more.")
    assert comparison.what_differs({"A": _with(), "B": _with()}) is None
    assert comparison.what_differs({"A": _with(), "B": _with(data={"dataset": "mnist"})}) is None


def test_settings_that_differ_are_named_as_on_the_form_of_train() -> None:
    rows, n_equal = comparison.differences({"A": _with(), "B": _with(labels="prior", scenario={"tasks": 2})})
    assert {row["setting"]: (row["A"], row["B"]) for row in rows} == {
        "Label list": ("One public list", "A public list per task"), "Tasks": ("5", "2"),
    }  # fmt: skip
    assert n_equal > 8
    rows, _ = comparison.differences({"A": _with(), "B": replace(_with(), data=replace(_with().data, dataset="own:people"))})
    assert [row["B"] for row in rows if row["setting"] == "Dataset"] == ["people (own data)"]
    one = _with(privacy={"epsilons": [1.0], "adjacency": "replace"})
    film = {"method": "peft-ensemble", "params": {"adapter": "film", "sample_rate": 0.25}, "data": {"backbone": "vit"}}
    rows, _ = comparison.differences({"A": one, "B": _with(**film, privacy={"epsilons": [1.0, 8.0]}, tuned="public")})
    none = "not a setting here"
    named = {row["setting"]: (row["A"], row["B"]) for row in rows}
    assert named["Method"] == (methods.CARDS["cosine"].title, methods.CARDS["peft-ensemble"].title)
    assert (named["Adapted parts"], named["Sampling rate q"]) == ((none, "FiLM"), (none, "0.25"))
    assert named["Network for the features"][0] == backbones.CARDS["pixels"].title
    assert named["Privacy budget ε"] == ("1", "1, 8")
    assert named["Neighbouring datasets differ by"] == ("one example replaced", "one example present or left out")
    assert named["These settings were tuned"] == ("not by looking at results on any data", "on public data (by your word)")


@pytest.mark.parametrize("scenario", scenarios.CARDS)
def test_every_setting_of_a_run_has_a_name_for_readers(scenario: str) -> None:
    of_all = [f"data.{name}" for name in fields_of(DataSpec)] + [f"privacy.{name}" for name in fields_of(PrivacySpec)]
    of_all += [name for name in fields_of(RunSpec) if name not in ("params", "data", "scenario", "privacy")]
    of_all += [f"scenario.{name}" for name in fields_of(scenarios.CARDS[scenario].settings)]
    for method, card in methods.CARDS.items():
        settings = [*of_all, *(f"params.{name}" for name in fields_of(card.params))]
        titles = {key: fields.title(key, method, scenario) for key in settings}
        assert not [key for key, title in titles.items() if title == key]
        assert len(set(titles.values())) == len(titles), "two columns of a table have two names"
