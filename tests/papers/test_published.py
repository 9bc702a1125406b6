"""Printed numbers: read as printed, consistent among themselves, and with their remarks where they need one."""

import math

import pytest

from dpcl_core import paths, presets, published
from dpcl_core.papers import comparison, questions
from dpcl_core.papers.catalog import PAPERS, differences, printed_as, printed_names
from dpcl_core.papers.paper import Ordering, Paper, Remark, Side, load
from tests.support.asserting import refusal_of

ROWS = published.read_numbers("tobaben")


def _row(table: str, method: str, variant: str, epsilon: float, metric: str) -> published.Published:
    place = (table, method, variant, epsilon, metric)
    (found,) = (row for row in ROWS if (row.table, row.method, row.variant, row.epsilon, row.metric) == place)
    return found


COUNTS = {
    "tobaben": (133, {"A2": 8, "A3": 26, "A4": 30, "A5": 18, "workshop-5-datasets": 18}),
    "pecl": (402, {"1": 117, "2": 45, "3": 135, "4": 45, "5": 54, "figure 5b": 6}),
    "cslr": (158, {"2": 36, "3": 32, "4": 12, "5": 3, "6": 24, "7": 20, "8": 10, "9": 10}),
}


@pytest.mark.parametrize("paper", COUNTS)
def test_every_row_is_there(paper: str) -> None:
    rows, (total, by_table) = published.read_numbers(paper), COUNTS[paper]
    assert {table: sum(row.table == table for row in rows) for table in by_table} == by_table
    assert len(rows) == total
    if paper == "tobaben":
        own = [row for row in rows if row.table.startswith("A") and row.table != "A2"]
        assert all(row.value is not None and row.delta == (None if row.epsilon == math.inf else 1e-5) for row in own)


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
    own = [row for row in ROWS if row.table in ("A3", "A4", "A5")]
    forgot = {(row.table, row.method, row.variant, row.epsilon): row.value for row in own if row.metric == "AF_percent"}
    sums = [
        row.value + (1 - 1 / tasks[row.dataset]) * forgot[place]
        for row in own
        if row.metric == "AA_percent" and (place := (row.table, row.method, row.variant, row.epsilon)) in forgot
    ]
    assert (len(sums), max(sums)) == (29, pytest.approx(94.04, abs=0.01))


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


# Papers written as TOML: read whole, and a slip told in one sentence; what their runs are called on screen.


TEXT = """
title = "A paper"
source = "Its tables"
link = "https://example.org/paper"

[words]
less = "Less data."

[[experiments]]
name = "paper-one"
title = "One"
question = "Which is better?"
table = "A3"
prints = { tables = ["A3", "A4"], dataset = "Split-", notes = { A4 = "best" } }
n_classes = 10
orderings = "main"
departures = ["less"]

[orderings]
main = [
    { says = "First is better", first = "one", second = "two", at = [1.0, inf], rules = ["median", "entropy"] },
    { says = "Both alike", first = "one", second = "two", at = [[8.0, 1.0]], metric = "AF", kind = "alike", is_ours = true },
]

[[remarks]]
text = "A slip."
table = ["A3", "A4"]
method = "Naive"
metric = ["AA_percent", "AF_percent"]
epsilon = 1.0
"""


def read(*changes: tuple[str, str]) -> object:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load("a", printed_as, printed_names, differences, text)


def test_a_paper_is_read_whole() -> None:
    paper = load("a", printed_as, printed_names, differences, TEXT)
    (experiment,) = paper.experiments
    rules = ("median", "entropy")
    assert experiment.orderings == (
        *(Ordering("First is better", Side("one", e, rules[0]), Side("two", e, rules[1])) for e in (1.0, math.inf)),
        Ordering("Both alike", Side("one", 8.0), Side("two", 1.0), "AF", "alike", is_ours=True),
    )
    assert experiment.departures == ("Less data.",)
    rows = published.read_numbers("tobaben")
    metrics = ("AA_percent", "AF_percent")
    assert paper.remarks == (Remark(text="A slip.", table=("A3", "A4"), method="Naive", metric=metrics, epsilon=1.0),)
    touched = {(row.table, row.method, row.epsilon, row.metric) for row in rows if paper.remarks[0].touches(row)}
    assert touched == {(table, "Naive", 1.0, metric) for table in ("A3", "A4") for metric in metrics}
    assert {row.table for row in rows if experiment.prints(row)} == {"A3"}, "of A4 no row is called the best"
    assert not any(experiment.prints(row) for row in rows if row.dataset == "5-Datasets")


@pytest.mark.parametrize(("old", "new", "said"), [
    ('title = "One"', 'titel = "One"', "experiments.title"),
    ("n_classes = 10", 'n_classes = "ten"', "experiments.n_classes"),
    ("n_classes = 10", "n_classes = 10\nanswer = 42", "experiments.answer"),
    ('orderings = "main"', 'orderings = "mian"', "experiments.paper-one.orderings = mian: did you mean main?"),
    ('departures = ["less"]', 'departures = ["more"]', "experiments.paper-one.departures = more: must be one of less"),
    ("at = [1.0, inf]", "at = [-1.0]", "orderings.main.at"),
    ('kind = "alike"', 'kind = "equal"', "orderings.main.kind"),
    ('table = ["A3", "A4"]\nmethod', "method", "remarks.table"),
    ('title = "A paper"', "title = A paper", "must be TOML: "),
])
def test_a_slip_is_told_with_its_file_and_key(old: str, new: str, said: str) -> None:
    refused = str(refusal_of(read, (old, new)))
    assert refused.startswith("assets/papers/a.toml")
    assert said in refused
    assert "\n" not in refused


def test_every_file_is_a_paper_with_printed_numbers() -> None:
    files = {path.stem for path in (paths.assets_dir() / "papers").glob("*.toml")}
    assert files == set(PAPERS) == {path.stem for path in (paths.assets_dir() / "published").glob("*.csv")}


@pytest.mark.parametrize("name", PAPERS)
def test_no_experiment_claims_anything_twice(name: str) -> None:
    found = PAPERS[name]
    for experiment in found.experiments:
        assert len(set(experiment.orderings)) == len(experiment.orderings)
    assert len({experiment.name for experiment in found.experiments}) == len(found.experiments)


def test_a_comparison_that_says_it_is_not_in_the_paper_is_marked_as_ours() -> None:
    experiments = [experiment for paper in PAPERS.values() for experiment in paper.experiments]
    orderings = [one for experiment in experiments if not experiment.is_ours for one in experiment.orderings]
    assert any(one.is_ours for one in orderings)
    for one in orderings:
        assert one.is_ours == one.statement.startswith("Not in the paper: "), one.statement
    assert all(one.is_ours for experiment in experiments if experiment.is_ours for one in experiment.orderings)


@pytest.mark.parametrize(("label", "name"), [
    ("cnn-64", "CNN-64"),  # the whole label before its parts
    ("seqft-fn-as-printed", "SeqFT, noise on every token, exactly as printed"),
    ("l2dp-ml-2-epochs-50-20-10-5", "L2DP-ML, 2 epochs, order 50, 20, 10, 5"),
    ("seqft-no-noise", "SeqFT"),  # its ε says so
    ("alpha-0.2", "α = 0.2"),
    ("z=2.2 C=0.01", "Noise 2.2, clipping norm 0.01"),
    ("seqft-unheard-of", "seqft-unheard-of"),
    ("unheard-of", "unheard-of"),
])
def test_a_label_becomes_words(label: str, name: str) -> None:
    assert questions.run_name(label) == name


def test_every_run_of_every_preset_has_a_name_of_its_own_that_is_not_its_label() -> None:
    for preset in [form.name for question in questions.questions() for form in question.forms.values()]:
        names = questions.titles(preset)
        assert len(set(names.values())) == len(names), preset
        assert not [label for label, name in names.items() if name == label], preset
