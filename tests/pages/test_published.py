"""The paper's side of a question with nothing run, some runs and all of them, and links of the page that it once was."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import paths, presets
from dpcl_core.papers import answers, catalog, claims, measured, questions
from dpcl_core.runs.store import Store
from tests.pages.conftest import Open, Patch, words
from tests.support import replay
from tests.support.asserting import includes
from tests.support.signatures import with_lists

RECORDED = measured.recorded
SMALL = presets.variants("paper-split-cifar-100-small")


@pytest.fixture(autouse=True)
def nothing_recorded(monkeypatch: Patch) -> None:
    """The pages below start without recorded figures; one test brings some back."""
    answers.recorded()  # kept for the whole process, as are a paper's forms, so other tests must not find them empty
    for paper in catalog.PAPERS.values():
        claims.recorded_forms(paper)
    monkeypatch.setattr(measured, "recorded", lambda *_: ())
    monkeypatch.setattr(questions, "_recorded", lambda: {run.spec.digest(): run for run in measured.all_recorded()})


def _opened(open_page: Open, **query: str) -> AppTest:
    """The paper's side of an experiment, of Split-CIFAR-100 unless another is asked for."""
    return open_page("questions", **{"v": "1", "w": "paper", "x": "paper-split-cifar-100", **query})


def _fill(store: Store, label: str, **more: object) -> str:
    spec = SMALL[label]
    return replay.fill(store, spec, replay.recorded(spec, n_tasks=10), **more)  # type: ignore[arg-type]


def _numbers(page: AppTest) -> pd.DataFrame:
    (frame,) = (table.value for table in page.dataframe if "layer of ours" in table.value)
    return frame


def _command(page: AppTest) -> str:
    return str(page.code[-1].value.removeprefix("python -m dpcl_core reproduce "))


def test_nothing_run_shows_the_published_values_and_the_next_step(open_page: Open) -> None:
    page = _opened(open_page)
    said = words(page)
    includes(said, "None of these runs exists yet", "values of accuracy published; none of the runs")
    assert "Of 32 claims: 0 found, 0 contradicted, 0 mixed, 0 undecided, 32 not run." in said, "of all its forms"
    assert "Why ours cannot be the same" not in said
    links = [link.proto for link in page.get("page_link")]
    assert sum("p.adapter" in link.query_string or "m=" in link.query_string for link in links) >= len(SMALL) - 1
    assert _command(page) == "tobaben --experiment paper-split-cifar-100 --small"


def test_an_experiment_opens_on_its_largest_record_and_a_link_names_another(open_page: Open, monkeypatch: Patch) -> None:
    monkeypatch.setattr(measured, "recorded", RECORDED)
    assert _command(_opened(open_page)) == "tobaben --experiment paper-split-cifar-100 --bundled"
    other = _opened(open_page, p="lifelong", x="paper-harw-centralised")  # only as published
    assert _command(other) == "lifelong --experiment paper-harw-centralised --full"
    small = _opened(open_page, z="small")
    assert _command(small) == "tobaben --experiment paper-split-cifar-100 --small"
    assert small.query_params["question"] == "paper-split-cifar-100-small"


def test_some_runs_stand_beside_the_published_values_and_name_their_layer(open_page: Open, store: Store) -> None:
    run_id = _fill(store, "cosine")
    _fill(store, "naive", status="failed")  # has no figures to show
    page = _opened(open_page)
    missing = "Here: 1 of 4 runs. Still missing: ensemble-head, naive, non-cl-head."
    includes(words(page), missing, f"your run {run_id[:4]}", "instead of a ViT-B/16")
    frame = _numbers(page).set_index(["method", "ε"])
    cosine = frame.loc[("Cosine classifier", "1")]
    assert (cosine["published"], cosine["layer of ours"]) == ("72.78 ± 0.51", "made to work"), "along public axes"
    ours, difference = (float(cosine[name].split(" ± ")[0].replace("−", "-")) for name in ("ours", "difference"))
    assert difference == pytest.approx(ours - 72.78, abs=0.11)
    assert (set(frame.loc["Naive"]["ours"]), frame.loc[("Naive", "1")]["layer of ours"]) == ({"–"}, "")


def test_records_are_shown_until_there_is_a_run(open_page: Open, store: Store, monkeypatch: Patch, tmp_path: Path) -> None:
    run = store.get(_fill(store, "cosine"))
    figures = measured.measured_run(run, [event for _, event in store.events_after(run.id)])
    measured.write(tmp_path / "figures.json", "tobaben", [figures])
    store.delete(run.id)
    monkeypatch.setattr(measured, "recorded", lambda *_: measured.read_measured(tmp_path / "figures.json"))
    said = words(_opened(open_page))
    assert f"recorded on {figures.date}, {figures.seconds:.0f} s" in said
    measured.write(tmp_path / "figures.json", "tobaben", [replace(figures, edition=1)])
    st.cache_resource.clear()  # a server started anew: records never change while one is up
    said = words(_opened(open_page))
    assert f"recorded on {figures.date} by older code, " in said
    assert "Recorded by older code, before public coins dealt out rows" in said
    _fill(store, "cosine")
    said = words(_opened(open_page))
    assert "your run" in said
    assert "recorded on" not in said


def test_experiments_without_printed_numbers_say_so(open_page: Open) -> None:
    for name in ("paper-blurry", "paper-label-spaces"):
        assert "published only as plots" in words(_opened(open_page, x=name, z="full"))
    page = _opened(open_page, p="cslr", x="paper-cslr-ner", z="small")
    includes(words(page), "Names in six genres: entity F1", "values of entity F1 published")
    page = _opened(open_page, x="paper-none", z="huge", q="AA")
    assert sum("The link asks for" in warning.value for warning in page.warning) == 2


@pytest.mark.parametrize("name", catalog.PAPERS)
def test_every_experiment_of_a_paper_can_be_looked_at(open_page: Open, name: str) -> None:
    for experiment in catalog.paper(name).experiments:
        page = _opened(open_page, p=name, x=experiment.name)
        assert experiment.question.replace("*", "") in words(page), experiment.name


def test_table_8s_match_rates_stand_beside_ours_and_lead_to_the_anchors_page(open_page: Open, store: Store) -> None:
    where = {"p": "cslr", "x": "paper-cslr-anchors", "z": "small"}
    said = words(_opened(open_page, **where))
    includes(said, "| 10 | 0.18 | 0.07 | – | – | – |", "recorded runs keep models, not lists")
    label, spec = next(iter(presets.variants("paper-cslr-anchors-small").items()))
    run = replay.fill(store, spec, with_lists(replay.recorded(spec)))
    page = _opened(open_page, **where)
    said = words(page)
    assert f"your run {run[:4]}" in said, label
    includes(said, "| 10 | 0.18 | 0.07 | 0.61 | 0.20 | 0.9 |", "| 100 | 0.46 | 0.19 | – | – | – |")
    links = [link.proto for link in page.get("page_link")]
    assert any("How many anchors" in link.label and f"run={run}" in link.query_string for link in links)
    assert "p̂ printed" not in words(_opened(open_page, p="cslr", x="paper-cslr-lists"))


def test_replay_head_and_total_stand_beside_what_came_out(open_page: Open, monkeypatch: Patch) -> None:
    figures = measured.read_measured(paths.assets_dir() / "reproduction" / "cslr.json")
    monkeypatch.setattr(measured, "recorded", lambda *_: figures)
    frame = _numbers(_opened(open_page, p="cslr", x="paper-cslr-ag-news")).set_index("method")
    (column,) = (name for name in frame if "replay · head · total" in name)
    for method, said in (
        ("CSLR-Hungarian", "∞ · ∞ · ∞"), ("Repair: CSLR, head on the server", "4 · 0 · 4"),
        ("DP-SGD (no replay)", "0 · 4 · 4"),
    ):  # fmt: skip
        assert set(frame.loc[[method], column]) == {said}
