"""What is known of a run before it is made: its nearest record, about how long it takes, what fits new data."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.papers import measured, nearest, questions
from dpcl_core.papers.measured import Measured
from dpcl_core.spec import RunSpec
from pages.parts import state
from tests.papers import making
from tests.support import replay

RAW = presets.raw("digits-cosine")


def _spec(*sets: str) -> RunSpec:
    return checks.parse(checks.apply_sets(RAW, sets))


def _recorded(spec: RunSpec) -> Measured:
    run = making.run(lambda epsilon, seed: 0.5, spec=spec)
    return replace(run, models=tuple(replace(one, curves={"AA": (0.9, None, 0.5)}) for one in run.models))


def test_the_nearest_record_has_the_same_method_before_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = _spec("method=naive"), _spec("scenario.tasks=2", "data.train_per_class=20", "labels=prior")
    monkeypatch.setattr(measured, "all_recorded", lambda: tuple(map(_recorded, (far, near))))
    found = nearest.nearest(_spec())
    assert found is not None
    assert found.spec == near
    assert nearest.differences(_spec(), near)[0] == "labels", "what weighs most comes first"
    assert nearest.differences(_spec(), far) == ["method"], "the settings of another method are no further difference"
    assert nearest.differences(_spec(), _spec("seeds=[7]", "privacy.epsilons=[3]")) == [], "a budget has one curve"


def test_a_record_of_other_data_or_without_a_curve_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    other, without = _recorded(_spec("data.dataset=mnist")), making.run(lambda epsilon, seed: 0.5, spec=_spec())
    monkeypatch.setattr(measured, "all_recorded", lambda: (other, without))
    assert nearest.nearest(_spec()) is None


def test_a_ghost_has_the_budgets_asked_for_and_leaves_out_what_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    known = state.example()
    example = (known.spec, known.accuracy)
    other = (_spec("data.dataset=mnist"), known.accuracy)
    monkeypatch.setattr(measured, "all_recorded", lambda: (_recorded(replay.a_spec()),))
    for asked, drawn in (([1.0, 3.0], (1.0,)), ([3.0], (1.0, 8.0))):
        found = nearest.ghost(_spec(f"privacy.epsilons={asked}"), other)
        assert found is not None
        picture, source, of = found
        assert (source.epsilons, of) == (drawn, replay.a_spec())
        lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
        assert [(list(line.x), list(line.y)) for line in lines] == [([1, 3], [90, 50])] * len(drawn)
    monkeypatch.setattr(measured, "all_recorded", lambda: ())
    assert nearest.ghost(_spec(), other) is None
    found = nearest.ghost(_spec(), example)
    assert found is not None
    assert found[2] == known.spec


def test_every_setting_of_a_known_duration_is_estimated_within_ten_times_nine_times_in_ten() -> None:
    """By the other settings alone: what the page says of its estimate."""
    known = nearest._known()
    ratios = [nearest._rough(one.spec, [other for other in known if other.spec != one.spec]) / one.seconds for one in known]
    within = [math.log10(ratio) for ratio in ratios if 0.1 < ratio < 10]
    assert len(within) >= 0.9 * len(ratios)
    assert abs(sum(within)) < 0.2 * len(within), "neither too long nor too short on average"


def test_more_models_and_more_examples_take_longer() -> None:
    seconds = [
        nearest.rough_seconds(_spec("method=peft-ensemble", *more))
        for more in ((), ("seeds=[0,1,2,3,4,5,6,7,8,9]",), ("seeds=[0,1,2,3,4,5,6,7,8,9]", "data.dataset=mnist"))
    ]
    assert sorted(set(seconds)) == seconds


def test_features_take_their_network_s_measured_time() -> None:
    assert nearest.feature_seconds(_spec().data) == 0
    photos = _spec("data.dataset=cifar10", "data.backbone=lite0", "data.train_per_class=100").data
    speeds = nearest.measured_resolutions("lite0")
    assert nearest.feature_seconds(photos) == pytest.approx(1000 / speeds["224"]["pictures_per_second"])
    assert nearest.feature_seconds(replace(photos, resolution=96)) < 0.2 * nearest.feature_seconds(photos)


def test_a_measured_setting_leads_to_its_question() -> None:
    name = "paper-cslr-ag-news-small"
    assert nearest.question_of(list(questions.specs(name).values())[-1]) == name
    assert nearest.question_of(_spec("scenario.tasks=2")) is None


@pytest.mark.parametrize(
    ("dataset", "network"), [("cifar100", "lite0"), ("mnist", "pixels"), ("ag_news", "minilm"), ("har-wisdm", "pixels")]
)
def test_other_data_bring_their_network(dataset: str, network: str) -> None:
    here = backbones.available(backbones.card(network)) is None and datasets.available(datasets.card(dataset)) is None
    if not here:
        pytest.skip(f"{dataset} or {network} is not on this computer")
    spec = checks.parse(checks.changed(RAW, nearest.fitting(RAW, dataset)))
    assert (spec.data.dataset, spec.data.backbone) == (dataset, network)
    checks.check_run(spec)


def test_data_that_take_long_bring_fewer_models(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = checks.apply_sets(RAW, ["method=peft-ensemble"])
    monkeypatch.setattr(nearest, "rough_seconds", lambda spec: 100.0 * spec.n_cells)
    spec = checks.parse(checks.changed(raw, nearest.fitting(raw, "mnist")))
    assert (spec.privacy.epsilons, spec.seeds) == ((1.0,), (0, 1, 2))
