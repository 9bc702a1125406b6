"""The number of public axes is a public rule: more with a larger budget and more people, and a setting overrides it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from dpcl_core import checks
from dpcl_core.methods import catalog
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.spec import RunSpec

EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, math.inf]


def spec(method: str = "cosine", labels: str = "prior-const", **data: object) -> RunSpec:
    return checks.parse(
        {
            "method": method,
            "labels": labels,
            "data": {"dataset": "mnist", "backbone": "lite0", **data},
            "scenario": {"kind": "class-incremental", "tasks": 5},
            "privacy": {"epsilons": EPSILONS},
        }
    )


def numbers(run: RunSpec, n_people: int) -> Mapping[float, int]:
    return catalog.axes_by_epsilon(run, PublicSizes(n_people=n_people, n_tasks=5, n_classes=10))


@pytest.mark.parametrize("n_people", [100, 1000, 10_000])
def test_more_axes_with_a_larger_budget(n_people: int) -> None:
    found = list(numbers(spec(), n_people).values())
    assert found == sorted(found)
    assert found[-1] == catalog.MOST, "without noise nothing is lost by more"
    assert all(catalog.FEWEST <= number <= catalog.MOST for number in found)


def test_more_axes_with_more_people_in_proportion() -> None:
    few, many = (numbers(spec(), n)[1.0] for n in (1500, 3000))
    assert many == pytest.approx(2 * few, abs=1)


def test_noise_that_adds_up_over_tasks_costs_axes() -> None:
    one_list, lists = (numbers(spec(labels=labels), 1500)[1.0] for labels in ("prior-const", "prior"))
    assert lists == pytest.approx(math.sqrt(5) * one_list, rel=0.02)


def test_setting_decides_where_it_is_given() -> None:
    assert set(numbers(spec(axes=77), 1000).values()) == {77}
    assert numbers(spec(axes=0), 1000) == {}


def test_networks_without_axes_have_no_number() -> None:
    assert numbers(spec(backbone="convnext-cifar100"), 1000) == {}
