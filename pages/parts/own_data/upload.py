"""A file on its way in: kept beside the home's data until it is taken in or replaced."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePath
from typing import Final

import streamlit as st

from dpcl_core import paths
from dpcl_core.data import intake
from pages.parts.shell import ownership, state, visitor

_STATE: Final = "own-data-file"
_KEPT: Final = "own-files-kept"


def choose() -> Path | None:
    """Draws the ways to name a file or folder; gives the one that was chosen, if any."""
    most = st.get_option("server.maxUploadSize")
    dropped = st.file_uploader(
        f"A file of at most {most} MB: CSV, TSV, Parquet, JSON lines, NPZ, CoNLL, or a zip of pictures in CLASS/",
        type=[suffix.removeprefix(".") for suffix in intake.SUFFIXES],
        key=f"own-file-{st.session_state.get(_KEPT, 0)}",
    )
    typed = ""
    if not ownership.is_shared():
        typed = st.text_input("or a file or folder on this computer", placeholder="/home/me/visits.csv", key="own-path")
    if dropped is not None:
        kept = st.session_state.get(_STATE)
        if kept is None or kept[0] != dropped.file_id:
            st.session_state[_STATE] = kept = (dropped.file_id, _written(dropped.name, dropped.getvalue()))
        path: Path = kept[1]
        return path if path.exists() else None
    return Path(typed).expanduser() if typed.strip() else None


def discard() -> None:
    """Deletes what this visitor has uploaded, which is now taken in, and empties the box of the page."""
    st.session_state.pop(_STATE, None)
    st.session_state[_KEPT] = st.session_state.get(_KEPT, 0) + 1  # another key: a box cannot be emptied otherwise
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return paths.uploads(visitor.digest())


def _written(name: str, content: bytes) -> Path:
    """The upload as a file of its own name; an earlier one of this visitor is deleted.

    Raises BadInput where it is more than a visitor of this server may keep.
    """
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    state.store().check_kept(len(content))
    folder.mkdir(parents=True, mode=0o700)
    path = folder / PurePath(name.replace("\\", "/")).name
    path.write_bytes(content)
    return path
