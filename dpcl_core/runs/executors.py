"""The executors by name: what carries out queued runs, and where.

    local   processes of this computer
    ray     machines of a Ray cluster
    slurm   nodes that SLURM gives, through submitit

All keep the order of the store's queue and one run per device. A cluster's executor only starts workers on machines: each
looks after the queue as `dpcl work` does, and ends when nothing waits for it. So states, stops, logs of failures and the
runs of a machine that is gone are the store's matter, whoever started the machine's worker.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

from sqlalchemy import make_url

from dpcl_core import packages, paths
from dpcl_core.data.atomic import replacing
from dpcl_core.errors import BadInput, DataMissing, unknown
from dpcl_core.masking import masked
from dpcl_core.runs import devices, machines, mover
from dpcl_core.runs.executor import Executor, LocalExecutor, Supervisor
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE

Name = Literal["local", "ray", "slurm"]
NAMES: tuple[Name, ...] = get_args(Name)
_LOOK_SECONDS = 5.0
SLURM_JOBS = 16  # at most so many nodes at once
_SLURM_MINUTES = 24 * 60  # of a job, unless SBATCH_TIMELIMIT says otherwise
_NO_CLUSTER = "no Ray cluster can be reached: start one with `ray start --head`, or name yours in RAY_ADDRESS"
_NO_SLURM = "needs SLURM's command sbatch, which is not on this computer"
_ONE_COMPUTER = "is a file of this computer: other machines need a store on PostgreSQL, postgresql+psycopg://USER@HOST/NAME"


def checked(name: str) -> Name:
    """The name of an executor. Raises BadInput for another one, and where its package or its cluster is not to be had."""
    if name not in NAMES:
        raise unknown("--executor", name, NAMES)
    package = {"ray": "ray", "slurm": "submitit"}.get(name)
    if package is not None and (missing := packages.lacking((package,))):
        raise DataMissing("--executor", name, missing)
    if name == "ray":
        _connected()
    if name == "slurm" and shutil.which("sbatch") is None:
        raise BadInput("--executor", name, _NO_SLURM)
    return name


def opened(name: str, store: Store, *, local: Executor | None = None) -> Executor:
    """The executor of this name for a store; `local`: the one to use for this computer. Raises BadInput as `checked`."""
    match checked(name):
        case "local":
            return local or LocalExecutor(store)
        case "ray":
            return RayExecutor(store)
        case "slurm":
            return SlurmExecutor(store)


def default_device(name: Name) -> str:
    """The device for runs that name none: a card where the executor has one. Of SLURM's nodes nothing is known."""
    match name:
        case "local":
            return devices.default()
        case "ray":
            return "cuda" if any(_n_cards(node) for node in _nodes().values()) else "cpu"
        case "slurm":
            return "cpu"


def n_devices(name: Name, device: str, store: Store | None = None) -> int:
    """How many runs that ask for a device the executor can carry out at once; `store`: with all machines of this store."""
    match name:
        case "local":
            present = {} if store is None else machines.present(store)
            offered = (f"{of}/{one}" for of, names in present.items() for one in names)
            return max(1, sum(devices.fits(device, one) for one in offered))
        case "ray":
            return sum(1 if devices.bare(device) == "cpu" else _n_cards(node) for node in _nodes().values())
        case "slurm":
            return SLURM_JOBS


def work(url: str, machine: str | None = None) -> None:
    """Carries out queued runs on this machine, under this name, until nothing waits for it or is under way on it.

    Ends, too, when the store stays away: the cluster's machine is then free for others.
    """
    if machine is not None:
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


def work_at(address: Path) -> None:
    """`work` on the store whose address is in this file."""
    work(address.read_text(encoding="utf-8"))


def _machine(run: Run) -> str:
    """The machine that a run is on; empty where it waits, for its turn or for its parts."""
    return (run.runs_on or "").partition("/")[0]


def _can_serve(asked: str) -> bool:
    return any(devices.fits(asked, device) for device in devices.of_this_machine(asked))


@dataclass(frozen=True, slots=True)
class _Cluster(Supervisor):
    """Starts workers on machines of a cluster while runs wait, at most one on each."""

    _workers: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by place

    def schedule(self) -> None:
        unfinished = self.check()
        waiting = [run for run in unfinished if run.status == "queued"]
        for place in [place for place, worker in self._workers.items() if self._is_over(worker)]:
            del self._workers[place]
        busy = {_machine(run) for run in unfinished if run.status in ACTIVE}
        n_idle = sum(place not in busy for place in self._workers)  # about to take a run
        free = [place for place in self._places() if place not in self._workers]
        for place in free[: max(0, len(waiting) - n_idle)]:
            self._workers[place] = self._started(place)

    def _places(self) -> list[str]:
        """Where workers can be: names of machines, or numbers of jobs."""
        raise NotImplementedError

    def _started(self, place: str) -> Any:
        raise NotImplementedError

    def _is_over(self, worker: Any) -> bool:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RayExecutor(_Cluster):
    """Carries out runs on the machines of the Ray cluster that RAY_ADDRESS names, else of this computer's.

    Every machine has this program, and reaches the store and the data. A machine is called as Ray calls its node.
    """

    def __post_init__(self) -> None:
        _connected()
        hosts = {str(node["NodeManagerHostname"]) for node in _nodes().values()}
        if make_url(self.store.url).get_backend_name() == "sqlite" and hosts - {socket.gethostname()}:
            raise BadInput("--store", masked(self.store.url), _ONE_COMPUTER)

    def _places(self) -> list[str]:
        return list(_nodes())

    def _started(self, place: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = _nodes()[place]
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked = {"num_cpus": 1, "num_gpus": _n_cards(node), "max_retries": 0, "scheduling_strategy": there}
        return ray.remote(work).options(**asked).remote(self.store.url, place)

    def _is_over(self, worker: Any) -> bool:
        import ray

        return bool(ray.wait([worker], timeout=0)[0])


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


@dataclass(frozen=True, slots=True)
class SlurmExecutor(_Cluster):
    """Carries out runs in jobs of SLURM, each on a node of its own; sbatch reads account, partition and the like from
    variables such as SBATCH_PARTITION. `cluster`: as submitit calls it; "local" needs no SLURM and is for tests.
    """

    cluster: str = "slurm"

    def _places(self) -> list[str]:
        return [f"job {number + 1}" for number in range(SLURM_JOBS)]

    def _started(self, place: str) -> Any:
        import submitit

        folder = paths.home() / "slurm"
        paths.made(folder)
        folder.chmod(0o700)  # also one that an earlier version made: its jobs hold the store's address, and so a password
        jobs = submitit.AutoExecutor(folder=folder, cluster=self.cluster)
        jobs.update_parameters(timeout_min=_SLURM_MINUTES, name="dpcl", nodes=1, tasks_per_node=1)
        return jobs.submit(work_at, self._address_in(folder))

    def _address_in(self, folder: Path) -> Path:
        """The file of the store's address, which only its owner can read: submitit writes files that everybody can."""
        address = folder / f"store-{sha256(masked(self.store.url).encode()).hexdigest()[:16]}"
        with replacing(address) as file:
            file.write(self.store.url.encode())
        return address

    def _is_over(self, worker: Any) -> bool:
        return bool(worker.done())
