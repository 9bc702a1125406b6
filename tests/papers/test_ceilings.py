"""What other runs tell of a run: its ceiling, its nearest record, its time and its accuracy."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished, References, of_kind
from dpcl_core.figures import answer
from dpcl_core.figures.statistics import interval
from dpcl_core.papers import forecasts, measured, questions
from dpcl_core.results import Result, references
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from pages.parts import state
from tests.papers import making
from tests.support import replay
from tests.support.asserting import refusal_of

_NEWS: Mapping[str, Any] = {"dataset": "ag_news", "backbone": "minilm"}


def finished(store: Store, spec: RunSpec, averages: Mapping[float, float]) -> str:
    """A finished run whose models end at these accuracies, by budget."""
    ended = of_kind(replay.recorded(spec), CellFinished)
    said = [replace(event, metrics={**event.metrics, "AA": averages[event.cell.epsilon]}) for event in ended]
    return replay.fill(store, spec, said)


def test_the_ceiling_of_a_run_on_features_is_one_training_on_all_of_them() -> None:
    asked = presets.load("digits-peft-head")
    wanted = measured.settings(asked)
    assert (wanted.method, wanted.data, wanted.scenario) == ("non-cl", asked.data, asked.scenario)
    assert (wanted.privacy.epsilons, wanted.seeds) == ((math.inf,), asked.seeds[:3])
    params, shared = asdict(asked.params), asdict(wanted.params)
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


@pytest.mark.parametrize(("data", "scenario", "expected"), [
    (_NEWS, {}, {"kind": "split", "tasks": 4}),
    (_NEWS, {"tasks": 2}, {"kind": "split", "tasks": 2}),
    (_NEWS, {"order": ["Sports", "World", "Sci/Tech", "Business"]}, {"kind": "split", "tasks": 4}),
    ({"dataset": "amazon-domains", "backbone": "minilm"}, {"protocol": "domain-incremental", "tasks": 2},
     {"kind": "source-incremental"}),
])  # fmt: skip
def test_clients_examples_are_pooled_into_the_same_tasks(
    data: Mapping[str, Any], scenario: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    raw = {"method": "label-means", "data": data, "labels": "prior"}
    wanted = measured.settings(checks.parse({**raw, "scenario": {"kind": "federated", "clients": 3, **scenario}}))
    dumped = asdict(wanted.scenario)
    assert ({name: dumped[name] for name in expected}, wanted.method) == (expected, "non-cl")
    assert expected["kind"] == "split" or len(dumped["order"]) == 2


@pytest.mark.parametrize(("spec", "sentence"), [
    ({"method": "label-means", "data": _NEWS, "scenario": {"kind": "federated", "protocol": "one-vs-rest"}},
     "method = label-means: has no ceiling on this stream"),
    ({"method": "label-means", "data": _NEWS, "scenario": {"kind": "federated", "order": ["World", "Sports"]}},
     "method = label-means: has no ceiling on this stream"),
    ({"method": "cosine", "data": {"dataset": "own:mine", "backbone": "pixels"}},
     "data.dataset = own:mine: is your own: a ceiling is trained without noise, so nothing would protect the people"),
])  # fmt: skip
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
    at_once = making.run(lambda epsilon, seed: 0.6, spec=measured.settings(asked), **endless)
    other, elsewhere = replace(asked, seeds=(7,)), replace(asked, data=replace(asked.data, train_per_class=7))

    def known(*records: measured.Measured) -> float | None:
        monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: records)
        return measured.known(asked)

    def reaching(level: float, by_seed: float = 0.0, spec: RunSpec = other, **more: Any) -> measured.Measured:
        return making.run(lambda epsilon, seed: level + by_seed * seed, spec=spec, **more)

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
    records = [making.run(lambda epsilon, seed: 0.9, spec=measured.settings(per_task), epsilons=(math.inf,))]
    assert measured.known(per_task) == pytest.approx(0.9)
    assert measured.known(shared) is None


@pytest.mark.parametrize(("paper", "preset", "label"), [
    ("pecl", "paper-pecl-thousands", "mtl"), ("tobaben", "paper-split-cifar-100", "non-cl-head")
])
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


RAW = presets.raw("digits-cosine")


def _spec(*sets: str) -> RunSpec:
    return checks.parse(checks.apply_sets(RAW, sets))


def _recorded(spec: RunSpec) -> measured.Measured:
    run = making.run(lambda epsilon, seed: 0.5, spec=spec)
    return replace(run, models=tuple(replace(one, curves={"AA": (0.9, None, 0.5)}) for one in run.models))


def test_the_nearest_record_has_the_same_method_before_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = _spec("method=naive"), _spec("scenario.tasks=2", "data.train_per_class=20", "labels=prior")
    monkeypatch.setattr(measured, "all_recorded", lambda: tuple(map(_recorded, (far, near))))
    assert forecasts.nearest(_spec()).spec == near
    assert forecasts.differences(_spec(), near)[0] == "labels", "what weighs most comes first"
    assert forecasts.differences(_spec(), far) == ["method"], "the settings of another method are no further difference"
    assert forecasts.differences(_spec(), _spec("seeds=[7]", "privacy.epsilons=[3]")) == [], "a budget has one curve"


def test_a_record_of_other_data_or_without_a_curve_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    other, without = _recorded(_spec("data.dataset=mnist")), making.run(lambda epsilon, seed: 0.5, spec=_spec())
    monkeypatch.setattr(measured, "all_recorded", lambda: (other, without))
    assert forecasts.nearest(_spec()) is None


def test_a_ghost_has_the_budgets_asked_for_and_leaves_out_what_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    known = state.example()
    example, other = (known.spec, known.accuracy), (_spec("data.dataset=mnist"), known.accuracy)
    monkeypatch.setattr(measured, "all_recorded", lambda: (_recorded(replay.a_spec()),))
    for asked, drawn in (([1.0, 3.0], (1.0,)), ([3.0], (1.0, 8.0))):
        picture, source, of = forecasts.ghost(_spec(f"privacy.epsilons={asked}"), other)
        assert (source.epsilons, of) == (drawn, replay.a_spec())
        lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
        assert [(list(line.x), list(line.y)) for line in lines] == [([1, 3], [90, 50])] * len(drawn)
    monkeypatch.setattr(measured, "all_recorded", lambda: ())
    assert forecasts.ghost(_spec(), other) is None
    assert forecasts.ghost(_spec(), example)[2] == known.spec


def test_every_setting_of_a_known_duration_is_estimated_within_ten_times_nine_times_in_ten() -> None:
    """By the other settings alone: what the page says of its estimate."""
    known = forecasts._timed()
    others = [[other for other in known if other.spec != one.spec] for one in known]
    ratios = [forecasts._rough(one.spec, rest) / one.seconds for one, rest in zip(known, others, strict=True)]
    within = [math.log10(ratio) for ratio in ratios if 0.1 < ratio < 10]
    assert len(within) >= 0.9 * len(ratios)
    assert abs(sum(within)) < 0.2 * len(within), "neither too long nor too short on average"


def test_more_models_and_more_examples_take_longer() -> None:
    seconds = [
        forecasts.rough_seconds(_spec("method=peft-ensemble", *more))
        for more in ((), ("seeds=[0,1,2,3,4,5,6,7,8,9]",), ("seeds=[0,1,2,3,4,5,6,7,8,9]", "data.dataset=mnist"))
    ]
    assert sorted(set(seconds)) == seconds


def test_features_take_their_network_s_measured_time() -> None:
    assert forecasts.feature_seconds(_spec().data) == 0
    photos = _spec("data.dataset=cifar10", "data.backbone=lite0", "data.train_per_class=100").data
    speeds = forecasts.measured_resolutions("lite0")
    assert forecasts.feature_seconds(photos) == pytest.approx(1000 / speeds["224"]["pictures_per_second"])
    assert forecasts.feature_seconds(replace(photos, resolution=96)) < 0.2 * forecasts.feature_seconds(photos)


def test_a_measured_setting_leads_to_its_question() -> None:
    name = "paper-cslr-ag-news-small"
    assert forecasts.question_of(list(questions.specs(name).values())[-1]) == name
    assert forecasts.question_of(_spec("scenario.tasks=2")) is None


@pytest.mark.parametrize(
    ("dataset", "network"), [("cifar100", "lite0"), ("mnist", "pixels"), ("ag_news", "minilm"), ("har-wisdm", "pixels")]
)
def test_other_data_bring_their_network(dataset: str, network: str) -> None:
    here = backbones.available(backbones.card(network)) is None and datasets.available(datasets.card(dataset)) is None
    if not here:
        pytest.skip(f"{dataset} or {network} is not on this computer")
    spec = checks.parse(checks.changed(RAW, forecasts.fitting(RAW, dataset)))
    assert (spec.data.dataset, spec.data.backbone) == (dataset, network)
    checks.check_run(spec)


def test_data_that_take_long_bring_fewer_models(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = checks.apply_sets(RAW, ["method=peft-ensemble"])
    monkeypatch.setattr(forecasts, "rough_seconds", lambda spec: 100.0 * spec.n_cells)
    spec = checks.parse(checks.changed(raw, forecasts.fitting(raw, "mnist")))
    assert (spec.privacy.epsilons, spec.seeds) == ((1.0,), (0, 1, 2))


# What to expect of a run, from public numbers: held against recorded runs on data that the forecast has not seen.


SIZES = forecasts.Sizes(3000, 10, 5, "lite0", 1280, "dp-learned", 1e-5)


def test_the_interval_holds_the_recorded_runs_of_each_dataset_that_was_left_out() -> None:
    known = forecasts.known()
    assert len({one.dataset for one in known}) >= 5
    assert {one.method for one in known} == set(forecasts.METHODS)
    for dataset in {one.dataset for one in known}:
        rest = tuple(one for one in known if one.dataset != dataset)
        within, held = forecasts.error(rest), []
        for one in known:
            gain = forecasts.carried_over(one, rest)
            if one.dataset == dataset and gain is not None:
                held.append(abs(gain - one.gain) <= within)
        assert sum(held) >= forecasts.SHARE * len(held), dataset
        assert within < 0.4, "an interval that holds everything says nothing"


def test_a_run_that_was_recorded_is_forecast_by_itself() -> None:
    one = forecasts.Known("cosine", "mine", "lite0", 0.5, 10, 5, 0.6)
    assert forecasts.carried_over(one, [one]) == pytest.approx(0.6)
    assert forecasts.carried_over(replace(one, method="naive"), [one]) is None
    more_noise = forecasts.carried_over(replace(one, ratio=4.0), [one])
    assert more_noise == pytest.approx(0.6 * 0.08 / 0.78, rel=0.1), "the measured share that such noise leaves"


def test_the_runs_that_are_nearest_count_most() -> None:
    asked = forecasts.Known("cosine", "mine", "lite0", 0.5, 10, 5, 0.0)
    near, far = (replace(asked, dataset=f"of {n}", n_classes=n, gain=gain) for n, gain in ((10, 0.9), (1000, 0.1)))
    assert (forecasts.carried_over(asked, [near, far]) or 0.0) > 0.85
    other = replace(near, dataset="other", network="pixels", gain=0.3)
    assert (forecasts.carried_over(asked, [near, other]) or 0.0) > 0.6


def test_more_people_and_larger_budgets_give_more() -> None:
    few, many = (forecasts.expected(replace(SIZES, n_people=n)) for n in (300, 30_000))
    assert {*few} == {(method, epsilon) for method in forecasts.METHODS for epsilon in forecasts.BUDGETS}
    for place, one in few.items():
        assert 0.1 <= one.low <= one.accuracy <= one.high <= 1.0
        assert place[0] != "cosine" or one.accuracy < many[place].accuracy
    levels = [few["cosine", epsilon].accuracy for epsilon in forecasts.BUDGETS]
    assert levels == sorted(levels)


def test_too_few_is_said_plainly_with_how_many_would_do() -> None:
    assert forecasts.advice(replace(SIZES, n_people=100_000)) == "Enough for ε = 0.5 and more."
    said = forecasts.advice(replace(SIZES, n_people=40))
    assert (said.startswith("Too few for ε = "), "expect little more than guessing" in said) == (True, True), said
    hopeless = forecasts.advice(replace(SIZES, n_people=12, n_classes=12, network="minilm", n_features=384))
    assert ("Too few for ε = 8 or less" in hopeless, "Enough" in hopeless) == (True, False), hopeless


@pytest.mark.parametrize(("network", "n_features"), [("lite0", 1280), ("minilm", 384)])
def test_with_as_many_as_it_says_noise_is_below_the_signal_and_with_fewer_it_is_not(network: str, n_features: int) -> None:
    few = replace(SIZES, n_people=60, network=network, n_features=n_features)
    (epsilon, wanted), *_ = re.findall(r"ew for ε = (\d\.?\d*).*?about ([\d,]+) examples", forecasts.advice(few))
    n = int(wanted.replace(",", ""))
    assert replace(few, n_people=n).ratio(float(epsilon)) <= 1.0
    assert replace(few, n_people=int(0.8 * n)).ratio(float(epsilon)) >= 1.0


def test_numbers_of_a_run_are_public_and_unknown_ones_are_not_made_up() -> None:
    spec = replay.a_spec()
    found = forecasts.sizes_of(spec)
    assert (found.n_classes, found.n_tasks, found.network, found.n_features) == (10, 5, "pixels", 64)
    permuted = checks.parse(checks.changed(spec.jsonable(), {"scenario": {"kind": "permuted", "tasks": 3}}))
    assert forecasts.sizes_of(permuted) is None, "everybody is in every task"
    assert forecasts.sizes_of(checks.parse(checks.changed(spec.jsonable(), {"data.dataset": "own:nowhere"}))) is None
