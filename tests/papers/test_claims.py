"""A paper's claims: one verdict over all forms, their count with and without many tests in mind, and layer by layer."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import false_discovery_control, ttest_1samp

from dpcl_core import metrics
from dpcl_core.figures.statistics import interval, p_value
from dpcl_core.papers import catalog, claims
from dpcl_core.papers.paper import Judged, Ordering, Side, State

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


def test_a_single_claim_is_said_in_words() -> None:
    assert claims.sentence([]) == ""
    assert claims.sentence(claims.claims([a_form("found")])) == "The paper's one claim here: found."
    assert claims.sentence(claims.claims([a_form("found", is_ours=True)], are_ours=True)) == "Our one claim here: found."


def test_a_curves_trend_is_the_rise_of_its_line() -> None:
    assert metrics.trend([0.9, 0.8, 0.7, 0.6]) == pytest.approx(-0.3)
    assert metrics.trend([0.5, None, 0.7]) is None
    assert metrics.trend([0.5, None, 0.7, 0.8]) == pytest.approx(0.3)
    noisy = [0.5 + 0.01 * k + 0.02 * math.sin(3 * k) for k in range(20)]
    import numpy as np

    assert metrics.trend(noisy) == pytest.approx(19 * np.polyfit(range(20), noisy, 1)[0])
