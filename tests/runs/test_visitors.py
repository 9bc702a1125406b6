"""A shared server: limits for each visitor, runs that only their owner changes, a trash that is emptied."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from dpcl_core import paths
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs import administration, executor, process, queue, resumption, rooms, shards, tables
from dpcl_core.runs.administration import empty_trash, purge
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.executor import Supervisor
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.run import Failure, Run, Split, columns_of, work_of
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from tests.data.making import put
from tests.support import replay, tuned
from tests.support.asserting import complaint, refusal_of, refuses
from tests.support.postgres import both, both_if_slow, file_alone

pytestmark = both

SPEC = replay.a_spec()  # nine cells


def visiting(store: Store, name: str, **limits: int) -> Store:
    return store.as_visitor(Visitor(name, Limits(**limits)))


def test_a_run_above_a_limit_is_refused_with_what_mends_it(store):
    with pytest.raises(BadInput, match="budgets times seeds = 9: must be at most 8 on this server: take fewer"):
        visiting(store, "anna", cells=8).create(SPEC)
    visiting(store, "anna", cells=9).create(SPEC)
    with pytest.raises(BadInput, match="your runs = 1: you may have 1 waiting or under way on this server"):
        visiting(store, "anna", places=1).create(SPEC)
    visiting(store, "bert", places=1).create(SPEC)  # whose places are not hers
    store.create(SPEC)  # from a terminal
    assert len(store.unfinished()) == 3


@both_if_slow
def test_a_run_that_would_take_too_long_is_refused_before_it_starts(store):
    visiting(store, "anna", seconds=1).create(SPEC)  # nothing is known of how long it takes
    _took(store, 20.0)
    refuses("estimated seconds = 20: must be at most 19 on this server", visiting(store, "anna", seconds=19).create, SPEC)
    visiting(store, "anna", seconds=20).create(SPEC)
    with pytest.raises(BadInput, match="estimated seconds = 30"):
        administration.check_cost(visiting(store, "anna", seconds=20), SPEC, 30.0)  # as the page estimates it
    administration.check_cost(store, SPEC, 1e9)


def test_a_set_is_refused_whole(store):
    anna = visiting(store, "anna", places=2)
    refuses("your runs = 2", Sets(anna).create, "q", {str(seed): replay.a_spec(seeds=(seed,)) for seed in range(3)})
    assert store.unfinished() == []


def test_what_a_visitor_keeps_is_limited_until_the_trash_is_emptied(store):
    anna = visiting(store, "anna", megabytes=1)
    mine, others = _finished(anna), _finished(store)
    with store.writing() as connection:
        row = {"epsilon": 1.0, "seed": 0, "task": 0, "about": {}, "arrays": bytes(1_000_001)}
        connection.execute(tables.classifiers.insert(), [{"run_id": run_id, **row} for run_id in (mine, others)])
    refuses(r"megabytes you keep = 1\.0: must be at most 1 .* empty the trash there", anna.create, SPEC)
    anna.delete(mine)
    refuses("megabytes", anna.create, SPEC)
    assert ([run.id for run in anna.trash()], empty_trash(anna), anna.trash()) == ([mine], 1, [])
    anna.create(SPEC)
    refuses("no such run", anna.restore, mine)
    assert store.get(others).status == "finished"


def test_checkpoints_of_stopped_runs_and_uploaded_data_count(store, home):
    anna = visiting(store, "anna", megabytes=1)
    run_id, others = anna.create(SPEC), store.create(SPEC)
    anna.request_stop(run_id)
    row = {"learner": 0, "events": [], "document": "x" * 300_000, "arrays": bytes(300_000)}
    with store.writing() as connection:
        earlier = {"run_id": run_id, "task": 0, "learner": 0, "events": [], "document": None, "arrays": None}
        states = [{"run_id": of, "task": 1, **row} for of in (run_id, others)]
        connection.execute(tables.checkpoints.insert(), [earlier, *states])
    administration.check_kept(anna)
    refuses(r"megabytes you keep = 1\.1: .* or delete data on Your data", administration.check_kept, anna, 500_000)
    for owner, folder in (("anna", home / "data" / "hers"), ("bert", home / "data" / "his")):
        put(folder / own.OWNER, owner)
        put(folder / "train.csv", bytes(300_000))
    administration.check_kept(anna)
    put(paths.uploads("anna") / "next.csv", bytes(200_000))
    refuses("megabytes", anna.create, SPEC)
    anna.delete(run_id)  # and its checkpoints
    anna.create(SPEC)


def test_a_resumed_run_needs_a_place(store):
    anna = visiting(store, "anna", places=1)
    run_id = anna.create(SPEC)
    anna.request_stop(run_id)
    other = anna.create(SPEC)
    refuses("your runs = 1: you may have 1", resumption.resume, anna, run_id)
    assert store.status(run_id) == "cancelled"
    anna.request_stop(other)
    resumption.resume(anna, run_id)
    assert store.status(run_id) == "queued"


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_a_run_that_takes_longer_than_allowed_is_stopped_and_says_why(store, monkeypatch, ends_by_itself):
    monkeypatch.setenv(queue.VARIABLE, "seconds=20")
    ids = {name: visiting(store, name).create(SPEC) for name in ("anna", "bert")} | {"": store.create(SPEC)}
    for name, run_id in ids.items():
        begun = {"status": "running", "started": time.time(), "seconds": 5 if name == "bert" else 30}
        replay.alter(store, run_id, runs_on=name, **begun, **columns_of(process.me()))
    supervisor = Supervisor(store)
    for _ in range(2):
        supervisor.check()
    assert [store.status(run_id) for run_id in ids.values()] == ["stopping", "running", "running"]
    run_id = ids["anna"]
    store.append(run_id, replay.recorded(SPEC)[:30])
    if ends_by_itself:
        store.end(run_id, "cancelled")
    else:
        store.mark_failed(store.get(run_id), Failure("worker-died", "gone", ""))
    ended = store.get(run_id)
    assert (ended.status, len(store.events(run_id))) == ("cancelled", 30)
    assert ended.error == "It was stopped after 20 seconds, the most on this server: take fewer examples, budgets or seeds."
    refuses("cannot be resumed: it took longer than its server allows", resumption.resume, store, run_id)


def test_a_run_that_is_stopped_and_resumed_keeps_the_seconds_that_it_has_taken(store, monkeypatch):
    monkeypatch.setenv(queue.VARIABLE, "seconds=25000")
    anna = visiting(store, "anna", seconds=25_000)
    run_id = anna.create(SPEC)
    for _ in range(2):
        _began(store, run_id, 9000)
        assert executor.overrun(store, store.get(run_id)) is None
        assert store.end(run_id, "cancelled")
        resumption.resume(anna, run_id)
        anna.request_stop(run_id)  # waiting takes nothing
        resumption.resume(anna, run_id)
    _began(store, run_id, 9000)
    assert executor.overrun(store, store.get(run_id)) is not None
    store.end(run_id, "finished")
    assert store.get(run_id).seconds_taken == pytest.approx(27_000, abs=1000)
    assert store.estimates([work_of(SPEC)])[0] == pytest.approx(27_000, abs=1000)
    refuses("estimated seconds = 27", anna.create, SPEC)


def test_all_turns_of_a_tuning_count_and_one_that_took_too_long_is_not_resumed(store, monkeypatch):
    monkeypatch.setenv(queue.VARIABLE, "seconds=25000")
    studies = Studies(visiting(store, "anna", seconds=25_000))
    turn = study_id = studies.create(tuned.a_tuning())
    for _ in range(2):
        _began(store, turn, 9000)
        Supervisor(store).check()
        assert store.status(turn) == "starting"
        store.end(turn, "cancelled")
        turn = studies.resume(study_id)
    _began(store, turn, 9000)
    Supervisor(store).check()
    assert store.status(turn) == "stopping"
    store.end(turn, "cancelled")
    assert not studies.get(study_id).is_resumable
    refuses("took longer than its server allows; start a new one with fewer trials", studies.resume, study_id)
    other = studies.create(tuned.a_tuning())
    _began(store, other, 9000)
    Supervisor(store).check()
    assert store.status(other) == "starting", "its seconds are its own"


def test_a_run_that_would_take_too_long_is_not_resumed(store):
    anna = visiting(store, "anna", seconds=20)
    run_id = anna.create(SPEC)
    anna.request_stop(run_id)
    _took(store, 30.0)
    refuses("estimated seconds = 30: must be at most 20", resumption.resume, anna, run_id)


def test_a_run_takes_no_time_while_its_computer_is_off(store):
    run_id = store.create(SPEC)
    _began(store, run_id, 60)
    _is_silent(store, run_id, 9000)
    assert store.mark_failed(store.get(run_id), Failure("worker-died", "gone", ""))
    assert store.get(run_id).seconds_taken == pytest.approx(60, abs=1)


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_and_a_computer_that_sleeps_cost_a_run_a_minute_at_most(store, monkeypatch, step):
    monkeypatch.setenv(queue.VARIABLE, "seconds=200")
    run_id = visiting(store, "anna").create(SPEC)
    _began(store, run_id, 120)
    _is_silent(store, run_id, step)
    assert 110 < (store.get(run_id).seconds_taken or 0.0) < 190
    assert executor.overrun(store, store.get(run_id)) is None
    store.heartbeat(run_id, process.me())
    assert 110 < (store.get(run_id).seconds_taken or 0.0) < 190
    store.end(run_id, "finished")
    assert 110 < (store.get(run_id).seconds or 0.0) < 190


def test_only_who_started_a_run_changes_it(store):
    anna, bert = visiting(store, "anna"), visiting(store, "bert")
    mine, nobodys = anna.create(SPEC), store.create(SPEC)
    for run_id in (mine, nobodys):
        for act in (bert.request_stop, bert.delete, bert.restore, lambda run_id: bert.rename(run_id, "x")):
            refuses("was not started by you: only who did can change it", act, run_id)
    assert [store.get(run_id).status for run_id in (mine, nobodys)] == ["queued", "queued"]
    assert [bert.may_change(store.get(run_id)) for run_id in (mine, nobodys)] == [False, False]
    assert anna.may_change(store.get(mine))
    assert store.may_change(store.get(mine))
    assert anna.request_stop(mine) == "cancelled"
    assert store.request_stop(nobodys) == "cancelled"
    set_id = Sets(anna).create("q", {"a": SPEC})
    refuses("not started by you", lambda: Sets(bert).request_stop(set_id))
    study_id = Studies(anna).create(tuned.a_tuning())
    anna.request_stop(study_id)
    refuses("not started by you", lambda: Studies(bert).resume(study_id))
    assert store.get(Audits(bert).create(_finished(anna))).owner == "bert"  # everybody may audit what all can read


def test_the_trash_of_another_visitor_is_neither_seen_nor_emptied(store):
    anna, bert = visiting(store, "anna"), visiting(store, "bert")
    hers, nobodys = _finished(anna), _finished(store)
    anna.delete(hers)
    store.delete(nobodys)
    assert (bert.trash(), empty_trash(bert)) == ([], 0)
    assert len(store.events(hers)) == len(replay.recorded(SPEC))
    assert ({run.id for run in store.trash()}, empty_trash(store)) == ({hers, nobodys}, 2)
    assert [store.rows(select(table)) for table in (tables.events, tables.cells)] == [[], []]
    assert store.list_runs() == []


def test_a_run_restored_while_the_trash_is_emptied_keeps_its_results(store, monkeypatch):
    run_id = _finished(store)
    store.delete(run_id)
    seen = Store.trash(store)
    store.restore(run_id)
    monkeypatch.setattr(Store, "trash", lambda _: seen)  # what somebody had read just before
    assert (empty_trash(store), len(store.events(run_id))) == (0, len(replay.recorded(SPEC)))
    assert [run.id for run in store.list_runs()] == [run_id]


def test_an_emptied_run_on_own_data_stays_a_look(store):
    run_id = _finished(store, replay.a_spec(dataset="own:mine"))
    before = administration.looks_at(store, "own:mine")
    store.delete(run_id)
    empty_trash(store)
    assert (before.runs, administration.looks_at(store, "own:mine")) == (1, before)


def test_limits_are_read_from_one_line(monkeypatch):
    monkeypatch.delenv(queue.VARIABLE, raising=False)
    assert queue.limits() is None
    monkeypatch.setenv(queue.VARIABLE, "usual")
    assert queue.limits() == Limits()
    monkeypatch.setenv(queue.VARIABLE, "cells=60, megabytes=7")
    assert queue.limits() == Limits(cells=60, megabytes=7)


@pytest.mark.parametrize(("text", "says"), [
    ("cell=3", "did you mean cells"),
    ("cells=0", "DPCL_SHARED cells = 0: must be a whole number of at least 1"),
    ("cells=-1", "must be a whole number"),
    ("cells=1.5", "must be a whole number"),
    ("yes", "must be one of cells, seconds, places, megabytes, address_places, "),
    ("", "must "),  # of a variable that was never set
])
@pytest.mark.parametrize("said", ["option", "environment"])
@file_alone
def test_wrong_limits_are_refused_before_the_server_starts(home, capsys, monkeypatch, text, says, said):
    monkeypatch.setattr("os.execve", lambda *_, **__: pytest.fail("it started"))
    if said == "environment":
        monkeypatch.setenv(queue.VARIABLE, text)
    assert says in complaint(capsys, "app", *([f"--shared={text}"] if said == "option" else []))


def _finished(store: Store, spec=SPEC) -> str:
    return replay.fill(store, spec, replay.recorded(spec))


def _began(store: Store, run_id: str, seconds: float) -> None:
    """Claims a run, which then works for so many seconds."""
    assert store.claim(run_id, process.me())
    for _ in range(round(seconds / 60)):
        _is_silent(store, run_id, 60.0)
        store.heartbeat(run_id, process.me())


def _is_silent(store: Store, run_id: str, seconds: float) -> None:
    """As if a run had given its last sign of life so many seconds earlier."""
    replay.alter(store, run_id, heartbeat=tables.runs.c.heartbeat - seconds)


def _took(store: Store, seconds: float) -> None:
    replay.alter(store, _finished(store), seconds=seconds)


# Whose turn it is on a shared server: a fair queue, and fresh tokens, which cost a stranger nothing.


def _next_runs(store: Store) -> frozenset[str]:
    with store.reading() as connection:
        return queue.next_runs(connection)


def test_whoever_had_the_fewest_runs_lately_is_next(store):
    anna, bert = visiting(store, "anna"), visiting(store, "bert")
    first, second, third = (anna.create(SPEC) for _ in range(3))
    his = bert.create(SPEC)
    assert _places(store, first, his, second, third) == [1, 2, 3, 4]
    started: list[str] = []
    while waiting := _next_runs(store):
        (run_id,) = waiting
        assert not any(store.claim(run.id) for run in store.unfinished() if run.id != run_id)
        assert store.claim(run_id)
        started.append(run_id)
        store.end(run_id, "finished")
    assert started == [first, his, second, third]
    again, hers = bert.create(SPEC), visiting(store, "clara").create(SPEC)
    assert _places(store, again, hers) == [1, 2]  # she had none, but came after it was put there
    his_third = bert.create(SPEC)
    assert _places(store, again, hers, his_third) == [1, 2, 3]
    store.request_stop(his_third)
    store.change(update(tables.runs).values(started=time.time() - queue.RECENT_SECONDS - 1))
    assert _places(store, again, hers) == [1, 2]  # long ago counts no more


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owners=st.lists(st.sampled_from(["anna", "bert", "clara"]), max_size=9))
@both_if_slow
def test_nobody_gets_two_places_more_than_another_who_waits(store, owners: Sequence[str]):
    for run in store.unfinished():
        store.request_stop(run.id)
    made = [visiting(store, owner).create(SPEC) for owner in owners]
    order = sorted((store.get(run_id) for run_id in made), key=_place)
    for n in range(len(order) + 1):
        begun = [run.owner for run in order[:n]]
        for owner in {run.owner for run in order[n:]}:
            assert all(begun.count(other) <= begun.count(owner) + 1 for other in set(owners))
    for owner in set(owners):
        mine = [run.id for run in order if run.owner == owner]
        assert mine == [run_id for run_id in made if run_id in mine]  # first come, first served


def test_parts_take_their_turns_as_runs_of_whoever_started_the_whole(store):
    """And count nowhere else as that visitor's: the places, the list and the trash have the whole run alone."""
    names, wholes = dict[str, str](), dict[str, str]()
    for name in ("anna", "bert", "a terminal"):
        own = store if name == "a terminal" else visiting(store, name, places=2)
        wholes[name] = own.create(SPEC, split=Split(3, "local", "cpu"))
    for name, whole in wholes.items():
        assert store.claim(whole, process.me())
        shards._put_into_queue(store, whole, [[0], [1], [2]], "cpu")
        replay.alter(store, whole, runs_on=None)
        names |= {shard.id: name for shard in shards.parts_of(store, whole)}
    names[visiting(store, "carl").create(SPEC)] = "carl"  # who has had no run, but came last
    with store.reading() as connection:
        order = [names[row.id] for row in queue.in_order(connection)["cpu"]]
        assert {owner: len(times) for owner, times in queue._starts(connection).items()} == {"anna": 1, "bert": 1, "": 1}
    assert order == [*["anna", "bert", "a terminal"], "carl", *["anna", "bert", "a terminal"] * 2]
    visiting(store, "anna", places=2).create(SPEC)
    part = next(iter(names))
    assert {run.owner for run in store.list_runs()} == {"anna", "bert", "carl", None}
    assert len(store.list_runs()) == 5
    refuses("was not started by you", lambda: visiting(store, "anna").request_stop(part))


def test_who_deletes_data_with_their_runs_has_still_had_those_turns(store, home):
    """In parts, too. What is kept of a run is its owner and when it was started."""
    anna, bert = visiting(store, "anna"), visiting(store, "bert")
    on_hers = replay.a_spec(dataset="own:hers")
    put(home / "data" / "hers" / own.OWNER, "anna")
    whole = replay.claim(anna, on_hers, split=Split(2, "local", "cpu"))
    shards._put_into_queue(store, whole, [[0], [1]], "cpu")
    replay.alter(store, whole, runs_on=None)
    (part,) = _next_runs(store)
    assert store.claim(part)
    for run_id in (part, whole):
        store.end(run_id, "cancelled")
    for run in store.unfinished():
        store.request_stop(run.id)
    his = bert.create(SPEC)
    replay.ended(store, his)
    hers, next_of_his = anna.create(SPEC), bert.create(SPEC)
    assert _places(store, next_of_his, hers) == [1, 2]
    purge(anna, "own:hers")
    assert _places(store, next_of_his, hers) == [1, 2]
    assert store.rows(select(tables.kept_turns.c.owner)) == [("anna",), ("anna",)]
    store.change(update(tables.kept_turns).values(started=time.time() - queue.RECENT_SECONDS - 1))
    assert _places(store, hers, next_of_his) == [1, 2]
    purge(store, "own:hers")
    assert store.rows(select(tables.kept_turns.c.owner)) == []


def test_where_nobody_owns_a_run_the_oldest_is_next(store):
    ids = [store.create(SPEC) for _ in range(3)]
    replay.ended(store, ids[0])
    assert (_places(store, *ids[1:]), _next_runs(store)) == ([1, 2], {ids[1]})


# Fresh tokens, which cost a stranger nothing


def stranger(store: Store, number: int, address: str | None = "there", **limits: int) -> Store:
    return store.as_visitor(Visitor(f"fresh {number}", Limits(**limits), address))


def test_fresh_tokens_of_one_address_count_together_and_go_before_nobody(store):
    honest = store.as_visitor(Visitor("honest", Limits(), "here"))
    replay.ended(store, honest.create(SPEC))
    first, second = honest.create(SPEC), honest.create(SPEC)
    theirs = [stranger(store, number).create(SPEC) for number in range(20)]
    assert refusal_of(stranger(store, 20).create, SPEC).field == "runs of your class or address"
    newcomer = store.as_visitor(Visitor("new", Limits(), "elsewhere")).create(SPEC)
    assert _places(store, first, theirs[0], newcomer, second, theirs[1]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("address", "n_mine", "of_strangers"), [
    ("there", 3, ["there"] * 3),  # who shares an address with fresh tokens keeps all places
    ("here", 1, [f"address {number}" for number in range(9)]),  # as many addresses go before no next run
])
def test_fresh_tokens_wait_until_who_was_there_before_has_had_a_turn(store, address, n_mine, of_strangers):
    honest = store.as_visitor(Visitor("honest", Limits(), address))
    replay.ended(store, honest.create(SPEC))
    mine = [honest.create(SPEC) for _ in range(n_mine)]
    theirs = [stranger(store, number, one).create(SPEC) for number, one in enumerate(of_strangers)]
    assert _places(store, *mine, *theirs) == list(range(1, n_mine + len(theirs) + 1))


def test_a_class_of_thirty_on_one_address_has_places_of_its_own(store):
    """Which are its teacher's: rooms that strangers open from one address give them no more."""
    school = "school"
    teacher = store.as_visitor(Visitor(rooms.digest("teacher"), Limits(), school))
    codes = [rooms.Rooms(teacher).open("Monday", "teacher") for _ in range(2)]
    pupils = [f"pupil {number}" for number in range(30)]
    for number, pupil in enumerate(pupils):
        rooms.Rooms(store).join(codes[number % 2], pupil)

    def of(pupil: str) -> Store:
        return store.as_visitor(Visitor(rooms.digest(pupil), Limits(class_places=31), school))

    for number in range(20):
        stranger(store, number, school).create(SPEC)
    made = [of(pupil).create(SPEC) for pupil in pupils]
    honest = store.as_visitor(Visitor("honest", Limits(), "home")).create(SPEC)
    assert _places(store, honest) == [3]  # after one of the strangers and one of the class
    of(pupils[0]).create(SPEC)
    refused = refusal_of(of(pupils[1]).create, SPEC)
    assert (refused.field, refused.value) == ("runs of your class or address", 31)
    assert _places(store, *made) == sorted(_places(store, *made))


@pytest.mark.parametrize(("limits", "field"), [
    ({"all_places": 2, "places": 1}, "runs of all visitors"),
    ({"all_seconds": 100, "seconds": 40}, "estimated seconds of all runs"),
    ({"all_megabytes": 2, "megabytes": 1}, "megabytes kept by all visitors"),
    ({"address_megabytes": 2, "megabytes": 1}, "megabytes kept by your class or address"),
])
def test_all_visitors_together_have_no_more_than_the_server(store, home, limits, field):
    address = "there" if field.endswith("address") else None
    for number in range(2):
        visitor = stranger(store, number, address, **limits)
        administration.check_kept(visitor, 900_000)
        visitor.create(SPEC)
        put(paths.uploads(f"fresh {number}") / "x.csv", bytes(999_000 if "megabytes" in limits else 0))
    visitor = stranger(store, 2, address, **limits)
    act, *given = (administration.check_kept, visitor, 10_000) if "megabytes" in limits else (visitor.create, SPEC)
    assert refusal_of(act, *given).field == field
    if "places" in limits or "all_seconds" in limits:
        store.create(SPEC)  # from a terminal


def test_rooms_are_limited_by_address_and_in_all(store):
    for number in range(2):
        rooms.Rooms(stranger(store, number, address_rooms=2)).open("Monday", f"token {number}")
    refused = refusal_of(rooms.Rooms(stranger(store, 2, address_rooms=2)).open, "Monday", "token 2")
    assert (refused.field, refused.value) == ("your rooms", 2)
    refused = refusal_of(rooms.Rooms(stranger(store, 3, "elsewhere", all_rooms=2)).open, "Monday", "token 3")
    assert (refused.field, refused.value) == ("rooms", 2)
    rooms.Rooms(store).open("Monday", "from a terminal")


@file_alone
def test_of_an_address_a_keyed_digest_is_kept_for_a_day(store, home):
    one, same, other = map(queue.address_of, ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"))
    assert one == same != other
    assert queue.address_of("::ffff:192.0.2.7") == queue.address_of("192.0.2.7") != queue.address_of("192.0.2.8")
    assert (home / "addresses.key").stat().st_mode & 0o777 == 0o600
    administration.check_kept(stranger(store, 1, one), 1)
    open_run = stranger(store, 2, other).create(SPEC)
    store.change(update(tables.visitors).values(seen=time.time() - 86_401))
    administration.check_kept(stranger(store, 3, None), 1)
    assert store.pairs(select(tables.visitors.c.owner, tables.visitors.c.address)) == {"fresh 2": other, "fresh 3": None}
    assert store.get(open_run).status == "queued"


def _places(store: Store, *run_ids: str) -> list[int]:
    return [_place(store.get(run_id)) for run_id in run_ids]


def _place(run: Run) -> int:
    return run.place_in_queue
