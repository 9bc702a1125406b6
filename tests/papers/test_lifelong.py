"""Lai et al.'s numbers: kept as printed, in percent where they are shares, each beside the run that repeats it."""

from __future__ import annotations

import os
from dataclasses import asdict, replace

import pytest
from scipy import stats

from dpcl_core import checks, presets, published
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import claims, comparison
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment, Size
from tests.papers import making

ROWS = published.read_numbers("lifelong")
_BASELINE = "NaiveGaussian"
CHOSEN = {("z=2.2 C=0.01", 4.0), ("z=1.7 C=0.01", 7.0), ("z=1.4 C=0.01", 10.0)}
EXPERIMENTS = {experiment.name: experiment for experiment in PAPERS["lifelong"].experiments}


def printed(name: str) -> dict[tuple[str, float, str], comparison.Row]:
    rows = comparison.comparison_rows(PAPERS["lifelong"], EXPERIMENTS[name], {})
    return {(row.name, row.epsilon, row.metric): row for row in rows}


def test_shares_become_percent_and_keep_their_deviation() -> None:
    found = printed("paper-permuted-mnist")
    row = found["L2DP-ML (1 epoch)", 0.5, "AF"]
    assert row.usable == pytest.approx(30.5)
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


def test_what_the_paper_leaves_open_is_listed() -> None:
    spec = presets.variants("paper-permuted-mnist-small")["l2dp-ml"]
    told = PAPERS["lifelong"].departs(making.run(lambda epsilon, seed: 0.5, spec=spec))
    assert any("learning rate" in sentence for sentence in told)
    assert any("Δ_R literal" in sentence for sentence in told)


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize(
    "experiment",
    [one for one in EXPERIMENTS.values() if "l2dp-ml" in presets.variants(one.preset("full"))],
    ids=lambda experiment: experiment.name,
)
def test_every_experiment_is_run_as_printed_beside_what_works_and_its_repairs(experiment: Experiment, size: Size) -> None:
    layers = {label: methods.layer(spec) for label, spec in presets.variants(experiment.preset(size)).items()}
    names = {label: layer.name for label, layer in layers.items() if layer is not None}
    assert (names["l2dp-ml-as-printed"], names["l2dp-ml"]) == ("as printed", "made to work")
    assert {name for label, name in names.items() if label.startswith(("dp-", "naive"))} <= {"repaired"}


def test_the_grid_of_the_baseline_is_the_printed_one() -> None:
    """Every printed pair of noise and clipping has a run under its ε; the paper's choices have its own name."""
    printed_pairs = {(row.variant, row.epsilon) for row in ROWS if row.table == "5"}
    for size in ("small", "full"):
        runs = presets.variants(EXPERIMENTS["paper-dp-agem-grid"].preset(size))  # type: ignore[arg-type]
        assert {(label, spec.privacy.epsilons[0]) for label, spec in runs.items()} == printed_pairs
        for label, spec in runs.items():
            params = asdict(spec.params)
            assert label == f"z={params['noise_multiplier']} C={params['clip_norm']}"
            chosen = (label, spec.privacy.epsilons[0]) in CHOSEN
            assert methods.card(spec.method).table_names(spec) == (_BASELINE, "" if chosen else label)


@pytest.mark.skipif("DPCL_DATA" not in os.environ, reason="reads the header of CIFAR-10")
@pytest.mark.parametrize("size", ["small", "full"])
def test_a_run_of_the_grid_takes_as_many_steps_as_its_budget_pays_for(size: Size) -> None:
    """One step more is refused, with what it would cost."""
    runs = presets.variants(EXPERIMENTS["paper-dp-agem-grid"].preset(size))
    for label in ("z=2.5 C=0.01", "z=1.7 C=0.1", "z=1.1 C=1.0"):
        spec = runs[label]
        checks.check_run(spec)
        params = asdict(spec.params)
        longer = checks.parse({**asdict(spec), "params": {**params, "steps": params["steps"] + 1}})
        with pytest.raises(BadInput, match=r"^privacy\.epsilons = \S+: must be at least"):
            checks.check_run(longer)


def test_the_paper_s_p_values_stand_beside_ours_where_a_record_has_curves() -> None:
    """Ours is a paired test of curves averaged over seeds; scipy's gives the same."""
    experiment = EXPERIMENTS["paper-permuted-mnist"]
    runs = presets.variants(experiment.preset("full"))
    (ordering,) = [one for one in experiment.orderings if one.test == ("L2DP-ML vs NaiveGaussian", "1 epoch")]
    bound = comparison.printed_p_value(claims.form(PAPERS["lifelong"], experiment, "full"), ordering)
    assert bound.printed == "6.81e-15"
    curves = {"l2dp-ml": [(0.9, 0.7, 0.6), (0.8, 0.7, 0.4)], "naive-gaussian": [(0.3, 0.2, 0.15), (0.2, 0.2, 0.15)]}
    measured = {}
    for label, of_seeds in curves.items():
        run = making.run(lambda epsilon, seed: 0.5, spec=runs[label], epsilons=(0.5,), seeds=(0, 1))
        models = [replace(model, curves={"AA": curve}) for model, curve in zip(run.models, of_seeds, strict=True)]
        measured[label] = replace(run, models=tuple(models))
    found = comparison.ours(ordering, measured)
    assert found == pytest.approx(stats.ttest_rel([0.85, 0.7, 0.5], [0.25, 0.2, 0.15]).pvalue, rel=1e-9)
    older = [replace(run, models=tuple(replace(model, curves={}) for model in run.models)) for run in measured.values()]
    without = dict(zip(measured, older, strict=True))
    assert comparison.ours(ordering, without) is None, "older records have no curves"
    assert comparison.ours(experiment.orderings[0], measured) is None, "the paper tests nothing there"


def test_every_printed_p_value_is_shown_with_one_of_the_claims() -> None:
    bounds = {(row.dataset, row.method, row.variant) for row in ROWS if row.metric == "p_value_upper_bound"}
    found = set()
    for experiment in EXPERIMENTS.values():
        form = claims.form(PAPERS["lifelong"], experiment, "full")
        for ordering in experiment.orderings:
            row = comparison.printed_p_value(form, ordering)
            assert (row is None) == (ordering.test is None)
            found |= {(row.dataset, row.method, row.variant)} if row is not None else set()
    assert found == bounds
