"""Claims are found, not found or open by the interval of the paired difference, and never by the mean alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dpcl_core.papers import report
from dpcl_core.papers.measured import EDITION, Measured
from dpcl_core.papers.paper import ALIKE_POINTS, Ordering, Side, judge
from tests.papers.making import run

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
    assert found.state == state
    assert found.difference.mean == pytest.approx(sum(points) / 4)


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
    older = {label: replace(one, edition=EDITION - 1) for label, one in runs.items()}
    assert judge(HIGHER, older).state == "found"
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
