"""The table of measurements: written from the benchmarks' own results, for benchmarks that there are."""

import getpass
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from dpcl_core import machine, paths
from scripts import record_performance as performance
from scripts import test_elsewhere as elsewhere

ROOT = Path(__file__).resolve().parent.parent


def test_every_row_is_a_benchmark() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "benchmarks").glob("*.py"))
    assert all(f"def {name.partition('[')[0]}(" in sources for name in (*performance.ROWS, *performance.BESIDE))
    assert all(f'"{name}": Slider(' in sources for name in performance.SERVED)


def test_a_table_says_machine_date_commit_and_medians() -> None:
    benchmarks = [
        {"name": "test_a_list_of_500_runs", "stats": {"median": 0.0642}},
        {"name": "test_digits_cosine_as_a_whole_process", "stats": {"median": 5.31}},
        {"name": "test_of_something_else", "stats": {"median": 1.0}},
    ]
    table = performance.section(benchmarks, "2026-01-02, commit `abc1234`, a machine")
    assert table.startswith("2026-01-02, commit `abc1234`, a machine.")
    assert table.splitlines()[-2:] == [
        "| 500 runs listed | < 300 ms | 64 ms |",
        "| `digits-cosine`, whole process, 30 models | < 5 s | **5.3 s** |",
    ]


def test_it_is_written_between_its_marks_and_nowhere_else() -> None:
    document = performance.DOCUMENT.read_text(encoding="utf-8")
    once = performance.written(document, "| new |")
    assert "| new |" in once
    assert performance.written(once, "| newer |") == performance.written(document, "| newer |")
    assert once.partition(performance.END)[2] == document.partition(performance.END)[2]


# What `make test-elsewhere` runs, and how it reads what came of it.


@pytest.mark.parametrize(("body", "is_green"), [("assert True", True), ("assert False", False)])
def test_what_came_of_it_is_read_from_the_tests_own_last_line(tmp_path, monkeypatch, body, is_green):
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n", encoding="utf-8")
    monkeypatch.setattr(elsewhere, "ROOT", tmp_path)
    said = elsewhere._result(elsewhere.Setting({}), (str(tmp_path / "test_one.py"), "-p", "no:cacheprovider"), set(), 600)
    assert elsewhere._is_green(said) is is_green, said
    assert not elsewhere._is_green(elsewhere._result(elsewhere.Setting({}), (), set(), 0))


# What records say of where they were made: processor, cores and commit, and nothing that names a computer or its user.


def test_a_machine_is_its_processor_and_cores_and_no_name_of_it() -> None:
    said = machine.machine()
    assert said.endswith(f", {os.cpu_count()} cores")
    assert not set(re.findall(r"[\w.-]+", said)) & {socket.gethostname(), getpass.getuser()}


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
