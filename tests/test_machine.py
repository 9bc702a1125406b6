"""What records say of where they were made: processor, cores and commit, and nothing that names a computer or its user."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from dpcl_core import machine, paths


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


def _commits() -> set[str]:
    """The commits that our records name, without the mark of further changes."""
    found = set()
    for path in (paths.assets_dir() / "reproduction").glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        found |= {run.get("commit") for run in (document, *document.get("runs", ()))} - {None, ""}
    return {machine.bare(commit) for commit in found}


def _history() -> list[str]:
    """The commits that led to this one; none without a whole history: in an exported tree, or a shallow checkout."""
    git = ("git", "-C", str(Path(__file__).resolve().parent))
    try:
        top, is_shallow = subprocess.run(
            [*git, "rev-parse", "--show-toplevel", "--is-shallow-repository"], capture_output=True, text=True, check=True
        ).stdout.split("\n")[:2]
        is_ours = Path(top).resolve() == Path(__file__).resolve().parent.parent and is_shallow == "false"
        return subprocess.check_output([*git, "rev-list", "HEAD"], text=True).split() if is_ours else []
    except (OSError, subprocess.CalledProcessError):
        return []


def test_every_commit_that_a_record_names_is_in_the_history() -> None:
    if not (history := _history()):
        pytest.skip("no checkout with a whole history")
    named = _commits()
    assert len(named) > 10
    assert {commit for commit in named if not any(known.startswith(commit) for known in history)} == set()
