"""The count of looks at a person's own data: what counts, what it adds up to, and where it is said."""

import math
from pathlib import Path

import pytest
from sqlalchemy import insert, select
from sqlalchemy.dialects import postgresql

from dpcl_core import checks, export, paths, unforeseen
from dpcl_core.data import catalog, outline, own
from dpcl_core.privacy import statement
from dpcl_core.runs import administration, resumption, tables
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.process import log_file, me
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import Trial
from tests.data.making import put
from tests.runs.test_budgets import ROWS, launched, taken_in
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow

pytestmark = both_if_slow


def own_run(name: str = "own:mine", **privacy: object) -> RunSpec:
    raw = {"method": "cosine", "data": {"dataset": name}, "scenario": {"kind": "class-incremental", "tasks": 2}}
    return checks.parse({**raw, "labels": "prior", "privacy": {"epsilons": [1.0, 2.0], **privacy}, "seeds": [0, 1]})


def test_a_launched_run_stays_a_look_that_is_resumed_and_then_not_started(store: Store) -> None:
    """An app has claimed it and dies before it has started a process; the run is stopped while it waits again."""
    run_id = launched(store, own_run(), "cancelled")
    looked = administration.looks_at(store, "own:mine")
    never = store.create(own_run())
    for _ in range(2):
        resumption.resume(store, run_id)
        assert store.claim(run_id)
        assert store.requeue(store.get(run_id))
        store.request_stop(run_id)
    assert store.claim(never)
    assert store.requeue(store.get(never))
    assert (administration.looks_at(store, "own:mine"), looked.runs) == (looked, 1)


@both
def test_every_launched_run_is_one_more_look_and_budgets_add_up(store: Store) -> None:
    """Failed and deleted ones, too: what left them is not known. One that never began looked at nothing."""
    store.delete(launched(store, own_run()))
    launched(store, own_run())
    launched(store, own_run("own:mine2"))
    launched(store, own_run("own:m_ne"))
    store.request_stop(store.create(own_run()))
    found = administration.looks_at(store, "own:mine")
    assert (found.runs, found.models, found.tuned, found.audits) == (2, 8, 0, 0)
    assert (found.epsilon, found.delta) == (pytest.approx(2 * 2 * (1.0 + 2.0)), pytest.approx(8 * 1e-5))
    assert found.sentence == "These data have been used 8 times: ε adds up to at most 12 (δ = 8e-05). It cannot be undone."
    found = administration.Looks("own:m_ne", 1, 4, 0, 0, 6.0, pytest.approx(4e-5))
    assert administration.looks_at(store, "own:m_ne") == found, "_ is no wildcard"


def test_models_on_the_same_batches_do_not_add_up_and_count_as_their_ledgers_say(store: Store) -> None:
    """Amplified by the same draws: together they have more than the sum of their epsilons (`joint_release`)."""
    raw = own_run().jsonable() | {"method": "peft-ensemble", "params": {"adapter": "head"}}
    run_id = launched(store, checks.parse(raw))
    found = administration.looks_at(store, "own:mine")
    assert found.epsilon == math.inf
    with store.writing() as connection:
        of_cell = {"metrics": {}, "guarantee": {"parts": {statement.all_models(4, 1e-5, 1e-5): 7.5}}, "seconds": 1.0}
        connection.execute(insert(tables.cells).values(run_id=run_id, epsilon=1.0, seed=0, **of_cell))
    found = administration.looks_at(store, "own:mine")
    assert (found.models, found.epsilon, found.delta) == (4, 7.5, 1e-5)
    launched(store, checks.parse(raw | {"params": {"adapter": "film"}, "seeds": [0]}))
    found = administration.looks_at(store, "own:mine")
    assert (found.models, found.epsilon, found.delta) == (6, 7.5 + 3.0, pytest.approx(3e-5))


def test_new_data_start_at_none_and_public_data_are_not_counted(store: Store) -> None:
    launched(store, own_run())
    assert administration.sentence(store, "own:new") == "Nobody has used these data yet."
    assert (administration.looks_at(store, "digits"), administration.sentence(store, "digits")) == (None, "")


@pytest.mark.parametrize("changes", [{"epsilons": [1.0, math.inf]}, {"noise": "seeded"}])
def test_one_look_without_a_bound_leaves_none_for_all(changes: dict[str, object], store: Store) -> None:
    launched(store, own_run())
    launched(store, own_run(**changes))
    found = administration.looks_at(store, "own:mine")
    assert (found.epsilon, found.document()["epsilon"]) == (math.inf, "inf")
    assert "one of these uses has no bound, so the sum has none" in found.sentence


@both
def test_settings_tried_on_the_data_and_audits_are_counted(store: Store) -> None:
    """A tuning on a public stand-in looks at that one."""
    base = checks.parse({
        "method": "peft-ensemble", "data": {"dataset": "own:mine"}, "labels": "prior", "seeds": [0],
        "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": [1.0]},
    })  # fmt: skip
    studies = Studies(store)
    for on, proxy in (("private", None), ("public", "digits")):
        study_id = studies.create(settings.parse({"on": on, "proxy": proxy, "base": base, "n_trials": 3}))
        for number in range(2):
            studies.add_trial(study_id, Trial(number, 0.1, 8, 1.0, 0.5, None, 1.0))
        replay.ended(store, study_id, "cancelled")
    found = administration.looks_at(store, "own:mine")
    assert (found.runs, found.tuned, found.audits, found.epsilon) == (0, 2, 0, math.inf)
    run_id = launched(store, base)
    assert store.claim(Audits(store).create(run_id))
    found = administration.looks_at(store, "own:mine")
    assert (found.runs, found.models, found.tuned, found.audits) == (1, 1, 2, 1)
    assert found.sentence.startswith("These data have been used 4 times: one of these uses has no bound")


def test_a_result_says_it_in_its_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_figures", lambda *_: {})
    spec = own_run()
    run_id = replay.fill(store, spec, replay.recorded(spec, n_tasks=2))
    launched(store, spec)
    files = export.bundle(store, run_id)
    for name in ("privacy.txt", "report.html"):
        assert "These data have been used 8 times: " in files[name].decode(), name
    assert b'"looks": {\n  "dataset": "own:mine",\n  "runs": 2,' in files["result.json"]


def n_runs(store: Store, name: str) -> int:
    return administration.looks_at(store, name).runs


def test_two_processes_that_begin_at_once_make_one_key_of_marks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one makes it just after this one has seen that there is none."""
    is_there, of_other = Path.exists, list[bytes]()

    def late(path: Path) -> bool:
        found = is_there(path)
        if path.name == "secret" and not of_other:
            of_other.append(b"")
            of_other[0] = paths.kept_key(path, "the marks of own data")
        return found

    monkeypatch.setattr(Path, "exists", late)
    assert paths.kept_key(home / "secret", "the marks of own data") == of_other[0] == (home / "secret").read_bytes()


def test_deleting_and_bringing_the_same_rows_again_does_not_start_the_count_again(home: Path, store: Store) -> None:
    """Under any name, with another target, and with rows added or left out."""
    name = taken_in(home / "visits.csv")
    for _ in range(2):
        launched(store, own_run(name))
    before = administration.looks_at(store, name)
    administration.purge(store, name)
    again = taken_in(home / "other.csv")
    found = administration.looks_at(store, again)
    assert (found.runs, found.models, found.epsilon) == (before.runs, before.models, before.epsilon)
    assert "Uses of the same rows under another name, or deleted since, count." in found.sentence
    assert n_runs(store, taken_in(home / "target.csv", target="two")) == 2
    assert n_runs(store, taken_in(home / "fewer.csv", ROWS[::2])) == 2
    launched(store, own_run(again))
    assert n_runs(store, taken_in(home / "more.csv", [*ROWS, "7,7,a,d,p"])) == 3
    assert n_runs(store, taken_in(home / "new.csv", [f"1{row}" for row in ROWS])) == 0


def test_the_count_depends_on_no_private_row(home: Path) -> None:
    name = taken_in(home / "visits.csv")
    public = set(outline.outline(catalog.card(name)).test.rows.tolist())
    for left_out in range(0, 200, 9):
        without = taken_in(home / "without.csv", [row for place, row in enumerate(ROWS) if place != left_out])
        assert (own.kept_marks(without) == own.kept_marks(name)) == (left_out not in public)


def test_nobody_learns_what_another_visitor_has_brought(home: Path, store: Store) -> None:
    """Of the very same file neither the count nor the name depends on others'."""
    hers = taken_in(home / "a" / "visits.csv", owner="a" * 64)
    launched(store, own_run(hers))
    his = taken_in(home / "b" / "visits.csv", owner="b" * 64)
    assert (hers, his) == ("own:visits-aaaaaa", "own:visits-bbbbbb")
    assert (n_runs(store, hers), n_runs(store, his)) == (1, 0)
    assert not own.kept_marks(hers) & own.kept_marks(his)
    administration.purge(store, hers)
    assert (n_runs(store, his), n_runs(store, taken_in(home / "a" / "again.csv", owner="a" * 64))) == (0, 1)


def test_what_was_never_looked_at_leaves_nothing(home: Path, store: Store) -> None:
    name = taken_in(home / "visits.csv")
    store.create(own_run(name))
    administration.purge(store, name)
    assert store.rows(tables.kept_looks.select()) == []


def test_another_target_makes_no_other_rows_public(home: Path) -> None:
    """Else a second schema of a file would publish a fifth of what was private under the first."""
    assert own.kept_marks(taken_in(home / "one.csv")) == own.kept_marks(taken_in(home / "two.csv", target="two"))


# Deleting a dataset deletes its runs with all that is stored of them, and nothing else.


def _counts(store) -> dict[str, int]:
    return {table.name: len(store.rows(table.select())) for table in tables.metadata.sorted_tables}


@both
def test_all_of_its_runs_go_and_all_others_stay(store):
    other = replay.fill(store, replay.a_spec(dataset="own:visits-2"), replay.recorded(replay.a_spec()))
    Sets(store).create("preset", {"a": replay.a_spec(), "b": replay.a_spec()})
    before, words = _counts(store), store.events(other)
    run_id = replay.fill(store, replay.a_spec(dataset="own:visits"), replay.recorded(replay.a_spec()))
    Audits(store).create(run_id)
    Sets(store).create("preset", {"a": replay.a_spec(dataset="own:visits"), "b": replay.a_spec(dataset="own:visits")})
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
        run_id = store.create(replay.a_spec(dataset="own:visits"))
    first = administration.runs_on(store, "own:visits")[0]
    assert store.claim(first, me())
    refuses("stop it first", administration.purge, store, "own:visits")
    assert [run.id for run in store.unfinished()] == [first, run_id]


def test_a_visitor_deletes_no_data_of_the_computer_or_of_another_visitor(store, tmp_path):
    anna = store.as_visitor(Visitor("anna", Limits()))
    for name, owner in (("visits", ""), ("his", "bert"), ("hers", "anna")):
        put(tmp_path / "data" / name / own.OWNER, owner)
        store.create(replay.a_spec(dataset=f"own:{name}"))
    for name in ("own:visits", "own:his", "own:nobodys"):
        refuses(f"data = {name}: was not brought by you: only who did can delete it", administration.purge, anna, name)
    assert administration.purge(anna, "own:hers") == 1
    assert [administration.purge(store, name) for name in ("own:visits", "own:his")] == [1, 1]


def test_logs_of_another_user_hold_up_neither_data_nor_trash(store, tmp_path):
    """As after `sudo dpcl run`: the data would otherwise stay for ever, whose runs are gone."""
    run_id, other = store.create(replay.a_spec(dataset="own:visits")), store.create(replay.a_spec())
    folder = put(tmp_path / "data" / "visits" / own.ORIGIN, "").parent
    store.delete(other)
    for path in (*map(log_file, (run_id, other)), unforeseen.log_file()):
        path.mkdir(parents=True)  # which no more than another user's file can be unlinked
    assert administration.purge(store, "own:visits") == 1
    assert not folder.exists()
    assert administration.empty_trash(store) == 1


def test_logs_go_also_where_the_data_cannot_be_deleted(store, tmp_path, monkeypatch):
    run_id = store.create(replay.a_spec(dataset="own:visits"))
    for path in (tmp_path / "data" / "visits" / own.ORIGIN, log_file(run_id), unforeseen.log_file()):
        put(path, "")
    monkeypatch.setattr(own, "delete", lambda _: False)
    refuses("some of its files could not be deleted", administration.purge, store, "own:visits")
    assert list((tmp_path / "logs").iterdir()) == []


def test_postgresql_reads_the_settings_as_json():
    """Kept as text, exactly as its digest was taken, they have no operator of JSON there."""
    assert "CAST(runs.spec AS JSON) #>>" in str(select(tables.dataset).compile(dialect=postgresql.dialect()))


def test_a_name_in_any_letters_is_found(store):
    run_id = store.create(replay.a_spec(dataset="own:Прийом"))
    assert administration.runs_on(store, "own:Прийом") == [run_id]


@pytest.mark.parametrize("name", ["own:%", "own:_isits", "own:visit", 'own:"visits', "visits", "own:VISITS"])
def test_no_pattern_finds_more_than_its_own_name(store, name):
    store.create(replay.a_spec(dataset="own:visits"))
    assert administration.purge(store, name) == 0
