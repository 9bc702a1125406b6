"""Writes the measured table of `docs/performance.md` from a short set of benchmarks, with machine, date and commit.

Run on a quiet machine: python -m scripts.record_performance
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "performance.md"
START, END = "<!-- written by scripts/record_performance.py -->", "<!-- end of what is written -->"
MOST_LOAD = 2.0  # of a minute; a busier machine measures its other work
FILES = ("test_runs.py", "test_replay.py", "test_store.py")


@dataclass(frozen=True)
class Row:
    """A benchmark as the table names it, and its budget in seconds on two cores (None: no budget)."""

    what: str
    budget: float | None = None


ROWS: Mapping[str, Row] = {
    "test_digits_cosine_as_a_whole_process": Row("`digits-cosine`, whole process, 30 models", 5.0),
    "test_the_engine_alone_on_the_same_grid": Row("the engine alone on the same grid"),
    "test_the_first_point_of_a_live_demo": Row("first point of the live demo, from the engine's start", 3.0),
    "test_one_accounting_of_dp_sgd": Row("one accounting of DP-SGD, 400 steps"),
    "test_scoring_at_a_budget": Row("exact scoring at a new budget, 2,000 × 768 × 100", 0.025),
    "test_new_noise_and_its_products": Row("new noise and its products, same size"),
    "test_a_list_of_500_runs": Row("500 runs listed", 0.3),
    "test_the_newest_of_ten_thousand_points": Row("one more point written and read, of 10,000", 0.02),
}


def section(benchmarks: Sequence[Mapping[str, Any]], machine: str, commit: str, date: str) -> str:
    """The table as Markdown. `benchmarks`: entries of pytest-benchmark's JSON, of which the known ones are taken."""
    found = {str(one["name"]): one["stats"] for one in benchmarks}
    lines = [f"{date}, commit `{commit}`, {machine}. Medians.", "", "| what | budget | measured |", "| --- | --- | --- |"]
    for name, row in ROWS.items():
        if name in found:
            budget = "" if row.budget is None else f"< {_time(row.budget)}"
            lines.append(f"| {row.what} | {budget} | {_time(float(found[name]['median']))} |")
    return "\n".join(lines)


def written(document: str, table: str) -> str:
    """The document with its table in place of the one before."""
    before, _, rest = document.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table}\n{END}{after}"


def _time(seconds: float) -> str:
    """About two significant digits; milliseconds below a second."""
    value, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def _machine() -> str:
    """Processor, cores and system, as the system names them."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = (line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name"))
        name = next(named, name)
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _measured() -> list[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmarks.json"
        files = [str(ROOT / "tests" / "benchmarks" / name) for name in FILES]
        options = ["--benchmark-only", f"--benchmark-json={path}"]
        subprocess.run([sys.executable, "-m", "pytest", *files, *options], cwd=ROOT, check=True)
        benchmarks: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        return benchmarks


def main() -> int:
    """Measures and writes; exit status 1 on a busy machine, where nothing is measured."""
    if hasattr(os, "getloadavg") and os.getloadavg()[0] >= MOST_LOAD:
        print(f"load {os.getloadavg()[0]:.1f}: must be below {MOST_LOAD:g}; end other work and try again", file=sys.stderr)
        return 1
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    table = section(_measured(), _machine(), commit, f"{datetime.now(UTC):%Y-%m-%d}")
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
