"""Uploads that the framework holds in memory: anybody may send them, whether or not a page asks for a file."""

from __future__ import annotations

from typing import Final

from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

_OF_SESSION: Final = 2  # pages have two boxes for a file
_MOST_BYTES: Final = 2**30  # of all sessions


def release(dropped: UploadedFile) -> None:
    """Frees the memory of an upload whose content has been copied to the disk; the box still knows it."""
    context = get_script_run_ctx()
    manager = None if context is None else context.uploaded_file_mgr
    if context is not None and isinstance(manager, MemoryUploadedFileManager) and isinstance(dropped, UploadedFile):
        name = UploadedFileRec(dropped.file_id, dropped.name, dropped.type, b"")
        manager.add_file(context.session_id, name)
        dropped.truncate(0)


def bound() -> None:
    """Drops the oldest uploads of a session that has more than its pages ask for, and of all sessions above the most."""
    manager = runtime.get_instance().uploaded_file_mgr
    assert isinstance(manager, MemoryUploadedFileManager)
    held = {session: list(files.values()) for session, files in manager.file_storage.copy().items()}
    total = sum(len(file.data) for files in held.values() for file in files)
    for session, files in held.items():
        for place, file in enumerate(files):
            if total > _MOST_BYTES or place < len(files) - _OF_SESSION:
                manager.remove_file(session, file.file_id)
                total -= len(file.data)
