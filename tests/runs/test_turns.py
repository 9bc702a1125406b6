"""Whose turn it is on a shared server: a fair queue, and fresh tokens, which cost a stranger nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from dpcl_core import paths
from dpcl_core.data import own
from dpcl_core.runs import administration, process, queue, rooms, shards, tables
from dpcl_core.runs.administration import purge
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.run import Run, Split
from dpcl_core.runs.store import Store
from tests.runs.test_visitors import visiting
from tests.support import replay
from tests.support.asserting import refusal_of, refuses
from tests.support.postgres import both, both_if_slow, file_alone

pytestmark = both

SPEC = replay.a_spec()  # nine cells


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
        waiting = {run.owner for run in order[n:]}
        for owner in waiting:
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
    on_hers = replace(SPEC, data=replace(SPEC.data, dataset="own:hers"))
    folder = home / "data" / "hers"
    folder.mkdir(parents=True)
    (folder / own.OWNER).write_text("anna")
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
    assert store.claim(his)
    store.end(his, "finished")
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
    store.claim(ids[0])
    store.end(ids[0], "finished")
    assert (_places(store, *ids[1:]), _next_runs(store)) == ([1, 2], {ids[1]})


# Fresh tokens, which cost a stranger nothing


def stranger(store: Store, number: int, address: str | None = "there", **limits: int) -> Store:
    return store.as_visitor(Visitor(f"fresh {number}", Limits(**limits), address))


def test_fresh_tokens_of_one_address_count_together_and_go_before_nobody(store):
    honest = store.as_visitor(Visitor("honest", Limits(), "here"))
    _ran(store, honest.create(SPEC))
    first, second = honest.create(SPEC), honest.create(SPEC)
    theirs = [stranger(store, number).create(SPEC) for number in range(20)]
    assert refusal_of(stranger(store, 20).create, SPEC).field == "runs of your class or address"
    newcomer = store.as_visitor(Visitor("new", Limits(), "elsewhere")).create(SPEC)
    assert _places(store, first, theirs[0], newcomer, second, theirs[1]) == [1, 2, 3, 4, 5]


def test_who_shares_an_address_with_fresh_tokens_keeps_all_places(store):
    honest = store.as_visitor(Visitor("honest", Limits(), "there"))
    _ran(store, honest.create(SPEC))
    mine = [honest.create(SPEC) for _ in range(3)]
    theirs = [stranger(store, number).create(SPEC) for number in range(3)]
    assert _places(store, *mine, *theirs) == [1, 2, 3, 4, 5, 6]


def test_fresh_tokens_of_as_many_addresses_go_before_no_next_run(store):
    honest = store.as_visitor(Visitor("honest", Limits(), "here"))
    _ran(store, honest.create(SPEC))
    mine = honest.create(SPEC)
    theirs = [stranger(store, number, f"address {number}").create(SPEC) for number in range(9)]
    assert _places(store, mine, *theirs) == list(range(1, 11))


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
        (folder := paths.uploads(f"fresh {number}")).mkdir(parents=True)
        if "megabytes" in limits:
            (folder / "x.csv").write_bytes(bytes(999_000))
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


def _ran(store: Store, run_id: str) -> None:
    assert store.claim(run_id)
    store.end(run_id, "finished")


def _places(store: Store, *run_ids: str) -> list[int]:
    return [_place(store.get(run_id)) for run_id in run_ids]


def _place(run: Run) -> int:
    return run.place_in_queue
