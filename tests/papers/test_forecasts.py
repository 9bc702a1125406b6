"""What is known of a run before it is made: its nearest record, how long it takes, what fits new data, its accuracy."""

import math
import re
from dataclasses import replace

import pytest

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.papers import forecasts, measured, questions
from dpcl_core.spec import RunSpec
from pages.parts import state
from tests.papers import making
from tests.support import replay

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
    example = (known.spec, known.accuracy)
    other = (_spec("data.dataset=mnist"), known.accuracy)
    monkeypatch.setattr(measured, "all_recorded", lambda: (_recorded(replay.a_spec()),))
    for asked, drawn in (([1.0, 3.0], (1.0,)), ([3.0], (1.0, 8.0))):
        found = forecasts.ghost(_spec(f"privacy.epsilons={asked}"), other)
        picture, source, of = found
        assert (source.epsilons, of) == (drawn, replay.a_spec())
        lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
        assert [(list(line.x), list(line.y)) for line in lines] == [([1, 3], [90, 50])] * len(drawn)
    monkeypatch.setattr(measured, "all_recorded", lambda: ())
    assert forecasts.ghost(_spec(), other) is None
    found = forecasts.ghost(_spec(), example)
    assert found[2] == known.spec


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
    assert said.startswith("Too few for ε = ")
    assert "expect little more than guessing" in said
    hopeless = forecasts.advice(replace(SIZES, n_people=12, n_classes=12, network="minilm", n_features=384))
    assert "Too few for ε = 8 or less" in hopeless
    assert "Enough" not in hopeless


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
