"""Runs whose process died: what was saved of them, who may resume them and how often, and that nothing is stored twice."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
import safetensors.numpy as safetensors
from sqlalchemy import func, select, update

from dpcl_core import export
from dpcl_core.errors import StoreTrouble
from dpcl_core.events import CellFinished, Classifier, Event, Progress, to_json
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.runs import process, resumption, worker
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import checkpoints, resumptions
from dpcl_core.spec import RunSpec
from tests.support import dying_worker, replay
from tests.support.asserting import document_of, in_turn, refuses
from tests.support.postgres import both, both_if_slow
from tests.support.tiers import quick
from tests.support.waiting import until
from tests.test_durable_runs import asked_of, results
from tests.test_neighbours import METHODS

pytestmark = both_if_slow


def seeded(tasks: int = 5) -> RunSpec:
    """A cheap run of two cells on the bundled digits."""
    spec = replay.a_spec(epsilons=(1.0,), seeds=(0, 1), tasks=tasks)
    return replace(spec, privacy=replace(spec.privacy, noise="seeded"))


def lost_after(store: Store, spec: RunSpec, n_tasks: int) -> str:
    """A run whose process has died after so many checkpoints; the events of the last one are not stored."""
    run_id = replay.claim(store, spec)
    left, stored = list[Event](), 0
    stream = worker.real_engine(spec, "cpu", resumption.Stored(store, run_id))
    while n_saved(store, run_id) < n_tasks:
        stored = len(left)
        left.append(next(stream))
    stream.close()
    store.append(run_id, left[:stored])
    store.begin(run_id)
    assert store.mark_failed(store.get(run_id), Failure("worker-died", "gone", ""))
    return run_id


def said_by(spec: RunSpec) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """What the unbroken run says, and its classifiers, which the store keeps aside."""
    said = results(list(worker.real_engine(spec, "cpu")))
    kept = [event for event in said if event["event"] == Classifier.__name__]
    return [event for event in said if event not in kept], kept


def n_saved(store: Store, run_id: str) -> int:
    return store.scalar(select(func.count()).select_from(checkpoints).where(checkpoints.c.run_id == run_id)) or 0


@pytest.mark.parametrize("n_tasks", [0, 1, 4])
def test_a_resumed_run_ends_with_the_events_of_an_unbroken_one_each_stored_once(store, n_tasks):
    spec = seeded()
    unbroken = store.create(spec)
    assert worker.run_here(store, unbroken).status == "finished"
    run_id = lost_after(store, spec, n_tasks)
    assert (n_saved(store, run_id), resumption.why_not(store, run_id)) == (n_tasks, None)
    resumption.resume(store, run_id)
    run = store.get(run_id)
    assert (run.status, run.error, run.process, run.finished) == ("queued", None, None, None)
    assert worker.run_here(store, run_id).status == "finished"
    assert results(store.events(run_id)) == results(store.events(unbroken))
    kept, expected = store.classifiers(run_id), store.classifiers(unbroken)
    assert [to_json(one) for one in kept] == [to_json(one) for one in expected]
    assert len(store.results([run_id])[run_id]) == 2
    assert n_saved(store, run_id) == n_saved(store, unbroken) == 0, "a run that is over needs none"


@both
def test_only_the_newest_state_of_a_learner_is_kept(store):
    run_id = lost_after(store, seeded(), 3)
    rows = store.rows(select(checkpoints).order_by(checkpoints.c.task))
    assert [row.arrays is not None for row in rows] == [False, False, True]
    assert [row.document is not None for row in rows] == [False, False, True]
    assert resumption.Stored(store, run_id).of(1) == []


@both
def test_a_process_from_which_a_run_was_taken_cannot_save(store):
    spec = seeded()
    run_id = lost_after(store, spec, 1)
    refuses("no longer carried out by this process", list, worker.real_engine(spec, "cpu", resumption.Stored(store, run_id)))
    assert n_saved(store, run_id) == 1


def test_a_finished_cell_is_kept_when_its_process_dies(store, tmp_path, data_dir, monkeypatch):
    """Two learners, one for each seed; the process dies after the first task of the second."""
    spec = asked_of("label-means", tmp_path, monkeypatch, seeds=[0, 1])
    first, second = spec.cells()
    unbroken, classifiers = said_by(spec)
    run_id = lost_after(store, spec, spec.scenario.tasks + 1)
    assert [one.cell for one in store.results([run_id])[run_id]] == [first]
    document = export.document_of(store, store.get(run_id))
    assert [(cell["epsilon"], cell["seed"]) for cell in document["cells"]] == [(first.epsilon, first.seed)]
    resumption.resume(store, run_id)
    assert worker.run_here(store, run_id).status == "finished"
    assert [one.cell for one in store.results([run_id])[run_id]] == [first, second]
    assert results(store.events(run_id)) == unbroken
    assert [to_json(one) for one in store.classifiers(run_id)] == classifiers


@both
def test_a_run_goes_on_by_itself_until_its_process_has_ended_three_times_and_is_then_left_to_a_person(store):
    run_id = lost_after(store, seeded(), 1)

    def dies_again() -> bool:
        """Its next process dies before another checkpoint; whether the run then goes on by itself."""
        assert store.claim(run_id, process.me())
        assert store.mark_failed(store.get(run_id), Failure("worker-died", "Gone.", ""), resumption.resume_by_itself)
        return store.status(run_id) == "queued"

    resumption.resume(store, run_id)
    assert [dies_again() for _ in range(3)] == [True, True, False]
    run = store.get(run_id)
    given_up = "Gone. Its process has now ended three times, so it waits for a person: Resume tries again."
    assert (run.status, run.error) == ("lost", given_up)
    resumption.resume(store, run_id)  # a person may, and it counts anew
    assert store.scalar(select(func.count()).select_from(resumptions)) == 0
    assert worker.run_here(store, run_id).status == "finished"


def test_a_process_that_is_ended_after_every_new_checkpoint_is_not_started_for_ever(store):
    run_id = lost_after(store, seeded(), 1)
    resumption.resume(store, run_id)
    went_on = []
    for task in (1, 2, 3):
        assert store.claim(run_id, process.me())
        resumption.Stored(store, run_id).save(Checkpoint(0, task, (), "{}", safetensors.save({})))
        assert store.mark_failed(store.get(run_id), Failure("worker-died", "Gone.", ""), resumption.resume_by_itself)
        went_on.append(store.status(run_id) == "queued")
    assert went_on == [True, True, False]


def test_a_process_that_dies_before_the_first_checkpoint_is_not_started_again_by_itself(store):
    run_id = lost_after(store, seeded(), 0)
    with store.writing() as connection:
        assert not resumption.resume_by_itself(connection, run_id)


@pytest.mark.parametrize(("end", "why"), [
    ("finished", "it is finished"),
    ("diverged", "it failed by itself"),
    ("deleted", "it is deleted"),
    ("old", "it has results but no checkpoints"),
    ("running", "it is running"),
    ("audit", "part of a tuning or an audit"),
])
def test_what_cannot_be_resumed_says_why(store, end, why):
    spec = seeded()
    if end == "finished":
        run_id = replay.fill(store, spec, replay.recorded(spec))
    elif end == "audit":
        run_id = Audits(store).create(replay.fill(store, spec, replay.recorded(spec)))
        store.request_stop(run_id)
    elif end == "old":
        said = [event for event in replay.recorded(spec) if not isinstance(event, CellFinished)]
        run_id = replay.fill(store, spec, said, status="lost")
    else:
        run_id = lost_after(store, spec, 1)
    if end == "deleted":
        store.delete(run_id)
    if end in ("running", "diverged"):
        resumption.resume(store, run_id)
        assert store.claim(run_id, process.me())
        store.begin(run_id)
    if end == "diverged":
        store.end(run_id, "failed", Failure("diverged", "x", ""))
    if end in ("deleted", "diverged"):
        assert n_saved(store, run_id) == 0
    assert why in (resumption.why_not(store, run_id) or "")
    refuses("cannot be resumed", resumption.resume, store, run_id)


DAMAGES = {
    "truncated arrays": {"arrays": func.substr(checkpoints.c.arrays, 1, 100)}, "no arrays": {"arrays": b""},
    "a cut document": {"document": func.substr(checkpoints.c.document, 1, 50)},
    "other events": {"events": [{"event": "Nothing"}]}, "no events": {"events": {"a": 1}},
}  # fmt: skip


def damaged(store: Store, run_id: str, damage: str) -> None:
    """Changes the second checkpoint of a run's only group."""
    change = update(checkpoints).where(checkpoints.c.run_id == run_id, checkpoints.c.task == 1)
    assert store.change(change.values(DAMAGES[damage])) == 1


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_queued", [False, True])
def test_a_damaged_checkpoint_is_named_and_nothing_is_drawn_twice(store, damage, is_queued):
    run_id = lost_after(store, seeded(), 2)
    named = "the checkpoint after task 2 of its group 1 of models is damaged"
    if is_queued:  # it was whole when the run went back into the queue
        resumption.resume(store, run_id)
        assert store.claim(run_id, process.me())
    damaged(store, run_id, damage)
    before = store.events(run_id)
    if is_queued:
        assert worker.carry_out(store, run_id) == "failed"
        ended = store.get(run_id)
        assert (ended.error_kind, named in (ended.error or "")) == ("store", True), ended.error
    assert (resumption.why_not(store, run_id) or "").startswith(named)
    refuses(f"cannot be resumed: {named}.*; Retry starts a new run", resumption.resume, store, run_id)
    kept = [event for event in store.events(run_id) if not isinstance(event, Progress)]
    assert kept == [event for event in before if not isinstance(event, Progress)]
    assert n_saved(store, run_id) == 2, "the others may be of use to who mends it"


@pytest.mark.parametrize("part", ["events", "document", "arrays", "events of the first"])
def test_one_changed_digit_or_bit_of_a_checkpoint_is_found(store, part):
    """It can still be read, and gave other results without a word."""
    run_id = lost_after(store, seeded(), 2)
    task = 0 if part == "events of the first" else 1
    row = checkpoints.c.run_id == run_id, checkpoints.c.task == task
    (kept,) = store.rows(select(checkpoints).where(*row))
    if part == "arrays":
        changed = {"arrays": kept.arrays[:-1] + bytes([kept.arrays[-1] ^ 1])}
    elif part == "document":
        changed = {"document": one_digit(kept.document)}
    else:
        changed = {"events": json.loads(one_digit(json.dumps(kept.events)))}
    store.change(update(checkpoints).where(*row).values(**changed))
    named = f"the checkpoint after task {task + 1} of its group 1 of models is damaged"
    assert (resumption.why_not(store, run_id) or "").startswith(named)
    refuses(named, resumption.resume, store, run_id)


def test_a_checkpoint_without_a_digest_is_damaged(store):
    run_id = lost_after(store, seeded(), 2)
    store.change(update(checkpoints).values(digest=None))
    assert "is damaged" in (resumption.why_not(store, run_id) or "")


def one_digit(text: str) -> str:
    """The text with the last digit of its first number with a point changed."""
    found = re.search(r"\d\.\d*(\d)", text) or re.search(r"(\d)", text)
    assert found
    place = found.start(1)
    return text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]


def test_a_state_that_can_be_read_and_is_none_is_refused(store):
    run_id = lost_after(store, seeded(), 1)
    of_run = checkpoints.c.run_id == run_id
    (kept,) = store.rows(select(checkpoints).where(of_run))
    document = json.loads(kept.document)
    del document["ledgers"]
    text = json.dumps(document)
    digest = kept.digest[:32] + resumption._digest(text, kept.arrays)
    store.change(update(checkpoints).where(of_run).values(document=text, digest=digest))
    resumption.resume(store, run_id)
    assert replay.carried_out(store, run_id) == "failed"
    assert "its checkpoint after task 1 is damaged; Retry starts it from the beginning" in (store.get(run_id).error or "")


def test_a_store_that_is_away_for_a_while_costs_no_checkpoint(store, monkeypatch):
    slept, away = list[float](), [StoreTrouble("database is locked")] * 3
    monkeypatch.setattr(resumption.Stored, "_save", in_turn(away, resumption.Stored._save))
    monkeypatch.setattr(process.time, "sleep", slept.append)
    assert (slept, n_saved(store, lost_after(store, seeded(), 1))) == ([0.25, 0.5, 1.0], 1)


@both
def test_resume_prints_what_run_prints_and_prints_a_finished_run_again(store, capsys):
    run_id = lost_after(store, seeded(), 2)
    document = document_of(capsys, "resume", run_id)
    assert document_of(capsys, "resume", run_id) == document
    assert (document["run_id"], len(document["cells"])) == (run_id, 2)


def test_resume_goes_on_with_a_run_that_was_killed_just_now(store, capsys):
    run_id = store.create(seeded())
    assert store.claim(run_id, replace(process.me(), ticks=1))  # dead before its first checkpoint, and nobody has looked
    assert store.status(run_id) == "starting"
    document = document_of(capsys, "resume", run_id)
    assert (document["run_id"], document["status"], len(document["cells"])) == (run_id, "finished", 2)


@pytest.mark.parametrize("has_ended", [False, True])
def test_resume_follows_a_run_that_another_process_resumes_at_the_same_time(store, capsys, monkeypatch, has_ended):
    run_id, real = lost_after(store, seeded(), 2), resumption.resume

    def second(store: Store, run_id: str) -> None:
        monkeypatch.setattr(resumption, "resume", real)
        real(store, run_id)  # the other process is faster
        if has_ended:
            assert worker.run_here(store, run_id).status == "finished"
        real(store, run_id)

    monkeypatch.setattr(resumption, "resume", second)
    document = document_of(capsys, "resume", run_id)
    assert (document["run_id"], document["status"], len(document["cells"])) == (run_id, "finished", 2)


# One that keeps sums, one that trains a network; the others take longer to start, not to go on.


@pytest.mark.parametrize("method", quick(1, ("cosine", "dp-agem", "lm-seqft", "label-means")))
def test_a_worker_that_is_killed_after_a_checkpoint_is_followed_by_one_that_goes_on(
    store, method, tmp_path, data_dir, monkeypatch
):
    assert method in METHODS
    spec = asked_of(method, tmp_path, monkeypatch)
    run_id = store.create(spec)
    app = LocalExecutor(store, dying_worker.WORKER)
    app.submit(run_id)
    until(lambda: app.schedule() or store.get(run_id).is_over)
    run = store.get(run_id)
    assert run.status == "finished", (run.error, run.error_log)
    assert (results(store.events(run_id)), list(map(to_json, store.classifiers(run_id)))) == said_by(spec)
    assert store.rows(select(resumptions)) == []
