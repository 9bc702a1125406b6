"""What-if budgets on the cosine classifier, exact and immediate: the noise is rescaled, without new training.

With test features A, clean class sums S and unit noise Z the score of a class at noise σ is the cosine
(P + σQ) / sqrt(|S|² + 2σ S·Z + σ²|Z|²), where P = A·Sᵀ and Q = A·Zᵀ: the feature size drops out. The same arithmetic runs in
the browser (assets/drag/replay.mjs), and the two are tested against each other.

P reveals the sums without noise, and so does one noise shared by several budgets: for public teaching data only.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import extractor
from dpcl_core.data import load
from dpcl_core.events import Guarantee, JsonValue
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.privacy import gaussian, guarantee, mechanisms
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Cell, DataSpec, LabelSetting, PrivacySpec, RunSpec


@dataclass(frozen=True, slots=True, eq=False)
class ReplayData:
    """A class-incremental stream learned by the cosine classifier, from which any budget can be replayed.

    S seeds (each with its own order of classes and its own noise), T tasks, n test examples, C classes. U is T where noise
    is added to every class in every task (prior-const; entry t: the sum of the noise up to task t), else 1.

    labels [n]; task_of_class [S, C]: the task that brings a class; clean [n, C]: P; clean_squares [C]: |S|²;
    noise [S, U, n, C]: Q; crosses [S, U, C]: S·Z; noise_squares [S, U, C]: |Z|².
    """

    setting: LabelSetting
    delta: float
    n_tasks: int
    labels: NDArray[np.int64]
    task_of_class: NDArray[np.int64]
    clean: NDArray[np.float64]
    clean_squares: NDArray[np.float64]
    noise: NDArray[np.float64]
    crosses: NDArray[np.float64]
    noise_squares: NDArray[np.float64]


def accuracies(data: ReplayData, epsilon: float) -> NDArray[np.float64]:
    """Accuracy [S, T, T] at a budget: entry [s, k, i] on the test examples of task i after task k, NaN where i > k."""
    right = _right(data, epsilon)
    task_of_test = data.task_of_class[:, data.labels]
    result = np.full((len(right), data.n_tasks, data.n_tasks), np.nan)
    for task in range(data.n_tasks):
        is_of_task = task_of_test == task
        shares = (right & is_of_task[:, None, :]).sum(axis=2) / is_of_task.sum(axis=1)[:, None]
        result[:, task:, task] = shares[:, task:]
    return result


def class_accuracies(data: ReplayData, epsilon: float) -> NDArray[np.float64]:
    """Accuracy [S, C] on the test examples of every class after the last task."""
    last = _right(data, epsilon)[:, -1]
    return np.stack([last[:, data.labels == label].mean(axis=1) for label in range(data.task_of_class.shape[1])], axis=1)


def _right(data: ReplayData, epsilon: float) -> NDArray[np.bool_]:
    """Whether each test example is classified correctly [S, T, n]; undefined before the task that brings its label."""
    std = gaussian.sigma(epsilon, data.delta)
    learned = data.task_of_class[:, None, :] <= np.arange(data.n_tasks)[:, None]  # [S, T, C]
    squares = np.where(learned, data.clean_squares + 2 * std * data.crosses, 0.0) + std**2 * data.noise_squares
    released = learned if data.setting != "prior-const" else np.ones_like(learned)
    usable = released & (squares > 0)  # without noise a class without data has the zero sum and must not win
    length = np.sqrt(np.where(usable, squares, 1.0))[:, :, None, :]
    products = np.where(learned[:, :, None, :], data.clean, 0.0) + std * data.noise
    scores = np.where(usable[:, :, None, :], products / length, -np.inf)
    return np.asarray(scores.argmax(axis=3) == data.labels, dtype=np.bool_)


def decode(document: Mapping[str, JsonValue]) -> ReplayData:
    """The data of a document of `assets/playground`, to 16 bits; zero where Q was left out."""
    n_tasks, n_seeds, n_classes = (int(cast(int, document[key])) for key in ("n_tasks", "n_seeds", "n_classes"))
    labels = _array(document["labels"], "<i2").astype(np.int64)
    task_of_class = _array(document["task_of_class"], "<i2").astype(np.int64).reshape(n_seeds, n_classes)
    n_draws = n_tasks if document["setting"] == "prior-const" else 1
    noise = np.zeros((n_seeds, n_draws, len(labels), n_classes))
    noise[is_used(labels, task_of_class, n_draws)] = _scaled(document["noise"]).reshape(-1, n_classes)
    return ReplayData(
        setting=cast(LabelSetting, document["setting"]),
        delta=float(cast(float, document["delta"])),
        n_tasks=n_tasks,
        labels=labels,
        task_of_class=task_of_class,
        clean=_scaled(document["clean"]).reshape(-1, n_classes),
        clean_squares=_array(document["clean_squares"], "<f4").astype(np.float64),
        noise=noise,
        crosses=_array(document["crosses"], "<f4").astype(np.float64).reshape(n_seeds, n_draws, n_classes),
        noise_squares=_array(document["noise_squares"], "<f4").astype(np.float64).reshape(n_seeds, n_draws, n_classes),
    )


def is_used(labels: NDArray[np.int64], task_of_class: NDArray[np.int64], n_draws: int) -> NDArray[np.bool_]:
    """The rows of Q in use [S, U, n]: all of them where one draw serves every task."""
    if n_draws == 1:
        return np.ones((len(task_of_class), 1, len(labels)), dtype=np.bool_)
    return task_of_class[:, None, labels] <= np.arange(n_draws)[:, None]


def _scaled(document: JsonValue) -> NDArray[np.float64]:
    fields = cast(dict[str, JsonValue], document)
    return _array(fields["steps"], "<i2").astype(np.float64) * float(cast(float, fields["scale"]))


def _array(text: JsonValue, kind: str) -> NDArray[Any]:
    return np.frombuffer(b64decode(str(text)), dtype=kind)


# The cosine classifier's guarantee at a budget, without a run: from a ledger that its own mechanism wrote.


def promised(
    labels: LabelSetting, epsilon: float, delta: float, *, n_tasks: int, n_classes: int, n_people: int, n_seeds: int
) -> Guarantee:
    """The guarantee of a class-incremental stream with seeded noise, under add/remove of one example.

    The mechanism runs on empty tasks: its ledger entries do not depend on the data.
    """
    spec = RunSpec(
        method="cosine",
        params=CosineParams(),
        scenario=ClassIncremental(tasks=n_tasks),
        labels=labels,
        privacy=PrivacySpec(epsilons=(epsilon,), delta=delta, noise="seeded"),
        seeds=tuple(range(n_seeds)),
    )
    cell = Cell(epsilon, 0)
    ledger = Ledger(delta, spec.privacy.adjacency, "once")
    std = mechanisms.class_sums_std(epsilon, delta, spec.privacy.adjacency)
    no_rows, no_labels = np.zeros((0, 1)), np.zeros(0, dtype=np.int64)
    public = range(n_classes)
    for task in range(n_tasks):
        prior = [label for label in public if label % n_tasks == task]
        space = label_space(labels, prior, public, no_labels, [ledger], task=task)
        noises = [SeededNoise(cell, "promise")]
        mechanisms.noisy_class_sums(no_rows, no_labels, space, n_classes, [std], noises, [ledger], task=task)
    return guarantee.guarantee(ledger, spec, cell, unit="example", n_people=n_people, n_tasks=n_tasks)


# What the browser needs to replay four ways to handle noise over tasks under one public list (assets/drag/arms.mjs). The
# same arithmetic in Python is `tests/playground/arms.py`, and the two are tested against each other. Teaching data only.


TASKS = (5, 10, 50, 100)
DELTA = 1e-5
_LEVELS = 17  # a pixel is a grey level of 0 to 16 over this


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Grey levels of the training rows [n, K] and of the test rows [m, K], from 0 to 16, and their labels."""

    rows: NDArray[np.uint8]
    labels: NDArray[np.int64]
    tests: NDArray[np.uint8]
    test_labels: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        return int(self.labels.max()) + 1


@lru_cache(maxsize=1)
def digits() -> Digits:
    """The bundled digits, twenty test digits a class."""
    found = load.load_dataset(DataSpec(dataset="digits", test_per_class=20))
    parts = (extractor.features("pixels", part.images) for part in (found.train, found.test))
    rows, tests = (np.rint(_LEVELS * values).astype(np.uint8) for values in parts)
    return Digits(rows, found.train.labels, tests, found.test.labels)


@lru_cache(maxsize=1)
def arms_document() -> dict[str, object]:
    """What the browser needs of the digits."""
    data = digits()
    arrays = {name: b64encode(getattr(data, name).astype(np.uint8).tobytes()).decode() for name in Digits.__slots__}
    return {**arrays, "size": data.rows.shape[1], "n_classes": data.n_classes, "delta": DELTA, "tasks": list(TASKS)}
