"""Settings that do not fit a dataset are refused, before its data are read where public facts tell, with field and mend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.stream import Table
from tests.scenarios.making import five, table

TEN = replace(five(40), n_people=400)  # classes of the sources A to E
BARE = table([label for label in range(10) for _ in range(40)], range(10), 10)
BY_DOMAIN = {"protocol": "domain-incremental", "clients": 8}
LISTS = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("kind", "settings", "field", "mend"),
    [
        *(
            (kind, {"tasks": 11}, "scenario.tasks", {"scenario.tasks": 10})
            for kind in ("class-incremental", "split", "i-blurry", "si-blurry", "federated")
        ),
        ("class-incremental", {"tasks": 11, "classes_per_task": 1}, "scenario.tasks", {"scenario.tasks": 10}),
        ("class-incremental", {"tasks": 6, "classes_per_task": 2}, "scenario.tasks", {"scenario.tasks": 5}),
        ("class-incremental", {"tasks": 1, "classes_per_task": 11}, "scenario.classes_per_task", {}),
        ("class-incremental", {"tasks": 3}, "scenario.tasks", {"scenario.tasks": 2}),
        *(
            ("split", {"tasks": tasks, "order": order}, "scenario.order", {})
            for tasks, order in ((2, (1, 1)), (1, (0,)), (5, (5, 3)), (2, ()))
        ),
        *(("source-incremental", {"order": order}, "scenario.order", {}) for order in (("A", "F"), ("A", "B", "A"), ())),
        ("permuted", {"tasks": 2, "permutations": (LISTS,)}, "scenario.permutations", {}),
        ("permuted", {"tasks": 2, "permutations": (LISTS, (0, 1, 1, 3))}, "scenario.permutations of task 2", {}),
        ("permuted", {"tasks": 2, "permutations": ((1, 2, 3, 4), LISTS)}, "scenario.permutations of task 1", {}),
        ("permuted", {"tasks": 2, "permutations": ((0, -1, 2, 3), LISTS)}, "scenario.permutations of task 1", {}),
        ("federated", {"tasks": 3}, "scenario.tasks", {}),
        ("federated", {"order": ("c1", "c1")}, "scenario.order", {}),
        ("federated", {"order": ()}, "scenario.order", {}),
        ("federated", {"partition": "domain", "clients": 2}, "scenario.clients", {"scenario.clients": 5}),
        ("federated", {**BY_DOMAIN, "order": ("A", "z")}, "scenario.order", {}),
        ("federated", {**BY_DOMAIN, "tasks": 6}, "scenario.tasks", {"scenario.tasks": 5}),
    ],
)
def test_settings_that_do_not_fit(kind: str, settings: dict[str, Any], field: str, mend: dict[str, object]) -> None:
    chosen = catalog.card(kind).settings(**settings)
    for refuse in (lambda: catalog.number_of_tasks(chosen, 10, tuple("ABCDE")), lambda: catalog.open_stream(chosen, TEN, 0)):
        with pytest.raises(BadInput) as caught:
            refuse()
        assert (caught.value.field, caught.value.fix) == (field, mend)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "field", "mend"),
    [
        ("source-incremental", {}, "scenario.kind", {"scenario": {"kind": "class-incremental"}}),
        ("federated", BY_DOMAIN, "scenario.protocol", {"scenario.protocol": "class-incremental"}),
        ("federated", {"partition": "domain"}, "scenario.partition", {"scenario.partition": "dirichlet"}),
    ],
)
def test_a_dataset_without_sources(kind: str, settings: dict[str, Any], field: str, mend: dict[str, object]) -> None:
    chosen = catalog.card(kind).settings(**settings)
    for refuse in (lambda: catalog.number_of_tasks(chosen, 10, ()), lambda: catalog.open_stream(chosen, BARE, 0)):
        with pytest.raises(BadInput) as caught:
            refuse()
        assert (caught.value.field, caught.value.fix) == (field, mend)


@pytest.mark.parametrize(
    ("kind", "settings", "of", "field", "said"),
    [
        ("federated", {"clients": 41}, BARE, "scenario.clients", "at most 40"),
        ("federated", {"clients": 500, "alpha": 0.01}, BARE, "scenario.clients", "at most 40"),
        ("federated", {"order": ("c1", "x")}, BARE, "scenario.order", "c0, c1, c2"),
        ("federated", {"partition": "domain", "clients": 60}, TEN, "scenario.clients", "80"),
        ("federated", {"protocol": "one-vs-rest", "clients": 1}, table([0] * 20, [0], 1), "scenario.protocol", "two"),
        ("permuted", {"tasks": 1, "permutations": ((1, 0),)}, replace(BARE, form=Form((3, 4, 1), 0.0, 1.0)),
         "scenario.permutations of task 1", "12 in all"),
    ],
)  # fmt: skip
def test_what_only_the_examples_tell(kind: str, settings: dict[str, Any], of: Table, field: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        catalog.open_stream(catalog.card(kind).settings(**settings), of, 0)
    assert caught.value.field == field


def test_an_unknown_scenario_is_refused_naming_the_known() -> None:
    with pytest.raises(BadInput) as caught:
        catalog.card("fuzzy")
    assert caught.value.field == "scenario.kind"
    assert all(name in caught.value.allowed for name in catalog.CARDS)
