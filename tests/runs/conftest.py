"""What the tests of this room share: a home and a store of their own, and a way to wait for something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import process
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for everything the project writes."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """The default store of that home; worker processes that a test has left behind are ended with it."""
    opened = Store()
    yield opened
    with suppress(StoreTrouble):  # of a test that damages it
        for run in opened.unfinished():
            if run.status in ACTIVE and run.process is not None and run.process != process.me():
                process.end(run.process)
