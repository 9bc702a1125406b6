"""Take one person out: two releases of a class's sum, with her picture and without it, and what the classifier still knows.

The mechanism is the DP cosine classifier's: the sum of a class's pictures, each of length 1, plus Gaussian noise of the
deviation that (ε, δ) requires. The page Start computes this in the browser (assets/hero/one_person.mjs); this module makes
its document (`make_hero`) and is what the browser's arithmetic is tested against. The document holds pictures, sums without
noise, and noise that serves every ε: for public teaching data only.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import JsonValue
from dpcl_core.privacy.gaussian import sigma
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import unit_rows
from scripts.make_playground import text_of

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


def prepare(
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


def encode(data: OnePerson) -> dict[str, JsonValue]:
    """The data as a JSON document: grey levels as bytes, sums and noise in single precision."""
    return {
        "delta": data.delta,
        "n_pixels": data.people.shape[1],
        "people": text_of(data.people.astype(np.uint8)),
        "labels": data.labels.tolist(),
        "tests": text_of(data.tests.astype(np.uint8)),
        "test_labels": text_of(data.test_labels.astype(np.uint8)),
        "sums": text_of(data.sums.astype("<f4")),
        "noise": text_of(data.noise.astype("<f4")),
    }


def decode(document: Mapping[str, JsonValue]) -> OnePerson:
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
