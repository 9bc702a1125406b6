"""The site with its engine, built once for many tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcl_core.site import build, pyodide


def built(folder: Path) -> Path:
    """The site with its engine in this folder; skips where the browser's Python was never fetched."""
    if pyodide.folder() is None:
        pytest.skip("needs the browser's Python: `dpcl fetch pyodide`")
    folder.mkdir(parents=True, exist_ok=True)
    build.build(folder, live=True)
    return folder
