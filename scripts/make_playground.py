"""Makes assets/playground: the bundled digits, ready to be replayed at any budget in the browser.

    python -m scripts.make_playground

SETTING-TASKS.json holds the products that a replay needs, guarantees.json what each budget on the slider promises: the
accountant takes up to a second for one of them, and a page has a fifth of a second.
Public teaching data only: the files hold unnoised class sums (as products with test features), and their noise is seeded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dpcl_core import events, paths
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.elements.calculator import STOPS, TASKS
from dpcl_core.explorers import cosine_replay
from dpcl_core.explorers.cosine_replay import promised
from dpcl_core.figures.statistics import interval_factor
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.scenarios import incremental
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Table
from dpcl_core.spec import Cell, DataSpec, LabelSetting

SETTINGS: tuple[LabelSetting, ...] = ("prior-const", "prior")
SEEDS = (0, 1, 2, 3, 4)
DELTA = 1e-5
DATA = DataSpec(dataset="digits", test_per_class=30)  # ten tasks of all 450 test digits would exceed what a page may send


def document(setting: LabelSetting, n_tasks: int) -> dict[str, Any]:
    """One file: where the numbers come from, and the numbers."""
    dataset = load.load(DATA)
    train, test = (
        Examples(extractor.features(DATA.backbone, split.images), split.labels) for split in (dataset.train, dataset.test)
    )
    table = Table(train=train, test=test, classes=dataset.classes)
    task_of_class = np.empty((len(SEEDS), len(dataset.classes)), dtype=np.int64)
    for row, seed in enumerate(SEEDS):
        for task in incremental.open_stream(ClassIncremental(tasks=n_tasks), table, seed).tasks:
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
        "interval_factor": interval_factor(len(SEEDS)),  # kept here because the first page must not wait for scipy
    }
    return {"about": about, "replay": cosine_replay.encode(data)}


def guarantees(about: dict[str, Any]) -> dict[str, list[object]]:
    """By label setting and number of tasks: the events of a finished cell at every position of the slider."""
    n_classes, n_people = len(about["classes"]), about["n_train"]

    def finished(setting: LabelSetting, n_tasks: int, epsilon: float) -> object:
        bound = promised(
            setting, epsilon, DELTA, n_tasks=n_tasks, n_classes=n_classes, n_people=n_people, n_seeds=len(SEEDS)
        )
        return events.to_json(events.CellFinished(Cell(epsilon, 0), {}, bound, 0.0))

    return {
        f"{setting}-{n_tasks}": [finished(setting, n_tasks, epsilon) for epsilon in STOPS]
        for setting in (*SETTINGS, "data")
        for n_tasks in TASKS
    }


def main(folder: Path) -> None:
    """Writes every file into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{setting}-{n_tasks}": document(setting, n_tasks) for setting in SETTINGS for n_tasks in TASKS}
    files["guarantees"] = guarantees(files["prior-5"]["about"])
    for name, content in files.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(paths.assets_dir() / "playground")
