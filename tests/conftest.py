"""What all tests share: drawn examples without a time limit, a home and a folder of datasets of a test's own."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Properties are tested, not how long they take: a busy machine must not fail a drawn example.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, which has the default store."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> object:
    """The default store of that home."""
    from dpcl_core.runs.store import Store  # tests of rooms without a store do without its library

    return Store()


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `DPCL_DATA`; the home is empty too, and the hub out of reach."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("DPCL_DATA", str(folder))
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder
