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
    from dpcl_core.figures.picture import Picture


class Looked(NamedTuple):
    """What was understood of a file. `features`: columns that a schema could describe; then the stream."""

    kind: str
    columns: tuple[Column, ...]
    assumed: list[str]
    features: tuple[str, ...]
    picture: Picture | None


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def looked(path: Path, asked: Asked, dark: bool) -> Looked:
    """What a run would make of a file; the same file with the same schema is read once. Raises BadInput."""
    said = "" if asked.instead is None else schema.written(asked.instead)
    return _looked(path, _stamp(path), said, dark, asked)


@st.cache_data(max_entries=20, show_spinner=False)
def _looked(path: Path, stamp: tuple[int, int], said: str, dark: bool, _asked: Asked) -> Looked:
    from dpcl_core.data import understood  # loads parquet's library
    from dpcl_core.figures import stream
    from dpcl_core.scenarios.preview import preview

    with intake.looked_at(path, _asked) as name:
        found = understood.of(name)
        raw = own_runs.settings(name)
        spec = checks.parse({part: raw[part] for part in ("data", "scenario")})
        shown = preview(spec.data, spec.scenario, spec.seeds[0])
        drawn = None
        if shown is not None:
            drawn = stream.stream(shown.counts, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=dark)
        return Looked(found.kind, found.columns, own_runs.assumed(name, raw)[1:], found.undeclared, drawn)
