"""What records say of where they were made: processor, cores and commit, and nothing that names a computer or its user."""

from __future__ import annotations

import getpass
import os
import re
import socket
from pathlib import Path

import pytest

from dpcl_core import machine


def test_a_machine_is_its_processor_and_cores_and_no_name_of_it() -> None:
    said = machine.machine()
    assert said.endswith(f", {os.cpu_count()} cores")
    words = set(re.findall(r"[\w.-]+", said))
    assert not words & {socket.gethostname(), getpass.getuser()}


def test_a_commit_is_a_short_hash_with_a_mark_for_changed_code() -> None:
    assert re.fullmatch(r"([0-9a-f]{7,40}\+?)?", machine.commit())


def test_there_is_none_where_there_is_no_repository_and_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert machine.commit() == ""
    monkeypatch.setenv("PATH", "")
    assert machine.commit() == ""
