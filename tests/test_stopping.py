"""Commands that stop runs, runs that end with their command, and what a command says while it waits."""

import multiprocessing
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import dpcl_core as dpcl
from dpcl_core import checks
from dpcl_core.cli import common, main
from dpcl_core.errors import StoreUnknown
from dpcl_core.events import Event, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.runs import executor, process, resumption, tables, worker
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.queue import Visitor, read_limits
from dpcl_core.runs.run import Run, columns_of
from dpcl_core.runs.store import Store
from tests.support import replay, stand_in
from tests.support.asserting import complaint, document_of, includes, printed, raising, refuses
from tests.support.sleeping_method import CARD
from tests.support.tiers import quick
from tests.support.waiting import NEVER_SECONDS, PATIENCE_SECONDS, until

ROOT = Path(__file__).parent.parent
SLEEPING = ["method=sleeping", "data.dataset=digits", "data.backbone=pixels", "scenario.kind=class-incremental",
            "scenario.tasks=5", "privacy.epsilons=[1.0]", "seeds=[0]", "labels=prior-const"]  # fmt: skip
QUICK = ["run", "--preset", "digits-cosine", "--set", "privacy.epsilons=[1.0]", "--set", "seeds=[0]"]


def command(seconds: float) -> list[str]:
    sets = [word for one in (*SLEEPING, f"params.seconds={seconds}") for word in ("--set", one)]
    return [sys.executable, "-m", "dpcl_core", "run", *sets]


def environment() -> dict[str, str]:
    return {**os.environ, "DPCL_METHODS": "tests.support.sleeping_method", "PYTHONPATH": str(ROOT)}


def started(store: Store, stderr: int) -> tuple[subprocess.Popen[bytes], Run]:
    """A command whose run is under way, and this run."""
    running = subprocess.Popen(
        command(NEVER_SECONDS), cwd=ROOT, env=environment(), stderr=stderr, start_new_session=True,
        # Where the tests run under nohup, their commands would rightly ignore the end of a terminal.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    until(lambda: [run.status for run in store.list_runs()] == ["running"])
    return running, store.list_runs()[0]


def starts_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an app that looks after the queue now leaves every run as it is."""
    begun: list[str] = []
    monkeypatch.setattr(LocalExecutor, "_start", lambda self, run: begun.append(run.id))
    app = LocalExecutor(store)
    app.schedule()
    app.schedule()
    return begun == []


@pytest.mark.parametrize("ending", quick(1, ["SIGTERM", "SIGINT"]))
def test_a_command_that_is_ended_breaks_its_run_off_and_says_how_it_goes_on(store, monkeypatch, ending):
    running, run = started(store, subprocess.PIPE)
    with running:
        running.send_signal(getattr(signal, ending))
        while ending == "SIGTERM" and running.poll() is None:  # `timeout` sends two: a second one changes nothing, whenever
            running.send_signal(signal.SIGTERM)
            time.sleep(1e-3)
        assert running.wait(PATIENCE_SECONDS) == 1
        said = running.stderr.read().decode().splitlines()
    assert [line for line in said if "dpcl resume" in line] == [
        f"run {run.id} is broken off: dpcl resume {run.id} goes on after the last task that it had learned"
    ]
    assert store.status(run.id) == "cancelled"
    assert resumption.why_not(store, run.id) is None
    assert starts_nothing(store, monkeypatch)


def test_a_closed_terminal_leaves_no_process_and_no_run_behind(store, monkeypatch):
    ours, theirs = pty.openpty()
    running, run = started(store, theirs)
    os.close(theirs)
    os.close(ours)  # from now on what it says is refused
    running.send_signal(signal.SIGHUP)
    assert running.wait(PATIENCE_SECONDS) == 1
    assert (store.status(run.id), process.is_alive(run.process)) == ("cancelled", False)
    assert starts_nothing(store, monkeypatch)


def test_a_run_whose_command_was_killed_waits_for_a_person_and_not_for_the_next_command(store, monkeypatch, capsys):
    gone = process.Process(process.me().machine, os.getpid(), 1)  # a process that has ended
    begun, waiting = (store.create(replay.a_spec(), attended_by=gone) for _ in range(2))
    assert store.claim(begun, gone)
    assert main(QUICK) == 0
    assert "waiting" not in capsys.readouterr().err
    for run in map(store.get, (begun, waiting)):
        assert run.status == "lost"
        assert f"dpcl resume {run.id} goes on with it" in run.error
        assert resumption.why_not(store, run.id) is None
    assert starts_nothing(store, monkeypatch)


def test_a_worker_that_a_command_started_ends_with_it(store):
    """Also where the command is killed: the worker's standard input is closed then."""
    run_id = store.create(replay.a_spec())

    def sweep() -> None:
        LocalExecutor(Store(), stand_in.command("asleep"), own=lambda run: True).submit(run_id)
        os.kill(os.getpid(), signal.SIGKILL)

    of_command = multiprocessing.get_context("fork").Process(target=sweep)
    of_command.start()
    of_command.join()
    until(lambda: store.status(run_id) == "cancelled")


@pytest.mark.parametrize("ending", quick(1, ["SIGKILL", "SIGTERM"]))
def test_what_dpcl_work_carries_out_ends_with_it_and_goes_on_with_the_next(store, monkeypatch, ending):
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "sleeping": CARD})
    run_id = store.create(checks.parse(checks.apply_sets({}, [*SLEEPING, "params.seconds=0.5"])))
    work = [sys.executable, "-m", "dpcl_core", "work"]

    def learned() -> int:
        return sum(isinstance(event, TaskLearned) for event in store.events(run_id))

    with subprocess.Popen(work, cwd=ROOT, env=environment(), start_new_session=True) as working:
        until(lambda: learned() > 0)
        worker_process = store.get(run_id).process
        working.send_signal(getattr(signal, ending))
    until(lambda: not process.is_alive(worker_process))
    run = store.get(run_id)
    assert (run.status, run.process, run.error, learned() < 5) == ("queued", None, None, True)
    assert store.rows(tables.resumptions.select()) == [], "no crash that counts"
    monkeypatch.setenv("DPCL_METHODS", "tests.support.sleeping_method")
    assert main(["work", "--once"]) == 0
    assert (store.status(run_id), learned()) == ("finished", 5)


def test_a_command_names_what_is_ahead_and_goes_first_where_nobody_starts_that(store, monkeypatch, capsys):
    monkeypatch.setattr(worker, "FREE_SECONDS", 0.0)
    left = store.create(replay.a_spec(), name="Left by an app")
    monkeypatch.setattr(LocalExecutor, "_start", lambda self, run: pytest.fail("a command starts nobody else's run"))
    assert main(QUICK) == 0
    said = capsys.readouterr().err
    includes(said, f"waiting for the device: run {left} (Left by an app), queued", f"dpcl stop {left}")
    assert store.status(left) == "queued"


def test_parts_of_a_run_pass_over_what_nobody_starts(store, monkeypatch):
    monkeypatch.setattr(executor, "FREE_SECONDS", 0.0)
    left, part = store.create(replay.a_spec()), store.create(replay.a_spec())
    begun: list[str] = []
    monkeypatch.setattr(LocalExecutor, "_start", lambda self, run: begun.append(run.id))
    LocalExecutor(store, own=lambda run: run.id == part).schedule()
    assert (begun, store.status(left)) == ([part], "queued")


@pytest.mark.parametrize("command", [
    QUICK, ["run", "--all", "--preset", "digits-cosine"], ["sweep", "--preset", "digits-cosine"], ["resume", "BROKEN"],
    ["reproduce", "tobaben", "--experiment", "paper-blurry"], ["audit", "--run", "DONE"],
    ["tune", "--preset", "digits-peft-head", "--set", "privacy.epsilons=[1.0]", "--set", "seeds=[0]", "--on", "private"],
])
def test_no_wait_refuses_while_the_device_is_taken_and_leaves_no_run(store, monkeypatch, capsys, command):
    monkeypatch.setattr(checks, "check_run", lambda spec: None)  # a paper's data are not on every computer
    ended = {status: replay.fill(store, replay.a_spec(), [], status=status) for status in ("finished", "cancelled")}
    busy = replay.fill(store, replay.a_spec(), [], status="running")
    names = {"DONE": ended["finished"], "BROKEN": ended["cancelled"]}
    assert main([*(names.get(word, word) for word in command), "--no-wait"]) == 2
    assert f"/cpu: is taken: run {busy}" in capsys.readouterr().err
    assert {run.id: run.status for run in store.list_runs()} == {busy: "running", **{ended[name]: name for name in ended}}
    assert [run.id for run in store.unfinished()] == [busy], "no audit and no tuning either"


def test_no_wait_carries_a_run_out_where_the_device_is_free(store):
    assert main([*QUICK, "--no-wait"]) == 0


def test_stop_ends_a_run_whoever_carries_it_out_and_those_that_wait(store, capsys):
    LocalExecutor(store, stand_in.command("asleep")).submit(first := store.create(replay.a_spec()))
    until(lambda: store.status(first) == "running")
    worker_process, waiting = store.get(first).process, store.create(replay.a_spec())
    assert document_of(capsys, "stop", waiting) == [{"run_id": waiting, "status": "cancelled"}]
    assert (store.status(first), main(["stop", "--all"]), store.status(first)) == ("running", 0, "cancelled")
    until(lambda: not process.is_alive(worker_process))


def test_stop_says_what_had_ended_and_refuses_what_it_does_not_know(store, capsys):
    done = replay.fill(store, replay.a_spec(), [], status="finished")
    waiting = store.create(replay.a_spec())
    assert main(["stop", done]) == 1
    assert f"{done} (cosine on digits): finished before; its results are kept" in capsys.readouterr().err
    for wrong in (["stop", waiting, "0123456789ab"], ["stop"], ["stop", waiting, "--all"]):
        assert main(wrong) == 2
    assert store.status(waiting) == "queued"


def test_stop_all_leaves_the_runs_of_visitors_to_them(store, capsys):
    theirs = store.as_visitor(Visitor("somebody", read_limits("usual"))).create(replay.a_spec())
    mine = store.create(replay.a_spec())
    assert main(["stop", "--all"]) == 0
    assert [store.status(one) for one in (theirs, mine)] == ["queued", "cancelled"]
    assert "1 of visitors" in capsys.readouterr().err
    assert main(["stop", theirs]) == 0, "whoever has the terminal is the server's administrator"


def test_delete_puts_runs_into_the_trash_and_none_that_is_under_way(store, capsys):
    done, busy = (replay.fill(store, replay.a_spec(), [], status=status) for status in ("finished", "running"))
    assert "stop it before deleting it" in complaint(capsys, "delete", busy)
    assert main(["delete", done, "0123456789ab"]) == 2
    assert not store.trash(), "all or none"
    assert (main(["delete", done]), [run.id for run in store.trash()]) == (0, [done])


def test_the_list_says_what_each_run_waits_for_and_who_carries_it_out(store, capsys):
    busy, left = replay.fill(store, replay.a_spec(), [], status="running"), store.create(replay.a_spec())
    replay.alter(store, busy, **columns_of(process.me()))
    mine = store.create(replay.a_spec(), attended_by=process.me())
    said = {row["run_id"]: (row["waits_for"], row["carried_out_by"]) for row in document_of(capsys, "runs")}
    here = f"process {os.getpid()} on {process.me().machine.split()[0]}"
    assert said[busy] == ([], f"{here}, started by an app or dpcl work")
    assert said[left] == ([busy], "an app, dpcl work or its sweep, once one is up")
    assert said[mine] == ([busy, left], f"the command or script of {here}")
    assert f"waits for {busy} and 1 more  by the command or script of {here}" in printed(capsys, "runs")


def test_ctrl_c_while_another_process_carries_a_run_out_ends_the_command_alone(store, monkeypatch, capsys):
    theirs = replay.fill(store, replay.a_spec(), [], status="running")
    replay.alter(store, theirs, ticks=1)  # not this process

    monkeypatch.setattr(worker, "_follow", raising(KeyboardInterrupt))
    monkeypatch.setattr(process, "is_alive", lambda _: True)
    assert (main(["resume", theirs]), store.status(theirs)) == (1, "running")
    assert f"run {theirs} goes on: dpcl stop {theirs} ends it" in capsys.readouterr().err


def test_ctrl_c_in_one_run_of_a_paper_ends_the_rest(store, monkeypatch):
    broken_off, begun = store.create(replay.a_spec()), []
    store.request_stop(broken_off)
    monkeypatch.setattr(checks, "check_run", lambda spec: None)  # its data are not on every computer
    monkeypatch.setattr(common, "carry_out", lambda *_, **__: begun.append("run") or store.get(broken_off))
    assert main(["reproduce", "tobaben", "--experiment", "paper-blurry"]) == 1
    assert begun == ["run"]


@pytest.mark.parametrize("ceiling", [False, True])
def test_an_interrupt_of_a_ceiling_is_one_of_the_run(store, ceiling):
    def interrupt(event: Event) -> None:
        if isinstance(event, TaskLearned):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        dpcl.run("digits-cosine", epsilons=[1.0], seeds=[0], on_event=interrupt, ceiling=ceiling)
        assert not ceiling
    assert [run.status for run in store.list_runs()] == ["cancelled"]


def test_an_error_of_the_listener_is_the_callers_and_breaks_the_run_off(store):
    broken = raising(ZeroDivisionError("mine"))
    refuses("mine", dpcl.run, "digits-cosine", epsilons=[1.0], seeds=[0], on_event=broken, error=ZeroDivisionError)
    (run,) = store.list_runs()
    assert (run.status, run.error) == ("cancelled", None)
    assert resumption.why_not(store, run.id) is None


def test_a_store_is_named_by_the_path_of_its_file(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = dpcl.run("digits-cosine", epsilons=[1.0], seeds=[0], store=str(tmp_path / "my runs.db"))
    assert dpcl.load(result.run_id, store="my runs.db").events == result.events
    refuses("there is none", dpcl.load, result.run_id, store="mistyped.db", error=StoreUnknown)
    assert not (tmp_path / "mistyped.db").exists()
    assert Store("my runs.db").url == Store(f"sqlite:///{tmp_path}/my runs.db").url
