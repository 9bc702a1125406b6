"""What a run would make of a file that is on its way in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dpcl_core import checks, own_runs
from dpcl_core.data import intake, schema
from dpcl_core.data.intake import Asked

if TYPE_CHECKING:
    from dpcl_core.data.understood import Column
    from dpcl_core.scenarios.stream import Table
    from dpcl_core.spec import ScenarioSpec


class Looked(NamedTuple):
    """What was understood of a file. `features`: columns that a schema could describe.

    `plan`: its classes and sources. `usual`: the scenario of a run of which nothing is said; `streams`: all that the data
    allow, by their number of tasks.
    """

    kind: str
    columns: tuple[Column, ...]
    assumed: tuple[str, ...]
    features: tuple[str, ...]
    plan: Table | None
    usual: ScenarioSpec
    streams: dict[int, list[ScenarioSpec]]


MOST_TASKS = 12


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def looked(path: Path, asked: Asked, apart: str, seen: frozenset[str]) -> Looked:
    """What a run would make of a file; the same file with the same schema is read once. Raises BadInput.

    `apart` and `seen`: see `intake.looked_at`.
    """
    said = "" if asked.instead is None else schema.written(asked.instead)
    return _looked(path, _stamp(path), said, apart, seen, asked)


@st.cache_data(max_entries=20, show_spinner=False)
def _looked(path: Path, stamp: tuple[int, int], said: str, apart: str, seen: frozenset[str], _asked: Asked) -> Looked:
    from dpcl_core.data import understood  # loads parquet's library
    from dpcl_core.scenarios import preview

    with intake.looked_at(path, _asked, apart, seen) as name:
        found = understood.of(name)
        raw = own_runs.settings(name)
        spec = checks.parse({part: raw[part] for part in ("data", "scenario")})
        plan = preview.plan(spec.data)
        n_most = min(MOST_TASKS, max(2, 0 if plan is None else len(plan.classes)))
        streams = {n_tasks: own_runs.streams(name, n_tasks) for n_tasks in range(2, n_most + 1)}
        return Looked(found.kind, found.columns, found.assumed, found.undeclared, plan, spec.scenario, streams)
