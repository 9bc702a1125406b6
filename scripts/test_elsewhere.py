"""Runs the suite as other processors would: `make test-elsewhere`, at most 90 minutes; its result is docs/elsewhere.md.

Environment variables choose the kernels of linear algebra and networks before the libraries load. A setting with a kernel
that this processor cannot run is skipped. The browser tests run first, once, beside two busy loops, and the slow tests last.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpcl_core import machine

ROOT = Path(__file__).resolve().parent.parent
MINUTES = 90.0
QUICK = ["--ignore", "tests/benchmarks", "-m", "not slow and not browser", "-n", "2", "--dist", "loadfile"]
BROWSER = ["tests/browser", "-m", "not slow"]
# Papers' experiments have a command of their own, `make reproduce`.
SLOW = ["--ignore", "tests/benchmarks", "--ignore", "tests/papers", "-m", "slow", "-n", "2"]
# The processor flags that a kernel needs, by the names that Linux lists.
NEEDS = {
    "Haswell": {"avx2", "fma"}, "SkylakeX": {"avx512f", "avx512dq", "avx512vl"}, "Sandybridge": {"avx"}, "avx2": {"avx2"},
}  # fmt: skip
_COUNTS = re.compile(r"(\d+) (passed|failed|error|errors|skipped)")


@dataclass(frozen=True)
class Setting:
    """One way to run the suite: `environment` chooses kernels and threads, `tests` are the arguments of pytest."""

    environment: Mapping[str, str]
    tests: tuple[str, ...] = tuple(QUICK)
    busy_loops: int = 0
    what: str = ""

    @property
    def name(self) -> str:
        """The first cell of its row in the table."""
        if self.what:
            return self.what
        chosen = ", ".join(f"{key}={value}" for key, value in self.environment.items())
        return chosen or f"browser tests beside {self.busy_loops} busy loops"

    def lacking(self, able: set[str]) -> str:
        """The first kernel that a processor with these flags cannot run; empty if it can run all."""
        return next((kernel for kernel in self.environment.values() if not NEEDS.get(kernel, set()) <= able), "")


def kernels(blas: str, aten: str, threads: int, onednn: str = "") -> Setting:
    """The suite with these kernels and this many threads per process."""
    chosen = {"OPENBLAS_CORETYPE": blas, "ATEN_CPU_CAPABILITY": aten, "OMP_NUM_THREADS": str(threads)}
    return Setting({**chosen, **({"ONEDNN_MAX_CPU_ISA": onednn} if onednn else {})})


SETTINGS = (
    Setting({}, tuple(BROWSER), busy_loops=2),
    kernels("Haswell", "default", 1),
    kernels("SkylakeX", "avx2", 2),
    kernels("Sandybridge", "default", 2, onednn="SSE41"),
    kernels("Haswell", "avx2", 1, onednn="AVX2"),
    Setting({"OMP_NUM_THREADS": "1"}, tuple(SLOW), what="slow tests, alone (`make test-slow`)"),
)


def main() -> int:
    """Runs every setting; returns 1 if a test failed or time ran out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", nargs="+", default=[], help="only these test files, and no browser (writes no result)")
    parser.add_argument(
        "--only", nargs="+", type=int, default=[], metavar="ROW", help="rows of the table, from 1; others stay"
    )
    options = parser.parse_args()
    end, able = time.monotonic() + MINUTES * 60, _abilities()
    document = ROOT / "docs" / "elsewhere.md"
    rows = _rows(document.read_text(encoding="utf-8"))
    fresh = {}
    for place, setting in enumerate(SETTINGS, start=1):
        if (options.only and place not in options.only) or (options.tests and setting.busy_loops):
            continue
        tests = (*options.tests, *QUICK) if options.tests else setting.tests
        fresh[setting.name] = _result(setting, tests, able, end - time.monotonic())
        print(f"{setting.name}: {fresh[setting.name]}", flush=True)
        if not options.tests:
            rows[setting.name] = (fresh[setting.name], f"{datetime.now(UTC):%Y-%m-%d}", machine.commit())
            document.write_text(_document(rows), encoding="utf-8")
    return int(any(not _is_green(result) for result in fresh.values()))


def _result(setting: Setting, tests: tuple[str, ...], able: set[str], seconds_left: float) -> str:
    if kernel := setting.lacking(able):
        return f"skipped: this processor has no {kernel}"
    if seconds_left <= 0:
        return "not run: the time was over"
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", *tests]
    with _busy(setting.busy_loops):
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **setting.environment}, capture_output=True, text=True,
                timeout=seconds_left, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "not finished: the time was over"
    lines = done.stdout.splitlines()
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
    print("\n".join(failed), end="\n" if failed else "", flush=True)
    counts = ", ".join(" ".join(found) for found in _COUNTS.findall(lines[-1] if lines else ""))
    named = f": {', '.join(f'`{line.split()[1]}`' for line in failed)}" if failed else ""
    minutes = (time.monotonic() - started) / 60
    return f"{counts or f'ended with status {done.returncode}'} in {minutes:.1f} minutes{named}"


def _is_green(result: str) -> bool:
    return result.startswith("skipped") or ("passed" in result and "failed" not in result and "error" not in result)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Keeps this many cores busy."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def _abilities() -> set[str]:
    """The processor's flags, as Linux lists them; empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    found = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    return set(found.group(1).split()) if found else set()


def _rows(document: str) -> dict[str, tuple[str, ...]]:
    """Result, date and commit of each setting that the document names."""
    cells = (
        tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in document.splitlines() if line[:1] == "|"
    )
    names = {setting.name for setting in SETTINGS}
    return {name: tuple(rest) for name, *rest in cells if name in names}


def _document(rows: Mapping[str, tuple[str, ...]]) -> str:
    head = [
        "# The suite on other processors, and slow tests",
        "",
        "`make test-elsewhere` runs the tests with kernels that other processors would choose, on one and two threads, and",
        "the browser tests beside two busy loops. Last come the tests that `make test` leaves out, because they take long:",
        "every method where it takes a few of each family, and attacks with thousands of trials. The command writes the",
        "last result of each setting here itself.",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        "| setting | result | date | commit |",
        "| --- | --- | --- | --- |",
    ]
    found = [(setting.name, *rows[setting.name]) for setting in SETTINGS if setting.name in rows]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in found)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
