"""The page of a room: what it refuses is said with the labels of its fields."""

from __future__ import annotations

import pytest

from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import visitor
from tests.pages.conftest import Open, button, words
from tests.support import replay

TEACHER = "a" * 32


@pytest.mark.parametrize(
    ("question", "answers", "said"),
    [
        ("Why?", "a\nb\nc\nd\ne", "Answers = 5 answers: must be two to four different answers, one per line"),
        ("Why?", "Yes\nNo\nYes", "Answers = Yes, more than once: must be two to four different answers, one per line"),
        ("", "Yes\nNo", "Question = nothing: must be one line of 1 to"),
    ],
)
def test_a_refused_question_is_one_sentence_for_a_teacher(
    question: str, answers: str, said: str, open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "token", lambda: TEACHER)
    page = open_page("room", room=Rooms(store).open("Monday", TEACHER))
    page.text_area[0].set_value(question)
    page.text_area[1].set_value(answers)
    button(page, "Ask").click()  # type: ignore[union-attr]
    assert said in words(page.run())


def test_a_teachers_second_window_leaves_the_shown_run_alone(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "token", lambda: TEACHER)
    rooms = Rooms(store)
    code = rooms.open("Monday", TEACHER)
    rooms.join(code, "b" * 32)
    run_id = replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
    rooms.add_run(code, "b" * 32, run_id)
    first, second = (open_page("room", room=code) for _ in range(2))
    first.selectbox(key="room-run").select(run_id).run()
    assert rooms.state(code).shown == run_id
    button(second, "Look for new runs").click()  # type: ignore[union-attr]
    second.run()
    assert rooms.state(code).shown == run_id
    assert second.selectbox(key="room-run").value == run_id
    second.selectbox(key="room-run").select_index(0).run()
    assert rooms.state(code).shown is None


def test_a_code_that_is_none_is_refused_under_the_label_of_its_field(open_page: Open) -> None:
    page = open_page("room")
    page.text_input[0].set_value("ABCDEF")
    button(page, "Join").click()  # type: ignore[union-attr]
    assert "Code = ABCDEF: must be the six letters that your teacher shows" in words(page.run())
