"""`reproduce` in the terminal: carries out every run of an experiment, and tells published from ours from missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpcl_core import checks, engine, presets
from dpcl_core.events import CellFinished, TaskLearned, of_kind
from dpcl_core.papers import measured
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment
from dpcl_core.runs.store import Store
from tests.support.asserting import document_of, printed
from tests.test_cli import called

LABELS = ["reproduce", "tobaben", "--experiment", "paper-label-spaces"]
TINY = [
    *("--set", "data.dataset=digits"), *("--set", "data.backbone=pixels"), *("--set", "scenario.tasks=2"),
    *("--set", "seeds=[0, 1, 2]"), *("--set", "privacy.epsilons=[1.0, inf]"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def offline(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_every_run_is_carried_out_and_set_beside_what_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    (experiment,) = document_of(capsys, *LABELS, *TINY)["experiments"]
    stored = {run.id: run for run in Store().list_runs()}
    assert [run["label"] for run in experiment["runs"]] == ["ensemble", "ensemble-prior", "cosine", "cosine-prior"]
    assert {run["run_id"] for run in experiment["runs"]} == set(stored)
    assert all(run.status == "finished" and "paper" not in run.name for run in stored.values())  # changed: no preset's name
    rows = {(row["method"], row["epsilon"], row["metric"]): row for row in experiment["rows"]}
    assert rows["cosine", "inf", "AA"]["ours"] > 80
    assert rows["cosine", "inf", "AA"]["n_seeds"] == 3
    assert rows["cosine", "inf", "AA"]["published"] is None
    assert any("Handwritten digits" in reason or "Network: Pixels" in reason for reason in experiment["reasons"])
    claims = {(claim["statement"], claim["epsilons"][0]): claim for claim in experiment["orderings"]}
    same = claims["Without noise the list makes no difference to the cosine classifier", "inf"]
    assert (same["state"], same["difference"]) == ("found", 0.0)
    assert claims["The list makes no significant difference to the ensemble", 8.0]["state"] == "not run"


def test_text_names_published_and_ours(capsys: pytest.CaptureFixture[str]) -> None:
    few = [*TINY, "--set", "seeds=[0]"]
    status, out, err = called(*LABELS, *few, capsys=capsys)
    assert status == 0
    assert "plots alone" in out
    assert "cannot tell: A public list per task helps the cosine classifier at a small ε, ε = 1" in out
    assert "run " in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "nobody"], ["TARGET = nobody", "tobaben"]),
        (["reproduce", "tobaben", "--experiment", "paper-x"], ["--experiment = paper-x", "paper-imagenet-r"]),
        ([*LABELS, "--bundled"], ["paper-label-spaces", "has no bundled form", "small, full"]),
        ([*LABELS, "--small", "--full"], ["--size = full and small: must be given once"]),
        ([*LABELS, *TINY, "--record", "x.json"], ["--record = x.json", "cannot be combined with --set"]),
        ([*LABELS, "--set", "params.epochs=3"], ["params.epochs = 3", "no such setting"]),  # the cosine classifier has none
        (["reproduce", "tobaben", "--experiment", "paper-imagenet-r", "--full"], ["data.dataset = imagenet-r"]),
        # An experiment on other data.
        (["run", "paper-pecl-main", "--on", "mnist"], ["--on = mnist", "leaves no claim", "dataset of texts"]),
        (["run", "paper-nothing", "--on", "digits"], ["TARGET = paper-nothing", "experiment of a paper"]),
        (["run", "tobaben", "--on", "digits"], ["--on = digits", "one experiment at a time"]),
        (["run", "paper-harw", "--on", "digits", "--size", "bundled"], ["--size = bundled", "small, full"]),
        (["run", "paper-harw", "--on", "own:nobody"], ["own:nobody"]),
        (["run", "paper-label-spaces", "--on", "digits", "--all"], ["--all", "cannot be combined"]),
    ],
)
def test_wrong_input_is_one_line_and_nothing_runs(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    status, out, err = called(*arguments, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err
    assert not (home / "store.sqlite").exists() or not Store().list_runs()


def test_finished_runs_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same preset twice leaves one entry for each of its runs, the newer one."""
    sets = [*TINY[1::2], "data.train_per_class=20", "seeds=[0]", "privacy.epsilons=[8.0]"]
    specs = {
        label: checks.parse(checks.apply_sets(spec.jsonable(), sets))
        for label, spec in presets.variants("paper-label-spaces-small").items()
    }
    monkeypatch.setattr(presets, "variants", lambda name, sets=(): specs)
    file = tmp_path / "figures.json"
    for _ in range(2):
        printed(capsys, *LABELS, "--record", str(file))
    found = measured.read_measured(file)
    assert [run.spec for run in found] == list(specs.values())
    assert found[0].dataset_title.startswith("Handwritten digits (subset")
    assert set(found[0].models[0].by_rule) == {"argmax", "median", "entropy", "member"}
    model = found[0].models[0]
    last = [e for _, e in Store().events_after(Store().list_runs()[3].id) if isinstance(e, TaskLearned)][-1]
    assert model.metrics["pooled"] == pytest.approx(last.pooled, abs=1e-5)
    assert model.by_rule["argmax"] == pytest.approx(model.metrics["AA"], abs=1e-5)
    assert all(run.run_id is None and run.seconds >= 0 for run in found)
    assert all(run.machine.endswith(" cores") for run in found)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("DPCL_DATA" not in os.environ, reason="needs the folder of datasets that DPCL_DATA names")
@pytest.mark.parametrize("experiment", PAPERS["tobaben"].experiments, ids=lambda experiment: experiment.name)
def test_small_forms_finish_every_model(experiment: Experiment) -> None:
    specs = presets.variants(experiment.preset("small")).values()
    finished = [event.cell for spec in specs for event in of_kind(engine.run(spec), CellFinished)]
    assert sorted(finished, key=repr) == sorted((cell for spec in specs for cell in spec.cells()), key=repr)
