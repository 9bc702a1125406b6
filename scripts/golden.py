"""Two editions of the code, one machine: whether seeded runs of all methods give the same events, ledgers and arrays.

    python -m scripts.golden --against COMMIT [METHOD ...]

Each edition runs the small runs of its own `tests/test_durable_runs.py` in a process of its own. What is compared: every
event but progress, durations and the audits at a run's end, which draw anew each time; and the arrays of every checkpoint,
byte by byte.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
# What one edition calls by another name than the next, in its events: the older name, the newer.
ALIASES: Mapping[str, str] = {}


def runs(names: Sequence[str]) -> dict[str, list[object]]:
    """By run: its events as documents, and of each checkpoint what it keeps, with digests in place of bytes."""
    import pytest

    from dpcl_core.runs import worker
    from tests import test_durable_runs as harness

    found: dict[str, list[object]] = {}
    for name in names or (*harness.METHODS, *harness.ALSO):
        with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
            keep = harness.Memory()
            events = list(worker.real_engine(harness.asked_of(name, Path(root), patch), "cpu", keep))
            states = harness.states(keep)
            for _, _, document in states:  # type: ignore[attr-defined]
                document.pop("data", None)  # when its files were written
            found[name] = [*harness.results(events), *states]
        print(name, flush=True, file=sys.stderr)
    return found


def _plain(value: object) -> object:
    """Bytes as their digest, and what JSON has no word for as text."""
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else str(value)


def _run_of_edition(tree: Path, names: Sequence[str], target: Path) -> subprocess.Popen[bytes]:
    with_home = {**os.environ, "DPCL_HOME": str(target.with_suffix("")), "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    call = [sys.executable, str(ROOT / "scripts" / "golden.py"), "--write", str(target), *names]
    return subprocess.Popen(call, cwd=tree, env=with_home)


def _renamed(text: str) -> str:
    for older, newer in ALIASES.items():
        text = text.replace(json.dumps(older), json.dumps(newer))
    return text


def difference(older: object, newer: object, where: str = "") -> str | None:
    """The first place where two documents differ, and both values there; None where they are equal."""
    if isinstance(older, dict) and isinstance(newer, dict) and older.keys() == newer.keys():
        pairs = [(f"{where}.{key}", older[key], newer[key]) for key in older]
    elif isinstance(older, list) and isinstance(newer, list) and len(older) == len(newer):
        pairs = [(f"{where}[{place}]", *pair) for place, pair in enumerate(zip(older, newer, strict=True))]
    else:
        return None if older == newer else f"{where}: {str(older)[:300]} / {str(newer)[:300]}"
    return next((found for name, one, other in pairs if (found := difference(one, other, name))), None)


def compare(commit: str, names: Sequence[str]) -> int:
    """Prints the first difference of each run; how many runs differ."""
    with TemporaryDirectory() as folder:
        tree, results = Path(folder) / "older", (Path(folder) / "older.json", Path(folder) / "newer.json")
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True, capture_output=True)
        try:
            started = [_run_of_edition(of, names, target) for of, target in zip((tree, ROOT), results, strict=True)]
            ends = [process.wait() for process in started]
            if any(ends):
                raise SystemExit("a run failed: see above")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
        older, newer = json.loads(_renamed(results[0].read_text("utf-8"))), json.loads(results[1].read_text("utf-8"))
    differences = {name: difference(older.get(name), newer.get(name)) for name in {**older, **newer}}
    for name, found in differences.items():
        print(f"{name}: {found or 'equal'}")
    return sum(found is not None for found in differences.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares seeded runs of two editions.")
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("methods", nargs="*")
    asked = parser.parse_args(arguments)
    if asked.write is not None:
        asked.write.write_text(json.dumps(runs(asked.methods), default=_plain), encoding="utf-8")
        return 0
    if asked.against is None:
        parser.error("--against COMMIT is needed")
    return int(compare(asked.against, asked.methods) > 0)


if __name__ == "__main__":
    sys.exit(main())
