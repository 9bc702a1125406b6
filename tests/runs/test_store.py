"""What the store keeps, and the states a run goes through."""

import json
import math
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, update

from dpcl_core.errors import StoreTrouble
from dpcl_core.events import CellFinished, Note
from dpcl_core.runs import process, run, tables
from dpcl_core.runs.process import log_file
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.run import Failure, work_of
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow, file_alone
from tests.support.tiers import quick
from tests.support.together import together

pytestmark = both

ENDS = ("cancelled", "failed", "lost", "finished")


def test_a_run_and_all_it_said_come_back_from_another_opening_of_the_store(store):
    spec = replay.a_spec(epsilons=(0.5, math.inf))
    said = replay.recorded(spec)
    run_id = replay.fill(store, spec, said, name="  first   try ")
    again = Store(store.url)
    run = again.get(run_id)
    assert (run.spec, run.digest, run.name, run.status) == (spec, spec.digest(), "first try", "finished")
    assert again.events_after(run_id) == list(enumerate(said, start=1))
    assert again.events_after(run_id, 40) == list(enumerate(said, start=1))[40:]
    by_cell = sorted((event for event in said if isinstance(event, CellFinished)), key=lambda event: event.cell)
    assert again.results([run_id]) == {run_id: by_cell}


def test_the_store_named_by_the_environment_is_the_default(home, monkeypatch):
    Store(f"sqlite:///{home}/elsewhere/runs.sqlite")
    monkeypatch.setenv("DPCL_STORE", f"sqlite:///{home}/elsewhere/runs.sqlite")
    run_id = Store().create(replay.a_spec())
    assert Store(f"sqlite:///{home}/elsewhere/runs.sqlite").status(run_id) == "queued"
    monkeypatch.chdir(home)
    assert Store("sqlite:///elsewhere/runs.sqlite").url == Store().url


_BAD_IDS = ["../../etc/passwd", "0123456789ab\n", "", "0123456789ab/..", "0123456789AB", "0123456789abc", "٠12345678901"]


_WITH_MORE = {"append": [[Note("info", "x")]], "rename": ["x"]}
_USES = ("get", "status", "events_after", "request_stop", "delete", "restore", "retry", "claim", *_WITH_MORE)


@pytest.mark.parametrize("run_id", quick(3, _BAD_IDS))
@pytest.mark.parametrize("use", _USES)
@file_alone
def test_a_run_id_is_twelve_hexadecimal_digits_and_nothing_else(store, use, run_id):
    refuses("12 hexadecimal digits", getattr(store, use), run_id, *_WITH_MORE.get(use, []))


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "..", "a/b"])
def test_no_run_id_leads_a_log_out_of_its_folder(home, run_id):
    refuses("run = ", log_file, run_id)


def test_an_unknown_run_is_refused_with_its_id(store):
    for use in (store.get, store.status, store.request_stop, store.delete, store.restore, store.retry):
        refuses("run = 0123456789ab: no such run", use, "0123456789ab")
    refuses("run = 0123456789ab", store.append, "0123456789ab", [Note("info", "x")])
    refuses("run = 0123456789ab: no such run", store.heartbeat, "0123456789ab", process.me())


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\x00b"])
@file_alone
def test_a_name_is_one_short_line(store, name):
    refuses(r"name = .*1 to 100 characters", store.rename, store.create(replay.a_spec(), name="before"), name)
    refuses("name = ", store.create, replay.a_spec(), name=name)
    assert [run.name for run in store.list_runs()] == ["before"]


def test_a_failure_with_characters_that_a_database_refuses_still_ends_its_run(store):
    run_id = replay.claim(store)
    assert store.end(run_id, "failed", Failure("internal", "a\x00b", "c\x00d\ud800"))
    run = store.get(run_id)
    assert (run.error, run.error_log) == ("a\N{REPLACEMENT CHARACTER}b", "c\N{REPLACEMENT CHARACTER}d?")


def test_settings_with_a_null_character_are_refused(store):
    """PostgreSQL would store them, and then find the dataset of no run."""
    refuses("settings = a null character", lambda: store.create(replace(replay.a_spec(), public_labels=("a\x00", "b"))))
    assert store.seen_by(lambda name: False).list_runs() == []


# States


_steps = st.lists(st.sampled_from(["claim", "begin", "stop", "mark_failed", *ENDS]), max_size=8)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_steps | _steps.map(lambda steps: ["claim", *steps]))
@example(["claim", "stop", "mark_failed"])
@example(["claim", "begin", "stop", "finished", "cancelled"])
@both_if_slow
def test_states_follow_one_another_as_the_page_promises(store, steps):
    run_id = store.create(replay.a_spec())
    expected = "queued"
    for step in steps:
        before = store.get(run_id)
        done: bool | None
        if step == "claim":
            done, after = store.claim(run_id), {"queued": "starting"}
        elif step == "begin":
            done, after = store.begin(run_id), {"starting": "running"}
        elif step == "stop":
            done = None
            after = {"queued": "cancelled", "starting": "stopping", "running": "stopping"}
            assert store.request_stop(run_id) == store.status(run_id)
        elif step == "mark_failed":
            done = store.mark_failed(before, Failure("worker-died", "gone", ""))
            after = {"starting": "lost", "running": "lost", "stopping": "cancelled"}
        else:
            done, after = store.end(run_id, step), dict.fromkeys(("starting", "running", "stopping"), step)
        assert done in (None, expected in after)
        expected = after.get(expected, expected)
        run = store.get(run_id)
        assert run.status == expected
        assert (run.finished is not None) == (expected in ENDS) == run.is_over
        assert run.error is None or expected == "lost"  # a run that was to stop anyway is no failure
    store.request_stop(run_id)
    store.end(run_id, "cancelled")  # leaves the device free for the next example


def test_of_many_who_claim_at_once_one_gets_the_device(store):
    ids = [store.create(replay.a_spec()) for _ in range(2)]
    stores = [Store(store.url) for _ in range(8)]
    won: list[str] = []
    gate = threading.Barrier(8)

    def claim(number: int) -> None:
        gate.wait()
        if stores[number].claim(ids[number % 2]):
            won.append(ids[number % 2])

    together(claim, 8)
    assert won == [ids[0]]
    assert [store.status(run_id) for run_id in ids] == ["starting", "queued"]


def test_the_database_itself_refuses_a_second_run_on_a_device(store):
    first, second = store.create(replay.a_spec()), store.create(replay.a_spec())
    assert store.claim(first)
    same = {"status": "starting", "runs_on": store.get(first).runs_on}
    with pytest.raises(StoreTrouble):
        replay.alter(store, second, **same)


def test_two_machines_carry_out_one_queue_at_once_each_run_once(store, monkeypatch):
    """A run that asks for no machine goes to whichever is free; one that asks for a machine waits for it."""
    first, second, third = (store.create(replay.a_spec(), device=device) for device in ("cpu", "cpu", "lab2/cpu"))
    monkeypatch.setenv("DPCL_MACHINE", "lab1")
    assert store.claim(first)
    assert not store.claim(second), "lab1 is busy"
    monkeypatch.setenv("DPCL_MACHINE", "lab2")
    assert not store.claim(first)
    assert store.claim(second)
    assert [store.get(run_id).runs_on for run_id in (first, second, third)] == ["lab1/cpu", "lab2/cpu", None]
    assert store.end(second, "finished")
    monkeypatch.setenv("DPCL_MACHINE", "lab3")
    assert not store.claim(third), "it asks for lab2"
    monkeypatch.setenv("DPCL_MACHINE", "lab2")
    assert store.claim(third)


def test_a_stop_that_races_a_finish_leaves_one_clear_end(store):
    for _ in range(20):
        run_id = replay.fill(store, replay.a_spec(), [], status="running")
        ended: list[bool] = []
        gate = threading.Barrier(3)

        def act(number: int, run_id: str = run_id, gate: threading.Barrier = gate, ended: list[bool] = ended) -> None:
            gate.wait()
            if number == 0:
                store.request_stop(run_id)
            else:
                ended.append(store.end(run_id, "finished" if number == 1 else "cancelled"))

        together(act, 3)
        assert sorted(ended) == [False, True]
        end = store.status(run_id)
        assert end in ("finished", "cancelled")
        store.request_stop(run_id)
        assert store.status(run_id) == end


def test_a_queue_keeps_its_order_and_devices_do_not_wait_for_one_another(store):
    first, second, other = (store.create(replay.a_spec(), device=device) for device in ("cpu", "cpu", "cuda:0"))
    assert [store.get(run_id).place_in_queue for run_id in (first, second, other)] == [1, 2, 1]
    assert not store.claim(second)
    assert store.claim(other)
    assert store.claim(first)
    assert store.get(second).place_in_queue == 1
    assert not store.claim(second)  # first in its queue now, but the device is taken
    store.end(first, "finished")
    assert store.claim(second)


def test_only_the_process_it_was_started_for_adopts_a_run(store):
    run_id = store.create(replay.a_spec())
    assert not store.attach(run_id, process.me())
    store.claim(run_id)
    assert store.attach(run_id, process.me())
    assert store.attach(run_id, process.me())
    assert not store.attach(run_id, process.process_of(1))
    assert store.get(run_id).process == process.me()


def test_a_run_that_gave_a_sign_meanwhile_is_not_buried(store):
    run_id = replay.claim(store)
    seen = store.get(run_id)
    time.sleep(0.01)
    assert store.heartbeat(run_id, process.me()) == "starting"
    assert not store.mark_failed(seen, Failure("worker-died", "gone", ""))
    assert store.mark_failed(store.get(run_id), Failure("worker-died", "gone", "log"))
    run = store.get(run_id)
    assert (run.status, run.error_kind, run.error, run.error_log) == ("lost", "worker-died", "gone", "log")


# What people do


def test_deleting_is_undone_by_restore_and_refused_while_under_way(store):
    done, waiting = (replay.fill(store, replay.a_spec(), [], status=status) for status in ("finished", "queued"))
    under_way = {
        replay.fill(store, replay.a_spec(), [], status=status, device=f"cuda:{number}"): status
        for number, status in enumerate(tables.ACTIVE)
    }
    for run_id, status in under_way.items():
        refuses(f"is {status}: stop it before deleting", store.delete, run_id)
    store.delete(done)
    store.delete(waiting)
    assert {run.id for run in store.list_runs()} == set(under_way)
    assert store.get(done).deleted is not None
    assert store.status(waiting) == "cancelled"  # never started behind someone's back
    for run_id in (done, waiting):
        store.restore(run_id)
    assert {run.id for run in store.list_runs()} == {done, waiting, *under_way}
    assert store.get(done).status == "finished"


def test_retry_makes_a_new_run_of_the_same_settings_and_leaves_the_old_one(store):
    spec = replay.a_spec()
    old = replay.fill(store, spec, replay.recorded(spec), status="failed", name="mine", device="cuda:1")
    new = store.retry(old)
    run = store.get(new)
    assert new != old
    assert (run.spec, run.name, run.device, run.status, run.error) == (spec, "mine", "cuda:1", "queued", None)
    assert (store.events_after(new), store.status(old)) == ([], "failed")


def test_an_estimate_is_the_median_of_runs_of_the_same_size_else_scaled_by_cells(store):
    spec, wider = replay.a_spec(seeds=(0, 1)), replay.a_spec(seeds=(0, 1, 2, 3))
    assert store.estimates([work_of(spec)])[0] is None
    for seconds in (6.0, 9.0, 30.0):
        replay.alter(store, replay.fill(store, spec, []), seconds=seconds)
    replay.alter(store, replay.fill(store, spec, [], status="failed"), seconds=1000.0)
    assert store.estimates([work_of(spec)])[0] == pytest.approx(9.0)
    assert store.estimates([work_of(wider)])[0] == pytest.approx(18.0)
    replay.alter(store, replay.fill(store, wider, []), seconds=10.0)
    assert store.estimates([work_of(wider)])[0] == pytest.approx(10.0)
    assert store.estimates([work_of(replay.a_spec(tasks=2))])[0] is None
    assert store.estimates([work_of(spec)], device="cuda:0")[0] is None
    assert store.get(store.create(spec)).estimate_seconds == pytest.approx(9.0)


@both_if_slow
def test_a_run_whose_method_was_removed_still_lists_and_shows(store):
    good, bad = store.create(replay.a_spec()), replay.fill(store, replay.a_spec(), [Note("info", "said")])
    replay.alter(store, bad, spec=json.dumps(json.loads(replay.a_spec().to_json()) | {"method": "gone"}))
    assert {run.id: run.status for run in store.list_runs()} == {good: "queued", bad: "finished"}
    run = store.get(bad)
    assert (run.readable_spec, run.raw_spec["method"]) == (None, "gone")
    assert run.spec_trouble.startswith("its settings can no longer be read: method = gone: must be one of cosine")
    assert store.events_after(bad) == [(1, Note("info", "said"))]
    refuses("settings can no longer be read", store.retry, bad)


def test_an_event_that_can_no_longer_be_read_becomes_a_note(store):
    run_id = replay.fill(store, replay.a_spec(), [Note("info", "before"), Note("info", "after")])
    where = (tables.events.c.run_id == run_id) & (tables.events.c.seq == 1)
    store.change(update(tables.events).where(where).values(payload={"event": "Gone", "x": 1}))
    (_, broken), (_, fine) = store.events_after(run_id)
    assert isinstance(broken, Note)
    assert (broken.level, fine) == ("warning", Note("info", "after"))


def test_listing_costs_the_same_few_questions_for_any_number_of_runs(store):
    asked: list[str] = []
    event.listen(store._reads, "before_cursor_execute", lambda conn, cursor, statement, *rest: asked.append(statement))
    counts = []
    for _ in range(2):
        for _ in range(5):
            store.create(replay.a_spec())
        asked.clear()
        assert all(run.place_in_queue for run in store.list_runs())
        counts.append(len([statement for statement in asked if statement.startswith("SELECT")]))
    assert counts[0] == counts[1] <= 4


@file_alone
def test_late_events_are_found_by_key_and_not_by_reading_all(store):
    with store.reading() as connection:
        query = "EXPLAIN QUERY PLAN SELECT payload FROM events WHERE run_id = 'x' AND seq > 9 ORDER BY seq"
        plan = " ".join(str(row) for row in connection.exec_driver_sql(query))
    assert "SEARCH events USING PRIMARY KEY (run_id=? AND seq>?)" in plan
    assert "TEMP B-TREE" not in plan


def test_own_runs_come_first_and_no_limit_hides_what_is_asked_for(store: Store) -> None:
    anna = store.as_visitor(Visitor("anna", Limits()))
    mine = anna.create(replay.a_spec(), name="hers")
    others = [replay.fill(store, replay.a_spec(labels="prior"), [], name=f"run {number}") for number in range(3)]
    assert [run.id for run in anna.list_runs(2)] == [mine, others[-1]]
    assert ([run.id for run in store.list_runs(2)], len(store.list_runs())) == ([others[-1], others[-2]], 4)
    assert [run.id for run in store.list_runs(1, states=("queued",))] == [mine]
    assert [run.id for run in store.list_runs(1, only=lambda run: run.name == "run 0")] == [others[0]]
    named = [run for run in (mine, *others) if store.list_runs(1, only=lambda one, run=run: one.id == run)]
    assert (named, store.n_listed()) == ([mine, *others], {"queued": 1, "finished": 3})
    assert store.seen_by(lambda name: False).n_listed() == store.n_listed(), "public data are seen by everybody"


def test_a_duration_is_known_however_many_others_are_newer(store: Store) -> None:
    spec, other = replay.a_spec(), replay.a_spec(tasks=2)
    replay.fill(store, spec, [])
    for _ in range(200):
        replay.fill(store, other, [])
    assert None not in store.estimates([run.work_of(spec), run.work_of(other)])
