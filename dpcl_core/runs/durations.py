"""How long runs take: estimates from finished runs of the same workload."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from statistics import median

from sqlalchemy import Connection, bindparam, func, select

from dpcl_core.runs.tables import runs, splits
from dpcl_core.spec import RunSpec

Work = tuple[str, int]  # a run's workload and number of cells
Durations = list[tuple[int, float]]  # number of cells and seconds of each finished run of one workload

# Made once, as the queries of `store` are.
_PLACE = func.row_number().over(partition_by=(runs.c.workload, runs.c.device), order_by=runs.c.number.desc())
_FINISHED = (
    select(runs.c.workload, runs.c.device, runs.c.n_cells, runs.c.seconds, _PLACE.label("place"))
    .where(
        runs.c.status == "finished", runs.c.workload.in_(bindparam("workloads", expanding=True)),
        runs.c.id.not_in(select(splits.c.run_id)),
    ).subquery()
)  # fmt: skip
_KEPT = ("workload", "device", "n_cells", "seconds")
_PAST = select(*(_FINISHED.c[name] for name in _KEPT)).where(_FINISHED.c.place <= 200)


def workload_of(spec: RunSpec) -> str:
    """Digest of the settings that decide how long a cell takes: all but budgets, seeds and labels."""
    return sha256(spec.model_dump_json(include={"method", "params", "data", "scenario"}).encode()).hexdigest()[:16]


def work_of(spec: RunSpec) -> Work:
    """What a run's duration follows from."""
    return workload_of(spec), spec.n_cells


def past(connection: Connection, workloads: Collection[str]) -> dict[tuple[str, str], Durations]:
    """Durations of the last 200 finished runs of each workload on each device.

    Those of a run that was split are those of its parts, each on one device.
    """
    durations: dict[tuple[str, str], Durations] = {}
    for workload, device, n_cells, seconds in connection.execute(_PAST, {"workloads": list(workloads)}):
        durations.setdefault((workload, device), []).append((n_cells, seconds))
    return durations


def estimate(known: Durations, n_cells: int) -> float | None:
    """Median seconds of runs with as many cells; without any, the median seconds per cell of the others times `n_cells`."""
    comparable = [(cells, seconds) for cells, seconds in known if cells == n_cells] or known
    return n_cells * median(seconds / cells for cells, seconds in comparable) if comparable else None
