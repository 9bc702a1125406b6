"""One run carried out in this process: what is kept, how it ends, how it waits for its turn."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import pytest
from sqlalchemy import delete

from dpcl_core.errors import BadInput, DataMissing, Diverged, StoreTrouble
from dpcl_core.events import Event, Progress, TaskLearned
from dpcl_core.runs import process, tables, worker
from dpcl_core.runs.run import Failure, Run
from dpcl_core.spec import RunSpec
from tests.support import replay
from tests.support.asserting import excludes, raising, refuses
from tests.support.waiting import until
from tests.support.watching import watched


@dataclass
class Bystander:
    """An executor that only counts."""

    pumped: int = 0

    def schedule(self) -> None:
        self.pumped += 1


def engine_of(said: list[Event], error: BaseException | None = None):
    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said
        if error is not None:
            raise error

    return engine


def test_all_that_is_said_is_kept_and_handed_on_and_the_run_is_finished(store):
    spec, heard, runner = replay.a_spec(), [], Bystander()
    run_id = replay.claim(store, spec)
    said = replay.recorded(spec)
    assert worker.carry_out(store, run_id, on_event=heard.append, engine=engine_of(said), executor=runner) == "finished"
    assert heard == said
    kept = [event for _, event in store.events_after(run_id)]
    assert [e for e in kept if not isinstance(e, Progress)] == [e for e in said if not isinstance(e, Progress)]
    assert len(store.results([run_id])[run_id]) == 9
    assert runner.pumped == 1  # whoever waits for the device is started
    run = store.get(run_id)
    assert run.created <= run.started <= run.finished
    assert run.error is run.error_kind is None


def test_events_are_in_the_store_while_the_run_goes_on_and_the_state_follows(store):
    spec = replay.a_spec()
    run_id = replay.claim(store, spec)
    said = replay.recorded(spec)
    seen: list[tuple[int, str]] = []

    def kept() -> list[Event]:
        return [event for _, event in store.events_after(run_id)]

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:2]
        until(lambda: said[1] in kept())  # while the run goes on
        seen.append((len(kept()), store.status(run_id)))
        yield from said[2:10]
        until(lambda: said[9] in kept() and store.status(run_id) == "running")
        seen.append((len(kept()), store.status(run_id)))
        yield from said[10:]

    worker.carry_out(store, run_id, engine=engine, executor=Bystander())
    assert seen[0][0] in (1, 2)  # two words on progress at once are kept as one
    assert (seen[1][0] - seen[0][0], [status for _, status in seen]) == (8, ["starting", "running"])


@pytest.mark.parametrize(("error", "kind", "says"), [
    (BadInput("seeds", -1, "must be at least 0"), "wrong-input", "seeds = -1: must be at least 0"),
    (DataMissing("data.dataset", "mnist", "is not here"), "data-missing", "data.dataset = mnist: is not here"),
    (Diverged("the loss is not finite at step 7"), "diverged", "the loss is not finite at step 7"),
    (MemoryError(), "out-of-memory", "The computer ran out of memory"),
    (type("OutOfMemoryError", (RuntimeError,), {})("CUDA"), "out-of-memory", "The computer ran out of memory"),
    (StoreTrouble("store x: the disk is full"), "store", "store x: the disk is full"),
    (OSError(28, "No space left on device"), "store", "No space left on device"),
    (RuntimeError("two\nlines"), "internal", "The program itself went wrong (RuntimeError: two lines); the settings"),
    (SystemExit(3), "internal", "The program itself went wrong (SystemExit: 3)"),
])
def test_failures_are_told_apart_in_one_sentence_with_details_aside(store, error, kind, says):
    spec = replay.a_spec()
    run_id = replay.claim(store, spec)
    said = replay.recorded(spec)[:12]
    assert worker.carry_out(store, run_id, engine=engine_of(said, error), executor=Bystander()) == "failed"
    run = store.get(run_id)
    assert run.error_kind == kind
    assert says in run.error
    excludes(run.error, "\n", "Traceback")
    assert "Traceback" in run.error_log
    assert [e for _, e in store.events_after(run_id) if isinstance(e, TaskLearned)] == [
        e for e in said if isinstance(e, TaskLearned)
    ]


def test_a_run_whose_settings_can_no_longer_be_read_fails_and_says_why(store, monkeypatch):
    run_id = replay.claim(store, replay.a_spec())
    monkeypatch.setattr("dpcl_core.methods.catalog.CARDS", {})
    assert worker.carry_out(store, run_id, executor=Bystander()) == "failed"
    run = store.get(run_id)
    assert run.error_kind == "wrong-input"
    assert "its settings can no longer be read: method = cosine" in run.error


def _without_end() -> Iterator[Event]:
    """What only a stop ends, or what counts as one."""
    for done in count():
        time.sleep(0.01)
        yield Progress("training", done, done + 1, 0, "goes on")


def test_which_lines_of_progress_are_kept_depends_on_no_time(store):
    """A hundred steps of two tasks at once: the last step of each is written, however seldom that happens."""
    run_id = replay.claim(store, replay.a_spec())
    steps = [Progress("training", done, 100, task, "steps") for task in (0, 1) for done in range(1, 101)]
    worker.carry_out(store, run_id, engine=engine_of(steps), executor=Bystander())
    last = {event.task: event.done for _, event in store.events_after(run_id) if isinstance(event, Progress)}
    assert last == {0: 100, 1: 100}


def test_a_stop_ends_the_run_between_two_events_and_keeps_what_was_said(store):
    spec = replay.a_spec()
    run_id = replay.claim(store, spec)
    closed = threading.Event()

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        try:
            yield from replay.recorded(spec)[:5]
            assert store.request_stop(run_id) == store.request_stop(run_id) == "stopping"
            yield from _without_end()
        finally:
            closed.set()

    assert worker.carry_out(store, run_id, engine=engine, executor=Bystander()) == "cancelled"
    assert closed.is_set()  # the engine could put away what it held
    assert len(store.events_after(run_id)) >= 3
    assert store.get(run_id).error is None


def test_an_interrupt_at_the_terminal_cancels_the_run(store):
    run_id = replay.claim(store, replay.a_spec())
    engine = engine_of(replay.recorded(replay.a_spec())[:5], KeyboardInterrupt())
    assert worker.carry_out(store, run_id, engine=engine, executor=Bystander()) == "cancelled"


def test_a_run_declared_lost_meanwhile_ends_and_stays_lost(store):
    run_id = replay.claim(store, replay.a_spec())

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from replay.recorded(spec)[:5]
        assert store.end(run_id, "lost", Failure("worker-died", "gone", ""))
        yield from _without_end()

    assert worker.carry_out(store, run_id, engine=engine, executor=Bystander()) == "lost"
    assert store.get(run_id).error == "gone"


def test_a_run_that_is_deleted_for_good_while_it_runs_ends_and_says_so(store):
    run_id = replay.claim(store, replay.a_spec())

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from replay.recorded(spec)[:3]
        with store.writing() as connection:
            connection.execute(delete(tables.events))
            connection.execute(delete(tables.runs))
        yield from _without_end()

    refuses("no such run in this store", lambda: worker.carry_out(store, run_id, engine=engine, executor=Bystander()))


def test_the_run_of_another_process_is_followed_to_its_end(store):
    spec = replay.a_spec()
    run_id = replay.fill(store, spec, replay.recorded(spec)[:5], status="running")
    other = store.get(run_id).process
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "me", lambda: process.Process(other.machine, other.pid, 1))
        heard: list[Event] = []

        def end_soon() -> None:
            time.sleep(0.4)
            store.append(run_id, replay.recorded(spec)[5:])
            store.end(run_id, "finished")

        thread = threading.Thread(target=end_soon)
        thread.start()
        assert worker.carry_out(store, run_id, on_event=heard.append) == "finished"
        thread.join()
    assert heard == replay.recorded(spec)


def test_a_terminal_waits_its_turn_and_hears_what_is_ahead(store):
    spec = replay.a_spec()
    first = replay.fill(store, spec, [], status="running")
    second, mine, later = (store.create(spec) for _ in range(3))
    assert store.wait(second, process.me())  # someone else's terminal, so that nothing is started for it
    places: list[list[str]] = []

    def on_wait(runs: Sequence[Run]) -> None:
        places.append([run.id for run in runs])
        if len(places) == 1:
            store.end(first, "finished")
        if len(places) == 2:
            assert store.claim(second)
        if len(places) == 4:
            store.end(second, "finished")

    assert worker.wait_for_device(store, mine, on_wait)
    assert places[:4] == [[first, second], [second], [second], [second]]
    assert store.get(mine).process == process.me()
    assert [store.status(run_id) for run_id in (mine, later)] == ["starting", "queued"]


def test_a_waiting_terminal_claims_when_it_is_next_and_looks_less_and_less_often(store, monkeypatch):
    """A claim locks the store for all who write: one wait once made 414 of them."""
    first = replay.fill(store, replay.a_spec(), [], status="running")
    mine, pauses, claims = store.create(replay.a_spec()), list[float](), list[str]()
    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            store.end(first, "finished")

    watched(monkeypatch, type(store), "claim", lambda _, given: claims.append(given[1]))
    monkeypatch.setattr(worker.time, "sleep", pause)
    assert worker.wait_for_device(store, mine)
    assert (claims, pauses[:6]) == ([mine], [0.25, 0.5, 1.0, 2.0, 2.0, 2.0])


def test_a_terminal_whose_run_was_cancelled_waits_no_longer(store):
    first = replay.fill(store, replay.a_spec(), [], status="running")
    mine = store.create(replay.a_spec())
    assert not worker.wait_for_device(store, mine, lambda runs: store.request_stop(mine) and None)
    assert (worker.carry_out(store, mine), store.status(first)) == ("cancelled", "running")


def test_an_interrupt_while_waiting_cancels_the_run(store):
    replay.fill(store, replay.a_spec(), [], status="running")
    mine = store.create(replay.a_spec())

    with pytest.raises(KeyboardInterrupt):
        worker.wait_for_device(store, mine, raising(KeyboardInterrupt))
    assert store.status(mine) == "cancelled"


def test_the_worker_says_in_one_line_what_is_wrong_with_its_arguments(home, capsys):
    assert (worker.main(["../../etc/passwd"]), worker.main(["0123456789ab", "--store", "bogus://x"])) == (2, 2)
    assert worker.main(["0123456789ab"]) == 0  # nothing of that name to do: as if it had been taken
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["run = ../../etc/passwd", "store bogus"]
