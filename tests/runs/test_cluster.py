"""Many machines for real: a Ray cluster of two nodes on this computer with one store, a node that is lost.

`python -m tests.runs.test_cluster` (`make cluster`) measures, and writes docs/many_machines.md. The project itself does
not need Ray: without it these tests are skipped.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Row, func, select

from dpcl_core import machine
from dpcl_core.runs import process, shards
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE, checkpoints
from tests.support import postgres
from tests.support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "many_machines.md"
SETTINGS = (
    "method=sleeping", "data.dataset=digits", "scenario.kind=class-incremental", "privacy.noise=seeded",
    "privacy.epsilons=[1.0, 8.0]",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    """Variables for everything that is started here: Ray's nodes, their workers, the command line."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    quiet = {"RAY_DISABLE_DOCKER_CPU_WARNING": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
    return {"DPCL_HOME": str(home), "DPCL_METHODS": "tests.support.sleeping_method", "PYTHONPATH": path, **quiet}


@contextmanager
def a_store(home: Path) -> Iterator[str]:
    """The address of a store that many machines can reach: on PostgreSQL, where there is one."""
    server = postgres.server() if postgres.programs() is not None else nullcontext(None)
    with server as made:
        yield f"sqlite:///{home / 'store.sqlite'}" if made is None else made.create("dpcl")


@contextmanager
def nodes(*names: str) -> Iterator[Any]:
    """A Ray cluster of nodes of one processor each on this computer; its driver is on another one without any."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        yield {name: cluster.add_node(num_cpus=1, node_name=name, **small) for name in names} | {"cluster": cluster}
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()
        cluster.shutdown()


def started(url: str, *arguments: str) -> subprocess.Popen[str]:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-m", "dpcl_core", "run", *sets, *arguments, "--device", "cpu", "--store", url, "--json"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def document(command: subprocess.Popen[str]) -> dict[str, Any]:
    out, said = command.communicate(timeout=PATIENCE_SECONDS)
    assert command.returncode == 0, said
    return dict(json.loads(out))


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """A run's document without what differs between equal runs: its id, and durations."""
    cells = [{name: value for name, value in cell.items() if name != "seconds"} for cell in found["cells"]]
    return {**found, "run_id": None, "cells": cells}


@dataclass(frozen=True, slots=True)
class Lost:
    """What came of a run one of whose two nodes was killed: tasks saved by then, seconds until the part went on."""

    is_equal: bool
    n_kept: int
    seconds: float


def lose_a_node(url: str) -> Lost:
    """Carries out a run in parts on two nodes and kills one with all its processes after its part's first checkpoint."""
    settings = ("--set", "seeds=[0, 1]", "--set", "scenario.tasks=5", "--set", "params.seconds=1.0")
    whole = document(started(url, *settings, "--set", "params.seconds=0.0"))
    with nodes("first", "second") as cluster:
        command, store = started(url, *settings, "--executor", "ray", "--shards", "2"), Store(url)

        def on_second() -> Row[Any] | None:
            of_all = [one for run in store.list_runs() for one in shards.parts_of(store, run.id)]
            return next((one for one in of_all if one.runs_on == "second/cpu" and one.status in ACTIVE), None)

        def n_saved() -> int:
            shard = on_second()
            if shard is None:
                return 0
            query = select(func.count()).select_from(checkpoints).where(checkpoints.c.learner.in_(shard.groups))
            return store.scalar(query) or 0

        until(lambda: n_saved() > 0 or command.poll() is not None)
        lost, n_kept = on_second(), n_saved()
        assert lost is not None, command.communicate()
        its_process = store.get(lost.id).process
        cluster["cluster"].remove_node(cluster["second"], allow_graceful=False)
        assert its_process.machine == process.me().machine
        os.kill(its_process.pid, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: store.get(lost.id).runs_on == "first/cpu" or command.poll() is not None)
        seconds = time.monotonic() - killed
        found = document(command)
    before, after = comparable(whole), comparable(found)
    for one in (before, after):
        one["spec"]["params"].pop("seconds")
        for name in ("command", "digest", "layer"):
            one.pop(name, None)
    return Lost(before == after, n_kept, seconds)


@pytest.mark.slow
def test_a_lost_nodes_part_goes_on_elsewhere_and_the_run_is_the_unsplit_one(home: Path) -> None:
    pytest.importorskip("ray")
    with a_store(home) as url:
        lost = lose_a_node(url)
    assert lost.is_equal
    assert lost.n_kept >= 1


@pytest.mark.slow
def test_a_stop_reaches_the_parts_on_all_nodes(home: Path) -> None:
    pytest.importorskip("ray")
    with a_store(home) as url, nodes("first", "second"):
        command = started(url, "--set", "seeds=[0]", "--set", "params.seconds=60.0", "--executor", "ray")
        store = Store(url)

        def running() -> list[Row[Any]]:
            found = [one for run in store.list_runs() for one in shards.parts_of(store, run.id)]
            return [one for one in found if one.status == "running"]

        until(lambda: len(running()) == 2 or command.poll() is not None)
        assert {one.runs_on for one in running()} == {"first/cpu", "second/cpu"}
        (run,) = store.list_runs()
        store.request_stop(run.id)
        command.communicate(timeout=PATIENCE_SECONDS)
        until(lambda: not store.unfinished())
        assert {one.status for one in shards.parts_of(store, run.id)} == {"cancelled"}
        assert store.status(run.id) == "cancelled"


# The record


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of a run in parts: as a whole, from its first part's start to its last part's end, and of each part."""

    whole: float
    parts: float
    each: tuple[float, ...]


def timed(url: str, names: tuple[str, ...], seconds: float, n_shards: int) -> Took:
    settings = ("--set", "seeds=[0, 1, 2, 3]", "--set", "scenario.tasks=2", "--set", f"params.seconds={seconds}")
    with nodes(*names):
        begun = time.monotonic()
        found = document(started(url, *settings, "--executor", "ray", "--shards", str(n_shards)))
        whole = time.monotonic() - begun
    store = Store(url)
    of_run = [store.get(shard.id) for shard in shards.parts_of(store, found["run_id"])]
    spans = [(run.started, run.finished) for run in of_run if run.started is not None and run.finished is not None]
    assert len(spans) == n_shards
    return Took(
        whole, max(end for _, end in spans) - min(start for start, _ in spans), tuple(end - start for start, end in spans)
    )


def record(seconds: float = 7.5, n_shards: int = 4) -> None:
    """Measures and writes the page."""
    with TemporaryDirectory() as folder:
        os.environ.update(environment(Path(folder)))
        with a_store(Path(folder)) as url:
            one = timed(url, ("first",), seconds, n_shards)
            two = timed(url, ("first", "second"), seconds, n_shards)
            lost = lose_a_node(url)
            backend = "PostgreSQL" if url.startswith("postgresql") else "SQLite"
    assert lost.is_equal
    of_part = seconds * 2 * 8 / n_shards  # two tasks of eight models
    overhead = mean(each - of_part for each in (*one.each, *two.each))
    between = (one.parts - sum(one.each)) / (n_shards - 1)
    figures = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine.machine(), "backend": backend,
        "n": str(n_shards), "models": "8",
        "part": f"{of_part:.0f}", "one": f"{one.parts:.1f}", "two": f"{two.parts:.1f}",
        "ratio": f"{one.parts / two.parts:.2f}",
        "one_whole": f"{one.whole:.1f}", "two_whole": f"{two.whole:.1f}", "ratio_whole": f"{one.whole / two.whole:.2f}",
        "overhead": f"{overhead:.1f}", "between": f"{max(between, 0.0):.1f}", "kept": str(lost.n_kept),
        "seconds": f"{lost.seconds:.1f}", "hours": f"{10 * (1 + overhead / 3600):.2f}",
        "extra": f"{1000 * overhead / 3600:.1f}", "percent": f"{100 * overhead / 3600:.2f}",
    }  # fmt: skip
    text = (Path(__file__).parent / "many_machines.md").read_text(encoding="utf-8").format(**figures)
    DOCUMENT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    record()
