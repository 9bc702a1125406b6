"""`reproduce` in the terminal: carries out every run of an experiment, and tells published from ours from missing."""

import math
import os
from pathlib import Path

import pytest

from dpcl_core import checks, engine, presets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, TaskLearned, of_kind
from dpcl_core.papers import catalog, claims, measured, other_data
from dpcl_core.papers.paper import Experiment
from dpcl_core.runs.store import Store
from tests.papers import making
from tests.support.asserting import document_of, includes, printed
from tests.support.doors import TOGETHER, Change
from tests.test_cli import called
from tests.test_neighbours import lies

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
    status, out, err = called(*LABELS, *TINY, "--set", "seeds=[0]", capsys=capsys)
    assert status == 0
    includes(out, "plots alone", "cannot tell: A public list per task helps the cosine classifier at a small ε, ε = 1")
    assert "run " in err


@pytest.mark.parametrize(("arguments", "words"), [
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
])
def test_wrong_input_is_one_line_and_nothing_runs(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    status, out, err = called(*arguments, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    includes(err, *words)
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
@pytest.mark.parametrize("experiment", catalog.PAPERS["tobaben"].experiments, ids=lambda experiment: experiment.name)
def test_small_forms_finish_every_model(experiment: Experiment) -> None:
    specs = presets.variants(experiment.preset("small")).values()
    finished = [event.cell for spec in specs for event in of_kind(engine.run(spec), CellFinished)]
    assert sorted(finished, key=repr) == sorted((cell for spec in specs for cell in spec.cells()), key=repr)


# A paper's experiment on other data: how its runs move, which claims are told to hold there, and what is refused.


OWN = "own:mine"


@pytest.mark.parametrize(("preset", "on", "expected"), [
    # Ten tasks of ten classes: of 17 classes eight, as equal as can be. 1,000 examples a task, of 2.125 classes.
    ("paper-split-cifar-100-small", "multiwoz-intent", ("i-blurry", 8, 471, "minilm")),
    ("paper-split-cifar-100-small", "dbpedia14", ("class-incremental", 7, 500, "minilm")),
    ("paper-split-mnist-small", "fashion-mnist", ("split", 5, 500, "pixels")),
    ("paper-permuted-mnist-small", "notmnist", ("permuted", 20, 100, "pixels")),
    ("paper-harw-small", "har-phone50", ("source-incremental", 4, 400, "pixels")),
    ("paper-pecl-main-small", "multiwoz-intent", ("source-incremental", 7, 17, "lm-tiny")),
    ("paper-pecl-main-small", "trec", ("class-incremental", 3, 20, "lm-tiny")),  # no sources: groups of classes
    ("paper-cslr-ag-news-small", "pacs", ("federated", 7, 250, "lite0")),
])
def test_a_run_keeps_method_and_budget_and_moves_by_public_facts(preset: str, on: str, expected: object) -> None:
    before = next(iter(presets.variants(preset).values()))
    after = other_data.moved(before, on)
    assert (after.method, after.params, after.privacy, after.seeds, after.labels, after.tuned) == (
        before.method, before.params, before.privacy, before.seeds, before.labels, before.tuned
    )  # fmt: skip
    n_tasks = other_data._n_tasks(after.scenario, other_data._public(on, after.scenario))
    assert (after.scenario.kind, n_tasks, after.data.train_per_class, after.data.backbone) == expected


@pytest.mark.parametrize("wanted", [2, 5, 10])
@pytest.mark.parametrize("n_classes", range(2, 61))
def test_tasks_divide_the_classes_or_are_as_equal_as_can_be(n_classes: int, wanted: int) -> None:
    n = other_data._fitting(wanted, n_classes, is_single=False)
    able = [k for k in range(2, n_classes) if n_classes % k == 0 and n_classes // k >= 2]
    assert (n == 0) == (not able)
    if able:
        assert n in able
        assert all(max(n, wanted) / min(n, wanted) <= max(k, wanted) / min(k, wanted) + 1e-12 for k in able)


def test_an_order_of_sources_moves_by_place_and_stays_by_name() -> None:
    old = ("a", "b", "c")
    assert other_data._order(("c", "a", "b"), old, ("x", "y", "z", "w")) == ("z", "x", "y", "w")
    assert other_data._order(("c", "a", "b"), old, ("x", "y")) == ("x", "y")
    assert other_data._order(("c", "a"), old, ("a", "b", "c")) == ("c", "a")
    assert other_data._order(None, old, ("x",)) is None


def test_verdicts_there_stand_beside_those_on_the_papers_data() -> None:
    """On made-up results where the list helps both methods: the cosine's claim is found, "alike" of the ensemble is not."""
    paper, experiment = other_data.of_experiment("paper-label-spaces")
    specs, refused = other_data.planned(experiment, "small", "digits")
    assert not refused
    level = {"cosine-prior": 0.9, "cosine": 0.6, "ensemble-prior": 0.9, "ensemble": 0.6}
    runs = {
        label: making.run(lambda epsilon, seed, top=level[label]: top + 0.001 * seed, spec=spec, seeds=range(5))
        for label, spec in specs.items()
    }
    chances = dict.fromkeys(specs, 0.1)
    form = claims.form(paper, experiment, "small", runs, specs, chances)
    found = {(claim, at): (before, there) for claim, at, before, there in other_data.lines(form)}
    assert found["A public list per task helps the cosine classifier at a small ε", "ε = 1"] == ("found", "found")
    assert found["The list makes no significant difference to the ensemble", "ε = 8"] == ("contradicted", "contradicted")
    assert "Of 3 claims found on the paper's data, 1 hold" in other_data.sentence(form)
    guessing = {label: making.run(lambda epsilon, seed: 0.1, spec=spec, seeds=range(5)) for label, spec in specs.items()}
    none = claims.form(paper, experiment, "small", guessing, specs, chances)
    assert {one.state for one in none.judged} == {"both guess", "not run"}  # without noise nothing ran


def test_records_are_of_data_that_no_preset_of_the_family_uses_and_agree_with_their_settings() -> None:
    for paper in catalog.PAPERS.values():
        used = {
            spec.data.dataset for experiment in paper.experiments for size in experiment.sizes
            for spec in presets.variants(experiment.preset(size)).values()
        }  # fmt: skip
        assert other_data.recorded(paper), f"{paper.name} was tested on no other data"
        for one, form in other_data.recorded(paper):
            assert one.on not in used or paper.name == "lifelong"
            assert form.specs.keys() == form.runs.keys(), "every run on other data is recorded"
            assert all(form.runs[label].spec == spec for label, spec in form.specs.items())
            assert other_data.tested_claims(form)


def test_a_terminal_says_which_claims_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "there.json"
    sets = ("data.backbone=pixels", "data.train_per_class=20", "seeds=[0, 1, 2]", "privacy.epsilons=[1.0, inf]")
    asked = ["reproduce", "paper-label-spaces", "--on", "digits", *(word for one in sets for word in ("--set", one))]
    out = printed(capsys, *asked, "--set", "params.epochs=1")  # the cosine classifier has no such setting
    includes(out, "Left out: cosine: params.epochs = 1", "undecided")
    told = document_of(capsys, *asked, "--record", str(file))
    assert (told["experiment"], told["on"], told["left_out"]) == ("paper-label-spaces", "digits", {})
    by_claim = {(one["statement"], one["at"]): one for one in told["claims"]}
    same = by_claim["Without noise the list makes no difference to the cosine classifier", "no noise"]
    assert (same["on_the_papers_data"], same["there"]) == ("found", "found")
    assert len(measured.read_measured(file)) == len(told["runs"]) == 4
    assert {run.id for run in Store().list_runs()} > set(told["runs"].values())


def test_own_data_are_planned_by_public_facts_without_runs_that_protect_nobody(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neighbours, one with odd rows, are planned and refused alike; without noise nothing runs unless it is asked for."""
    experiment = other_data.of_experiment("paper-label-spaces")[1]
    found = []
    for change in (Change(), TOGETHER):
        lies(("embedding", ".npz"), change, tmp_path, monkeypatch)
        specs, refused = other_data.planned(experiment, "small", OWN)
        found.append((specs, refused))
        assert {spec.privacy.epsilons for spec in specs.values()} == {(1.0, 8.0)}
        assert {spec.data.backbone for spec in specs.values()} == {"pixels"}
        with pytest.raises(BadInput, match="leaves no claim of paper-pecl-main") as caught:
            other_data.planned(other_data.of_experiment("paper-pecl-main")[1], "small", OWN)
        found[-1] += (str(caught.value),)
    assert found[0] == found[1]
    given = other_data.planned(experiment, "small", OWN, ["privacy.epsilons=[inf]"])[0]
    assert {spec.privacy.epsilons for spec in given.values()} == {(math.inf,)}
    few = ["--set", "params={}", "--set", "seeds=[0]", "--set", "method=cosine", "--set", "tuned=no"]
    status, out, err = called("run", "paper-label-spaces", "--on", OWN, *few, capsys=capsys)
    assert status == 0, err
    assert f"8 models will learn from {OWN}" in err
    assert "not run: Without noise the list makes no difference to the cosine classifier" in out
