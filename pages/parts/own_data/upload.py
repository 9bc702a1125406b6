"""A file on its way in: kept beside the home's data until it is taken in or replaced."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePath
from typing import Final

import streamlit as st

from dpcl_core import paths
from dpcl_core.data import copying, intake, own
from dpcl_core.errors import BadInput
from pages.parts.shell import ownership, received, state, visitor

_STATE: Final = "own-data-file"
_FIELD: Final = "File"
_KEPT: Final = "own-files-kept"
_LONGEST: Final = 100  # characters of a name or path, of which a message shows no more


def choose() -> Path | None:
    """Draws the ways to name a file or folder; gives the one that was chosen, if any."""
    most = st.get_option("server.maxUploadSize")
    dropped = st.file_uploader(
        f"A file of at most {most} MB: {copying.LISTED}",
        type=[suffix.removeprefix(".") for suffix in copying.SUFFIXES],
        key=f"own-file-{st.session_state.get(_KEPT, 0)}",
    )
    typed = ""
    if not ownership.is_shared():
        typed = st.text_input("or a file or folder on this computer", placeholder="/home/me/visits.csv", key="own-path")
    if dropped is not None:
        kept = st.session_state.get(_STATE)
        if kept is None or kept[0] != dropped.file_id:
            st.session_state[_STATE] = kept = (dropped.file_id, _written(dropped.name, dropped.getvalue()))
            received.release(dropped)
        path: Path = kept[1]
        return path if path.exists() else None
    if st.session_state.pop(_STATE, None) is not None:  # taken out of the box again
        discard()
    elif _folder().exists():
        st.caption("A file that you uploaded before was not kept. It counts as yours until it is deleted.")
        st.button("Delete that file", key="own-upload-delete", on_click=discard)
    return _named(typed) if typed.strip() else None


def _named(typed: str) -> Path:
    """The path that somebody typed. Raises BadInput where nothing is there, or nobody may ask."""
    allowed, refused = "must be the path of a file or folder that is there", None
    try:
        path = Path(typed).expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:  # too long, or not to be read; ~NAME of nobody; with NUL
        allowed, refused = "must be the path of a file or folder that you can read", error
    shown = typed if len(typed) <= _LONGEST else f"{typed[:_LONGEST]}…"
    raise BadInput(_FIELD, shown, allowed) from refused


def discard() -> None:
    """Deletes what this visitor has uploaded, which is taken in or not wanted, and empties the box of the page."""
    st.session_state.pop(_STATE, None)
    st.session_state[_KEPT] = st.session_state.get(_KEPT, 0) + 1  # another key: a box cannot be emptied otherwise
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return paths.uploads(visitor.digest())


def _written(name: str, content: bytes) -> Path:
    """The upload as a file of the name that its data will have; an earlier one of this visitor is deleted.

    Raises BadInput where it is more than a visitor of this server may keep, and where the disk refuses it.
    """
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    own.sweep_uploads()
    state.store().check_kept(len(content))
    given = PurePath(name.replace("\\", "/"))  # its own name may be longer than a file system allows
    path = folder / f"{intake.slug(given.stem)}{given.suffix[:_LONGEST]}"
    try:
        paths.made(folder)
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "its name is no name of a file"
        raise BadInput(_FIELD, path.name, f"could not be kept on this server: {said}") from error
    return path
