"""The table of measurements: written from the benchmarks' own results, for benchmarks that there are."""

from __future__ import annotations

from pathlib import Path

from scripts import record_performance as performance

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
