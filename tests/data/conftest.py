"""The real data, where there are any."""

import os
from pathlib import Path

import pytest

REAL = os.environ.get("DPCL_DATA")  # read before any test puts its own folder there


@pytest.fixture
def real_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of real datasets; skips where there is none."""
    if not REAL:
        pytest.skip("DPCL_DATA is not set: there are no real datasets to read")
    monkeypatch.setenv("DPCL_DATA", str(Path(REAL).resolve()))
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return Path(REAL)
