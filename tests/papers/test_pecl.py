"""PeCL's numbers: kept as printed, consistent where they are, remarked where not, each beside the run that repeats it."""

from __future__ import annotations

from dataclasses import asdict, replace
from statistics import fmean

import pytest

from dpcl_core import metrics, presets, published
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog, claims, comparison, measured
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Experiment, Size
from dpcl_core.spec import RunSpec
from tests.papers import making

ROWS = published.read_numbers("pecl")
EXPERIMENTS = {experiment.name.removeprefix("paper-pecl-"): experiment for experiment in PAPERS["pecl"].experiments}
TASKS = tuple(f"task{k}" for k in range(1, 7))
Lines = dict[tuple[str, str, str, str], dict[str, published.Published]]


def lines() -> Lines:
    """Table, order, method and variant; each with its numbers by metric."""
    found: Lines = {}
    for row in ROWS:
        found.setdefault((row.table, row.dataset, row.method, row.variant), {})[row.metric.removesuffix("_frac")] = row
    return found


def _layer(spec: RunSpec) -> str:
    layer = methods.layer(spec)
    return layer.name


def printed(name: str) -> dict[tuple[str, str], comparison.Row]:
    return {(row.name, row.metric): row for row in comparison.comparison_rows(PAPERS["pecl"], EXPERIMENTS[name], {})}


def test_what_is_not_printed_is_missing_everywhere_else() -> None:
    missing = [row for row in ROWS if row.value is None]
    assert {(row.method, row.metric) for row in missing} == {("MTL", "BWT_frac"), ("MTL", "Avg_frac")}


def test_the_printed_means_are_those_of_their_six_values_but_for_two() -> None:
    """Last is our mean of the final row of accuracies, so the metric's own function is asked; rounding allows 0.001."""
    wrong = {}
    for line, row in lines().items():
        if "Last" in row:
            final = [row[task].value for task in TASKS]
            matrix = [*([None] * 6 for _ in range(5)), final]
            mean, printed_mean = metrics.average_accuracy(matrix)[-1], row["Last"].value
            if abs(mean - printed_mean) > 0.001 + 1e-9:
                wrong[line] = round(mean - printed_mean, 4)
    assert sum("Last" in row for row in lines().values()) == 44
    assert wrong == {("1", "order1", "PeCL", ""): -0.0163, ("2", "order1", "PeCL", "w/o PMS"): 0.031}


def test_what_is_printed_in_several_tables_is_the_same_but_for_one_number() -> None:
    known = lines()
    full = known["2", "order1", "PeCL", ""]
    others = [("1", ""), ("3", ""), ("4", "alpha 0.5"), ("5", "lambda 1")]
    differing = [
        (table, metric)
        for table, variant in others
        for metric, row in known[table, "order1", "PeCL", variant].items()
        if row.value != full[metric].value
    ]
    assert differing == [("1", "task3")]
    without = known["2", "order1", "PeCL", "w/o Unlearning"]
    assert {name: row.value for name, row in without.items()} == {
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
    assert against == {
        ("pecl-order3", "er-dpsgd-order3", "AA"),
        ("pecl-order3", "er-dpsgd-order3", "BWT"),
        ("pecl-order3", "er-fn-order3", "BWT"),
    }


@pytest.mark.parametrize("experiment", PAPERS["pecl"].experiments, ids=lambda experiment: experiment.name)
def test_every_printed_number_has_a_run(experiment: Experiment) -> None:
    for size in experiment.sizes:
        runs = presets.variants(experiment.preset(size))
        names = {(row.method, row.variant) for row in comparison.comparison_rows(PAPERS["pecl"], experiment, {})}
        assert names <= {catalog.PAPERS["pecl"].printed_as(spec) for spec in runs.values()}
        shown = {(catalog.PAPERS["pecl"].printed_as(spec), _layer(spec), spec.privacy.epsilons) for spec in runs.values()}
        assert experiment.table is None or len(shown) == len(runs)  # no two share a printed row


def test_the_paper_s_orders_are_told_apart_on_either_corpus() -> None:
    spec = presets.variants("paper-pecl-orders-small")["pecl-order3"]
    assert catalog.PAPERS["pecl"].printed_as(spec) == ("PeCL", "order 3")
    assert asdict(spec.scenario)["order"][:3] == ("amazon-stars", "dreaddit", "fomc")
    order = ("mailbox", "wellbeing", "products", "news", "restaurants", "policy")
    made = replace(spec, data=replace(spec.data, dataset="pii-synthetic"), scenario=replace(spec.scenario, order=order))
    assert catalog.PAPERS["pecl"].printed_as(made) == ("PeCL", "order 2")


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
        label: " ".join(catalog.PAPERS["pecl"].departs(making.run(lambda epsilon, seed: 0.5, spec=runs[label])))
        for label in ("pecl", "er-fn", "gem-dpsgd", "repaired-central")
    }
    assert all("7 billion weights" in text and "prompts" in text for text in told.values())
    assert "the clipping norm C" in told["pecl"]
    assert "half the distance" in told["er-fn"]
    assert "half the distance" not in told["gem-dpsgd"]
    assert "Not given of the baselines" in told["gem-dpsgd"]
    assert "Not given of the baselines" not in told["repaired-central"]


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_main_experiment_is_run_in_all_three_layers(size: Size) -> None:
    specs = presets.variants(EXPERIMENTS["main"].preset(size))
    names = {label: _layer(spec) for label, spec in specs.items()}
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
