"""The p values on the Compare page: two curves and a test, the link that opens it, and what cannot be tested in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats
from streamlit.testing.v1 import AppTest

from dpcl_core.events import Event, TaskLearned
from dpcl_core.figures.statistics import CAVEAT
from dpcl_core.methods import catalog as methods
from dpcl_core.runs.store import Store
from tests.pages.conftest import Open, words
from tests.support import replay

LOWER = (0.02, 0.05, 0.03, 0.09, 0.01)  # by how much the second run is worse after each task


def _lower(event: Event) -> Event:
    if not isinstance(event, TaskLearned):
        return event
    return replace(event, accuracy=tuple(a if a is None else a - LOWER[event.task] for a in event.accuracy))


def _filled(store: Store, *, is_lower: bool = False, n_tasks: int = 5, **more: object) -> str:
    spec = replay.a_spec(tasks=n_tasks, **more)  # type: ignore[arg-type]
    said = replay.recorded(spec, n_tasks=n_tasks)
    return replay.fill(store, spec, [_lower(event) for event in said] if is_lower else said, name="run")


def boxes(page: AppTest) -> list[str]:
    return [box.label for box in page.selectbox]


def test_a_link_opens_the_test_of_two_curves(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, is_lower=True)
    page = open_page("compare", v="1", r=f"{first},{second}", ta="A", tc="8", tb="B", td="8")
    assert not page.exception
    assert boxes(page) == ["First curve", "Second curve"]
    said = words(page)
    expected = stats.ttest_1samp(LOWER, 0).pvalue
    assert f"After 5 tasks p = {expected:.2g}: A, ε = 8 is ahead by 4.0 points on average." in said
    assert CAVEAT in said
    assert dict(page.query_params) | {"tc": "8", "td": "8"} == dict(page.query_params)
    again = open_page("compare", **page.query_params)
    assert dict(again.query_params) == dict(page.query_params)
    (table,) = again.dataframe
    assert list(table.value["tasks"]) == [2, 3, 4, 5]
    assert table.value["p"].iloc[-1] == pytest.approx(expected)


def test_not_paired_is_another_test(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, is_lower=True)
    page = open_page("compare", v="1", r=f"{first},{second}", ta="A", tc="8", tb="B", td="8")
    page.toggle[0].set_value(False).run()
    assert "not paired, equal variances" in words(page)
    assert page.query_params["tp"] == "0"
    assert stats.ttest_1samp(LOWER, 0).pvalue != pytest.approx(page.dataframe[0].value["p"].iloc[-1])


def test_two_budgets_of_one_run_can_be_tested(open_page: Open, store: Store) -> None:
    page = open_page("compare", v="1", r=_filled(store), ta="A", tc="1", tb="A", td="inf")
    assert not page.exception
    assert "A, ε = 1 against A, no noise" in words(page)


def test_equal_curves_are_a_reason_and_no_value(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store)
    page = open_page("compare", v="1", r=f"{first},{second}", ta="A")
    assert not page.exception
    assert "no test after 2, 3, 4, 5 tasks: the two curves are equal so far" in words(page)


def test_curves_of_different_length_are_one_sentence_and_nothing_is_lost(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, n_tasks=2)
    page = open_page("compare", v="1", r=f"{first},{second}", ta="A", tc="8", tb="B", td="8")
    assert not page.exception
    refused = [warning.value.replace("\\", "") for warning in page.warning]
    assert refused[-1] == (
        "No test: curves = 5 and 2 tasks: must be of the same length for a t-test; "
        "choose two runs with as many tasks."
    )
    assert [run.id for run in store.list_runs()] == [second, first]
    assert page.get("plotly_chart"), "the accuracy curves above are still there"


def test_other_test_data_are_refused(open_page: Open, store: Store) -> None:
    first, spec = _filled(store), replay.a_spec()
    other = replace(spec, data=replace(spec.data, test_per_class=5))
    second = replay.fill(store, other, replay.recorded(other), name="fewer")
    page = open_page("compare", v="1", r=f"{first},{second}", ta="A", tb="B")
    assert not page.exception
    assert any("No test." in warning.value.replace("\\", "") for warning in page.warning)


def test_a_budget_that_is_not_there_is_replaced(open_page: Open, store: Store) -> None:
    page = open_page("compare", v="1", r=_filled(store, epsilons=(1.0,)), ta="A", tc="3")
    assert not page.exception
    assert "A test needs two curves" in words(page)


def test_a_claimed_budget_is_named_as_one(open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.CARDS, "cosine", replace(methods.CARDS["cosine"], guarantee="nominal"))  # type: ignore[arg-type]
    page = open_page("compare", v="1", r=_filled(store), ta="A", tc="1", tb="A", td="inf")
    assert not page.exception
    assert "A, claimed ε = 1 against A, no noise" in words(page)
