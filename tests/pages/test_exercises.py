"""Exercises and the teacher's page: from answers to a code, from codes to a table; a name and a key are checked."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from dpcl_core.lessons import exercises, text
from dpcl_core.lessons.exercises import Handed
from tests.pages.conftest import Open, words


def press(page: AppTest, label: str) -> None:
    next(button for button in page.button if button.label == label).click().run()
    assert not page.exception


def named(open_page: Open, name: str) -> AppTest:
    page = open_page("exercises", part="2")
    page.text_input[0].set_value(name).run()
    assert not page.exception
    return page


def test_right_answers_give_a_code_that_says_which(open_page: Open) -> None:
    page, asked = named(open_page, "Amber Fox"), exercises.sheet("Many releases", "amber fox")
    assert [box.label for box in page.number_input] == [f"Answer 2{one.letter}, {one.wanted}" for one in asked]
    for box, one in zip(page.number_input, asked, strict=True):
        box.set_value(one.answer + (1.0 if one.letter == "b" else 0.0))
    press(page, "Check")
    said = words(page)
    assert f"{len(asked) - 1} of {len(asked)} right." in said
    assert said.count("✓ Right.") == len(asked) - 1
    assert said.count("Not yet.") == 1
    code = next(code.value for code in page.code if code.value.startswith("amber-fox"))
    assert exercises.opened(code) == Handed("amber fox", 2, "acd")
    assert "does not prove who typed them" in said
    page.number_input[1].set_value(asked[1].answer)
    press(page, "Check")
    assert f"{len(asked)} of {len(asked)} right." in words(page)


def test_another_name_begins_afresh_and_a_bad_one_is_one_sentence(open_page: Open) -> None:
    page = named(open_page, "amber fox")
    page.number_input[0].set_value(1.0)
    press(page, "Check")
    page.text_input[0].set_value("teal owl").run()
    assert [box.value for box in page.number_input] == [None] * len(page.number_input)
    assert "of 4 right" not in words(page)
    page.text_input[0].set_value("<b>").run()
    assert not page.exception
    assert "must be 2 to 24 letters" in page.error[0].value


def test_a_teacher_sees_what_codes_say_and_which_are_none(open_page: Open) -> None:
    good, other = exercises.sealed(Handed("amber fox", 1, "ab")), exercises.sealed(Handed("teal owl", 3, ""))
    page = open_page("teacher", part="1")
    assert not page.exception
    assert "What to look for." in words(page)
    assert text.notes("One release").ask in words(page)
    page.session_state["teacher-views"] = "Codes"
    page.run()
    page.text_area[0].set_value(f"{good}\n{other} {good.replace('ab', 'abc')}\n=1+1")
    press(page, "Check the codes")
    said = words(page)
    assert "2 of 4 valid." in said
    table = [[cell.strip() for cell in line.split("|")[1:6]] for line in said.splitlines() if line.startswith("| ")]
    n_one, n_three = (len(exercises.sheet(part)) for part in ("One release", "Continual and private"))
    assert ["amber fox", "One release", f"2 of {n_one}", "ab", "yes"] in table
    assert ["teal owl", "Continual and private", f"0 of {n_three}", "–", "yes"] in table
    assert [good.replace("ab", "abc"), "", "", "", "no"] in table
    assert f"**{good.replace('ab', 'abc')}**: was changed or mistyped" in said
    assert "**=1+1**: is no code" in said


def test_what_is_pasted_is_no_formula_in_the_table() -> None:
    from pages import teacher

    written = teacher._written([teacher._row("=1+1"), teacher._row("@SUM(A1)")])
    assert [line.split(",")[0] for line in written.splitlines()[1:]] == ["'=1+1", "'@SUM(A1)"]
