"""A home of its own for every test: features computed here are kept nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    return tmp_path
