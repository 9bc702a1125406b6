"""CSLR's numbers: kept as printed, consistent where they are, remarked where not, each beside the run that repeats it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from statistics import fmean, mean, stdev
from typing import Any, cast

import pytest

from dpcl_core import paths, presets, published
from dpcl_core.figures.statistics import interval
from dpcl_core.methods.federated.params import RoundParams
from dpcl_core.papers import catalog, claims, comparison, measured, report
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment, Ordering, Side, eq_23, unpaired, unpaired_of_printed
from dpcl_core.tuning.settings import proxies
from tests.papers import making
from tests.support.asserting import includes

ROWS = published.read_numbers("cslr")
EXPERIMENTS = {experiment.name.removeprefix("paper-cslr-"): experiment for experiment in PAPERS["cslr"].experiments}
BENCHMARKS = ("Split-AG-News", "Split-Amazon", "OntoNotes-Domain", "MultiWOZ-Intent")


def one(table: str, dataset: str, method: str, metric: str, variant: str = "", epsilon: float = 4.0) -> published.Published:
    (found,) = (
        row
        for row in ROWS
        if (row.table, row.dataset, row.method, row.metric, row.variant) == (table, dataset, method, metric, variant)
        and row.epsilon in (epsilon, math.inf)
    )
    return found


def value(*place: str, **more: object) -> float:
    found = one(*place, **more).value  # type: ignore[arg-type]
    assert found is not None
    return found


def test_every_number_has_its_scope() -> None:
    assert {row.epsilon for row in ROWS if row.method == "FedTA"} == {math.inf}
    for row in ROWS:
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
        for method in dict.fromkeys(row.method for row in ROWS if row.table == "3")
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
    told = " ".join(comparison.table_remarks(claims.form(PAPERS["cslr"], EXPERIMENTS["ag-news"], "small")))
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
    rows = comparison.comparison_rows(PAPERS["cslr"], EXPERIMENTS["ag-news"], {})
    claimed = {row.method for row in rows if row.is_nominal}
    includes(claimed, "CSLR", "DP-Stat-Share", "CSLR-Hungarian")
    assert not claimed & {"DP-SGD (no replay)", "FedTA", "FedCIL+DP"}


def test_what_the_paper_says_of_a_pair_stands_with_its_interval() -> None:
    form = claims.form(PAPERS["cslr"], EXPERIMENTS["ag-news"], "full", {})
    pair = Ordering("", Side("cslr", 4.0), Side("transport", 4.0))
    assert comparison.printed_difference(form, pair) == pytest.approx(3.6)
    found = comparison.printed_interval(form, pair)
    assert (found.low, found.high) == pytest.approx((3.0, 4.2), abs=0.05)
    told = report.document([form])
    orderings = cast("list[dict[str, object]]", cast("list[dict[str, object]]", told["experiments"])[0]["orderings"])
    assert orderings[0]["published_interval"] == [found.low, found.high]
    assert orderings[0]["unpaired_interval"] is None, "nothing has run"
    added = Ordering("", Side("cslr", 4.0), Side("projection", 4.0))
    assert comparison.printed_interval(form, added) is None


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
    form = claims.form(PAPERS["cslr"], EXPERIMENTS["ag-news"], "small")
    lines = report.text([form]).splitlines()
    servers = [line for line in lines if line.lstrip().startswith("Repair: CSLR, head on the server")]
    assert servers
    assert all(line.endswith("replay ε = 4, head ε = 0, total ε = 4") for line in servers)
    told = report.document([form])
    rows = cast("list[dict[str, object]]", cast("list[dict[str, object]]", told["experiments"])[0]["rows"])
    published = [row for row in rows if row["method"] == "CSLR-Hungarian"]
    assert {(row["eps_head"], row["eps_total"]) for row in published} == {("inf", "inf")}


def tuned_rows() -> list[dict[str, Any]]:
    return list(json.loads((paths.assets_dir() / "tuning" / "federated.json").read_text(encoding="utf-8"))["rows"])


def test_every_tuned_row_had_the_same_search_on_a_proxy_and_took_the_best() -> None:
    rows = tuned_rows()
    assert len({(len(row["trials"]), tuple(row["seeds"])) for row in rows}) == 1
    for row in rows:
        assert row["proxy"] in proxies(row["dataset"]), "shares texts with the benchmark"
        assert row["machine"]
        assert row["commit"]
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
