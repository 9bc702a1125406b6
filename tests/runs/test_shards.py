"""A run in parts is the unsplit run: the same events, ledgers, classifiers, also where a part dies, fails or is stopped."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pytest

from dpcl_core import export
from dpcl_core.errors import Diverged
from dpcl_core.events import Event, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.runs import executor, process, resumption, shards, tables, worker
from dpcl_core.runs.executor import LocalExecutor, Supervisor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import Failure, Split
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.replay import Memory
from tests.support.watching import watched
from tests.test_durable_runs import asked_of, results

# One method of every family that can be split, of one group for each seed and of one for each cell.
SLOW = ("label-means", "agem", "l2dp-ml", "joint-network", "lm-seqft", "lm-gem", "pecl", "cslr-server-head", "local-list")


@dataclass(slots=True)
class InProcess:
    """Carries out waiting parts in this process, one whenever it is asked; `act` may do something else with one."""

    store: Store
    act: Callable[[str, int], bool] = lambda run_id, number: False  # whether it has done something
    seen: list[str] = field(default_factory=list)

    def schedule(self) -> None:
        for run in self.store.unfinished():
            if run.status == "queued" and self.store.claim(run.id, process.me()):
                self.seen.append(run.id)
                if not self.act(run.id, len(self.seen)):
                    worker.carry_out(self.store, run.id, executor=Supervisor(self.store))
                return


@pytest.fixture
def spec(tmp_path, data_dir, monkeypatch) -> RunSpec:
    """Three groups of one cell each, under seeded noise."""
    return asked_of("dp-fedavg", tmp_path, monkeypatch, [2], seeds=[0, 1, 2])


def begun(store: Store, spec: RunSpec, n_shards: int) -> str:
    return replay.claim(store, spec, split=Split(n_shards, "local"))


def is_the_unsplit_run(store: Store, run_id: str, spec: RunSpec) -> bool:
    """Whether events, classifiers and document are those of the same run carried out whole."""
    whole = replay.claim(store, spec)
    assert worker.carry_out(store, whole, executor=Supervisor(store)) == "finished"
    assert results(store.events(run_id)) == results(store.events(whole))
    assert [to_json(one) for one in store.classifiers(run_id)] == [to_json(one) for one in store.classifiers(whole)]
    split, unsplit = (export.document_of(store, store.get(one)) for one in (run_id, whole))
    for document in (split, unsplit):
        document.pop("run_id")
        for cell in document["cells"]:
            cell.pop("seconds")
    assert split == unsplit
    return True


def test_groups_are_shared_out_each_once_and_evenly():
    for n_groups in range(1, 40):
        for n_shards in range(1, 40):
            shared = shards.parts(n_groups, n_shards)
            assert sorted(group for part in shared for group in part) == list(range(n_groups))
            assert len(shared) == min(n_groups, n_shards)
            assert max(map(len, shared)) - min(map(len, shared)) <= 1


@pytest.mark.parametrize("method", ["dp-fedavg", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_run_in_parts_is_the_unsplit_run(method, store, tmp_path, data_dir, monkeypatch):
    epsilons = [math.inf] if methods.card(method).guarantee == "none" else [2.0, 4.0]  # no guarantee: no other is taken
    privacy = {"epsilons": epsilons, **({"adjacency": "replace"} if method == "pecl" else {})}
    spec = asked_of(method, tmp_path, monkeypatch, seeds=[0, 1, 2], privacy=privacy)
    run_id, runner = begun(store, spec, 2), InProcess(store)
    assert (worker.carry_out(store, run_id, executor=runner), len(runner.seen)) == ("finished", 2)
    assert is_the_unsplit_run(store, run_id, spec)
    assert [shard.status for shard in shards.parts_of(store, run_id)] == ["finished"] * 2


@pytest.mark.slow
def test_parts_are_listed_and_counted_nowhere_as_runs_of_their_own(store, spec):
    run_id = begun(store, spec, 3)
    assert worker.carry_out(store, run_id, executor=InProcess(store)) == "finished"
    assert [run.id for run in store.list_runs()] == [run_id]
    assert Sets(store).finished([spec.digest()]) == {spec.digest(): run_id}
    for shard in shards.parts_of(store, run_id):
        assert not store.results([shard.id])[shard.id], "what a part released is the whole run's"
        assert {to_json(event)["event"] for event in store.events(shard.id)} <= {"Progress", "Started"}
    assert store.rows(tables.checkpoints.select()) == [], "a run that is over needs none"


def test_groups_that_share_work_stay_together(store):
    """The cosine classifier learns all cells at once: the run is not split, and keeps its device."""
    run_id, runner = begun(store, replay.a_spec(epsilons=(1.0, 2.0), seeds=(0, 1), tasks=2), 4), InProcess(store)
    assert worker.carry_out(store, run_id, executor=runner) == "finished"
    assert runner.seen == shards.parts_of(store, run_id) == []


def test_a_part_that_dies_goes_on_after_its_last_checkpoint_on_any_machine(store, spec, monkeypatch):
    """Its machine is gone: nothing is learned twice that was saved, and the merged run is the unsplit one."""
    run_id = begun(store, spec, 3)
    n_learned = list[tuple[int, int]]()
    watched(monkeypatch, shards.Part, "save", lambda _, given: n_learned.append((given[1].group, given[1].task)))

    def dies(shard_id: str, number: int) -> bool:
        if number > 2:
            return False
        part = shards.part_of(store, shard_id, Patience())
        stream = worker.real_engine(spec, "cpu", part, part)
        before = len(n_learned)
        while number == 2 and len(n_learned) == before:  # the first one dies before it has saved anything
            next(stream)
        stream.close()
        gone = Failure("worker-died", "gone", "")
        assert store.mark_failed(store.get(shard_id), gone, resumption.resume_by_itself)
        assert store.status(shard_id) == "queued"
        return True

    runner = InProcess(store, dies)
    assert (worker.carry_out(store, run_id, executor=runner), len(runner.seen)) == ("finished", 5)
    assert len(n_learned) == len(set(n_learned)) == 3 * spec.scenario.tasks
    assert is_the_unsplit_run(store, run_id, spec)


@pytest.mark.slow
def test_a_part_without_a_machine_is_tried_twice_again_then_left_to_a_person(store, spec):
    run_id = begun(store, spec, 3)

    def dies(shard_id: str, number: int) -> bool:
        return store.mark_failed(store.get(shard_id), Failure("worker-died", "Gone.", ""), resumption.resume_by_itself)

    runner = InProcess(store, dies)
    assert worker.carry_out(store, run_id, executor=runner) == "failed"
    assert (store.get(run_id).error, len(runner.seen)) == ("Gone." + resumption._GIVEN_UP, 3)
    assert {shard.status for shard in shards.parts_of(store, run_id)} == {"lost", "cancelled"}
    resumption.resume(store, run_id)
    assert replay.carried_out(store, run_id, executor=InProcess(store)) == "finished"
    assert is_the_unsplit_run(store, run_id, spec)


def test_a_part_that_fails_ends_the_run_with_its_sentence_and_stops_the_others(store, spec, monkeypatch):
    run_id = begun(store, spec, 3)

    def engine(spec: RunSpec, device: str, keep: object, division: object) -> Iterator[Event]:
        if isinstance(division, shards.Part):
            raise Diverged("the loss is not finite at step 7")
        yield from real(spec, device, keep, division)

    real = worker.real_engine
    monkeypatch.setattr(worker, "real_engine", engine)
    assert worker.carry_out(store, run_id, executor=InProcess(store)) == "failed"
    run = store.get(run_id)
    assert (run.error_kind, run.error) == ("diverged", "the loss is not finite at step 7")
    assert sorted(shard.status for shard in shards.parts_of(store, run_id)) == ["cancelled", "cancelled", "failed"]


def test_a_stop_ends_the_run_and_its_parts(store, spec):
    run_id = begun(store, spec, 3)

    def stopped(shard_id: str, number: int) -> bool:
        store.request_stop(run_id)
        store.end(shard_id, "cancelled")
        return True

    assert worker.carry_out(store, run_id, executor=InProcess(store, stopped)) == "cancelled"
    assert {shard.status for shard in shards.parts_of(store, run_id)} == {"cancelled"}
    resumption.resume(store, run_id)
    assert replay.carried_out(store, run_id, executor=InProcess(store)) == "finished"
    assert is_the_unsplit_run(store, run_id, spec)


@pytest.mark.slow
def test_a_run_whose_own_process_dies_at_any_event_finds_its_parts_again(store, spec):
    """Its parts go on or are over; the next process finds what they saved and carries out only what is left."""
    n_events = 0
    while True:
        n_events += 1
        run_id = begun(store, spec, 3)
        runner = InProcess(store)
        stream = worker.real_engine(
            spec, "cpu", resumption.Stored(store, run_id),
            shards.Waiting(store, run_id, Split(3, "local"), runner, Patience()),
        )  # fmt: skip
        left = list(islice(stream, n_events))
        if len(left) < n_events:
            break
        store.append(run_id, left)
        store.begin(run_id)
        assert store.mark_failed(store.get(run_id), Failure("worker-died", "gone", ""), resumption.resume_by_itself)
        if store.status(run_id) == "lost":  # nothing was saved yet: a person presses Resume
            resumption.resume(store, run_id)
        assert (replay.carried_out(store, run_id, executor=runner), len(runner.seen)) == ("finished", 3)
        assert is_the_unsplit_run(store, run_id, spec)
    assert n_events > 15


def test_a_part_cannot_save_once_the_run_is_over(store, spec, monkeypatch):
    run_id = begun(store, spec, 3)
    monkeypatch.setattr(worker, "GRACE_SECONDS", math.inf)  # it ends within a step, however long the engine takes to load

    def ends(shard_id: str, number: int) -> bool:
        store.end(run_id, "cancelled")
        part = shards.part_of(store, shard_id, Patience())
        refuses("is over", lambda: list(worker.real_engine(spec, "cpu", part, part)))
        return True

    assert worker.carry_out(store, run_id, executor=InProcess(store, ends)) == "cancelled"


def lost_with_a_part(store: Store, spec: RunSpec, n_tasks: int) -> tuple[str, shards.Part, Sequence[Checkpoint]]:
    """A run whose own process died while its first part, of one group, goes on: it has saved so many of these."""
    memory = Memory()
    list(worker.real_engine(spec, "cpu", memory))
    run_id = begun(store, spec, 3)
    shards.Waiting(store, run_id, Split(3, "local"), InProcess(store), Patience()).begin(3, spec.scenario.tasks)
    assert store.mark_failed(store.get(run_id), Failure("worker-died", "gone", ""))
    first = shards.parts_of(store, run_id)[0].id
    assert store.claim(first, process.me())
    part = shards.part_of(store, first, Patience())
    for checkpoint in memory.saved[0][:n_tasks]:
        part.save(checkpoint)
    return run_id, part, memory.saved[0]


def test_a_deleted_run_stops_its_parts_and_they_save_nothing_for_it(store, spec):
    run_id, part, learned = lost_with_a_part(store, spec, 1)
    store.delete(run_id)
    assert [shard.status for shard in shards.parts_of(store, run_id)] == ["stopping", "cancelled", "cancelled"]
    refuses("is over", part.save, learned[1])


def test_a_run_is_not_resumed_after_a_checkpoint_that_is_missing(store, spec):
    """Deleted and restored, while a part of it was in the middle of a step: the part saves the next task."""
    run_id, part, learned = lost_with_a_part(store, spec, 1)
    store.delete(run_id)
    store.restore(run_id)
    part.save(learned[1])
    store.end(shards.parts_of(store, run_id)[0].id, "cancelled")
    why = "some of its checkpoints are missing, and noise must not be drawn twice; Retry starts a new run"
    assert resumption.why_not(store, run_id) == why
    refuses("some of its checkpoints are missing", list, worker.real_engine(spec, "cpu", Memory({0: [learned[1]]})))


def test_a_run_is_not_resumed_whose_part_has_finished_and_was_deleted(store, spec):
    """Nobody would learn this part again: the run would wait for it for ever."""
    run_id, _, _ = lost_with_a_part(store, spec, spec.scenario.tasks)
    store.end(shards.parts_of(store, run_id)[0].id, "finished")
    store.delete(run_id)
    store.restore(run_id)
    assert "a part of it has finished, but its checkpoints are deleted" in (resumption.why_not(store, run_id) or "")


def test_a_run_passes_on_no_task_of_a_part_before_the_one_that_is_missing(store, spec):
    run_id, part, learned = lost_with_a_part(store, spec, 0)
    part.save(learned[1])
    waiting = shards.Waiting(store, run_id, Split(3, "local"), InProcess(store), Patience())
    assert waiting._look(0, 0)[2] == []
    part.save(learned[0])
    assert len(waiting._look(0, 0)[2]) == 2


def test_an_executor_that_is_not_to_be_had_is_one_sentence(store, monkeypatch):
    assert isinstance(executor.executor_for("local", store), LocalExecutor)
    refuses("did you mean ray", executor.checked, "rays")
    monkeypatch.setattr("dpcl_core.machine.find_spec", lambda name: None)
    refuses(r"pip install 'dpcl\[ray\]'", executor.executor_for, "ray", store)
