"""Printed numbers: read as printed, consistent among themselves, and with their remarks where they need one."""

from __future__ import annotations

import math

import pytest

from dpcl_core import presets, published
from dpcl_core.papers import comparison
from dpcl_core.papers.catalog import PAPERS
from dpcl_core.papers.paper import Paper

ROWS = published.read_numbers("tobaben")


def _row(table: str, method: str, variant: str, epsilon: float, metric: str, paper: str = "tobaben") -> published.Published:
    place = (table, method, variant, epsilon, metric)
    rows = published.read_numbers(paper)
    (found,) = (row for row in rows if (row.table, row.method, row.variant, row.epsilon, row.metric) == place)
    return found


@pytest.mark.parametrize(
    ("table", "method", "variant", "epsilon", "metric", "value", "std"),
    [
        ("A3", "Naive", "", 1.0, "AA_percent", 9.35, 0.14),
        ("A3", "Cosine classifier", "", 1.0, "AA_percent", 72.78, 0.51),
        ("A3", "Cosine classifier", "", math.inf, "AF_percent", 6.02, 0.56),
        ("A3", "PEFT Ensemble", "FiLM", 8.0, "AA_percent", 85.26, 0.633),
        ("A3", "PEFT Ensemble", "FiLM", math.inf, "AA_percent", 79.39, 12.20),
        ("A3", "Non-CL baseline", "FiLM", 8.0, "AA_percent", 91.31, None),
        ("A4", "PEFT Ensemble", "last layer", 1.0, "AA_percent", 7.29, 2.82),
        ("A4", "Naive", "", 1.0, "AF_percent", 37.90, 8.05),
        ("A4", "Non-CL baseline", "FiLM", math.inf, "AA_percent", 78.24, None),
        ("A5", "PEFT Ensemble", "FiLM", 8.0, "AA_percent", 87.83, 0.0),
        ("A5", "Cosine classifier", "", math.inf, "AA_percent", 59.87, 0.0),
    ],
)
def test_spot_values_with_deviations(
    table: str, method: str, variant: str, epsilon: float, metric: str, value: float, std: float | None
) -> None:
    row = _row(table, method, variant, epsilon, metric)
    assert (row.value, row.std) == (value, std)


@pytest.mark.parametrize(
    ("paper", "place", "value"),
    [
        ("cslr", ("2", "Split-AG-News", "CSLR", "AA_percent", ""), 62.1),
        ("cslr", ("2", "MultiWOZ-Intent", "CSLR-OptimalTransport", "AA_percent", ""), 50.8),
        ("cslr", ("3", "OntoNotes-Domain", "CSLR-NearestMean", "BWT_percent", ""), -17.9),
        ("cslr", ("7", "Split-Amazon", "FedCIL+DP", "FWT_percent", ""), 0.6),
        ("cslr", ("5", "", "CSLR", "noise_multiplier", ""), 1.45),
        ("cslr", ("8", "Split-AG-News", "CSLR", "p_hat_gamma", "m = 25"), 0.31),
        ("cslr", ("9", "Split-AG-News", "CSLR", "BWT_percent", "L = 16"), -6.8),
        ("pecl", ("1", "order1", "SeqFT", "BWT_frac", "DPSGD"), -0.116),
        ("pecl", ("1", "order1", "O-LoRA", "task6_frac", "FN"), 0.165),
        ("pecl", ("1", "joint", "MTL", "Last_frac", "FN"), 0.489),
        ("pecl", ("2", "order1", "PeCL", "task3_frac", "w/o TDP"), 0.422),
        ("pecl", ("3", "order3", "ER", "BWT_frac", "FN"), -0.005),
        ("pecl", ("3", "order2", "PeCL", "task1_frac", ""), 0.276),
        ("pecl", ("4", "order1", "PeCL", "Avg_frac", "alpha 0.2"), 0.518),
        ("pecl", ("5", "order1", "PeCL", "BWT_frac", "lambda 10"), -0.059),
        ("pecl", ("figure 5b", "order1", "PeCL", "Avg_frac", "theta 0.9"), 0.523),
    ],
)
def test_spot_values(paper: str, place: tuple[str, ...], value: float) -> None:
    """CSLR's, where there are several budgets, at ε = 4."""
    rows = [row for row in published.read_numbers(paper) if paper != "cslr" or row.epsilon not in (1.0, 8.0)]
    assert [row.value for row in rows if (row.table, row.dataset, row.method, row.metric, row.variant) == place] == [value]


COUNTS = {
    "tobaben": {"A2": 8, "A3": 26, "A4": 30, "A5": 18, "workshop-5-datasets": 18},
    "pecl": {"1": 117, "2": 45, "3": 135, "4": 45, "5": 54, "figure 5b": 6},
    "cslr": {"2": 36, "3": 32, "4": 12, "5": 3, "6": 24, "7": 20, "8": 10, "9": 10},
}


@pytest.mark.parametrize(("paper", "total"), [("tobaben", 133), ("pecl", 402), ("cslr", 158)])
def test_every_row_is_there(paper: str, total: int) -> None:
    rows = published.read_numbers(paper)
    assert {table: sum(row.table == table for row in rows) for table in COUNTS[paper]} == COUNTS[paper]
    assert len(rows) == total
    for row in rows if paper == "tobaben" else ():
        if row.table.startswith("A") and row.table != "A2":
            assert row.value is not None
            assert row.delta == (None if row.epsilon == math.inf else 1e-5)


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_every_remark_touches_a_number_or_its_table(paper: Paper) -> None:
    rows = published.read_numbers(paper.name)
    for remark in paper.remarks:
        tables = {remark.table} if isinstance(remark.table, str) else set(remark.table)
        is_of_a_table = remark.is_about_the_table and tables <= {row.table for row in rows}
        assert is_of_a_table or any(remark.touches(row) for row in rows), remark.text


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_every_claim_has_runs_of_its_two_sides_at_their_budgets(paper: Paper) -> None:
    for experiment in paper.experiments:
        runs = presets.variants(experiment.preset(experiment.sizes[-1]))
        for side in (side for ordering in experiment.orderings for side in (ordering.first, ordering.second)):
            assert side.epsilon in runs[side.run].privacy.epsilons


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_every_printed_number_has_a_run_of_the_full_form_that_repeats_it(paper: Paper) -> None:
    """But in the sweep of anchors, whose table prints other quantities."""
    for experiment in (one for one in paper.experiments if "full" in one.sizes):
        specs = presets.variants(experiment.preset("full")).values()
        ours = {(*paper.printed_as(spec), epsilon) for spec in specs for epsilon in spec.privacy.epsilons}
        rows = comparison.comparison_rows(paper, experiment, {})
        assert {(row.method, row.variant, row.epsilon) for row in rows} <= ours
        assert bool(rows) == (experiment.table is not None and experiment.name != "paper-cslr-anchors")


def test_accuracy_and_forgetting_fit_together() -> None:
    """AA + (T-1)/T AF is the mean over tasks of the best accuracy, so it cannot exceed 100 (29 pairs)."""
    tasks = {"Split-CIFAR-100": 10, "Split-ImageNet-R": 10, "5-Datasets": 5}
    sums = []
    for row in ROWS:
        if row.metric == "AA_percent" and row.table in ("A3", "A4", "A5"):
            for other in ROWS:
                same = (other.table, other.method, other.variant, other.epsilon) == (
                    row.table, row.method, row.variant, row.epsilon,
                )  # fmt: skip
                if same and other.metric == "AF_percent":
                    n_tasks = tasks[row.dataset]
                    sums.append(row.value + (n_tasks - 1) / n_tasks * other.value)
    assert len(sums) == 29
    assert max(sums) == pytest.approx(94.04, abs=0.01)


def test_what_is_printed_twice_is_the_same() -> None:
    for row in ROWS:
        if row.table == "workshop-5-datasets" and row.value is not None and row.epsilon is not None:
            variant = "FiLM" if row.method == "PEFT Ensemble" else ""
            other = _row("A5", row.method, variant, row.epsilon, row.metric.split("_")[0] + "_percent")
            factor = 100 if row.metric == "AF_fraction" else 1
            assert other.value == pytest.approx(row.value * factor)


def test_remarks_stand_at_the_numbers_they_touch() -> None:
    slip = _row("A3", "PEFT Ensemble", "last layer", 1.0, "AF_percent")
    assert slip.printed == "0.06"  # corrected nowhere
    remarks = PAPERS["tobaben"].remarks
    (remark,) = [one for one in remarks if one.touches(slip)]
    assert remark.is_doubtful
    assert "6 %" in remark.text
    other = _row("A3", "PEFT Ensemble", "last layer", 8.0, "AA_percent")
    assert not any(one.touches(other) for one in remarks)
