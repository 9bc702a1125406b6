"""What-if budgets on the cosine classifier, exact and immediate: the noise is rescaled, without new training.

With test features A, clean class sums S and unit noise Z the score of a class at noise σ is the cosine
(P + σQ) / sqrt(|S|² + 2σ S·Z + σ²|Z|²), where P = A·Sᵀ and Q = A·Zᵀ: the feature size drops out. The same arithmetic runs in
the browser (assets/drag/replay.mjs), and the two are tested against each other.

P reveals the sums without noise, and so does one noise shared by several budgets: for public teaching data only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Guarantee, JsonValue
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.privacy.gaussian import sigma
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums, unit_rows
from dpcl_core.privacy.noise import Noise, SeededNoise
from dpcl_core.privacy.statement import guarantee
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Cell, LabelSetting, PrivacySpec, RunSpec

_STEPS = 32767  # of a 16-bit number


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
    n_tasks = int(task_of_class.max()) + 1
    n_draws = n_tasks if setting == "prior-const" else 1
    units = np.stack([np.stack([noise.normal(sums.shape) for _ in range(n_draws)]).cumsum(axis=0) for noise in noises])
    return ReplayData(
        setting=setting,
        delta=delta,
        n_tasks=n_tasks,
        labels=test[1],
        task_of_class=task_of_class,
        clean=tests @ sums.T,
        clean_squares=(sums**2).sum(axis=1),
        noise=tests @ units.swapaxes(2, 3),
        crosses=(units * sums).sum(axis=3),
        noise_squares=(units**2).sum(axis=3),
    )


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
    std = sigma(epsilon, data.delta)
    learned = data.task_of_class[:, None, :] <= np.arange(data.n_tasks)[:, None]  # [S, T, C]
    squares = np.where(learned, data.clean_squares + 2 * std * data.crosses, 0.0) + std**2 * data.noise_squares
    released = learned if data.setting != "prior-const" else np.ones_like(learned)
    usable = released & (squares > 0)  # without noise a class without data has the zero sum and must not win
    length = np.sqrt(np.where(usable, squares, 1.0))[:, :, None, :]
    products = np.where(learned[:, :, None, :], data.clean, 0.0) + std * data.noise
    scores = np.where(usable[:, :, None, :], products / length, -np.inf)
    return np.asarray(scores.argmax(axis=3) == data.labels, dtype=np.bool_)


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
        "labels": _text(data.labels.astype("<i2")),
        "task_of_class": _text(data.task_of_class.astype("<i2")),
        "clean": _rounded(data.clean),
        "clean_squares": _text(data.clean_squares.astype("<f4")),
        "noise": _rounded(data.noise[_is_used(data.labels, data.task_of_class, data.noise.shape[1])]),
        "crosses": _text(data.crosses.astype("<f4")),
        "noise_squares": _text(data.noise_squares.astype("<f4")),
    }


def decode(document: Mapping[str, JsonValue]) -> ReplayData:
    """The data that `encode` wrote, to 16 bits; zero where Q was left out."""
    n_tasks, n_seeds, n_classes = (int(cast(int, document[key])) for key in ("n_tasks", "n_seeds", "n_classes"))
    labels = _array(document["labels"], "<i2").astype(np.int64)
    task_of_class = _array(document["task_of_class"], "<i2").astype(np.int64).reshape(n_seeds, n_classes)
    n_draws = n_tasks if document["setting"] == "prior-const" else 1
    noise = np.zeros((n_seeds, n_draws, len(labels), n_classes))
    noise[_is_used(labels, task_of_class, n_draws)] = _scaled(document["noise"]).reshape(-1, n_classes)
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


def _is_used(labels: NDArray[np.int64], task_of_class: NDArray[np.int64], n_draws: int) -> NDArray[np.bool_]:
    """The rows of Q in use [S, U, n]: all of them where one draw serves every task."""
    if n_draws == 1:
        return np.ones((len(task_of_class), 1, len(labels)), dtype=np.bool_)
    is_used: NDArray[np.bool_] = task_of_class[:, None, labels] <= np.arange(n_draws)[:, None]
    return is_used


def _rounded(values: NDArray[np.float64]) -> dict[str, JsonValue]:
    scale = float(np.abs(values).max(initial=0.0)) / _STEPS or 1.0
    return {"scale": scale, "steps": _text(np.rint(values / scale).astype("<i2"))}


def _scaled(document: JsonValue) -> NDArray[np.float64]:
    fields = cast(dict[str, JsonValue], document)
    return _array(fields["steps"], "<i2").astype(np.float64) * float(cast(float, fields["scale"]))


def _text(values: NDArray[np.generic]) -> str:
    return b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


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
    std = class_sums_std(epsilon, delta, spec.privacy.adjacency)
    no_rows, no_labels = np.zeros((0, 1)), np.zeros(0, dtype=np.int64)
    public = range(n_classes)
    for task in range(n_tasks):
        prior = [label for label in public if label % n_tasks == task]
        space = label_space(labels, prior, public, no_labels, [ledger], task=task)
        noises = [SeededNoise(cell, "promise")]
        noisy_class_sums(no_rows, no_labels, space, n_classes, [std], noises, [ledger], task=task)
    return guarantee(ledger, spec, cell, unit="example", n_people=n_people, n_tasks=n_tasks)


# Take one person out: two releases of a class's sum, with her picture and without it, and what the classifier still knows.
#
# The mechanism is the DP cosine classifier's: the sum of a class's pictures, each of length 1, plus Gaussian noise of the
# deviation that (ε, δ) requires. The same arithmetic runs in the browser (assets/hero/one_person.mjs), and the two are
# tested against each other. The document holds pictures, sums without noise, and noise that serves every ε: for public
# teaching data only.


_LEVELS = 16  # grey levels of a bundled digit


@dataclass(frozen=True, slots=True, eq=False)
class OnePerson:
    """Pictures of K pixels as grey levels 0 to 16, and the sums of C classes.

    people int64 [P, K], labels of them int64 [P]; tests int64 [n, K], test_labels int64 [n]; sums [C, K]: of unit rows,
    without noise; noise [2, C, K]: unit noise of the release with her and of the one without her.
    """

    delta: float
    people: NDArray[np.int64]
    labels: NDArray[np.int64]
    tests: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    sums: NDArray[np.float64]
    noise: NDArray[np.float64]


def one_person_prepare(
    train: tuple[NDArray[np.floating], NDArray[np.int64]],
    test: tuple[NDArray[np.floating], NDArray[np.int64]],
    people: NDArray[np.int64],
    delta: float,
    noise: Noise,
) -> OnePerson:
    """Sums of all classes of `train`: pictures [n, K] in multiples of 1/17 and labels [n]; `people` [P]: rows of `train`."""
    n_classes = int(train[1].max()) + 1
    sums = np.stack([unit_rows(train[0][train[1] == label]).sum(axis=0) for label in range(n_classes)])
    return OnePerson(
        delta, _levels(train[0][people]), train[1][people], _levels(test[0]), test[1], _single(sums),
        _single(np.stack([noise.normal(sums.shape) for _ in range(2)])),
    )  # fmt: skip


def releases(
    data: OnePerson, person: int, epsilon: float, *, is_shared: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The releases [K] of her class's sum, with her and without her. `is_shared`: with the same noise in both."""
    label, std = int(data.labels[person]), sigma(epsilon, data.delta)
    hers = units(data.people)[person]
    other = data.noise[0 if is_shared else 1, label]
    return data.sums[label] + std * data.noise[0, label], data.sums[label] - hers + std * other


def accuracy(data: OnePerson, epsilon: float) -> float:
    """Share of test pictures whose class has the released sum, with her, of the largest cosine."""
    released = data.sums + sigma(epsilon, data.delta) * data.noise[0]
    cosines = units(data.tests) @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T
    return float((cosines.argmax(axis=1) == data.test_labels).mean())


def units(levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Pictures [n, K] of length 1."""
    rows: NDArray[np.float64] = levels / np.linalg.norm(levels, axis=1, keepdims=True)
    return rows


def one_person_encode(data: OnePerson) -> dict[str, JsonValue]:
    """The data as a JSON document: grey levels as bytes, sums and noise in single precision."""
    return {
        "delta": data.delta,
        "n_pixels": data.people.shape[1],
        "people": _text(data.people.astype(np.uint8)),
        "labels": data.labels.tolist(),
        "tests": _text(data.tests.astype(np.uint8)),
        "test_labels": _text(data.test_labels.astype(np.uint8)),
        "sums": _text(data.sums.astype("<f4")),
        "noise": _text(data.noise.astype("<f4")),
    }


def one_person_decode(document: Mapping[str, JsonValue]) -> OnePerson:
    """The data that `encode` wrote."""
    width = cast(int, document["n_pixels"])

    def read(key: str, kind: str) -> NDArray[np.generic]:
        return np.frombuffer(b64decode(str(document[key])), dtype=kind)

    sums = read("sums", "<f4").astype(np.float64).reshape(-1, width)
    return OnePerson(
        delta=float(cast(float, document["delta"])),
        people=read("people", "u1").astype(np.int64).reshape(-1, width),
        labels=np.array(document["labels"], dtype=np.int64),
        tests=read("tests", "u1").astype(np.int64).reshape(-1, width),
        test_labels=read("test_labels", "u1").astype(np.int64),
        sums=sums,
        noise=read("noise", "<f4").astype(np.float64).reshape(2, *sums.shape),
    )


def _levels(pictures: NDArray[np.floating]) -> NDArray[np.int64]:
    """Grey levels of pictures whose features are levels / 17."""
    return np.rint(pictures.astype(np.float64) * (_LEVELS + 1)).astype(np.int64)


def _single(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values as the document will hold them."""
    return values.astype(np.float32).astype(np.float64)
