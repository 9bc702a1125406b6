"""Deleting a dataset deletes its runs with all that is stored of them, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import postgresql

from dpcl_core import unforeseen
from dpcl_core.data import own
from dpcl_core.runs import administration, tables
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.process import log_file, me
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.shards import Sets
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow

pytestmark = both_if_slow


def _on(dataset: str):
    spec = replay.a_spec()
    return replace(spec, data=replace(spec.data, dataset=dataset))


def _counts(store) -> dict[str, int]:
    return {table.name: len(store.rows(table.select())) for table in tables.metadata.sorted_tables}


@both
def test_all_of_its_runs_go_and_all_others_stay(store):
    other = replay.fill(store, _on("own:visits-2"), replay.recorded(replay.a_spec()))
    Sets(store).create("preset", {"a": _on("digits"), "b": _on("digits")})
    before, words = _counts(store), store.events(other)
    run_id = replay.fill(store, _on("own:visits"), replay.recorded(replay.a_spec()))
    Audits(store).create(run_id)
    Sets(store).create("preset", {"a": _on("own:visits"), "b": _on("own:visits")})
    rooms = Rooms(store)
    code = rooms.open("Monday", "token")
    rooms.join(code, "Ann")
    rooms.add_run(code, "Ann", run_id)
    assert len(administration.runs_on(store, "own:visits")) == 4, "a run, its audit and two of a set"
    assert administration.purge(store, "own:visits") == 4
    rooms.close(code, "token")
    assert _counts(store) == before | {"kept_turns": 1}, "of the one that was started"
    assert store.events(other) == words


def test_a_run_under_way_keeps_all_of_them(store):
    for _ in range(2):
        run_id = store.create(_on("own:visits"))
    first = administration.runs_on(store, "own:visits")[0]
    assert store.claim(first, me())
    refuses("stop it first", administration.purge, store, "own:visits")
    assert [run.id for run in store.unfinished()] == [first, run_id]


def test_a_visitor_deletes_no_data_of_the_computer_or_of_another_visitor(store, tmp_path):
    anna = store.as_visitor(Visitor("anna", Limits()))
    for name, owner in (("visits", ""), ("his", "bert"), ("hers", "anna")):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (folder / own.OWNER).write_text(owner, encoding="ascii")
        store.create(_on(f"own:{name}"))
    for name in ("own:visits", "own:his", "own:nobodys"):
        refuses(f"data = {name}: was not brought by you: only who did can delete it", administration.purge, anna, name)
    assert administration.purge(anna, "own:hers") == 1
    assert [administration.purge(store, name) for name in ("own:visits", "own:his")] == [1, 1]


def test_logs_of_another_user_hold_up_neither_data_nor_trash(store, tmp_path):
    """As after `sudo dpcl run`: the data would otherwise stay for ever, whose runs are gone."""
    run_id, other = store.create(_on("own:visits")), store.create(_on("digits"))
    folder = tmp_path / "data" / "visits"
    folder.mkdir(parents=True)
    (folder / own.ORIGIN).touch()
    store.delete(other)
    for path in (*map(log_file, (run_id, other)), unforeseen.log_file()):
        path.mkdir(parents=True)  # which no more than another user's file can be unlinked
    assert administration.purge(store, "own:visits") == 1
    assert not folder.exists()
    assert administration.empty_trash(store) == 1


def test_logs_go_also_where_the_data_cannot_be_deleted(store, tmp_path, monkeypatch):
    run_id = store.create(_on("own:visits"))
    for path in (tmp_path / "data" / "visits" / own.ORIGIN, log_file(run_id), unforeseen.log_file()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(own, "delete", lambda _: False)
    refuses("some of its files could not be deleted", administration.purge, store, "own:visits")
    assert list((tmp_path / "logs").iterdir()) == []


def test_postgresql_reads_the_settings_as_json():
    """Kept as text, exactly as its digest was taken, they have no operator of JSON there."""
    said = str(select(tables.dataset).compile(dialect=postgresql.dialect()))
    assert "CAST(runs.spec AS JSON) #>>" in said


def test_a_name_in_any_letters_is_found(store):
    run_id = store.create(_on("own:Прийом"))
    assert administration.runs_on(store, "own:Прийом") == [run_id]


@pytest.mark.parametrize("name", ["own:%", "own:_isits", "own:visit", 'own:"visits', "visits", "own:VISITS"])
def test_no_pattern_finds_more_than_its_own_name(store, name):
    store.create(_on("own:visits"))
    assert administration.purge(store, name) == 0
