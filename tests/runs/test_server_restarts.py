"""A PostgreSQL server that crashes, restarts or stays away while runs go on: nothing is lost, nothing is there twice."""

import threading

import pytest
from sqlalchemy import make_url

from dpcl_core.errors import StoreTrouble
from dpcl_core.events import Event, TaskLearned, to_json
from dpcl_core.runs import database, executor, process, worker
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.store import Store
from tests.runs.test_outages import heard_of_failures
from tests.runs.test_resumption import said_by, seeded
from tests.support import replay, stand_in
from tests.support.asserting import called, refusal_of, refuses
from tests.support.waiting import NEVER_SECONDS, until
from tests.test_durable_runs import results

pytestmark = pytest.mark.databases("postgresql")

QUICK = Patience(0.01, 0.05)


def test_a_run_whose_server_crashes_and_stays_away_ends_like_an_unbroken_one(store, server, monkeypatch):
    """A crash with a restart at once after its first task, one with a pause after the third."""
    monkeypatch.setattr(worker, "GRACE_SECONDS", NEVER_SECONDS)
    spec = seeded()
    run_id = replay.claim(store, spec)
    failed = heard_of_failures(store)
    back = threading.Thread(target=lambda: (until(lambda: failed), server.start()))
    heard: list[int] = []

    def crash(event: Event) -> None:
        if not isinstance(event, TaskLearned):
            return
        heard.append(event.task)
        if heard.count(event.task) > 1:  # of the second cell
            return
        if event.task == 0:
            server.restart()
        elif event.task == 2:
            failed.clear()
            server.stop()
            back.start()

    assert worker.carry_out(store, run_id, on_event=crash, patience=QUICK) == "finished", store.get(run_id).error
    back.join()
    assert heard.count(0) == heard.count(2) == 2
    said, released = said_by(spec)
    assert results(store.events(run_id)) == said
    of_seed = sorted(released, key=lambda one: (one["cell"]["seed"], one["task"]))  # as the store gives them
    assert list(map(to_json, store.classifiers(run_id))) == of_seed
    assert [number for number, _ in store.events_after(run_id)] == list(range(1, len(store.events(run_id)) + 1))
    assert len(store.results([run_id])[run_id]) == 2


def test_a_queue_goes_on_after_the_server_was_away(store, server):
    """With nobody at a page: what looks after it in an app, and a process of its own for the run."""
    over, heard = threading.Event(), list[StoreTrouble]()
    app = LocalExecutor(store, stand_in.command("replay:0.0"))
    moving = threading.Thread(
        target=executor.move, args=(lambda: app, over), kwargs={"on_trouble": heard.append, "patience": QUICK}
    )
    moving.start()
    server.stop()
    until(lambda: heard)
    server.start()
    run_id = store.create(replay.a_spec())
    until(lambda: store.get(run_id).is_over)
    over.set()
    moving.join()
    assert store.status(run_id) == "finished", store.get(run_id).error
    assert "see whether PostgreSQL runs there" in str(heard[0])


def test_a_store_that_is_asked_after_a_restart_answers_at_once(store, server):
    run_id = store.create(replay.a_spec())
    server.restart()
    assert store.status(run_id) == "queued"  # a connection from before the restart is not used
    assert store.claim(run_id, process.me())


def test_a_row_that_another_program_keeps_locked_is_one_sentence(store, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 1)
    impatient, run_id = Store(), store.create(replay.a_spec())
    with store.writing() as connection:
        connection.exec_driver_sql("LOCK TABLE runs")
        refuses("kept it locked for 1 seconds; try again", impatient.rename, run_id, "x", error=StoreTrouble)
    impatient.rename(run_id, "x")


def test_a_password_is_in_no_message_and_no_log(home, server, monkeypatch, capsys):
    """Of a server that refuses it, that is not there, and that has no such database."""
    where = make_url(Store().url)
    for wrong in (
        where.set(username="nobody", password="s3cr3t"),
        where.set(database="absent", password="s3cr3t"),
        where.set(port=1, password="s3cr3t"),
        where.set(password="s3cr3t").update_query_dict({"sslpassword": "s3cr3t", "sslmode": "bad"}),
    ):
        url = wrong.render_as_string(hide_password=False)
        status, out, err = called("runs", "--store", url, capsys=capsys)
        assert (status, out, len(err.splitlines())) == (1, "", 1)
        for said in (str(refusal_of(Store, url, error=StoreTrouble)), err):
            assert "s3cr3t" not in said, wrong
            assert str(where.host) in said
