"""The process that waits for the next run: it takes the run over, and where it cannot, nobody notices."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from dpcl_core.runs import process
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.process import WarmWorker, log_file
from dpcl_core.runs.store import Store
from tests.data.making import put
from tests.support import replay, stand_in
from tests.support.tiers import quick
from tests.support.waiting import NEVER_SECONDS, until

MODULE = "dpcl_core.methods.features.cosine"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the program's own, so that nobody who edits those meanwhile is noticed."""
    file = put(tmp_path / "program" / "part.py", "0")
    monkeypatch.setattr(process, "PROGRAM", file.parent)
    return file


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that answers has the time it needs on a busy machine."""
    monkeypatch.setattr(process, "ANSWER_SECONDS", 60.0)


@pytest.fixture
def make(store: Store) -> Iterator[Callable[[str], LocalExecutor]]:
    """Makes an app's executor whose workers behave so, with a warm worker that expects a run."""
    made: list[WarmWorker] = []

    def maker(behaviour: str = "replay:0.1") -> LocalExecutor:
        made.append(WarmWorker(stand_in.command(behaviour)))
        made[-1].expect(store.url, MODULE)
        return LocalExecutor(store, stand_in.command(behaviour), made[-1])

    yield maker
    for one in made:
        one.give_up()


def waiting(app: LocalExecutor) -> process.Process:
    """The process that the app has made ready."""
    app.schedule()
    until(lambda: app.warm.waiting.here.is_set())
    return process.process_of(app.warm.waiting.process.pid)


def finishes_without(store: Store, run_id: str, warm: process.Process) -> None:
    """Asserts that a process of its own carries the run out, and that the warm worker ends."""
    assert store.get(run_id).process != warm
    until(lambda: gone(warm))
    until(lambda: store.status(run_id) == "finished")


def gone(one: process.Process) -> bool:
    return process.is_alive(one) is False


def has_none_ready(app: LocalExecutor) -> bool:
    """Whether the app, asked once more, has made no process ready."""
    app.schedule()
    return app.warm.waiting is None


def test_the_run_is_carried_out_by_the_process_that_waited_and_the_next_one_waits_only_after_it(store, make):
    app = make("replay:1.0")
    ready = waiting(app)
    run_id = replay.submit(app)
    assert store.get(run_id).process == ready
    until(lambda: app.schedule() or store.status(run_id) == "running")
    assert app.warm.waiting is None  # the run has the cores for itself
    until(lambda: store.status(run_id) == "finished")
    assert [event for _, event in store.events_after(run_id)][-9:] == replay.recorded(replay.a_spec())[-9:]
    following = waiting(app)
    assert following != ready
    assert waiting(app) == following  # there is one, however often it is asked for
    until(lambda: gone(ready))


def test_nothing_is_started_before_a_run_is_expected_or_for_another_store(store, make, tmp_path):
    app = LocalExecutor(store, stand_in.command("replay:0.1"), WarmWorker(stand_in.command("replay:0.1")))
    assert has_none_ready(app)
    app.warm.expect(f"sqlite:///{tmp_path / 'other.sqlite'}", MODULE)
    assert has_none_ready(app)


@pytest.mark.slow
@pytest.mark.parametrize(("is_stopped", "end"), [(True, "cancelled"), (False, "lost")])
def test_a_run_that_was_handed_over_ends_in_a_long_step_when_stopped_and_with_the_system(store, make, is_stopped, end):
    app = make("asleep")
    waiting(app)
    run_id = replay.submit(app)
    until(lambda: store.status(run_id) == "running")
    if is_stopped:
        app.stop(run_id)
    else:
        os.kill(store.get(run_id).process.pid, signal.SIGTERM)
    until(lambda: app.schedule() or store.status(run_id) == end)
    if is_stopped:
        until(lambda: "stopped in the middle of a step" in log_file(run_id).read_text())  # a log of its own


def test_a_run_stops_even_if_its_process_is_still_loading(store, make, monkeypatch, tmp_path):
    begun = tmp_path / "begun"
    loading = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep({NEVER_SECONDS})"
    (tmp_path / "heavy_part.py").write_text(loading)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    app = make()
    app.warm.expect(store.url, "heavy_part")
    ready = waiting(app)
    until(begun.exists)
    run_id = replay.submit(app)
    assert store.get(run_id).process == ready  # it has answered while it was loading
    app.stop(run_id)
    until(lambda: app.schedule() or store.status(run_id) == "cancelled")
    until(lambda: gone(ready))


def test_a_module_that_cannot_be_loaded_is_left_to_the_run(store, make, monkeypatch, tmp_path):
    (tmp_path / "broken_part.py").write_text(f"open({str(tmp_path / 'tried')!r}, 'w')\nraise RuntimeError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    app = make()
    app.warm.expect(store.url, "broken_part")
    ready = waiting(app)
    until((tmp_path / "tried").exists)
    run_id = replay.submit(app)
    assert store.get(run_id).process == ready
    until(lambda: store.status(run_id) == "finished")


def killed(one: process.Process) -> None:
    os.kill(one.pid, signal.SIGKILL)
    until(lambda: gone(one))


def halted(one: process.Process) -> None:
    os.kill(one.pid, signal.SIGSTOP)


@pytest.mark.parametrize("harm", quick(1, [halted, killed]))
def test_a_run_whose_warm_worker_is_dead_or_does_not_answer_gets_a_process_of_its_own(store, make, harm, monkeypatch):
    monkeypatch.setattr(process, "ANSWER_SECONDS", 0.5)
    app = make()
    ready = waiting(app)
    harm(ready)
    finishes_without(store, replay.submit(app), ready)


@pytest.mark.timeout(120)
def test_one_that_does_not_listen_yet_is_not_waited_for(store, make, monkeypatch):
    monkeypatch.setattr(process, "ANSWER_SECONDS", 3600)  # waiting for an answer would run into this test's limit
    app = make()
    run_id = store.create(replay.a_spec())
    app.warm.keep(store.url, is_idle=True)
    halted(ready := process.process_of(app.warm.waiting.process.pid))  # long before it listens
    app.submit(run_id)
    assert store.get(run_id).process != ready
    until(lambda: gone(ready))


@pytest.mark.parametrize("change", quick(1, ["program", "environment", "folder"]))
def test_a_warm_worker_of_another_state_of_the_program_or_its_surroundings_is_not_used(
    store, make, program, monkeypatch, change, tmp_path
):
    app = make()
    ready = waiting(app)
    if change == "program":
        program.write_text("0 or 1")
    elif change == "environment":
        monkeypatch.setenv("DPCL_DATA", str(tmp_path))
    else:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(Path(stand_in.__file__).parents[2]))
    finishes_without(store, replay.submit(app), ready)


def test_a_warm_worker_of_another_store_is_not_used(store, make, tmp_path):
    app = make()
    ready = waiting(app)
    other = Store(f"sqlite:///{tmp_path / 'other.sqlite'}")
    run_id = other.create(replay.a_spec())
    LocalExecutor(other, stand_in.command("replay:0.1"), app.warm).submit(run_id)
    finishes_without(other, run_id, ready)


def test_one_that_nobody_wants_any_more_gives_its_memory_back(store, make, monkeypatch):
    app = make()
    ready = waiting(app)
    monkeypatch.setattr(process, "WANTED_SECONDS", -1.0)
    app.warm.expect(store.url, MODULE)
    assert has_none_ready(app)
    until(lambda: gone(ready))


def test_one_that_dies_is_not_started_again_and_again(store, make):
    app = make()
    killed(waiting(app))
    until(lambda: has_none_ready(app), 2)
    assert has_none_ready(app)


def test_where_it_cannot_be_started_a_run_says_so_itself(store):
    app = LocalExecutor(store, ("/no/such/program",), WarmWorker(("/no/such/program",)))
    app.warm.expect(store.url, MODULE)
    assert has_none_ready(app)
    assert store.get(replay.submit(app)).error == "The process of this run could not be started: No such file or directory."


@pytest.mark.parametrize("has_run", quick(1, [True, False]))
def test_it_ends_with_its_app_unless_it_has_a_run(store, make, tmp_path, has_run):
    """The app is ended in the hardest way: nothing in it can tidy up."""
    run_id = store.create(replay.a_spec())
    told = tmp_path / "process"

    def end_of_app() -> None:
        own = Store()
        app = LocalExecutor(own, stand_in.command("replay:1.0"), WarmWorker(stand_in.command("replay:1.0")))
        app.warm.expect(own.url, MODULE)
        app.warm.keep(own.url, is_idle=True)
        until(lambda: app.warm.waiting.here.is_set())
        its = process.process_of(app.warm.waiting.process.pid)  # asked while it lives: it may be gone before the app
        told.write_text(json.dumps(asdict(its)))
        if has_run:
            app.submit(run_id)
        os.kill(os.getpid(), signal.SIGKILL)

    app = multiprocessing.get_context("fork").Process(target=end_of_app)
    app.start()
    app.join()
    ready = process.Process(**json.loads(told.read_text()))
    if has_run:
        assert store.get(run_id).process == ready
        until(lambda: store.status(run_id) == "finished")
    until(lambda: gone(ready), 30)
