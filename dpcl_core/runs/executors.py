"""The executors by name: what carries out queued runs, and where.

    local   processes of this computer
    ray     machines of a Ray cluster

Both keep the order of the store's queue and one run per device. A cluster's executor only starts workers on machines: each
looks after the queue as `dpcl work` does, and ends when nothing waits for it. So states, stops, logs of failures and the
runs of a machine that is gone are the store's matter, whoever started the machine's worker.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sqlalchemy import make_url

from dpcl_core import packages
from dpcl_core.errors import BadInput, DataMissing, unknown
from dpcl_core.masking import masked
from dpcl_core.runs import devices, machines, mover
from dpcl_core.runs.executor import Executor, LocalExecutor, Supervisor
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE

Name = Literal["local", "ray"]
NAMES: tuple[Name, ...] = get_args(Name)
_LOOK_SECONDS = 5.0
_NO_CLUSTER = "no Ray cluster can be reached: start one with `ray start --head`, or name yours in RAY_ADDRESS"
_ONE_COMPUTER = "is a file of this computer: other machines need a store on PostgreSQL, postgresql+psycopg://USER@HOST/NAME"


def checked(name: str) -> Name:
    """The name of an executor. Raises BadInput for another one, and where its package or its cluster is not to be had."""
    if name not in NAMES:
        raise unknown("--executor", name, NAMES)
    if name == "ray":
        if missing := packages.lacking(("ray",)):
            raise DataMissing("--executor", name, missing)
        _connected()
    return name


def opened(name: str, store: Store, *, local: Executor | None = None) -> Executor:
    """The executor of this name for a store; `local`: the one to use for this computer. Raises BadInput as `checked`."""
    return RayExecutor(store) if checked(name) == "ray" else local or LocalExecutor(store)


def default_device(name: Name) -> str:
    """The device for runs that name none: a card where the executor has one."""
    if name == "local":
        return devices.default()
    return "cuda" if any(_n_cards(node) for node in _nodes().values()) else "cpu"


def n_devices(name: Name, device: str, store: Store | None = None) -> int:
    """How many runs that ask for a device the executor can carry out at once; `store`: with all machines of this store."""
    if name == "ray":
        return sum(1 if devices.bare(device) == "cpu" else _n_cards(node) for node in _nodes().values())
    present = {} if store is None else machines.present(store)
    offered = (f"{of}/{one}" for of, names in present.items() for one in names)
    return max(1, sum(devices.fits(device, one) for one in offered))


def work(url: str, machine: str) -> None:
    """Carries out queued runs on this machine, under this name, until nothing waits for it or is under way on it.

    Ends, too, when the store stays away: the cluster's machine is then free for others.
    """
    os.environ[devices.MACHINE] = machine
    patience, over = Patience(), threading.Event()
    store, seen = patience.outlast(lambda: Store(url)), [time.monotonic()]

    def look() -> None:
        seen[0] = time.monotonic()
        unfinished = store.unfinished()
        mine = [run for run in unfinished if run.status in ACTIVE and _machine(run) == devices.machine()]
        waiting = [run for run in unfinished if run.status == "queued" and _can_serve(run.device)]
        if not mine and not waiting:
            over.set()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if time.monotonic() - seen[0] > patience.give_up:
                over.set()

    threading.Thread(target=watch, name="store away", daemon=True).start()
    mover.move(lambda: LocalExecutor(store), over, after_each=look)


def _machine(run: Run) -> str:
    """The machine that a run is on; empty where it waits, for its turn or for its parts."""
    return (run.runs_on or "").partition("/")[0]


def _can_serve(asked: str) -> bool:
    return any(devices.fits(asked, device) for device in devices.of_this_machine(asked))


@dataclass(frozen=True, slots=True)
class RayExecutor(Supervisor):
    """Starts workers on the machines of a Ray cluster while runs wait, at most one on each.

    The cluster is the one that RAY_ADDRESS names, else this computer's. Every machine has this program, and reaches the
    store and the data. A machine is called as Ray calls its node.
    """

    _workers: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by machine

    def __post_init__(self) -> None:
        _connected()
        hosts = {str(node["NodeManagerHostname"]) for node in _nodes().values()}
        if make_url(self.store.url).get_backend_name() == "sqlite" and hosts - {socket.gethostname()}:
            raise BadInput("--store", masked(self.store.url), _ONE_COMPUTER)

    def schedule(self) -> None:
        import ray

        unfinished = self.check()
        waiting = [run for run in unfinished if run.status == "queued"]
        for machine in [machine for machine, worker in self._workers.items() if ray.wait([worker], timeout=0)[0]]:
            del self._workers[machine]
        busy = {_machine(run) for run in unfinished if run.status in ACTIVE}
        n_idle = sum(machine not in busy for machine in self._workers)  # about to take a run
        free = [machine for machine in _nodes() if machine not in self._workers]
        for machine in free[: max(0, len(waiting) - n_idle)]:
            self._workers[machine] = self._started(machine)

    def _started(self, machine: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = _nodes()[machine]
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked = {"num_cpus": 1, "num_gpus": _n_cards(node), "max_retries": 0, "scheduling_strategy": there}
        return ray.remote(work).options(**asked).remote(self.store.url, machine)


def _connected() -> None:
    import ray

    if not ray.is_initialized():
        try:
            ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError) as error:
            raise BadInput("--executor", "ray", _NO_CLUSTER) from error


def _nodes() -> Mapping[str, Mapping[str, Any]]:
    """The machines of the cluster that are up and have a processor for us, by name."""
    import ray

    up = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    return {_name(node): node for node in up}


def _n_cards(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("GPU", 0))


def _name(node: Mapping[str, Any]) -> str:
    """What a node was called at its start, else its computer's name."""
    is_named = node["NodeName"] != node["NodeManagerAddress"]
    return devices.as_machine(str(node["NodeName"] if is_named else node["NodeManagerHostname"]))
