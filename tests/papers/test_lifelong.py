"""Lai et al.'s numbers: kept as printed, in percent where they are shares, each beside the run that repeats it."""

from __future__ import annotations

import pytest

from dpcl_core import presets, published
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import comparison, lifelong
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment, Size
from tests.papers import making

ROWS = published.read("lifelong")
_BASELINE = "NaiveGaussian"
EXPERIMENTS = {experiment.name: experiment for experiment in PAPERS["lifelong"].experiments}


def printed(name: str) -> dict[tuple[str, float, str], comparison.Row]:
    rows = comparison.rows(PAPERS["lifelong"], EXPERIMENTS[name], {})
    return {(row.name, row.epsilon, row.metric): row for row in rows}


def test_shares_become_percent_and_keep_their_deviation() -> None:
    found = printed("paper-permuted-mnist")
    row = found["L2DP-ML (1 epoch)", 0.5, "AF"]
    assert row.usable == pytest.approx(30.5)
    assert row.printed is not None
    assert row.printed.percent_std == pytest.approx(0.886)
    assert found["L2DP-ML (1 epoch)", 0.5, "AA"].usable == 47.73
    assert found["A-GEM (noiseless)", float("inf"), "AA"].usable == 71.03  # 47.73 + 23.3, and said to be worked out
    assert any("Not printed" in remark for remark in found["A-GEM (noiseless)", float("inf"), "AA"].remarks)


def test_of_the_baselines_grid_only_the_chosen_settings_stand_in_the_view() -> None:
    """45 accuracies are kept of table 5, three of them were chosen."""
    assert sum(row.table == "5" for row in ROWS) == 45
    found = printed("paper-permuted-cifar-10")
    chosen = {epsilon: row.usable for (name, epsilon, metric), row in found.items() if (name, metric) == (_BASELINE, "AA")}
    assert chosen == {4.0: 13.79, 7.0: 15.26, 10.0: 15.71}


def test_numbers_that_contradict_each_other_say_so() -> None:
    row = printed("paper-harw")["L2DP-ML (balanced, 5-10-20-50 Hz)", 0.2, "AF"]
    assert row.usable == pytest.approx(13.09)  # table 1; the text has 15.93
    assert any("0.1593" in remark for remark in row.remarks)
    assert any("0.1593" in row.printed and row.table == "text" for row in ROWS)


def test_a_stand_in_is_never_set_against_the_paper() -> None:
    spec = presets.variants("paper-harw-small")["l2dp-ml"]
    run = making.run(lambda epsilon, seed: 0.5, spec=spec, epsilons=(0.2, 0.5, 1.0))
    rows = comparison.rows(PAPERS["lifelong"], EXPERIMENTS["paper-harw"], {"l2dp-ml": run})
    both = [row for row in rows if row.ours is not None and row.printed is not None]
    assert both
    assert all(row.difference is None for row in both)


@pytest.mark.parametrize("experiment", PAPERS["lifelong"].experiments, ids=lambda experiment: experiment.name)
def test_every_run_of_an_ordering_is_in_the_full_preset_under_a_printed_name(experiment: Experiment) -> None:
    runs = presets.variants(experiment.preset("full"))
    for ordering in experiment.orderings:
        assert {ordering.first.run, ordering.second.run} <= runs.keys()
        for side in (ordering.first, ordering.second):
            assert side.epsilon in runs[side.run].privacy.epsilons
    names = {row.name for row in comparison.rows(PAPERS["lifelong"], experiment, {})}
    ours = {lifelong.printed_as(spec) for spec in runs.values()}
    ours_named = {f"{method} ({variant})" if variant else method for method, variant in ours}
    assert names <= ours_named, names - ours_named


def test_what_the_paper_leaves_open_is_listed() -> None:
    spec = presets.variants("paper-permuted-mnist-small")["l2dp-ml"]
    told = lifelong.departs(making.run(lambda epsilon, seed: 0.5, spec=spec))
    assert any("learning rate" in sentence for sentence in told)
    assert any("Δ_R literal" in sentence for sentence in told)


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("experiment", PAPERS["lifelong"].experiments, ids=lambda experiment: experiment.name)
def test_every_experiment_is_run_as_printed_beside_what_works_and_its_repairs(experiment: Experiment, size: Size) -> None:
    layers = {label: methods.layer(spec) for label, spec in presets.variants(experiment.preset(size)).items()}
    names = {label: layer.name for label, layer in layers.items() if layer is not None}
    assert (names["l2dp-ml-as-printed"], names["l2dp-ml"]) == ("as printed", "made to work")
    assert {name for label, name in names.items() if label.startswith(("dp-", "naive"))} <= {"repaired"}
