"""A PostgreSQL server of one's own on a free port of this computer, where its programs are installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tests.support.serving import free_port

# Where a test's default store lies: `databases` in tests/runs/conftest.py.
both = pytest.mark.databases("sqlite", "postgresql")
both_if_slow = pytest.mark.databases("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))
file_alone = pytest.mark.databases("sqlite")

ABSENT = "PostgreSQL's programs are not installed here (postgres, initdb, pg_ctl), or the Python package psycopg is not"
_USER = "dpcl"
# A crash of the server alone loses nothing that the system has: waiting for the disk would only take time.
_OPTIONS = {"listen_addresses": "127.0.0.1", "fsync": "off", "full_page_writes": "off", "max_connections": "200"}


def programs() -> Path | None:
    """The folder of the server's programs; None where there is none, or no driver."""
    folders = [Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)  # Debian's, which are not on the path
    complete = [folder for folder in folders if all((folder / name).exists() for name in ("postgres", "initdb", "pg_ctl"))]
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return None
    return complete[0] if complete else None


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `stop`, `start` and `restart` return when it is down or takes connections."""

    programs: Path
    folder: Path
    port: int

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, *, like: str = "template1", encoding: str = "UTF8") -> str:
        """Makes a database, a copy of another one (`template0` for another encoding), and gives its address."""
        self._say(f"CREATE DATABASE \"{database}\" TEMPLATE \"{like}\" ENCODING '{encoding}'")
        return self.url(database)

    def drop(self, database: str) -> None:
        """Deletes a database, and ends the connections to it."""
        self._say(f'DROP DATABASE "{database}" WITH (FORCE)')

    def start(self) -> None:
        sockets = {"unix_socket_directories": str(self.folder), "port": str(self.port)}
        options = " ".join(f"-c {name}={value}" for name, value in {**_OPTIONS, **sockets}.items())
        _as_a_user([self.programs / "pg_ctl", "start", *self._data, "-l", self.folder / "log", "-o", options], self.folder)

    def stop(self, mode: Literal["fast", "immediate"] = "immediate") -> None:
        """Stops it; at once, as in a crash, unless told otherwise."""
        _as_a_user([self.programs / "pg_ctl", "stop", *self._data, "-m", mode], self.folder)

    def restart(self) -> None:
        """Restarts it as after a crash."""
        _as_a_user([self.programs / "pg_ctl", "restart", *self._data, "-m", "immediate"], self.folder)

    @property
    def _data(self) -> list[str | Path]:
        return ["-w", "-s", "-D", self.folder / "data"]

    def _say(self, statement: str) -> None:
        import psycopg

        with closing(psycopg.connect(self.url("postgres").replace("+psycopg", ""), autocommit=True)) as connection:
            connection.execute(statement.encode())


@contextmanager
def server() -> Iterator[Server]:
    """A server in an empty folder; raises RuntimeError where there are no programs for one."""
    found = programs()
    if found is None:
        raise RuntimeError(ABSENT)
    with tempfile.TemporaryDirectory(prefix="dpcl-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if _user() is not None:
            shutil.chown(folder, _user())
        made = Server(found, folder, free_port())
        settings = ["-A", "trust", "-U", _USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        _as_a_user([found / "initdb", *settings, "-D", folder / "data"], folder)
        made.start()
        try:
            yield made
        finally:
            made.stop()


def _user() -> str | None:
    """Who runs the server: PostgreSQL refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def _as_a_user(command: Sequence[str | Path], folder: Path) -> None:
    """Runs a command of the server; its output goes into a file, since the server would keep a pipe open."""
    with (folder / "commands").open("ab") as output:
        subprocess.run(
            command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            user=_user(), extra_groups=[] if _user() else None, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
