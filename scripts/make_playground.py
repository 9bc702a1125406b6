"""Makes assets/playground: the bundled digits, ready to be replayed at any budget in the browser.

    python -m scripts.make_playground

SETTING-TASKS.json holds the products that a replay needs, guarantees.json what each budget on the slider promises: the
accountant takes up to a second for one of them, and a page has a fifth of a second.
Public teaching data only: the files hold unnoised class sums (as products with test features), and their noise is seeded.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core import events, paths
from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.elements.calculator import STOPS, TASKS
from dpcl_core.events import JsonValue
from dpcl_core.explorers.cosine_replay import ReplayData, is_used, promised
from dpcl_core.figures.statistics import interval_factor
from dpcl_core.privacy.noise import Noise, SeededNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Table
from dpcl_core.spec import Cell, DataSpec, LabelSetting

SETTINGS: tuple[LabelSetting, ...] = ("prior-const", "prior")
SEEDS = (0, 1, 2, 3, 4)
DELTA = 1e-5
DATA = DataSpec(dataset="digits", test_per_class=30)  # ten tasks of all 450 test digits would exceed what a page may send
_STEPS = 32767  # of a 16-bit number


def document(setting: LabelSetting, n_tasks: int) -> dict[str, Any]:
    """One file: where the numbers come from, and the numbers."""
    dataset = load.load_dataset(DATA)
    train, test = (
        Examples(extractor.features(DATA.backbone, split.images), split.labels) for split in (dataset.train, dataset.test)
    )
    table = Table(train=train, test=test, classes=dataset.classes)
    task_of_class = np.empty((len(SEEDS), len(dataset.classes)), dtype=np.int64)
    for row, seed in enumerate(SEEDS):
        for task in central.open_stream(ClassIncremental(tasks=n_tasks), table, seed).tasks:
            task_of_class[row, list(task.prior)] = task.index
    data = prepare(
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
    return {"about": about, "replay": encode(data)}


def prepare(
    train: tuple[NDArray[np.generic], NDArray[np.int64]],
    test: tuple[NDArray[np.generic], NDArray[np.int64]],
    task_of_class: NDArray[np.int64],
    setting: LabelSetting,
    delta: float,
    noises: Sequence[Noise],
) -> ReplayData:
    """Computes everything that does not depend on the budget.

    A class has all its examples in one task, so its clean sum is complete after that task and P serves every task after it.
    Under "prior-const" each task adds a fresh draw to every class, with data or without; otherwise a class gets one draw,
    in its own task.

    Args: train, test: features [n, K] and labels [n]; task_of_class [S, C], from 0; noises: one source per seed.
    """
    n_classes = task_of_class.shape[1]
    tests, rows = unit_rows(test[0]), unit_rows(train[0])
    sums = (train[1][None, :] == np.arange(n_classes)[:, None]).astype(np.float64) @ rows
    n_draws = int(task_of_class.max()) + 1 if setting == "prior-const" else 1
    units = np.stack([np.stack([noise.normal(sums.shape) for _ in range(n_draws)]).cumsum(axis=0) for noise in noises])
    return products(sums, tests, test[1], task_of_class, setting, delta, units)


def products(
    sums: NDArray[np.float64],
    tests: NDArray[np.float64],
    labels: NDArray[np.int64],
    task_of_class: NDArray[np.int64],
    setting: LabelSetting,
    delta: float,
    units: NDArray[np.float64],
) -> ReplayData:
    """What a replay reads. Args: sums [C, K]; tests [n, K] of length 1 and labels [n]; units [S, U, C, K]: unit noise."""
    return ReplayData(
        setting=setting,
        delta=delta,
        n_tasks=int(task_of_class.max()) + 1,
        labels=labels,
        task_of_class=task_of_class,
        clean=tests @ sums.T,
        clean_squares=(sums**2).sum(axis=1),
        noise=tests @ units.swapaxes(2, 3),
        crosses=(units * sums).sum(axis=3),
        noise_squares=(units**2).sum(axis=3),
    )


def encode(data: ReplayData) -> dict[str, JsonValue]:
    """The data as a small JSON document: P and Q as 16-bit numbers, Q only where it is used.

    An example is used from the task of its class on, which saves nearly half of Q.
    """
    return {
        "setting": data.setting,
        "delta": data.delta,
        "n_tasks": data.n_tasks,
        "n_seeds": len(data.task_of_class),
        "n_classes": data.task_of_class.shape[1],
        "labels": text_of(data.labels.astype("<i2")),
        "task_of_class": text_of(data.task_of_class.astype("<i2")),
        "clean": _rounded(data.clean),
        "clean_squares": text_of(data.clean_squares.astype("<f4")),
        "noise": _rounded(data.noise[is_used(data.labels, data.task_of_class, data.noise.shape[1])]),
        "crosses": text_of(data.crosses.astype("<f4")),
        "noise_squares": text_of(data.noise_squares.astype("<f4")),
    }


def _rounded(values: NDArray[np.float64]) -> dict[str, JsonValue]:
    scale = float(np.abs(values).max(initial=0.0)) / _STEPS or 1.0
    return {"scale": scale, "steps": text_of(np.rint(values / scale).astype("<i2"))}


def text_of(values: NDArray[np.generic]) -> str:
    """An array's bytes in base64."""
    return b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


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
