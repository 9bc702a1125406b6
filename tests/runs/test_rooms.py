"""Rooms of a class: who may do what, what each visitor sees, and that nothing is left of a room that ended."""

import time
from statistics import fmean

import pytest
from sqlalchemy import select

from dpcl_core.events import CellFinished, TaskLearned, of_kind
from dpcl_core.lessons import text
from dpcl_core.runs import rooms as module
from dpcl_core.runs import tables
from dpcl_core.runs.administration import empty_trash
from dpcl_core.runs.rooms import Rooms, digest
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.postgres import both, file_alone
from tests.support.together import together

pytestmark = both

TEACHER, ANN, BEN = "teacher's token", "Ann's token", "Ben's token"
QUESTION, ANSWERS = "Does noise on the sums hide a label?", ("Yes", "No")


@pytest.fixture
def rooms(store) -> Rooms:
    return Rooms(store)


@pytest.fixture
def code(rooms) -> str:
    return rooms.open("Privacy, Monday", TEACHER)


def test_names_are_drawn_once_and_differ(rooms, code):
    names = [rooms.join(code, token) for token in (ANN, BEN, ANN)]
    assert names[0] == names[2] != names[1]
    assert rooms.room_of(ANN) == code
    assert rooms.room_of(TEACHER) is None, "the teacher has not joined"
    assert rooms.of_owner(TEACHER) == [(code, "Privacy, Monday")]


def test_counts_are_seen_by_who_has_answered_and_by_the_teacher(rooms, code):
    for token in (ANN, BEN):
        rooms.join(code, token)
    rooms.ask(code, TEACHER, QUESTION, ANSWERS)
    poll = rooms.state(code).poll
    rooms.vote(code, ANN, poll.id, 0)
    rooms.vote(code, ANN, poll.id, 1)  # she changed her mind
    seen = {token: rooms.state(code).as_seen_by(token)["poll"] for token in (TEACHER, ANN, BEN)}
    assert [(seen[token]["counts"], seen[token]["mine"]) for token in seen] == [([0, 1], None), ([0, 1], 1), (None, None)]
    assert {one["votes"] for one in seen.values()} == {1}
    rooms.end_poll(code, TEACHER, truth=1)
    over = rooms.state(code).as_seen_by(BEN)["poll"]
    assert (over["counts"], over["truth"], over["is_open"]) == ([0, 1], 1, False)
    refuses("takes no more answers", rooms.vote, code, BEN, poll.id, 0)


@file_alone
def test_a_question_is_known_by_its_words_whatever_its_lines(rooms, code):
    rooms.ask(code, TEACHER, "Does noise\nhide  it?", [" Yes ", "No"])
    poll = rooms.state(code).poll
    assert poll.is_about("Does noise hide it?\n", ("Yes", "No"))
    for question, answers in (("Does noise hide her?", ("Yes", "No")), ("Does noise hide it?", ("No", "Yes"))):
        assert not poll.is_about(question, answers)


@file_alone
def test_every_prediction_of_the_course_fits_into_a_room(rooms, code):
    for step in (step for name in text.NAMES for step in text.load(name).steps):
        rooms.ask(code, TEACHER, step.predict, step.choices)
        assert rooms.state(code).poll.is_about(step.predict, step.choices)


def test_a_new_question_forgets_the_answers_to_the_last(rooms, code):
    rooms.join(code, ANN)
    for _ in range(2):
        rooms.ask(code, TEACHER, QUESTION, ANSWERS)
        rooms.vote(code, ANN, rooms.state(code).poll.id, 1)
    rooms.ask(code, TEACHER, QUESTION, ANSWERS)
    assert rooms.state(code).choices == {}


def test_runs_become_points_at_their_mean_accuracy_and_one_is_shown_to_all(rooms, code, store):
    name, spec = rooms.join(code, ANN), replay.a_spec()
    events = replay.recorded(spec)
    run_id = replay.fill(store, spec, events)
    rooms.add_run(code, ANN, run_id)
    rooms.show(code, TEACHER, run_id)
    seen = rooms.state(code).as_seen_by(BEN)
    cells = list(of_kind(events, CellFinished))
    expected = {
        epsilon: fmean(cell.metrics["AA"] for cell in cells if cell.cell.epsilon == epsilon)
        for epsilon in {cell.cell.epsilon for cell in cells}
    }
    assert {float(point["epsilon"]): point["accuracy"] for point in seen["points"]} == pytest.approx(expected)
    assert {point["name"] for point in seen["points"]} == {name}
    assert ({point["standing"] for point in seen["points"]}, seen["shown"]["name"]) == ({"bound"}, name)
    learned = [event for event in of_kind(events, TaskLearned) if event.cell.epsilon == 1]
    curve = [fmean(fmean(event.accuracy[: task + 1]) for event in learned if event.task == task) for task in range(5)]
    assert seen["shown"]["curve"]["epsilon"] == 1, "of all budgets together it would be nobody's accuracy"
    assert seen["shown"]["curve"]["accuracy"] == pytest.approx(curve)


def test_points_of_runs_whose_budgets_bound_nothing_say_so(rooms, code, store):
    rooms.join(code, ANN)
    spec = replay.a_spec(labels="data")
    rooms.add_run(code, ANN, replay.fill(store, spec, replay.recorded(spec)))
    assert {point["standing"] for point in rooms.state(code).as_seen_by(ANN)["points"]} == {"none"}


def test_a_deleted_run_is_on_no_plot_and_shown_to_nobody_until_it_is_restored(rooms, code, store):
    rooms.join(code, ANN)
    kept, gone = (replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec())) for _ in range(2))
    for run_id in (kept, gone):
        rooms.add_run(code, ANN, run_id)
    rooms.show(code, TEACHER, gone)
    before = rooms.state(code)
    store.delete(gone)
    seen = rooms.state(code)
    assert {point["run_id"] for point in seen.points} == set(seen.runs) == {kept}
    assert (seen.shown, seen.curve, seen.as_seen_by(BEN)["shown"]) == (None, None, None)
    refuses("must be a run of this room", rooms.show, code, TEACHER, gone)
    store.restore(gone)
    assert rooms.state(code) == before
    store.delete(gone)
    empty_trash(store)
    assert rooms.state(code) == seen


def test_a_shown_run_goes_with_the_visitor_who_leaves(rooms, code, store):
    rooms.join(code, ANN)
    run_id = replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
    rooms.add_run(code, ANN, run_id)
    rooms.show(code, TEACHER, run_id)
    rooms.leave(code, ANN)
    assert (rooms.state(code).points, rooms.state(code).shown) == ([], None)


@pytest.mark.parametrize(("act", "says"), [
    (lambda rooms, code: rooms.ask(code, ANN, QUESTION, ANSWERS), "belongs to another browser"),
    (lambda rooms, code: rooms.close(code, ANN), "belongs to another browser"),
    (lambda rooms, code: rooms.show(code, ANN, None), "belongs to another browser"),
    (lambda rooms, code: rooms.ask(code, TEACHER, " ", ANSWERS), "question = nothing: must be one line"),
    (lambda rooms, code: rooms.ask(code, TEACHER, QUESTION, list("abcde")), "answers = 5 answers: must be two to four"),
    (lambda rooms, code: rooms.ask(code, TEACHER, QUESTION, ["Yes"]), "answers = 1 answer: must be two to four"),
    (lambda rooms, code: rooms.ask(code, TEACHER, QUESTION, ("Yes", "Yes")), "answers = Yes, more than once: must be"),
    (lambda rooms, code: rooms.vote(code, ANN, "0", 0), "takes no more answers"),
    (lambda rooms, code: rooms.add_run(code, ANN, "0123456789ab"), "join it first"),
    (lambda rooms, code: rooms.show(code, TEACHER, "0123456789ab"), "must be a run of this room"),
    (lambda rooms, code: rooms.state("ABCDEF"), "six letters"),
    (lambda rooms, code: rooms.state(" "), "room = nothing: must be the six letters"),
    (lambda rooms, code: rooms.state("BCDFGH"), "no such room"),
    (lambda rooms, code: rooms.open("x" * 81, ANN), "1 to 80 characters"),
])
@file_alone
def test_what_is_refused_is_one_sentence(rooms, code, act, says):
    refuses(says, act, rooms, code)


def test_a_room_is_full_at_its_limit(rooms, code, monkeypatch):
    monkeypatch.setattr(module, "MOST_MEMBERS", 1)
    rooms.join(code, ANN)
    refuses("is full", rooms.join, code, BEN)
    assert rooms.join(code, ANN), "who is in stays in"


def test_nothing_is_left_of_a_room_that_has_ended(rooms, code, store, monkeypatch):
    rooms.join(code, ANN)
    rooms.ask(code, TEACHER, QUESTION, ANSWERS)
    rooms.vote(code, ANN, rooms.state(code).poll.id, 0)
    run_id = replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
    rooms.add_run(code, ANN, run_id)
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + module.SECONDS + 1)
    refuses("rooms end after a day", rooms.state, code)
    rooms.open("Another", TEACHER)
    for table in (tables.members, tables.votes, tables.room_runs):
        assert store.rows(select(table)) == []
    assert store.rows(select(tables.rooms.c.title)) == [("Another",)]
    assert store.get(run_id).id == run_id, "runs belong to the store"


@file_alone
def test_no_token_is_stored(rooms, code, home):
    rooms.join(code, ANN)
    written = b"".join(path.read_bytes() for path in home.iterdir() if path.is_file())
    assert ANN.encode() not in written
    assert digest(ANN).encode() in written


def test_forty_votes_at_once_are_all_counted(rooms, code):
    tokens = [f"token {number}" for number in range(40)]
    for token in tokens:
        rooms.join(code, token)
    rooms.ask(code, TEACHER, QUESTION, ANSWERS)
    poll = rooms.state(code).poll.id
    together(lambda number: rooms.vote(code, tokens[number], poll, number % 2), 40)
    assert rooms.state(code).as_seen_by(TEACHER)["poll"]["counts"] == [20, 20]
