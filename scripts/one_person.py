"""A model that learns digits two by two, and what it gives away about one person: what Start computes in the browser.

The mechanism is the DP cosine classifier's with one public list of labels: after every task, the sum of each class's
pictures of length 1, plus new Gaussian noise of the deviation that (ε, δ) requires. This module makes the browser's document
(`make_hero`), and its arithmetic (assets/hero/one_person.mjs) is tested against it. The document holds sums without noise
and the seed of a noise that serves every ε: for public teaching data only.
"""

import math
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcl_core.events import JsonValue
from dpcl_core.explorers import cosine_replay
from dpcl_core.explorers.cosine_replay import ReplayData
from dpcl_core.privacy.gaussian import sigma
from dpcl_core.privacy.sums import unit_rows
from scripts.make_playground import products, text_of

PER_TASK = 2  # digits that arrive together
_LEVELS = 16  # grey levels of a bundled digit
_MODULUS, _FACTOR = 2**31 - 1, 48271  # of Lehmer's generator


@dataclass(frozen=True, slots=True, eq=False)
class OnePerson:
    """Pictures of K pixels as grey levels 0 to 16, and the sums of C classes; class c arrives in task c // PER_TASK.

    people int64 [C, K]: one of each class, of which `you` is one; tests int64 [n, K], labels int64 [n]; sums [C, K]: of unit
    rows, without noise. `seed` and `n_draws`: of the noise.
    """

    delta: float
    seed: int
    n_draws: int
    you: int
    people: NDArray[np.int64]
    tests: NDArray[np.int64]
    labels: NDArray[np.int64]
    sums: NDArray[np.float64]

    @property
    def your_task(self) -> int:
        """The task that brings your class."""
        return self.you // PER_TASK


def prepare(
    train: tuple[NDArray[np.floating], NDArray[np.int64]],
    test: tuple[NDArray[np.floating], NDArray[np.int64]],
    *, delta: float, seed: int, n_draws: int, you: int,
) -> OnePerson:  # fmt: skip
    """Sums of all classes of `train`: pictures [n, K] in multiples of 1/17, labels [n]. People: the first of each class."""
    rows = [np.flatnonzero(train[1] == label) for label in range(int(train[1].max()) + 1)]
    sums = np.stack([unit_rows(train[0][of]).sum(axis=0) for of in rows]).astype(np.float32).astype(np.float64)
    people = _levels(train[0][[of[0] for of in rows]])
    return OnePerson(delta, seed, n_draws, you, people, _levels(test[0]), test[1], sums)


def seeded(seed: int) -> Iterator[float]:
    """Standard normal numbers by Box and Muller (1958), from every second number of Lehmer's generator."""
    state = seed

    def uniform() -> float:
        nonlocal state
        state = state * _FACTOR**2 % _MODULUS
        return state / _MODULUS

    while True:
        radius, angle = math.sqrt(-2 * math.log(uniform())), 2 * math.pi * uniform()
        yield radius * math.cos(angle)
        yield radius * math.sin(angle)


def noise(data: OnePerson) -> NDArray[np.float64]:
    """Unit noise added up over tasks [draw, task, C, K]."""
    shape = (data.n_draws, len(data.sums) // PER_TASK, *data.sums.shape)
    return np.fromiter(seeded(data.seed), dtype=np.float64, count=math.prod(shape)).reshape(shape).cumsum(axis=1)


def replay(data: OnePerson) -> ReplayData:
    """The stream, ready for `cosine_replay.accuracies`."""
    task_of_class = np.tile(np.arange(len(data.sums)) // PER_TASK, (data.n_draws, 1))
    return products(data.sums, units(data.tests), data.labels, task_of_class, "prior-const", data.delta, noise(data))


def knowledge(data: OnePerson, epsilon: float) -> NDArray[np.float64]:
    """Accuracy [after task, on task], the mean over draws; NaN where the task has not come yet."""
    return np.asarray(cosine_replay.accuracies(replay(data), epsilon).mean(axis=0))


def released(data: OnePerson, label: int, task: int, epsilon: float) -> NDArray[np.float64]:
    """The released sum [K] of a class after a task, in the first draw."""
    clean = data.sums[label] if label // PER_TASK <= task else np.zeros_like(data.sums[label])
    return clean + sigma(epsilon, data.delta) * noise(data)[0, task, label]


def chance(data: OnePerson, epsilon: float) -> float:
    """How often the best guess whether one person took part is right, from even odds.

    A person is in one task and moves the mean of one Gaussian by a vector of length 1; what is released later is computed
    from this release and from new noise. The best test of two Gaussians whose means differ by 1 is right with probability
    Φ(1 / 2σ).
    """
    return 1.0 if math.isinf(epsilon) else float(ndtr(1 / (2 * sigma(epsilon, data.delta))))


def trace(data: OnePerson, epsilon: float, *, is_leaked: bool = False) -> NDArray[np.float64]:
    """Your picture [K], as strong as the best guess beats a coin: times its total variation distance, 2 `chance` - 1.

    `is_leaked`: the sums with and without you, both under the noise that the seed gives, subtracted.
    """
    yours = units(data.people)[data.you]
    if not is_leaked:
        return (2 * chance(data, epsilon) - 1) * yours
    taken = released(data, data.you, data.your_task, epsilon)
    left = data.sums[data.you] - yours + sigma(epsilon, data.delta) * noise(data)[0, data.your_task, data.you]
    return taken - left


def units(levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Pictures [n, K] of length 1."""
    rows: NDArray[np.float64] = levels / np.linalg.norm(levels, axis=1, keepdims=True)
    return rows


def encode(data: OnePerson) -> dict[str, JsonValue]:
    """The data as a JSON document: grey levels as bytes, sums in single precision."""
    return {
        "delta": data.delta,
        "seed": data.seed,
        "n_draws": data.n_draws,
        "you": data.you,
        "per_task": PER_TASK,
        "n_pixels": data.people.shape[1],
        "people": text_of(data.people.astype(np.uint8)),
        "tests": text_of(data.tests.astype(np.uint8)),
        "labels": text_of(data.labels.astype(np.uint8)),
        "sums": text_of(data.sums.astype("<f4")),
    }


def decode(document: Mapping[str, JsonValue]) -> OnePerson:
    """The data that `encode` wrote."""

    def read(key: str, kind: str) -> NDArray[np.generic]:
        return np.frombuffer(b64decode(str(document[key])), dtype=kind)

    def whole(key: str) -> int:
        return int(cast(int, document[key]))

    width = whole("n_pixels")
    return OnePerson(
        delta=float(cast(float, document["delta"])),
        seed=whole("seed"),
        n_draws=whole("n_draws"),
        you=whole("you"),
        people=read("people", "u1").astype(np.int64).reshape(-1, width),
        tests=read("tests", "u1").astype(np.int64).reshape(-1, width),
        labels=read("labels", "u1").astype(np.int64),
        sums=read("sums", "<f4").astype(np.float64).reshape(-1, width),
    )


def _levels(pictures: NDArray[np.floating]) -> NDArray[np.int64]:
    """Grey levels of pictures whose features are levels / 17."""
    return np.rint(pictures.astype(np.float64) * (_LEVELS + 1)).astype(np.int64)
