"""Writes the table of large files in `docs/guides/own_data.md`: what a run on each takes, beside the size of the file.

Every run is a process of its own, which reads invented embeddings from a folder of its own and learns with one thread. Needs
3 GB of disk and 2 GB of memory, and some minutes on a quiet machine: python -m scripts.record_large_files
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core import machine
from scripts.record_performance import ROOT, written

DOCUMENT = ROOT / "docs" / "guides" / "own_data.md"
START = "<!-- written by scripts/record_large_files.py -->"
RUN = """
import json, resource, time
from dpcl_core import checks, engine
raw = {
    "data": {"dataset": "own:large", "backbone": "pixels"}, "scenario": {"tasks": 10},
    "privacy": {"epsilons": [1.0, 8.0], "delta": 1e-8}, "seeds": [0, 1, 2, 3, 4],
}
last = [type(event).__name__ for event in engine.run(checks.parse(raw))][-1]
print(json.dumps([last, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.process_time()]))
"""


def npz(path: Path, values: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
    """An NPZ file with an array of embeddings and one of labels."""
    np.savez(path / "all.npz", embeddings=values, labels=labels)


def parquet(path: Path, values: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
    """A parquet file with a column of lists and one of labels."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    pq.write_table(pa.table({"embedding": lists, "label": labels}), path / "all.parquet", row_group_size=50_000)


Write = Callable[[Path, NDArray[np.float32], NDArray[np.int64]], None]
FILES: dict[str, tuple[int, int, int, Write]] = {  # rows, width, classes
    "640,000 × 256, 100 classes, NPZ": (640_000, 256, 100, npz),
    "the same in parquet": (640_000, 256, 100, parquet),
    "256,000 × 768, 1,000 classes, NPZ": (256_000, 768, 1000, npz),
}


def measured(n_rows: int, width: int, n_classes: int, write: Write) -> tuple[float, float, float]:
    """Bytes of the file, bytes at the peak of a run on it, and the run's seconds of processor.

    Raises SystemExit where the run ends otherwise than with its last model.
    """
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "data" / "large"
        folder.mkdir(parents=True)
        values = np.random.default_rng(0).standard_normal((n_rows, width), np.float32)
        write(folder, values, np.arange(n_rows) % n_classes)
        del values
        places = {"DPCL_HOME": home, "DPCL_DATA": str(folder.parent)}
        environment = {**os.environ, **places, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run([sys.executable, "-c", RUN], env=environment, cwd=ROOT, capture_output=True, text=True)
        last, peak, seconds = json.loads(ended.stdout) if ended.returncode == 0 else (ended.stderr[-500:], 0.0, 0.0)
        if last != "CellFinished":
            raise SystemExit(f"the run ended with {last}")
        return sum(path.stat().st_size for path in folder.iterdir()), peak, seconds


def main() -> int:
    """Measures and writes."""
    lines = [
        "| embeddings, cosine classifier, 10 tasks, two budgets, five seeds | file | peak memory | seconds of processor |",
        "| --- | --- | --- | --- |",
    ]
    for name, (n_rows, width, n_classes, write) in FILES.items():
        size, peak, seconds = measured(n_rows, width, n_classes, write)
        lines.append(f"| {name} | {size / 1e6:,.0f} MB | {peak / 1e6:,.0f} MB | {seconds:.0f} |")
        print(lines[-1], file=sys.stderr)
    about = f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}"
    lines += ["", f"*Measured* on {about}, with one thread; the program is part of each peak."]
    document = written(DOCUMENT.read_text(encoding="utf-8"), "\n".join(lines), START)
    DOCUMENT.write_text(document, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
