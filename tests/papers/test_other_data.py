"""A paper's experiment on other data: how its runs move, which claims are told to hold there, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpcl_core import presets
from dpcl_core.data.card import Kind
from dpcl_core.errors import BadInput
from dpcl_core.papers import catalog, claims, measured, other_data
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.papers import making
from tests.support.asserting import document_of, includes, printed
from tests.support.doors import TOGETHER, Change
from tests.test_cli import called
from tests.test_neighbours import lies

SMALL = ["--set", "seeds=[0, 1, 2]", "--set", "data.backbone=pixels"]


@pytest.fixture(autouse=True)
def offline(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _first(name: str, label: str | None = None) -> RunSpec:
    runs = presets.variants(name)
    return runs[label] if label else next(iter(runs.values()))


OWN = "own:mine"
VECTORS: tuple[Kind, str] = ("embedding", ".npz")


@pytest.mark.parametrize(
    ("preset", "on", "expected"),
    [
        # Ten tasks of ten classes: of 17 classes eight, as equal as can be. 1,000 examples a task, of 2.125 classes.
        ("paper-split-cifar-100-small", "multiwoz-intent", ("i-blurry", 8, 471, "minilm")),
        ("paper-split-cifar-100-small", "dbpedia14", ("class-incremental", 7, 500, "minilm")),
        ("paper-split-mnist-small", "fashion-mnist", ("split", 5, 500, "pixels")),
        ("paper-permuted-mnist-small", "notmnist", ("permuted", 20, 100, "pixels")),
        ("paper-harw-small", "har-phone50", ("source-incremental", 4, 400, "pixels")),
        ("paper-pecl-main-small", "multiwoz-intent", ("source-incremental", 7, 17, "lm-tiny")),
        ("paper-pecl-main-small", "trec", ("class-incremental", 3, 20, "lm-tiny")),  # no sources: groups of classes
        ("paper-cslr-ag-news-small", "pacs", ("federated", 7, 250, "lite0")),
    ],
)
def test_a_run_keeps_method_and_budget_and_moves_by_public_facts(preset: str, on: str, expected: object) -> None:
    before = _first(preset)
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


def _labels_tried() -> tuple[Paper, Experiment, dict[str, RunSpec]]:
    paper, experiment = other_data.of_experiment("paper-label-spaces")
    specs, refused = other_data.planned(experiment, "small", "digits")
    assert not refused
    return paper, experiment, specs


def test_verdicts_there_stand_beside_those_on_the_papers_data() -> None:
    """On made-up results where the list helps both methods: the cosine's claim is found, "alike" of the ensemble is not."""
    paper, experiment, specs = _labels_tried()
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
    asked = ["reproduce", "paper-label-spaces", "--on", "digits", *SMALL, "--set", "data.train_per_class=20"]
    asked += ["--set", "privacy.epsilons=[1.0, inf]"]
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
        lies(VECTORS, change, tmp_path, monkeypatch)
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
