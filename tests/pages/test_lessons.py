"""Lessons and their exercises."""

import inspect
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core.lessons import exercises, modes, text
from dpcl_core.lessons.exercises import Handed
from pages.lessons import CODEC
from pages.parts import lesson_stage
from tests.pages.conftest import Open, press, told, turned, words
from tests.support.asserting import includes
from tests.support.tiers import quick


def prediction(page: AppTest) -> object:
    return next(radio for radio in page.radio if radio.label == "Your prediction")


def predict(page: AppTest, choice: int = 0) -> None:
    prediction(page).set_value(choice).run()  # type: ignore[attr-defined]


def act(page: AppTest, key: str) -> None:
    """Does what the step asks for: five guesses, or the one primary button."""
    if key in ("your-turn", "public-list"):
        for _ in range(5):
            press(page, "She is in")
    else:
        (button,) = [button for button in page.button if button.proto.type == "primary"]
        press(page, button.label)


def at(open_page: Open, lesson: str, step: int, **more: str) -> AppTest:
    """A lesson at a step, with a tick at each one before it."""
    ticks = {f"d{text.link_number(lesson)}": ",".join(str(n) for n in range(1, step))}
    return open_page("lessons", l=lesson, s=str(step), **ticks, **more)


def done(open_page: Open, lesson: str, step: int, choice: int, button: str, **more: str) -> AppTest:
    """A lesson at a step that is predicted and done."""
    page = at(open_page, lesson, step, **more)
    predict(page, choice)
    return press(page, button)


def parts(page: AppTest) -> list[str]:
    return [heading.value for heading in page.subheader]


def offered(page: AppTest, key: str) -> dict[str, str]:
    """The query of the link for a class that has this key."""
    return dict(parse_qsl(urlsplit(next(code.value for code in page.code if key in code.value)).query))


ON_SERVER = [name for name in text.NAMES if name not in text.IN_BROWSER]


def drawn(page: AppTest) -> Any:
    """What the browser's lesson is drawn from."""
    (one,) = told(page, "lesson")
    return one


# The choices that come true with each lesson's own settings, as its explanations say.
TRUE = {
    "coin": (1, 1, 1, 1, 2, 1, 1), "unit": (2, 2, 2, 1, 2), "adding": (1, 1, 0, 2, 1, 0, 1), "forgetting": (2, 1, 1, 1, 1),
    "rare": (1, 1, 2, 2, 1), "contract": (2, 1, 1, 2, 1, 1), "audit": (1, 1, 1, 1, 1), "choice": (2, 1, 2, 2, 1),
    "network": (2, 1, 2, 1), "members": (2, 2, 2, 1), "gradient": (2, 1, 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", quick(4, ON_SERVER))
def test_every_step_can_be_done_and_ticks_itself(open_page: Open, name: str) -> None:
    page = open_page("lessons", l=name)
    lesson, number = text.load(name), text.link_number(name)
    choices = TRUE.get(name, (0,) * len(lesson.steps))
    for place, step in enumerate(lesson.steps, start=1):
        assert [page.title[0].value, page.header[0].value] == ["Lessons", step.title]
        assert parts(page) == ["Predict"]  # nothing is shown before a prediction
        predict(page, choices[place - 1])
        assert parts(page) == ["Predict", "Do"]
        assert page.query_params[f"p{number}"] == ",".join(str(choice + 1) for choice in choices[:place])
        act(page, step.key)
        assert parts(page) == ["Predict", "Do", "See", "Explain", *(["Think"] if place == len(lesson.steps) else [])]
        said = words(page)
        assert " ".join(step.explain.split())[:40] in " ".join(said.split())
        assert f"You predicted “{step.choices[choices[place - 1]]}”." in said
        assert "Correct." in said or name not in TRUE, step.key
        assert page.query_params[f"d{number}"] == ",".join(str(n) for n in range(1, place + 1))
        assert f"**Steps**, {place} of {len(lesson.steps)} done" in said
        if place < len(lesson.steps):
            press(page, f"Next: {lesson.steps[place].title}")
    assert "You have done every step of this lesson." in words(page)
    onward = {link.proto.label: dict(parse_qsl(link.proto.query_string)) for link in page.get("page_link")}
    for following in text.NAMES[text.number(name) : text.number(name) + 1]:
        query = onward[f":primary[Next lesson: {text.load(following).title} →]"]
        assert query.get("l", "label") == following
        assert query[f"d{number}"] == ",".join(str(n + 1) for n in range(len(lesson.steps))), "ticks go along"


def test_every_step_has_its_code_and_the_other_way_round() -> None:
    assert set(lesson_stage.MODULES) == set(ON_SERVER)
    for module in set(lesson_stage.MODULES.values()):
        names = [name for name in ON_SERVER if lesson_stage.MODULES[name] == module]
        acts = {lesson_stage.act(name, step) for name in names for step in text.load(name).steps}
        code = vars(import_module(f"pages.parts.{module}")).items()
        public = {value for key, value in code if inspect.isfunction(value) and not key.startswith("_")}
        assert {each for each in public if each.__module__ == f"pages.parts.{module}"} == acts


@pytest.mark.parametrize("name", text.IN_BROWSER)
def test_a_link_opens_the_browsers_lesson_where_it_was(open_page: Open, name: str) -> None:
    number, n_steps = text.link_number(name), len(text.load(name).steps)
    link = {"l": name, "s": "2", f"d{number}": "1,2", f"p{number}": "2,-,1", f"e{number}": "4", "hide": "epsilon,prediction"}
    page = open_page("lessons", **link)
    start = drawn(page)["start"]
    assert start == {"step": 1, "done": [0, 1], "predictions": {"0": 1, "2": 0}, "values": {"epsilon": 4.0}}
    assert (drawn(page)["hidden"], drawn(page)["is_quiet"]) == (["epsilon"], True)
    assert f"**Steps**, 2 of {n_steps} done" in words(page)
    assert {"l": "label", **page.query_params} == {"view": "steps", "v": "1", **link}  # the first lesson needs no key
    press(page, "○ 3.")
    assert (drawn(page)["start"], page.query_params["s"]) == ({**start, "step": 2}, "3")


def test_ticks_and_predictions_come_back_with_the_link(open_page: Open) -> None:
    page = open_page("lessons", l="shared", s="2", d3="1,2", p3="2,-,1", d1="1,3", p1="3", e3="4")
    assert not page.warning
    assert "**Steps**, 2 of 6 done" in words(page)
    assert parts(page) == ["Predict"]  # step 2 has its tick, but no prediction in this link
    predict(page, 1)
    assert parts(page) == ["Predict", "Do", "Explain"]  # done before: the reason is there, the noise is not kept
    assert dict(page.query_params) == {
        "view": "steps", "v": "1", "l": "shared", "s": "2", "d1": "1,3", "p1": "3", "d3": "1,2", "p3": "2,2,1", "e3": "4"
    }  # fmt: skip
    again = open_page("lessons", **page.query_params)
    assert dict(again.query_params) == dict(page.query_params)
    assert prediction(again).value == 1  # type: ignore[attr-defined]
    assert prediction(again).disabled  # type: ignore[attr-defined]


def test_the_printed_sign_learns_harder_and_a_settings_change_is_in_the_link_and_lasts(open_page: Open) -> None:
    """At a Score of 0.9 and λ = 10 the token weighs 4; from 1 % it goes to 1 / (1 + 99 e^(-3.96)) = 34.6 %. Turned, the
    term needs a weight that no sweep had."""
    page = done(open_page, "sign", 1, 0, "Take one step")
    weighed = "| the printed term | 4.00 | 1\N{NO-BREAK SPACE}% | **35\N{NO-BREAK SPACE}%** |"
    includes(words(page), weighed, "| its sign turned | −2.00 |", "The result: “More likely than without the term”.")
    page.select_slider[1].set_value(12.0).run()
    assert page.query_params["w5"] == "12"
    press(page, "Next")
    predict(page, 1)
    press(page, "Turn the sign")
    assert page.select_slider[0].value == 12.0
    assert "The result: “Yes, it is pushed away”." in words(page)
    page.select_slider[0].set_value(10.0).run()
    assert "Correct." in words(page)


def test_the_course_has_its_parts_and_each_opens_on_a_lesson_of_its_own(open_page: Open) -> None:
    page = open_page("lessons", l="shared")
    assert page.selectbox[0].options == [f"Part {n} of {len(text.PARTS)}: {name}" for n, name in enumerate(text.PARTS, 1)]
    for name, names in text.PARTS.items():
        page.selectbox[0].set_value(name).run()
        assert [label.partition(". ")[2] for label in page.selectbox[1].options] == [text.load(one).title for one in names]
        assert {"l": "label", **page.query_params}["l"] in names


def test_a_lesson_alone_has_no_way_to_the_others_and_start_leads_to_the_first(open_page: Open) -> None:
    links = {link.proto.page: link.proto.query_string for link in open_page("start").get("page_link")}
    assert links["lessons"] == f"view=steps&v=1&l={text.NAMES[0]}&s=1"
    page = open_page("lessons", l="shared", s="2", alone="1")
    assert [box.label for box in (*page.selectbox, *page.radio)] == ["Your prediction"]
    assert not page.multiselect
    predict(page, 2)
    assert page.query_params["alone"] == "1"


def test_a_step_without_a_prediction_holds_all_that_follow_by_button_and_by_link(open_page: Open) -> None:
    titles = [step.title for step in text.load("shared").steps]
    page = open_page("lessons", l="shared", s="6", p3="1,2")
    assert [info.value.split(" opens")[0] for info in page.info] == ["Step 6"]
    assert (page.header[0].value, page.query_params["s"]) == (titles[2], "3")
    assert [button.label.strip("*")[:4] for button in page.button if ". " in button.label] == ["○ 1.", "○ 2.", "○ 3."]
    assert not [button for button in page.button if button.label.startswith("Next")]
    predict(page, 1)
    assert page.header[0].value == titles[2], "an answer does not move on by itself"
    assert not page.info
    for pressed, title in (("Next", titles[3]), ("○ 1.", titles[0])):
        assert press(page, pressed).header[0].value == title


def test_nothing_is_held_where_nobody_is_asked_and_a_class_that_begins_later_from_there(open_page: Open) -> None:
    titles = [step.title for step in text.load("shared").steps]
    assert press(open_page("lessons", l="shared", s="2", hide="prediction"), "○ 6.").header[0].value == titles[5]
    query = offered(open_page("lessons", l="shared", s="2", p3="1", e3="0.5"), "first=")
    assert query == {"v": "1", "l": "shared", "s": "2", "first": "2", "e3": "0.5"}
    for step, is_held in (("2", False), ("4", True)):
        student = open_page("lessons", **query | {"s": step})
        assert (student.header[0].value, bool(student.info)) == (titles[1], is_held)


def test_a_teachers_link_hides_and_starts_afresh(open_page: Open) -> None:
    page = open_page("lessons", l="shared", s="6", d3="1,4,5", p3="1,1,2", e3="0.5")
    page.multiselect[0].set_value(["epsilon", "prediction"]).run()
    query = offered(page, "hide=")
    assert query == {"v": "1", "l": "shared", "s": "6", "hide": "epsilon,prediction", "e3": "0.5"}
    student = open_page("lessons", **query)
    assert not student.warning
    assert parts(student) == ["Do"]
    # A class is not offered to show it all.
    assert [*student.multiselect, *(one.key for one in student.segmented_control if "view" not in one.key)] == []
    assert "Privacy budget ε: **0.5**" in words(student)


def test_a_link_may_name_lesson_and_step_or_give_the_number_that_the_page_shows(open_page: Open) -> None:
    page = open_page("lessons", lesson="shared", step="3", p3="1,1")
    assert any("step 3 of 6" in caption.value for caption in page.caption)
    assert not page.warning
    assert dict(page.query_params) == {"view": "steps", "v": "1", "l": "shared", "s": "3", "p3": "1,1"}
    read = [CODEC.read({"lesson": str(number)}).values["lesson"] for number in range(1, len(text.NAMES) + 1)]
    assert read == list(text.NAMES)
    page = open_page("lessons", lesson="2")
    assert not page.warning
    assert page.header[0].value == text.load(text.NAMES[1]).steps[0].title


def test_the_longest_link_is_short_enough() -> None:
    values: dict[str, object] = {"lesson": text.NAMES[-1], "step": 5, "first": 4, "alone": True}
    values["hide"] = ("epsilon", "strength", "prediction")
    for name in text.NAMES:
        n_steps = len(text.load(name).steps)
        values |= {f"{name}:done": tuple(range(1, n_steps + 1)), f"{name}:predictions": (4,) * n_steps}
        values |= {f"{name}:{control.name}": control.most for control in text.load(name).controls}
    assert CODEC.read(CODEC.write(values)).values == values


def test_a_link_with_a_value_that_no_slider_has_keeps_it(open_page: Open) -> None:
    """What was trained is told for the nearest one."""
    page = done(open_page, "members", 4, 0, "Train with noise", **{f"e{text.link_number('members')}": "3"})
    assert not page.select_slider
    includes(words(page), "Privacy budget ε: **3**", "At ε = 4 the attacker")


def test_entries_matched_by_hand_are_counted(open_page: Open) -> None:
    page = open_page("lessons", l="modes")
    predict(page, 2)
    world = modes.world("exact", modes.SHORT, modes.N_CLIENTS, 1)
    partners = ["ABCD"[int((world.modes[0] == mode).argmax())] for mode in world.modes[1]]
    for box, partner in zip(page.selectbox[2:], partners, strict=True):
        box.set_value(partner)
    press(page, "Look")
    includes(words(page), "You matched 4 of 4 right.", "Correct.")


# Exercises and the teacher's page: from answers to a code, from codes to a table; a name and a key are checked.


def test_right_answers_give_a_code_that_says_which_and_another_name_begins_afresh(open_page: Open) -> None:
    page, asked = open_page("teach", view="exercises", part="2"), exercises.sheet("Many releases", "amber fox")
    page.text_input[0].set_value("Amber Fox").run()
    assert [box.label for box in page.number_input] == [f"Answer 2{one.letter}, {one.wanted}" for one in asked]
    for box, one in zip(page.number_input, asked, strict=True):
        box.set_value(one.answer + (1.0 if one.letter == "b" else 0.0))
    press(page, "Check")
    said = words(page)
    assert f"{len(asked) - 1} of {len(asked)} right." in said
    assert (said.count("✓ Right."), said.count("Not yet.")) == (len(asked) - 1, 1)
    code = next(code.value for code in page.code if code.value.startswith("amber-fox"))
    assert exercises.read_code(code) == Handed("amber fox", 2, "acd")
    assert "does not prove who typed them" in said
    page.number_input[1].set_value(asked[1].answer)
    press(page, "Check")
    assert f"{len(asked)} of {len(asked)} right." in words(page)
    page.text_input[0].set_value("teal owl").run()
    assert [box.value for box in page.number_input] == [None] * len(page.number_input)
    assert "of 4 right" not in words(page)
    page.text_input[0].set_value("<b>").run()
    assert "must be 2 to 24 letters" in page.error[0].value


def test_a_teacher_sees_what_codes_say_and_which_are_none(open_page: Open) -> None:
    good, other = exercises.sealed(Handed("amber fox", 1, "ab")), exercises.sealed(Handed("teal owl", 3, ""))
    page = open_page("teach", view="plan", part="1")
    includes(words(turned(page, "teacher-notes")), "What to look for.", text.notes()["One release"].ask)
    turned(page, "teacher-views", "Codes")
    page.text_area[0].set_value(f"{good}\n{other} {good.replace('ab', 'abc')}\n=1+1")
    press(page, "Check the codes")
    said = words(page)
    assert "2 of 4 valid." in said
    table = [[cell.strip() for cell in line.split("|")[1:6]] for line in said.splitlines() if line.startswith("| ")]
    n_one, n_three = (len(exercises.sheet(part)) for part in ("One release", "Continual and private"))
    assert ["amber fox", "One release", f"2 of {n_one}", "ab", "yes"] in table
    assert ["teal owl", "Continual and private", f"0 of {n_three}", "–", "yes"] in table
    assert [good.replace("ab", "abc"), "", "", "", "no"] in table
    includes(said, f"**{good.replace('ab', 'abc')}**: was changed or mistyped", "**=1+1**: is no code")


def test_what_is_pasted_is_no_formula_in_the_table() -> None:
    from pages import teach

    written = teach._written([teach._row("=1+1"), teach._row("@SUM(A1)")])
    assert [line.split(",")[0] for line in written.splitlines()[1:]] == ["'=1+1", "'@SUM(A1)"]
