"""The engine as a page has it, run by node: 32-bit, without threads, processes, links and torch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcl_core.site import live, live_page, pyodide

HERE = Path(__file__).resolve().parent
Run = Callable[..., Any]


@pytest.fixture(scope="session")
def live_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files below `live/` of a site."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    if pyodide.folder() is None:
        pytest.skip("needs the browser's Python: dpcl fetch pyodide")
    folder = tmp_path_factory.mktemp("live")
    for name, content in live.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "engine.js").write_text(live_page.scripts()["live/engine.js"], encoding="utf-8")
    return folder


@pytest.fixture
def in_page(live_folder: Path, tmp_path: Path) -> Run:
    """Runs Python in the page's engine, with these groups of files loaded; gives what it leaves as JSON in `result`."""

    def run(code: str, *groups: str) -> Any:
        file = tmp_path / "asked.py"
        file.write_text(code, encoding="utf-8")
        command = ["node", str(HERE / "in_node.mjs"), str(live_folder), str(file), str(HERE.parent), *groups]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run
