"""Printed numbers of PeCL, Lai et al., CSLR: kept, consistent where they are, remarked where not, each beside its run."""

import json
import math
import os
from dataclasses import asdict, replace
from statistics import fmean, mean, stdev
from typing import Any, cast

import pytest
from scipy import stats

from dpcl_core import checks, metrics, paths, presets, published
from dpcl_core.figures.statistics import interval
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.params import RoundParams
from dpcl_core.papers import catalog, claims, comparison, measured, report
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment, Ordering, Side, Size, eq_23, unpaired, unpaired_of_printed
from dpcl_core.tuning.settings import proxies
from tests.papers import making
from tests.support.asserting import includes, refuses

ROWS = published.read_numbers("pecl")
EXPERIMENTS = {experiment.name.removeprefix("paper-pecl-"): experiment for experiment in PAPERS["pecl"].experiments}
Lines = dict[tuple[str, str, str, str], dict[str, published.Published]]


def lines() -> Lines:
    """Table, order, method and variant; each with its numbers by metric."""
    found: Lines = {}
    for row in ROWS:
        found.setdefault((row.table, row.dataset, row.method, row.variant), {})[row.metric.removesuffix("_frac")] = row
    return found


def printed(name: str) -> dict[tuple[str, str], comparison.Row]:
    return {(row.name, row.metric): row for row in comparison.comparison_rows(PAPERS["pecl"], EXPERIMENTS[name], {})}


def test_the_printed_means_are_those_of_their_six_values_but_for_two() -> None:
    """Last is our mean of the final row of accuracies, so the metric's own function is asked; rounding allows 0.001."""
    wrong = {}
    for line, row in lines().items():
        if "Last" in row:
            matrix = [*([None] * 6 for _ in range(5)), [row[f"task{k}"].value for k in range(1, 7)]]
            mean, printed_mean = metrics.average_accuracy(matrix)[-1], row["Last"].value
            if abs(mean - printed_mean) > 0.001 + 1e-9:
                wrong[line] = round(mean - printed_mean, 4)
    assert sum("Last" in row for row in lines().values()) == 44
    missing = {(row.method, row.metric) for row in ROWS if row.value is None}
    assert missing == {("MTL", "BWT_frac"), ("MTL", "Avg_frac")}, "which a model that comes last does not have"
    assert wrong == {("1", "order1", "PeCL", ""): -0.0163, ("2", "order1", "PeCL", "w/o PMS"): 0.031}


def test_what_is_printed_in_several_tables_is_the_same_but_for_one_number() -> None:
    known = lines()
    full = known["2", "order1", "PeCL", ""]
    differing = [
        (table, metric)
        for table, variant in [("1", ""), ("3", ""), ("4", "alpha 0.5"), ("5", "lambda 1")]
        for metric, row in known[table, "order1", "PeCL", variant].items()
        if row.value != full[metric].value
    ]
    assert differing == [("1", "task3")]
    assert {name: row.value for name, row in known["2", "order1", "PeCL", "w/o Unlearning"].items()} == {
        name: row.value for name, row in known["5", "order1", "PeCL", "lambda 0"].items()
    }


def test_the_misprint_is_shown_and_not_used_and_the_others_are_told_where_they_stand() -> None:
    found = printed("main")
    slip = found["PeCL", "task3"]
    assert (slip.printed.printed, slip.usable, slip.is_doubtful) == ("0.769", None, True)
    assert any("0.869" in remark for remark in slip.remarks)
    assert any("1.66 to 24.4" in remark for remark in found["PeCL", "AA"].remarks)
    assert any("SeqFT worst" in remark for remark in found["SeqFT (DPSGD)", "BWT"].remarks)
    assert not found["ER (DPSGD)", "AA"].remarks
    assert any("0.343" in remark for remark in printed("ablations")["PeCL (w/o PMS)", "AA"].remarks)


def test_budgets_of_the_method_are_nominal_and_those_of_the_baselines_are_not() -> None:
    rows = comparison.comparison_rows(PAPERS["pecl"], EXPERIMENTS["main"], {})
    assert {(row.method == "PeCL", row.is_nominal, row.epsilon) for row in rows} == {(True, True, 10.0), (False, False, 1.0)}


def test_what_the_text_claims_is_looked_for_where_the_table_says_otherwise_too() -> None:
    """In the third order the table itself has ER above PeCL, and less forgetting."""
    form = claims.form(PAPERS["pecl"], EXPERIMENTS["orders"], "full")
    against = {
        (ordering.first.run, ordering.second.run, ordering.metric)
        for ordering in form.experiment.orderings
        if (found := comparison.printed_difference(form, ordering)) is not None and found < 0
    }
    others = (("er-dpsgd-order3", "AA"), ("er-dpsgd-order3", "BWT"), ("er-fn-order3", "BWT"))
    assert against == {("pecl-order3", *other) for other in others}


@pytest.mark.parametrize("experiment", PAPERS["pecl"].experiments, ids=lambda experiment: experiment.name)
def test_every_printed_number_has_a_run_of_its_own_in_every_form(experiment: Experiment) -> None:
    names = {(row.method, row.variant) for row in comparison.comparison_rows(PAPERS["pecl"], experiment, {})}
    for size in experiment.sizes:
        specs = presets.variants(experiment.preset(size)).values()
        shown = {(PAPERS["pecl"].printed_as(spec), methods.layer(spec).name, spec.privacy.epsilons) for spec in specs}
        assert names <= {name for name, *_ in shown}
        assert experiment.table is None or len(shown) == len(specs)


def test_the_paper_s_orders_are_told_apart_on_either_corpus() -> None:
    spec = presets.variants("paper-pecl-orders-small")["pecl-order3"]
    assert PAPERS["pecl"].printed_as(spec) == ("PeCL", "order 3")
    assert asdict(spec.scenario)["order"][:3] == ("amazon-stars", "dreaddit", "fomc")
    order = ("mailbox", "wellbeing", "products", "news", "restaurants", "policy")
    made = replace(spec, data=replace(spec.data, dataset="pii-synthetic"), scenario=replace(spec.scenario, order=order))
    assert PAPERS["pecl"].printed_as(made) == ("PeCL", "order 2")


def test_other_datasets_give_no_difference_and_a_model_that_comes_last_no_accuracy_along_the_way() -> None:
    spec = presets.variants("paper-pecl-main-small")["mtl-fn"]
    run = making.run(lambda epsilon, seed: 0.5, spec=spec, epsilons=(1.0,))
    figures = {"AA": 0.5, "Avg": 0.5, "BWT": None, "task1": 0.4}
    only_end = replace(run, models=tuple(measured.Model(1.0, one.seed, 1.0, figures, {}) for one in run.models))
    rows = {
        row.metric: row
        for row in comparison.comparison_rows(PAPERS["pecl"], EXPERIMENTS["main"], {"mtl-fn": only_end})
        if row.name == "MTL (FN)"
    }
    assert {metric for metric, row in rows.items() if row.ours is not None} == {"AA", "task1"}
    assert all(row.difference is None for row in rows.values())


def test_what_the_paper_leaves_open_is_listed() -> None:
    runs = presets.variants("paper-pecl-main-small")
    told = {
        label: " ".join(PAPERS["pecl"].departs(making.run(lambda epsilon, seed: 0.5, spec=runs[label])))
        for label in ("pecl", "er-fn", "gem-dpsgd", "repaired-central")
    }
    assert all("7 billion weights" in text and "prompts" in text for text in told.values())
    assert "the clipping norm C" in told["pecl"]
    assert "half the distance" in told["er-fn"]
    assert ("half the distance" in told["gem-dpsgd"], "Not given of the baselines" in told["gem-dpsgd"]) == (False, True)
    assert "Not given of the baselines" not in told["repaired-central"]


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_main_experiment_is_run_in_all_three_layers(size: Size) -> None:
    specs = presets.variants(EXPERIMENTS["main"].preset(size))
    names = {label: methods.layer(spec).name for label, spec in specs.items()}
    assert (names["pecl"], names["pecl-as-printed"]) == ("made to work", "as printed")
    assert {name for label, name in names.items() if label.endswith("-fn-as-printed")} == {"as printed"}
    assert {name for label, name in names.items() if label.endswith("-fn")} == {"made to work"}
    assert names["seqft-dpsgd"] == "made to work"  # steps of one of mean size for every task
    assert names["repaired-central"] == names["repaired-local"] == "repaired"


def test_what_is_said_of_the_untrained_model_and_of_the_ledgers_is_true_of_the_records() -> None:
    """The sentences `parts` and `nominal` of the paper's file, each against the recorded runs of the larger form."""
    specs = presets.variants("paper-pecl-main-bundled")
    gains, spent = dict[str, float](), dict[str, float]()
    for label, spec in specs.items():
        run = measured.find(spec, measured.recorded("pecl"))
        assert run is not None, label
        if set(run.spec.privacy.epsilons) <= {1.0, 1.6574, 10.0} and run.untrained is not None:
            gains[label] = fmean(run.by_seed(run.spec.privacy.epsilons[0], "AA").values()) - run.untrained
        spent[label] = max(model.accounted_epsilon for model in run.models)
    assert all(gains[label] < 0 for label in ("pecl", "pecl-as-printed")), "PeCL ends below the untrained model"
    assert any(gain > 0 for label, gain in gains.items() if label.endswith("-dpsgd")), "some baselines end above it"
    words = " ".join(EXPERIMENTS["no-noise"].departures)
    assert "PeCL ends below the untrained model here, though some baselines end above it" in words
    once = {label for label in specs if label.startswith(("seqft-dpsgd", "olora-dpsgd", "mtl-dpsgd", "repaired"))}
    again = {label for label in specs if label.startswith(("er-dpsgd", "ewc-dpsgd", "gem-dpsgd"))}
    tokens = {label for label in specs if label.endswith("-fn")}
    assert all(spent[label] > 1.01 for label in again | tokens), "texts read again, and texts of several tokens"
    assert all(spent[label] <= 1.0 + 1e-9 for label in once if not label.endswith("-text-8"))
    assert "ledgers add up to more in all" in " ".join(EXPERIMENTS["main"].departures)


# Lai et al.'s numbers.


LAI_ROWS = published.read_numbers("lifelong")
_BASELINE = "NaiveGaussian"
CHOSEN = {("z=2.2 C=0.01", 4.0), ("z=1.7 C=0.01", 7.0), ("z=1.4 C=0.01", 10.0)}
LAI = {experiment.name: experiment for experiment in PAPERS["lifelong"].experiments}


def printed_by_lai(name: str) -> dict[tuple[str, float, str], comparison.Row]:
    rows = comparison.comparison_rows(PAPERS["lifelong"], LAI[name], {})
    return {(row.name, row.epsilon, row.metric): row for row in rows}


def test_shares_become_percent_and_keep_their_deviation() -> None:
    found = printed_by_lai("paper-permuted-mnist")
    row = found["L2DP-ML (1 epoch)", 0.5, "AF"]
    assert (row.usable, row.printed.percent_std) == (pytest.approx(30.5), pytest.approx(0.886))
    assert found["L2DP-ML (1 epoch)", 0.5, "AA"].usable == 47.73
    assert found["A-GEM (noiseless)", float("inf"), "AA"].usable == 71.03  # 47.73 + 23.3, and said to be worked out
    assert any("Not printed" in remark for remark in found["A-GEM (noiseless)", float("inf"), "AA"].remarks)


def test_of_the_baselines_grid_only_the_chosen_settings_stand_in_the_view() -> None:
    """45 accuracies are kept of table 5, three of them were chosen."""
    assert sum(row.table == "5" for row in LAI_ROWS) == 45
    found = printed_by_lai("paper-permuted-cifar-10")
    chosen = {epsilon: row.usable for (name, epsilon, metric), row in found.items() if (name, metric) == (_BASELINE, "AA")}
    assert chosen == {4.0: 13.79, 7.0: 15.26, 10.0: 15.71}


def test_numbers_that_contradict_each_other_say_so() -> None:
    row = printed_by_lai("paper-harw")["L2DP-ML (balanced, 5-10-20-50 Hz)", 0.2, "AF"]
    assert row.usable == pytest.approx(13.09)  # table 1; the text has 15.93
    assert any("0.1593" in remark for remark in row.remarks)
    assert any("0.1593" in row.printed and row.table == "text" for row in LAI_ROWS)


def test_what_lai_et_al_leave_open_is_listed() -> None:
    spec = presets.variants("paper-permuted-mnist-small")["l2dp-ml"]
    told = " ".join(PAPERS["lifelong"].departs(making.run(lambda epsilon, seed: 0.5, spec=spec)))
    includes(told, "learning rate", "Δ_R literal")


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize(
    "experiment",
    [one for one in LAI.values() if "l2dp-ml" in presets.variants(one.preset("full"))],
    ids=lambda experiment: experiment.name,
)
def test_every_experiment_is_run_as_printed_beside_what_works_and_its_repairs(experiment: Experiment, size: Size) -> None:
    specs = presets.variants(experiment.preset(size))
    names = {label: layer.name for label, spec in specs.items() if (layer := methods.layer(spec)) is not None}
    assert (names["l2dp-ml-as-printed"], names["l2dp-ml"]) == ("as printed", "made to work")
    assert {name for label, name in names.items() if label.startswith(("dp-", "naive"))} <= {"repaired"}


def test_the_grid_of_the_baseline_is_the_printed_one() -> None:
    """Every printed pair of noise and clipping has a run under its ε; the paper's choices have its own name."""
    printed_pairs = {(row.variant, row.epsilon) for row in LAI_ROWS if row.table == "5"}
    for size in ("small", "full"):
        runs = presets.variants(LAI["paper-dp-agem-grid"].preset(size))  # type: ignore[arg-type]
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
    runs = presets.variants(LAI["paper-dp-agem-grid"].preset(size))
    for label in ("z=2.5 C=0.01", "z=1.7 C=0.1", "z=1.1 C=1.0"):
        spec = runs[label]
        checks.check_run(spec)
        params = asdict(spec.params)
        longer = checks.parse({**asdict(spec), "params": {**params, "steps": params["steps"] + 1}})
        refuses(r"^privacy\.epsilons = \S+: must be at least", checks.check_run, longer)


def test_the_paper_s_p_values_stand_beside_ours_where_a_record_has_curves() -> None:
    """Ours is a paired test of curves averaged over seeds; scipy's gives the same."""
    experiment = LAI["paper-permuted-mnist"]
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
    assert comparison.ours(ordering, dict(zip(measured, older, strict=True))) is None, "older records have no curves"
    assert comparison.ours(experiment.orderings[0], measured) is None, "the paper tests nothing there"


def test_every_printed_p_value_is_shown_with_one_of_the_claims() -> None:
    bounds = {(row.dataset, row.method, row.variant) for row in LAI_ROWS if row.metric == "p_value_upper_bound"}
    found = set()
    for experiment in LAI.values():
        form = claims.form(PAPERS["lifelong"], experiment, "full")
        for ordering in experiment.orderings:
            row = comparison.printed_p_value(form, ordering)
            assert (row is None) == (ordering.test is None)
            found |= {(row.dataset, row.method, row.variant)} if row is not None else set()
    assert found == bounds


# CSLR's numbers.


CSLR_ROWS = published.read_numbers("cslr")
CSLR = {experiment.name.removeprefix("paper-cslr-"): experiment for experiment in PAPERS["cslr"].experiments}
BENCHMARKS = ("Split-AG-News", "Split-Amazon", "OntoNotes-Domain", "MultiWOZ-Intent")


def one(table: str, dataset: str, method: str, metric: str, variant: str = "", epsilon: float = 4.0) -> published.Published:
    (found,) = (
        row
        for row in CSLR_ROWS
        if (row.table, row.dataset, row.method, row.metric, row.variant) == (table, dataset, method, metric, variant)
        and row.epsilon in (epsilon, math.inf)
    )
    return found


def value(*place: str, **more: object) -> float:
    found = one(*place, **more).value  # type: ignore[arg-type]
    assert found is not None
    return found


def test_every_number_has_its_scope() -> None:
    assert {row.epsilon for row in CSLR_ROWS if row.method == "FedTA"} == {math.inf}
    for row in CSLR_ROWS:
        if row.table in "24" and row.method != "FedTA":
            whose = "optimizer" if row.method.startswith("DP-SGD") else "replay release"
            assert whose in row.note, row


@pytest.mark.parametrize("dataset", BENCHMARKS)
@pytest.mark.parametrize("other", ["DP-Stat-Share", "CSLR-OptimalTransport"])
def test_the_eight_intervals_of_table_6_follow_from_table_2(dataset: str, other: str) -> None:
    metric = "AA_percent"
    found = unpaired_of_printed(one("2", dataset, "CSLR", metric), one("2", dataset, other, metric))
    names = ("delta_AA_points", "delta_AA_low_points", "delta_AA_high_points")
    printed = [value("6", dataset, f"CSLR vs {other}", name) for name in names]
    assert [found.mean, found.low, found.high] == pytest.approx(printed, abs=0.0501)
    assert eq_23((0.0, 1.0), (0.0, 0.0), 5).high == pytest.approx(2.776 / math.sqrt(5), abs=5e-4)


def test_the_paired_interval_is_another_and_counts_shared_seeds() -> None:
    first, second = [60.0, 62.0, 64.0, 66.0, 68.0], [58.0, 60.1, 61.9, 64.0, 66.0]
    paired = interval([a - b for a, b in zip(first, second, strict=True)])
    apart = eq_23((fmean(first), stdev(first)), (fmean(second), stdev(second)), 5)
    assert paired.low > 0, "seed by seed the first is better"
    assert apart.low < 0, "which spread over seeds hides"
    assert paired.mean == pytest.approx(apart.mean)
    run = making.run(lambda epsilon, seed: first[seed] / 100)
    ordering = Ordering("", Side("a", 1.0), Side("b", 1.0))
    two = making.run(lambda epsilon, seed: first[seed] / 100, seeds=(0, 1))
    assert unpaired(ordering, {"a": run, "b": run}) is not None
    assert unpaired(ordering, {"a": run, "b": two}) is None, "no interval from two seeds"


def test_what_is_printed_in_two_tables_is_the_same_and_lists_of_one_entry_are_the_baseline() -> None:
    for method in ("CSLR", "DP-Stat-Share", "FedCIL+DP", "DP-SGD (no replay)"):
        assert value("2", BENCHMARKS[0], method, "AA_percent") == value("4", BENCHMARKS[0], method, "AA_percent")
    assert value("9", BENCHMARKS[0], "CSLR", "AA_percent", "L = 4") == value("2", BENCHMARKS[0], "CSLR", "AA_percent")
    for table, metric in (("2", "AA_percent"), ("3", "BWT_percent")):
        baseline = value(table, BENCHMARKS[0], "DP-Stat-Share", metric)
        assert value("9", BENCHMARKS[0], "CSLR", metric, "L = 1") == baseline


def test_the_contradictions_that_remarks_name_are_in_the_numbers() -> None:
    implied = {
        method: value("2", BENCHMARKS[0], method, "AA_percent") - value("3", BENCHMARKS[0], method, "BWT_percent") * 3 / 4
        for method in dict.fromkeys(row.method for row in CSLR_ROWS if row.table == "3")
    }
    assert implied.pop("CSLR") == pytest.approx(67.4, abs=0.05)
    assert 65.0 < min(implied.values()) <= max(implied.values()) < 65.85
    for dataset in BENCHMARKS:
        baseline = value("2", dataset, "DP-Stat-Share", "AA_percent")
        assert value("2", dataset, "CSLR-NearestMean", "AA_percent") < baseline
        lot = value("2", dataset, "CSLR-NoAnchor (Random)", "AA_percent")
        assert 2.35 < lot - value("2", dataset, "DP-SGD (no replay)", "AA_percent") < 2.65
    best = value("4", BENCHMARKS[0], "CSLR", "AA_percent", epsilon=8.0)
    assert best > value("2", BENCHMARKS[0], "FedTA", "AA_percent")


def test_the_tables_own_remarks_are_told() -> None:
    told = " ".join(comparison.table_remarks(claims.form(PAPERS["cslr"], CSLR["ag-news"], "small")))
    includes(told, "62.3", "Eq. 23")


@pytest.mark.parametrize("experiment", PAPERS["cslr"].experiments, ids=lambda one: one.name)
def test_every_experiment_has_a_full_and_a_small_form_with_the_same_runs(experiment: Experiment) -> None:
    assert experiment.sizes == ("small", "full")
    small, full = (presets.variants(experiment.preset(size)) for size in experiment.sizes)
    assert list(small) == list(full)
    for label, spec in full.items():
        assert spec.seeds == (13, 17, 19, 23, 29)
        assert spec.data.backbone == small[label].data.backbone == "minilm"
        assert catalog.printed_as(spec) == catalog.printed_as(small[label])
        if isinstance(spec.params, RoundParams):
            assert (spec.params.rounds, spec.params.participation) == (50, 0.3)


def test_claimed_budgets_are_marked_and_accounted_ones_are_not() -> None:
    rows = comparison.comparison_rows(PAPERS["cslr"], CSLR["ag-news"], {})
    claimed = {row.method for row in rows if row.is_nominal}
    includes(claimed, "CSLR", "DP-Stat-Share", "CSLR-Hungarian")
    assert not claimed & {"DP-SGD (no replay)", "FedTA", "FedCIL+DP"}


def test_what_the_paper_says_of_a_pair_stands_with_its_interval() -> None:
    form = claims.form(PAPERS["cslr"], CSLR["ag-news"], "full", {})
    pair = Ordering("", Side("cslr", 4.0), Side("transport", 4.0))
    assert comparison.printed_difference(form, pair) == pytest.approx(3.6)
    found = comparison.printed_interval(form, pair)
    assert (found.low, found.high) == pytest.approx((3.0, 4.2), abs=0.05)
    (experiment,) = cast("list[dict[str, Any]]", report.document([form])["experiments"])
    assert experiment["orderings"][0]["published_interval"] == [found.low, found.high]
    assert experiment["orderings"][0]["unpaired_interval"] is None, "nothing has run"
    assert comparison.printed_interval(form, Ordering("", Side("cslr", 4.0), Side("projection", 4.0))) is None


def test_recorded_figures_tell_replay_head_and_total_apart() -> None:
    for run in measured.recorded("cslr"):
        for model in run.models:
            assert list(model.channel_epsilons) == ["replay", "head", "total"]
            assert model.channel_epsilons["total"] == model.accounted_epsilon
            assert max(model.channel_epsilons.values()) <= model.accounted_epsilon * (1 + 1e-6)
            if run.spec.method in ("cslr-published", "fedta-lite"):
                assert math.isinf(model.channel_epsilons["head"])
            if run.spec.method in ("cslr-server-head", "label-means", "local-list"):
                assert model.channel_epsilons["head"] == 0


def test_the_terminal_tells_replay_head_and_total_apart_too() -> None:
    form = claims.form(PAPERS["cslr"], CSLR["ag-news"], "small")
    lines = report.text([form]).splitlines()
    servers = [line for line in lines if line.lstrip().startswith("Repair: CSLR, head on the server")]
    assert {line.endswith("replay ε = 4, head ε = 0, total ε = 4") for line in servers} == {True}
    (experiment,) = cast("list[dict[str, Any]]", report.document([form])["experiments"])
    published = [row for row in experiment["rows"] if row["method"] == "CSLR-Hungarian"]
    assert {(row["eps_head"], row["eps_total"]) for row in published} == {("inf", "inf")}


def tuned_rows() -> list[dict[str, Any]]:
    return list(json.loads((paths.assets_dir() / "tuning" / "federated.json").read_text(encoding="utf-8"))["rows"])


def test_every_tuned_row_had_the_same_search_on_a_proxy_and_took_the_best() -> None:
    rows = tuned_rows()
    assert len({(len(row["trials"]), tuple(row["seeds"])) for row in rows}) == 1
    for row in rows:
        assert row["proxy"] in proxies(row["dataset"]), "shares texts with the benchmark"
        assert all((row["machine"], row["commit"]))
        finalists = [trial for trial in row["trials"] if len(trial["scores"]) == len(row["seeds"])]
        assert 2 <= len(finalists) < len(row["trials"])
        assert row["chosen"] == max(finalists, key=lambda trial: mean(trial["scores"]))["settings"]


def test_presets_that_say_tuned_hold_what_the_search_chose_and_no_other_does() -> None:
    chosen = {(row["experiment"], row["row"]): row["chosen"] for row in tuned_rows()}
    found = {
        (experiment.name, label): spec
        for experiment in PAPERS["cslr"].experiments
        for label, spec in presets.variants(experiment.preset("small")).items()
        if spec.tuned == "public"
    }
    for name in {name for name, label in found if label == "without-noise"}:
        without = found.pop((name, "without-noise"))  # at no budget there is nothing to search: the method's own
        assert without.params == found[name, "cslr"].params
    # A search takes hours, and its rows are kept as they come: an experiment's presets take them when it has all of them.
    assert set(found) == {place for place in chosen if place[0] in {name for name, _ in found}}
    live = [
        (("paper-cslr-ag-news", "server-head" if label == "without-noise" else label), spec)
        for label, spec in presets.variants("ag-news-cslr").items()
        if spec.tuned == "public"
    ]
    for place, spec in [*found.items(), *live]:
        params = asdict(spec.params)
        assert {name: params[name] for name in chosen[place]} == chosen[place], place
    assert presets.load("ag-news-cslr").tuned == "public"
