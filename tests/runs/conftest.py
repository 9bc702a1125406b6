"""What the tests of this room share: a home and a store of their own, in a file or on a PostgreSQL server."""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import process
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE
from tests.support import postgres


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `databases` run with their store on each of them; the others, in a file."""
    marker = metafunc.definition.get_closest_marker("databases")
    if marker is not None and "home" in metafunc.fixturenames:
        metafunc.parametrize("home", marker.args, indirect=True)


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for the tests of this process."""
    if postgres.programs() is None:
        pytest.skip(postgres.ABSENT)
    with postgres.server() as started:
        Store(started.create("empty_store"))._reads.dispose()  # copied for each test: sooner done than made
        yield started


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty home for everything the project writes; its default store is a file in it, or a database of its own."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    if getattr(request, "param", "sqlite") == "sqlite":
        yield tmp_path
        return
    server: postgres.Server = request.getfixturevalue("server")
    name = f"test_{secrets.token_hex(6)}"
    monkeypatch.setenv("DPCL_STORE", server.create(name, like="empty_store"))
    yield tmp_path
    server.drop(name)


class Stranger(subprocess.Popen[bytes]):
    """A process that answers as long as it lives."""

    def __init__(self) -> None:
        super().__init__(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def answers(self) -> bool:
        """Whether it lives: who was killed before this question cannot answer it."""
        with suppress(BrokenPipeError):
            self.stdin.write(b"?\n")
        return self.stdout.readline() == b"?\n"


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """A process that no run knows; ended with the test."""
    with Stranger() as started:
        yield started
        started.kill()


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """The default store of that home; worker processes that a test has left behind are ended with it."""
    opened = Store()
    yield opened
    with suppress(StoreTrouble):  # of a test that damages it
        for run in opened.unfinished():
            if run.status in ACTIVE and run.process is not None and run.process != process.me():
                process.end(run.process)
