"""Makes assets/playground/SETTING-TASKS.json: the bundled digits, ready to be replayed at any budget in the browser.

    python scripts/make_playground.py

Public teaching data only: the files hold unnoised class sums (as products with test features), and their noise is seeded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np

from dpcl_core import paths
from dpcl_core.backbones import cache
from dpcl_core.data import load
from dpcl_core.methods import cosine_replay
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.scenarios import class_incremental
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Table
from dpcl_core.spec import Cell, DataSpec, LabelSetting

SETTINGS: tuple[LabelSetting, ...] = ("prior-const", "prior")
TASKS = (2, 5, 10)
SEEDS = (0, 1, 2, 3, 4)
DELTA = 1e-5
DATA = DataSpec(dataset="digits", test_per_class=30)  # ten tasks of all 450 test digits would exceed what a page may send


def document(setting: LabelSetting, n_tasks: int) -> dict[str, object]:
    """One file: where the numbers come from, and the numbers."""
    dataset = load.load(DATA)
    train, test = (
        Examples(cache.features(DATA.backbone, split.images), split.labels) for split in (dataset.train, dataset.test)
    )
    table = Table(train=train, test=test, classes=dataset.classes)
    task_of_class = np.empty((len(SEEDS), len(dataset.classes)), dtype=np.int64)
    for row, seed in enumerate(SEEDS):
        for task in class_incremental.open_stream(ClassIncremental(tasks=n_tasks), table, seed).tasks:
            task_of_class[row, list(task.prior)] = task.index
    data = cosine_replay.prepare(
        (train.inputs, train.labels),
        (test.inputs, test.labels),
        task_of_class,
        setting,
        DELTA,
        # One noise for every budget: what makes the drag smooth, and what no release may do.
        [SeededNoise(Cell(np.inf, seed), f"replay/{setting}") for seed in SEEDS],
    )
    about = {
        "dataset": dataset.title,
        "classes": list(dataset.classes),
        "n_train": len(train),
        "n_test": len(test),
        "seeds": list(SEEDS),
    }
    return {"about": about, "replay": cosine_replay.encode(data)}


def main(folder: Path) -> None:
    """Writes every file into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for setting in SETTINGS:
        for n_tasks in TASKS:
            path = folder / f"{setting}-{n_tasks}.json"
            path.write_text(json.dumps(cast(object, document(setting, n_tasks)), separators=(",", ":")) + "\n")
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(paths.assets_dir() / "playground")
