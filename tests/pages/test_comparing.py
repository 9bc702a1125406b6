"""Which runs can be compared, and where settings differ."""

from __future__ import annotations

import math

import pytest

from dpcl_core import checks
from dpcl_core.spec import RunSpec
from pages.parts.comparison import pairs
from tests.support import replay


def _with(**changes: object) -> RunSpec:
    raw: dict[str, object] = {"scenario": {"tasks": 5}, "privacy": {"epsilons": [1.0, 8.0]}} | changes
    return checks.parse(raw)


def test_same_tests_need_no_warning_whatever_the_method_does() -> None:
    assert pairs.different_tests({"A": _with(), "B": _with(labels="prior", seeds=[0])}) is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"data": {"dataset": "mnist"}}, "different data (digits, mnist)"),
        ({"data": {"test_per_class": 5}}, "different subsets"),
        ({"public_labels": ["0", "1"]}, "different classes"),
        ({"scenario": {"tasks": 2}}, "different streams"),
    ],
)
def test_different_tests_are_named(other: dict[str, object], words: str) -> None:
    warning = pairs.different_tests({"A": _with(), "B": _with(**other)})
    assert warning is not None
    assert words in warning
    assert warning.startswith("A and B")


def test_runs_of_one_method_and_dataset_are_told_apart_in_a_line() -> None:
    one = {"A": _with(), "B": _with(labels="prior")}
    assert pairs.what_differs(one) == "They differ in labels (one public list / public list per task)."
    several = {"A": _with(), "B": _with(labels="prior", seeds=[0], scenario={"tasks": 2}, privacy={"epsilons": [2.0]})}
    said = pairs.what_differs(several)
    assert said is not None
    assert "; labels (" in said
    assert said.endswith(" and 1 more.")
    assert pairs.what_differs({"A": _with(), "B": _with()}) is None
    assert pairs.what_differs({"A": _with(), "B": _with(data={"dataset": "mnist"})}) is None


def test_shared_budgets() -> None:
    specs = [replay.a_spec(epsilons=(1.0, 8.0, math.inf)), replay.a_spec(epsilons=(8.0, math.inf, 0.5))]
    assert pairs.shared_budgets(specs) == [8.0, math.inf]
    assert pairs.shared_budgets([]) == []


def test_only_settings_that_differ_are_listed() -> None:
    rows, n_equal = pairs.differences({"A": _with(), "B": _with(labels="prior", scenario={"tasks": 2})})
    assert {row["setting"]: (row["A"], row["B"]) for row in rows} == {
        "labels": ("one public list", "public list per task"), "scenario.tasks": ("5", "2"),
    }  # fmt: skip
    assert n_equal > 8
