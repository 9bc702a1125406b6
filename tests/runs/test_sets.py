"""Sets of runs: their order, one stop for all, a run that fails among them, and two apps at once."""

import threading
from itertools import pairwise

import pytest

from dpcl_core.runs import administration
from dpcl_core.runs import shards as sets_module
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from tests.support import replay, stand_in
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow
from tests.support.together import together
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.watching import watched

pytestmark = both_if_slow

SPECS = {name: replay.a_spec(seeds=(seed,)) for seed, name in enumerate(("first", "second", "third"))}


@pytest.fixture
def sets(store: Store) -> Sets:
    return Sets(store)


@both
def test_a_set_is_one_entry_whose_runs_follow_one_another(store, sets):
    before = store.create(replay.a_spec())
    whole = sets.get(sets.create("a question", SPECS))
    after = store.create(replay.a_spec())
    assert list(whole.runs) == list(SPECS)
    assert [run.spec for run in whole.runs.values()] == list(SPECS.values())
    assert [run.name for run in whole.runs.values()] == [f"a question: {label}" for label in SPECS]
    assert [run.place_in_queue for run in whole.runs.values()] == [2, 2, 2]
    assert store.get(after).place_in_queue == 3
    assert not store.claim(whole.id)
    store.request_stop(before)
    first, second, third = (run.id for run in whole.runs.values())
    assert not store.claim(second)
    assert store.claim(first)
    assert store.get(second).place_in_queue is None, "a set under way waits no more"
    assert (store.get(after).place_in_queue, sets.get(whole.id).status) == (1, "starting")
    assert sets.get(whole.id).current[0] == "first"
    store.end(first, "finished")
    assert sets.get(whole.id).status == "running", "the second is about to start"
    assert not store.claim(after)
    replay.ended(store, second)
    assert sets.under_way() == {"a question": 1}
    replay.ended(store, third)
    ended = sets.get(whole.id)
    assert (ended.status, ended.is_over, ended.current, ended.line()) == ("finished", True, None, "3 of 3 runs finished")
    assert (sets.under_way(), sets.newest("a question").id, sets.newest("another")) == ({}, whole.id, None)
    assert (sets.of_run(second), sets.of_run(before)) == (whole.id, None)


def test_the_runs_of_a_set_have_the_titles_that_pages_give_them(store, sets):
    whole = sets.get(sets.create("a question", SPECS, titles={"first": "One, and more", "second": "x" * 120}))
    assert [run.name for run in whole.runs.values()] == ["One, and more", "x" * 100, "a question: third"]


def test_the_second_press_of_two_finds_the_set_of_the_first(store, sets):
    first = sets.create("a question", SPECS, once=True)
    assert sets.create("a question", SPECS, once=True) == first
    assert sets.create("another", SPECS, once=True) != first
    sets.request_stop(first)
    again = sets.create("a question", SPECS, once=True)
    assert again != first, "a set that is over can be started again"
    assert sets.create("a question", SPECS) not in (first, again), "a command asks for another one"


@pytest.mark.databases("postgresql")
def test_of_two_presses_at_once_the_second_waits_and_finds_the_set_of_the_first(store, monkeypatch):
    """Where the database has many writers at once."""
    made, begun, may_end = dict[int, str](), threading.Event(), threading.Event()

    def held_up(*_: object) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    def press(number: int) -> None:
        made[number] = Sets(store).create("a question", SPECS, once=True)

    watched(monkeypatch, sets_module, "enqueue", held_up)
    presses = [threading.Thread(target=press, args=(number,)) for number in range(2)]
    presses[0].start()
    assert begun.wait(PATIENCE_SECONDS)
    presses[1].start()
    try:
        until(lambda: n_who_wait_for_a_lock(store) == 1)
    finally:
        may_end.set()
        for each in presses:
            each.join()
    assert (made[0], len(store.list_runs())) == (made[1], len(SPECS))


def n_who_wait_for_a_lock(store: Store) -> int:
    waiting = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database AND d.datname = current_database()"
    with store.reading() as connection:
        return int(connection.exec_driver_sql(f"{waiting} WHERE locktype = 'advisory' AND NOT granted").scalar_one())


@both
def test_a_stop_in_the_middle_ends_the_whole_set_and_nothing_else(store, sets):
    set_id = sets.create("q", SPECS)
    other = store.create(replay.a_spec())
    first, second, third = (run.id for run in sets.get(set_id).runs.values())
    replay.ended(store, first)
    store.claim(second)
    sets.request_stop(set_id)
    sets.request_stop(set_id)
    assert [store.status(one) for one in (first, second, third, other)] == ["finished", "stopping", "cancelled", "queued"]
    assert sets.get(set_id).status == "stopping"
    store.end(second, "cancelled")
    assert (sets.get(set_id).status, sets.get(set_id).line()) == ("cancelled", "1 of 3 runs finished, 2 cancelled")
    assert store.claim(other)


def test_a_run_that_crashes_leaves_the_others_and_the_set_says_so(store, sets):
    """Every worker of this app is killed in its first task: each run is lost, and still the next one is begun."""
    app = LocalExecutor(store, stand_in.command("killed"))
    set_id = sets.create("q", dict(list(SPECS.items())[:2]))
    app.schedule()
    until(lambda: app.schedule() or sets.get(set_id).is_over)
    ended = sets.get(set_id)
    assert [run.status for run in ended.runs.values()] == ["lost", "lost"]
    assert ended.line() == "0 of 2 runs finished, 2 lost (first; second)"
    mixed = sets.create("q", SPECS)
    for (_, run), end in zip(sets.get(mixed).runs.items(), ("finished", "failed", "finished"), strict=True):
        replay.ended(store, run.id, end)
    assert (sets.get(mixed).status, sets.get(mixed).line()) == ("failed", "2 of 3 runs finished, 1 failed (second)")
    assert sets.newest("q").id == mixed


def test_two_apps_never_start_a_run_twice(store, sets):
    """Two apps share a store and look after the queue at once: every run has the events of one worker."""
    set_id = sets.create("q", SPECS)
    apps = [LocalExecutor(Store(store.url), stand_in.command("replay:0.2")) for _ in range(2)]

    together(lambda number: until(lambda: apps[number].schedule() or sets.get(set_id).is_over), 2)
    ended = sets.get(set_id)
    assert ended.status == "finished"
    for spec, run in zip(SPECS.values(), ended.runs.values(), strict=True):
        kinds = [type(event).__name__ for event in store.events(run.id)]
        assert (kinds.count("Started"), kinds.count("CellFinished")) == (1, len(list(spec.cells())))
    assert all(one.finished <= after.started for one, after in pairwise(list(ended.runs.values())))


@both
def test_finished_runs_are_found_by_their_settings(store):
    spec, other = replay.a_spec(), replay.a_spec(seeds=(7,))
    replay.fill(store, spec, [])
    newest, gone = replay.fill(store, spec, []), replay.fill(store, other, [])
    replay.fill(store, spec, [], status="failed")
    store.delete(gone)
    assert Sets(store).finished([spec.digest(), other.digest(), "0" * 16]) == {spec.digest(): newest}


def test_what_is_no_set_is_refused(store):
    refuses("preset = q: must have at least one run", lambda: Sets(store).create("q", {}))
    refuses("set = 0123456789ab: no such set", lambda: Sets(store).get("0123456789ab"))
    refuses("device", lambda: Sets(store).create("q", SPECS, device="gpu"))
    assert store.list_runs() == [], "nothing is queued of a set that is refused"


@both
def test_a_set_is_shown_without_the_runs_that_are_deleted_for_good(store, sets):
    earlier = sets.create("a question", {"only": replay.a_spec()})
    whole = sets.get(sets.create("a question", SPECS))
    store.request_stop(earlier)
    sets.request_stop(whole.id)
    first, *others = (run.id for run in whole.runs.values())  # the set has the id of the first
    store.delete(first)
    administration.empty_trash(store)
    assert list(sets.get(whole.id).runs) == ["second", "third"]
    assert sets.newest("a question").line() == "0 of 2 runs finished, 2 cancelled"
    for run_id in others:
        store.delete(run_id)
    administration.empty_trash(store)
    assert sets.newest("a question").id == earlier, "a set whose runs are all gone is as if it had never been"
    refuses("no such set", sets.get, whole.id)
