"""Ceilings: which run gives one, where it is found, and whom it is refused."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from dpcl_core import checks, presets
from dpcl_core.events import CellFinished, References, of_kind
from dpcl_core.figures import answer
from dpcl_core.figures.statistics import interval
from dpcl_core.papers import measured, questions
from dpcl_core.results import Result, references
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.papers.making import run as made
from tests.support import replay
from tests.support.asserting import refusal_of

_NEWS: Mapping[str, Any] = {"dataset": "ag_news", "backbone": "minilm"}


@pytest.fixture
def store(home: Path) -> Store:
    return Store()


def finished(store: Store, spec: RunSpec, averages: Mapping[float, float]) -> str:
    """A finished run whose models end at these accuracies, by budget."""
    said = [
        replace(event, metrics={**event.metrics, "AA": averages[event.cell.epsilon]})
        for event in replay.recorded(spec)
        if isinstance(event, CellFinished)
    ]
    return replay.fill(store, spec, said)


def test_the_ceiling_of_a_run_on_features_is_one_training_on_all_of_them() -> None:
    asked = presets.load("digits-peft-head")
    wanted = measured.settings(asked)
    assert (wanted.method, wanted.data, wanted.scenario) == ("non-cl", asked.data, asked.scenario)
    assert (wanted.privacy.epsilons, wanted.seeds) == ((math.inf,), asked.seeds[:3])
    params = asdict(asked.params)
    shared = asdict(wanted.params)
    assert shared.pop("release") == "once"
    assert shared == {name: params[name] for name in shared}, "settings of training that both share are kept"
    checks.check_run(wanted)


def test_the_ceiling_of_a_language_model_trains_on_all_tasks_at_once() -> None:
    asked = presets.load("pecl-synthetic")
    wanted = measured.settings(asked)
    assert (wanted.method, wanted.data, wanted.scenario) == ("lm-mtl", asked.data, asked.scenario)
    for name in ("length", "epochs", "batch_size", "learning_rate", "lora_rank", "loss", "eval"):
        assert getattr(wanted.params, name) == getattr(asked.params, name)
    noisy = checks.parse({**asdict(asked), "method": "lm-er", "params": {"mechanism": "fn"}})
    assert measured.settings(noisy).params.mechanism == "dp-sgd"  # type: ignore[attr-defined]


@pytest.mark.parametrize("head", ["shared", "per-task"])
@pytest.mark.parametrize("method", ["agem", "dp-agem", "l2dp-ml"])
def test_the_ceiling_of_a_lifelong_method_trains_its_network_on_all_tasks(method: str, head: str) -> None:
    labels = "prior" if head == "per-task" else "prior-const"
    data = {"dataset": "digits", "backbone": "pixels", "train_per_class": 50, "test_per_class": 20}
    budget = {"epsilons": [math.inf if method == "agem" else 1.0]}
    asked = checks.parse({"method": method, "params": {"head": head}, "data": data, "labels": labels, "privacy": budget})
    wanted = measured.settings(asked)
    assert (wanted.method, wanted.labels, asdict(wanted.params)["head"]) == ("joint-network", labels, head)
    assert asdict(wanted.params)["network"] == "lifelong"
    checks.check_run(wanted)


@pytest.mark.parametrize("method", ["dp-coeff-memory", "independent-laplace"])
def test_the_ceiling_of_sums_minimises_the_loss_of_all_tasks(method: str) -> None:
    asked = checks.parse({"method": method, "data": {"dataset": "mnist", "backbone": "pixels"}, "labels": "prior-const"})
    wanted = measured.settings(asked)
    assert (wanted.method, asdict(wanted.params)["solution"]) == ("dp-coeff-memory", "exact")
    one_by_one = replace(wanted, params=replace(wanted.params, solution="steps"))
    ended = list(of_kind(replay.recorded(wanted), CellFinished))
    assert measured.known(wanted, ended) == pytest.approx(fmean(event.metrics["AA"] or 0.0 for event in ended))
    assert measured.known(one_by_one, ended) is None, "it learns task after task"


@pytest.mark.parametrize(
    ("data", "scenario", "expected"),
    [
        (_NEWS, {}, {"kind": "split", "tasks": 4}),
        (_NEWS, {"tasks": 2}, {"kind": "split", "tasks": 2}),
        (_NEWS, {"order": ["Sports", "World", "Sci/Tech", "Business"]}, {"kind": "split", "tasks": 4}),
        ({"dataset": "amazon-domains", "backbone": "minilm"}, {"protocol": "domain-incremental", "tasks": 2},
         {"kind": "source-incremental"}),
    ],
)  # fmt: skip
def test_clients_examples_are_pooled_into_the_same_tasks(
    data: Mapping[str, Any], scenario: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    raw = {"method": "label-means", "data": data, "labels": "prior"}
    wanted = measured.settings(checks.parse({**raw, "scenario": {"kind": "federated", "clients": 3, **scenario}}))
    dumped = asdict(wanted.scenario)
    assert ({name: dumped[name] for name in expected}, wanted.method) == (expected, "non-cl")
    assert expected["kind"] == "split" or len(dumped["order"]) == 2


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"method": "label-means", "data": _NEWS, "scenario": {"kind": "federated", "protocol": "one-vs-rest"}},
         "method = label-means: has no ceiling on this stream"),
        ({"method": "label-means", "data": _NEWS, "scenario": {"kind": "federated", "order": ["World", "Sports"]}},
         "method = label-means: has no ceiling on this stream"),
        ({"method": "cosine", "data": {"dataset": "own:mine", "backbone": "pixels"}},
         "data.dataset = own:mine: is your own: a ceiling is trained without noise, so nothing would protect the people"),
    ],
)  # fmt: skip
def test_where_there_is_none_one_sentence_says_why(
    spec: Mapping[str, Any], sentence: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(store.url.removeprefix("sqlite:///")).parent / "data" / "mine"
    (folder / "train" / "a").mkdir(parents=True)
    from PIL import Image

    Image.new("L", (8, 8)).save(folder / "train" / "a" / "1.png")
    asked = checks.parse(spec)
    assert str(refusal_of(measured.settings, asked)).startswith(sentence)
    assert measured.known(asked, store=store) is None


def test_records_with_the_same_data_network_and_tasks_give_the_best_of_them() -> None:
    """Held against a plain search through the records."""
    records, found = measured.all_recorded(), 0
    for run in (one for one in records if one.spec.method in ("cosine", "peft-ensemble", "naive")):
        alike = (run.spec.data, run.spec.scenario)
        fitting = [one for one in records if one.spec.method == "non-cl" and (one.spec.data, one.spec.scenario) == alike]
        means = [list(other.by_seed(math.inf, "AA").values()) for other in fitting]
        expected = max((fmean(values) for values in means if values), default=None)
        noisy = [list(other.by_seed(epsilon, "AA").values()) for other in fitting for epsilon in (1.0, 8.0)]
        if any((interval(values).low or 0.0) > (expected or 1.0) for values in noisy if values):
            expected = None
        assert measured.known(run.spec) == pytest.approx(expected)
        found += expected is not None
    assert found


def test_a_run_that_failed_to_learn_is_no_ceiling(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    """Below what another run reaches without noise on the same tasks, or the untrained network gives; equal will do."""
    asked = presets.load("digits-peft-head")
    endless = {"epsilons": (math.inf,)}
    at_once = made(lambda epsilon, seed: 0.6, spec=measured.settings(asked), **endless)
    other, elsewhere = replace(asked, seeds=(7,)), replace(asked, data=replace(asked.data, train_per_class=7))

    def known(*records: measured.Measured) -> float | None:
        monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: records)
        return measured.known(asked)

    def reaching(level: float, by_seed: float = 0.0, spec: RunSpec = other, **more: Any) -> measured.Measured:
        return made(lambda epsilon, seed: level + by_seed * seed, spec=spec, **more)

    for record, is_known in (
        *((reaching(best, **endless), best <= 0.6) for best in (0.59, 0.6, 0.61)),
        (reaching(0.4, 0.15, epsilons=(8.0,)), True),  # 0.625 on average may be luck
        (reaching(0.9, epsilons=(8.0,), seeds=(0, 1)), True),  # so may two seeds
        (reaching(0.9, spec=elsewhere, **endless), True),  # of other data
        (reaching(0.7, 0.01, epsilons=(8.0,)), False),  # even with noise more is learned
    ):
        assert known(at_once, record) == (pytest.approx(0.6) if is_known else None)
    assert measured.refused(asked) == pytest.approx((0.6, 0.715))
    for untrained in (0.6, 0.61):
        assert known(replace(at_once, untrained=untrained)) == (pytest.approx(0.6) if untrained == 0.6 else None)
    assert measured.refused(asked) == pytest.approx((0.6, 0.61))
    assert measured.is_tried(asked, store)
    assert questions.no_ceiling(asked).startswith("No ceiling is known: the recorded run")
    assert known(replace(at_once, untrained=0.5)) is not None
    assert measured.refused(asked) is None
    assert questions.no_ceiling(asked) == ""


def test_a_head_for_each_task_is_no_ceiling_of_one_head_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the task is given, the same network scores more: the two are not tested alike."""
    monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: records)
    data = {"dataset": "digits", "backbone": "pixels"}
    shared, per_task = (
        checks.parse({"method": "agem", "params": {"head": head}, "data": data, "labels": labels,
                      "privacy": {"epsilons": [math.inf]}})
        for head, labels in (("shared", "prior-const"), ("per-task", "prior"))
    )  # fmt: skip
    records = [made(lambda epsilon, seed: 0.9, spec=measured.settings(per_task), epsilons=(math.inf,))]
    assert measured.known(per_task) == pytest.approx(0.9)
    assert measured.known(shared) is None


@pytest.mark.parametrize(
    ("paper", "preset", "label"),
    [("pecl", "paper-pecl-thousands", "mtl"), ("tobaben", "paper-split-cifar-100", "non-cl-head")],
)
def test_of_two_records_of_all_tasks_at_once_the_one_whose_step_suits_it_is_the_ceiling(
    paper: str, preset: str, label: str
) -> None:
    """Held against the records: with the step that is best with noise, training without noise ends below that with noise."""
    specs = presets.variants(f"{preset}-bundled")
    long, short = (measured.find(specs[name], measured.recorded(paper)) for name in (label, f"{label}-smaller-step"))
    with_noise = fmean(long.by_seed(8.0, "AA").values())
    without = [fmean(record.by_seed(math.inf, "AA").values()) for record in (long, short)]
    assert without[0] < with_noise < without[1]
    assert all(measured.known(spec) == pytest.approx(without[1]) for spec in specs.values())


def test_a_ceiling_of_the_store_below_the_untrained_network_is_not_shown() -> None:
    for untrained, ceiling, expected in ((0.5, 0.6, 0.6), (0.6, 0.6, 0.6), (0.7, 0.6, None), (None, 0.6, 0.6)):
        assert references(replay.a_spec(), [References(0.1, untrained)], ceiling).ceiling == expected


def test_a_finished_run_of_the_store_is_found_whatever_its_seeds_and_not_when_it_was_deleted(store: Store) -> None:
    asked = replay.a_spec()
    assert measured.known(asked, store=store) is None
    assert not measured.is_tried(asked, store)
    run_id = finished(store, measured.settings(asked), {math.inf: 0.93})
    assert measured.known(asked, store=store) == pytest.approx(0.93)
    assert measured.known(replay.a_spec(tasks=2), store=store) is None, "other tasks"
    store.delete(run_id)
    assert measured.known(asked, store=store) is None


def test_a_run_that_learns_all_at_once_is_its_own_ceiling(store: Store) -> None:
    asked = checks.parse({**asdict(replay.a_spec()), "method": "non-cl", "params": {"epochs": 3}})
    said = [event for event in replay.recorded(asked) if isinstance(event, CellFinished)]
    values = [event.metrics["AA"] for event in said if math.isinf(event.cell.epsilon)]
    assert measured.known(asked, said) == pytest.approx(fmean(value for value in values if value is not None))
    assert measured.known(asked) is None
    assert references(asked, said).ceiling == measured.known(asked, of_kind(said, CellFinished))


def test_a_ceiling_is_told_by_its_settings_and_not_measured_against_itself() -> None:
    asked = replay.a_spec()
    wanted = measured.settings(asked)
    mixed = checks.parse({**asdict(asked), "method": "non-cl", "params": asdict(wanted.params)})
    assert [measured.is_one(spec) for spec in (wanted, mixed, asked)] == [True, False, False]
    assert not measured.is_one(replay.a_spec(epsilons=(math.inf,))), "without noise, but task after task"
    for spec in (wanted, mixed):
        said = Result("0" * 12, "all at once", spec, tuple(replay.recorded(spec)))
        assert said.references.ceiling is not None
        assert "ceiling" not in said.placed(math.inf)
        assert answer.CEILING not in said.placed(math.inf)
        higher = replace(said, ceiling=0.99)  # another run without noise that learned more
        assert f"{answer.CEILING} 99.0 %" in higher.placed(math.inf)
    assert answer.CEILING in said.placed(1.0)


def test_of_the_finished_runs_of_a_store_the_newest_model_of_each_seed_without_noise_counts(store: Store) -> None:
    """As a loop over all cells of all runs finds it, without reading those of other budgets and older runs."""
    asked = replay.a_spec(epsilons=(1.0, math.inf), seeds=(0, 1))
    finished(store, asked, {1.0: 0.9, math.inf: 0.2})
    finished(store, replay.a_spec(epsilons=(math.inf,), seeds=(1, 2)), {math.inf: 0.5})
    finished(store, replay.a_spec(epsilons=(math.inf,), seeds=(0,), tasks=2), {math.inf: 0.7})
    store.delete(finished(store, replay.a_spec(epsilons=(math.inf,), seeds=(2,)), {math.inf: 0.8}))
    assert {(cell.epsilon, cell.seed): of_cell["AA"] for cell, of_cell in Sets(store).alike(asked).items()} == {
        (math.inf, 0): 0.2, (math.inf, 1): 0.5, (math.inf, 2): 0.5
    }  # fmt: skip


def test_the_final_accuracies_of_runs_are_those_at_their_largest_budgets(store: Store) -> None:
    one = finished(store, replay.a_spec(epsilons=(1.0, 8.0), seeds=(0, 1)), {1.0: 0.3, 8.0: 0.6})
    other = finished(store, replay.a_spec(epsilons=(1.0, math.inf), seeds=(4,)), {1.0: 0.3, math.inf: 0.75})
    waiting = store.create(replay.a_spec())
    assert store.final_accuracies([one, other, waiting]) == {one: [0.6, 0.6], other: [0.75], waiting: []}
