"""The engine as a page has it, run by node: 32-bit, without threads, processes, links and torch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcl_core.site import live
from tests.page import rooms

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def live_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files below `live/` of a site."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    if live.python_folder() is None:
        pytest.skip("needs the browser's Python: dpcl fetch pyodide")
    folder = tmp_path_factory.mktemp("live")
    rooms.write_live(folder)
    return folder


@pytest.fixture
def in_page(live_folder: Path, tmp_path: Path) -> Run:
    """Runs Python in the page's engine, with these groups of files loaded; gives what it leaves as JSON in `result`."""

    def run(code: str, *groups: str) -> Any:
        file = tmp_path / "asked.py"
        file.write_text(code, encoding="utf-8")
        return rooms.in_node(live_folder, file, rooms.TESTS, *groups)

    return run
