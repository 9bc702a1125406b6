"""A paper's claims: one verdict over all forms, their count with and without many tests in mind, and layer by layer."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import false_discovery_control, ttest_1samp

from dpcl_core import metrics
from dpcl_core.figures.statistics import interval, p_value
from dpcl_core.papers import catalog, claims, report
from dpcl_core.papers.measured import EDITION, Measured
from dpcl_core.papers.paper import ALIKE_POINTS, Judged, Ordering, Side, State, judge
from tests.papers.making import run

LABELS = ("cosine", "naive")  # as printed; made to work
POINTS: dict[State, list[float]] = {
    "found": [1.0, 2.0, 3.0, 2.0],
    "not found": [-1.0, -2.0, -3.0, -2.0],
    "cannot tell": [-2.0, 1.0, 2.5],
}
TOBABEN = catalog.paper("tobaben")


def a_form(*states: State, sides: tuple[str, str] = LABELS, is_toy: bool = False, is_ours: bool = False) -> claims.Form:
    """The small form of a real experiment with one claim a state."""
    form = claims.form(TOBABEN, catalog.experiment(TOBABEN, "paper-split-cifar-100"), "small", {})
    sides_ = tuple(Side(label, 1.0) for label in sides)
    judged = [
        Judged(Ordering(f"claim {k}", *sides_, is_ours=is_ours), state, interval(POINTS[state]) if state in POINTS else None)
        for k, state in enumerate(states)
    ]
    return replace(form, judged=judged, is_toy=is_toy)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("found", "found", "found"),
        ("found", "cannot tell", "found"),
        ("not found", "not run", "contradicted"),
        ("found", "not found", "mixed"),
        ("cannot tell", "not run", "undecided"),
        ("both guess", "not run", "undecided"),
        ("two editions", "cannot tell", "undecided"),
        ("not run", "not run", "not run"),
    ],
)
def test_the_forms_of_an_experiment_have_one_verdict(first: State, second: State, verdict: claims.Verdict) -> None:
    for one, other in ((first, second), (second, first)):
        (claim,) = claims.claims([a_form(one), a_form(other)])
        assert claim.verdict == verdict
        assert claim.p_value is None or verdict in ("found", "contradicted") or claim.p_value == 1


def test_toys_and_comparisons_of_ours_decide_nothing() -> None:
    assert [one.verdict for one in claims.claims([a_form("found", is_toy=True), a_form("not found")])] == ["contradicted"]
    assert [one.verdict for one in claims.claims([a_form("both guess", is_toy=True)])] == ["not run"]
    ours = a_form("found", "not found", is_ours=True)
    assert not claims.claims([ours])
    said = claims.sentence(claims.claims([ours], are_ours=True))
    assert said.startswith("Of 2 comparisons of our own: 1 found, 1 contradicted")
    assert not any(count.n_claims for count in claims.by_layer([ours]))


def test_claims_at_two_budgets_or_in_two_tables_are_two() -> None:
    form = a_form("found")
    (one,) = form.judged
    other_budget = replace(one, ordering=replace(one.ordering, first=Side("cosine", 8.0), second=Side("naive", 8.0)))
    assert len(claims.claims([form, replace(form, judged=[other_budget])])) == 2
    assert len(claims.claims([form, replace(form, experiment=catalog.experiment(TOBABEN, "paper-imagenet-r"))])) == 2
    assert len(claims.claims([form, replace(form, experiment=catalog.experiment(TOBABEN, "paper-adapters"))])) == 1


def test_an_undecided_claim_says_how_large_a_difference_it_excludes() -> None:
    wide, narrow = a_form("cannot tell"), a_form("cannot tell")
    narrow = replace(narrow, judged=[replace(narrow.judged[0], difference=interval([-1.0, 0.5, 0.4]))])
    (claim,) = claims.claims([wide, narrow])
    span = interval([-1.0, 0.5, 0.4])
    assert claim.excluded == pytest.approx(max(-span.low, span.high or 0))
    assert claims.claims([a_form("found")])[0].excluded is None
    assert claims.claims([a_form("both guess")])[0].excluded is None


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [-4.0, 1.0, 0.5, 0.2], [0.3] * 5, [5.0, 5.2, 4.9]])
def test_p_values_are_students_and_agree_with_the_interval(values: list[float]) -> None:
    difference = interval(values)
    p = p_value(difference)
    if difference.half_width > 0.1:  # else the interval reaches a step at least, and p with it
        assert p == pytest.approx(ttest_1samp(values, 0.0).pvalue, rel=1e-9)
        assert p_value(difference, 1.5) == pytest.approx(ttest_1samp(values, 1.5).pvalue, rel=1e-9)
    assert (p <= 0.05) == (abs(difference.mean) >= max(difference.half_width, 0.1))
    assert p_value(interval(values[:2])) == 1


def test_discoveries_are_those_of_an_independent_step_up() -> None:
    for paper in catalog.PAPERS.values():
        known = [(p, claim.verdict) for claim in claims.of_paper(paper) if (p := claim.p_value) is not None]
        adjusted = false_discovery_control([p for p, _ in known])
        kept = Counter(verdict for (_, verdict), q in zip(known, adjusted, strict=True) if q <= claims.FALSE_DISCOVERIES)
        found = claims.discoveries(claims.of_paper(paper))
        assert found == {"found": kept["found"], "contradicted": kept["contradicted"]}
        counts = claims.counts(claims.of_paper(paper))
        assert all(found[verdict] <= counts[verdict] for verdict in found)


def test_two_forms_of_a_claim_cost_a_factor_of_two() -> None:
    (alone,), (twice,) = claims.claims([a_form("found")]), claims.claims([a_form("found"), a_form("cannot tell")])
    assert twice.p_value == pytest.approx(2 * alone.p_value)


def test_claims_count_for_the_layer_that_all_deciding_runs_are_in() -> None:
    specs = dict(a_form().specs)
    specs["cosine"] = replace(
        specs["cosine"], data=replace(specs["cosine"].data, axes=0)
    )  # features as the network has them
    forms = [a_form("found", sides=("naive", "ensemble-head")), a_form("cannot tell", "not found")]
    forms = [replace(form, specs=specs, runs={"cosine": 0, "naive": 0}) for form in forms]  # type: ignore[dict-item]
    assert claims.by_layer(forms) == [
        ("as printed", 2, 2, 0, 0), ("made to work", 2, 6, 1, 1), ("between layers", 0, 0, 0, 1)
    ]  # fmt: skip


def test_the_counts_of_every_paper_add_up() -> None:
    for paper in catalog.PAPERS.values():
        forms, of = claims.recorded_forms(paper), claims.of_paper(paper)
        counts = claims.counts(of)
        assert sum(counts.values()) == len(of)
        assert f"Of {len(of)} claims" in claims.sentence(of)
        assert sum(count.n_claims for count in claims.by_layer(forms)) == counts["found"] + counts["contradicted"]
        orderings = {(form.experiment.claimed_in, one.ordering) for form in forms for one in form.judged}
        papers_own = {(place, one) for place, one in orderings if not one.is_ours}
        budgets = ((place, one.statement, one.first.epsilon, one.second.epsilon) for place, one in papers_own)
        assert len(set(budgets)) == len(of)


def test_a_curves_trend_is_the_rise_of_its_line() -> None:
    assert metrics.trend([0.9, 0.8, 0.7, 0.6]) == pytest.approx(-0.3)
    assert metrics.trend([0.5, None, 0.7]) is None
    assert metrics.trend([0.5, None, 0.7, 0.8]) == pytest.approx(0.3)
    noisy = [0.5 + 0.01 * k + 0.02 * math.sin(3 * k) for k in range(20)]
    import numpy as np

    assert metrics.trend(noisy) == pytest.approx(19 * np.polyfit(range(20), noisy, 1)[0])


# Claims are found, not found or open by the interval of the paired difference, and never by the mean alone.


BASE = run(lambda epsilon, seed: 0.5 + 0.1 * seed)
HIGHER = Ordering("first is better", Side("first", 1.0), Side("second", 1.0))
ALIKE = Ordering("no change", Side("first", 1.0), Side("second", 1.0), kind="alike")


def _shifted(*points: float) -> dict[str, object]:
    return {"first": run(lambda epsilon, seed: 0.5 + 0.1 * seed + points[seed] / 100), "second": BASE}


@pytest.mark.parametrize(
    ("ordering", "points", "state"),
    [
        (HIGHER, (3.0, 3.2, 2.8, 3.0), "found"),
        (HIGHER, (-3.0, -3.2, -2.8, -3.0), "not found"),
        (HIGHER, (9.0, -3.0, 5.0, 0.0), "cannot tell"),
        (HIGHER, (0.04, 0.04, 0.04, 0.05), "cannot tell"),  # narrow by luck, and printed as 0.0
        (ALIKE, (0.2, -0.2, 0.1, 0.0), "found"),
        (ALIKE, (4.0, 4.1, 3.9, 4.0), "not found"),
        (ALIKE, (-4.0, -4.1, -3.9, -4.0), "not found"),
        (ALIKE, (-1.9, -2.9, -2.4, -2.2), "not found"),  # a clear difference that may be larger than what counts as none
        (ALIKE, (0.8, 1.2, 1.0, 1.0), "found"),  # as clear, and surely smaller
        (ALIKE, (ALIKE_POINTS + 1, -1.0, 0.0, 2.0), "cannot tell"),
    ],
)
def test_states_follow_from_the_interval(ordering: Ordering, points: tuple[float, ...], state: str) -> None:
    found = judge(ordering, _shifted(*points))  # type: ignore[arg-type]
    assert (found.state, found.difference.mean) == (state, pytest.approx(sum(points) / 4))


@pytest.mark.parametrize(("ordering", "points"), [(HIGHER, 3.0), (HIGHER, -3.0), (ALIKE, 0.0), (ALIKE, 4.0)])
def test_two_runs_that_only_guess_decide_nothing(ordering: Ordering, points: float) -> None:
    """Both sides have to, by label; where chance is not known, or one side is above it, the interval decides as ever."""
    runs = {
        "first": run(lambda epsilon, seed: 0.25 + (points + 0.01 * seed) / 100),
        "second": run(lambda epsilon, seed: 0.25 + 0.02 * seed / 100),
    }
    decided = judge(ordering, runs)
    assert decided.state in ("found", "not found")
    above = 0.25 + max(points, 0.0) / 100  # the better of the two
    for chance, state in ((above, "both guess"), (above - 0.004, "both guess"), (above - 0.006, decided.state)):
        found = judge(ordering, runs, {"first": chance, "second": chance})
        assert (found.state, found.difference) == (state, decided.difference)
    for known in ("first", "second"):
        assert judge(ordering, runs, {known: 0.9}).state == decided.state


def test_a_run_that_forgot_all_it_knew_did_more_than_guess() -> None:
    """It ends at chance, 0.2, after having reached 0.2 + 4/5 of what it forgot on each of five tasks."""

    def forgetting(transfer: float) -> Measured:
        made = run(lambda epsilon, seed: 0.2 + 0.001 * seed)
        tasks = {f"task{k}": 0.2 for k in range(1, 6)}
        models = [
            replace(model, metrics={**model.metrics, **tasks, "BWT": transfer - 0.001 * model.seed}) for model in made.models
        ]
        return replace(made, models=tuple(models))

    runs, chances = {"first": forgetting(0.0), "second": forgetting(-0.3)}, {"first": 0.2, "second": 0.2}
    ordering = replace(HIGHER, metric="BWT")
    assert judge(ordering, runs, chances).state == judge(ordering, runs).state == "found"
    assert judge(HIGHER, runs, chances).state == "both guess", "of its final accuracy nothing is left"
    slight = {**runs, "second": forgetting(-0.006)}  # 0.2 + 0.8 x 0.0075 is 0.4 of 0.5 points above what it ends at
    assert judge(ordering, slight, {"first": 0.203, "second": 0.203}).state == "both guess"
    assert judge(ordering, slight, {"first": 0.2, "second": 0.2}).state == "found"


def test_records_of_two_editions_are_not_paired_by_seed() -> None:
    runs = {"first": run(lambda epsilon, seed: 0.9), "second": replace(BASE, edition=EDITION - 1)}
    found = judge(HIGHER, runs, {"first": 1.0, "second": 1.0})
    assert (found.state, found.difference) == ("two editions", None)
    assert judge(HIGHER, {label: replace(one, edition=EDITION - 1) for label, one in runs.items()}).state == "found"
    assert "two editions" in report.range_text(found)
    assert report.range_text(judge(HIGHER, {"first": BASE})) == "not run"


def test_two_seeds_decide_nothing_and_a_missing_run_is_said() -> None:
    few = run(lambda epsilon, seed: 0.9, seeds=(0, 1))
    assert judge(HIGHER, {"first": few, "second": BASE}).state == "cannot tell"
    assert judge(HIGHER, {"first": few}).state == "not run"
    other = run(lambda epsilon, seed: 0.9, epsilons=(2.0,))
    assert judge(HIGHER, {"first": other, "second": BASE}).state == "not run"


def test_budgets_metrics_and_rules_can_be_the_sides() -> None:
    def grows(epsilon: float, seed: int) -> float:
        return 0.1 * epsilon + 0.01 * seed

    one = run(grows, by_rule=lambda epsilon, seed: grows(epsilon, seed) - 0.02)
    rises = judge(Ordering("rises", Side("a", 8.0), Side("a", 1.0)), {"a": one})
    assert (rises.state, round(rises.difference.mean, 6)) == ("found", 70.0)
    rules = judge(Ordering("rule", Side("a", 1.0, "argmax"), Side("a", 1.0, "median")), {"a": one})
    assert (rules.state, round(rules.difference.mean, 6)) == ("found", 2.0)
    forgets = judge(Ordering("forgets", Side("a", 8.0), Side("a", 1.0), metric="AF"), {"a": one})
    assert forgets.difference.mean == pytest.approx(7.0)


def test_equal_methods_are_rarely_told_apart() -> None:
    """No true difference, four seeds: the 95 % interval leaves out zero in 5 % of runs (band: 4 standard errors of 400)."""
    random.seed(7)
    decided = sum(
        judge(HIGHER, _shifted(*(random.gauss(0, 1) for _ in range(4)))).state != "cannot tell"  # type: ignore[arg-type]
        for _ in range(400)
    )
    assert 400 * 0.05 - 17.5 <= decided <= 400 * 0.05 + 17.5
