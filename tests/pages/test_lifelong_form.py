"""The form with a method that trains whole networks: its lists of numbers, its refusals in sentences."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.pages.conftest import Open, unfolded, words


def _start(page: AppTest) -> bool:
    """Whether the run can be started as the form is filled in."""
    return not next(button for button in page.button if button.label == "Start").disabled


def _agem(open_page: Open, **parameters: str) -> AppTest:
    page = open_page("train", **{"v": "1", "m": "agem", "e": "inf", "p.variant": "heterogeneous", **parameters})
    assert not page.exception
    return page


def test_epochs_task_by_task_are_typed_in_or_come_with_a_link(open_page: Open) -> None:
    page = unfolded(_agem(open_page, **{"p.epochs_by_task": "2,1,1,1,3"}), "advanced")
    box = next(field for field in page.text_input if field.label == "Epochs of each task")
    assert box.value.replace(",", " ").split() == ["2", "1", "1", "1", "3"]
    assert _start(page)
    page = box.set_value("2 1 1").run()
    assert "Epochs of each task = 2, 1, 1: must be 5 whole numbers, one for each task" in words(page)
    assert not _start(page)
    box = next(field for field in page.text_input if field.label == "Epochs of each task")
    page = box.set_value("2, 1, 1, 1, 1").run()
    assert "Epochs of each task =" not in words(page)
    assert _start(page)


def test_a_budget_is_refused_in_a_sentence(open_page: Open) -> None:
    page = _agem(open_page, **{"e": "1", "p.variant": "basic"})
    assert "Privacy budget ε = 1: must be inf: A-GEM adds no noise; “DP-A-GEM” is its private form" in words(page)
    assert not _start(page)
