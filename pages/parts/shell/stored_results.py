"""The result of a stored run, cached, or of the bundled example."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core import checks, events, paths
from dpcl_core.events import Event
from dpcl_core.papers import ceilings
from dpcl_core.results import Result
from dpcl_core.spec import RunSpec
from pages.parts.shell import state

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run

EXAMPLE = "digits-cosine"


def of(run: Run) -> Result:
    """The result of a run so far, reading only new events. Raises BadInput if its spec cannot be read."""
    cached: dict[str, tuple[int, tuple[Event, ...]]] = st.session_state.setdefault("events", {})
    if run.is_over:
        cached.pop(run.id, None)
        ceiling, _ = _ceiling(where=state.where(), digest=run.spec.digest(), _spec=run.spec)
        return _over(where=state.where(), run_id=run.id, name=run.name, ceiling=ceiling)
    # Events of an active run are kept for the session, so that each refresh reads only new ones.
    seq, seen = cached.get(run.id, (0, ()))
    fresh = state.store().events_after(run.id, seq)
    if fresh:
        cached[run.id] = (fresh[-1][0], seen + tuple(event for _, event in fresh))
    return Result(run.id, run.name, run.spec, cached.get(run.id, (0, ()))[1])


@st.cache_resource(max_entries=50, show_spinner=False)
def _over(where: tuple[str, str, str], run_id: str, name: str, ceiling: float | None) -> Result:
    run = state.store().get(run_id)
    return Result(run.id, name, run.spec, state.store().events(run_id), ceiling=ceiling)


def is_ceiling_tried(spec: RunSpec) -> bool:
    """Whether its ceiling was trained, as far as `of` knows: if that gave none, the run was no ceiling."""
    return _ceiling(where=state.where(), digest=spec.digest(), _spec=spec)[1]


def look_for_ceilings() -> None:
    """Makes `of` look for ceilings anew, after the run of one has ended."""
    _ceiling.clear()


@st.cache_data(ttl=5, show_spinner=False)
def _ceiling(where: tuple[str, str, str], digest: str, _spec: RunSpec) -> tuple[float | None, bool]:
    """The ceiling that records or the store have by now, and whether one was tried; `digest`: the spec, for the cache."""
    return ceilings.known(_spec, store=state.store()), ceilings.is_tried(_spec, state.store())


@st.cache_resource(show_spinner=False)
def example() -> Result:
    """The bundled example: a recorded run of the first preset."""
    folder = paths.assets_dir() / "examples"
    spec = checks.parse(checks.read_toml((folder / f"{EXAMPLE}.toml").read_text(encoding="utf-8")))
    lines = (folder / f"{EXAMPLE}.jsonl").read_text(encoding="utf-8").splitlines()
    return Result(None, "Example", spec, tuple(events.from_json(json.loads(line)) for line in lines))
