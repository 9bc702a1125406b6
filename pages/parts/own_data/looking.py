"""What a run would make of a file that is on its way in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from dpcl_core.data import schema
from dpcl_core.data.intake import Asked
from pages.parts.shell import ownership, state, visitor

if TYPE_CHECKING:
    from dpcl_core.apart import Given, Looked


def given(path: Path, asked: Asked, seen: frozenset[str], of: str | None = None) -> Given:
    """A file as this visitor brings it, within the bytes that the server still gives. `seen`, `of`: see `apart.Given`."""
    from dpcl_core import apart  # loads parquet's library

    mine = visitor.digest()
    return apart.Given(path, asked, mine, mine if ownership.is_shared() else "", seen, state.store().bytes_left(), of)


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def looked(one: Given) -> Looked:
    """What a run would make of a file; the same file with the same schema is read once. Raises BadInput."""
    said = "" if one.asked.instead is None else schema.written(one.asked.instead)
    return _looked(one.path, _stamp(one.path), said, one.apart, one.seen, one)


@st.cache_data(max_entries=20, show_spinner=False)
def _looked(path: Path, stamp: tuple[int, int], said: str, apart: str, seen: frozenset[str], _one: Given) -> Looked:
    from dpcl_core import apart as reading

    return reading.looked(_one) if ownership.is_shared() else reading.look(_one)


def keep(one: Given) -> str:
    """Keeps a file as own:NAME and gives that name. Raises BadInput."""
    from dpcl_core import apart

    return str(apart.answer("keep", one, is_apart=ownership.is_shared()))


def first_line(path: Path) -> str:
    """What the first line of a table seems to be, as `intake.first_line`; the same file is read once."""
    return str(_of_form("first line", path, _stamp(path), "", given(path, Asked(), frozenset())))


def columns(path: Path, fields: schema.Schema) -> list[str]:
    """The columns of a table, as `intake.columns`; the same file with the same schema is read once."""
    one = given(path, Asked(instead=fields), frozenset())
    return list(_of_form("columns", path, _stamp(path), schema.written(fields), one))


@st.cache_data(max_entries=40, show_spinner=False)
def _of_form(task: Literal["columns", "first line"], path: Path, stamp: tuple[int, int], said: str, _one: Given) -> Any:
    from dpcl_core import apart

    return apart.answer(task, _one, is_apart=ownership.is_shared())
