"""Sensor windows: stretches of an accelerometer's signal of equal length, and the scaling of their values."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

SAMPLES, AXES = 100, 3
RATES = (5, 10, 20, 50)  # samples a second
STANDARD_GRAVITY = 9.80665  # m/s^2
# The smallest range of phones' accelerometers: a constant independent of the examples. In the two sets of the catalog fewer
# than 0.3 % of all values are beyond it.
RANGE = 2 * STANDARD_GRAVITY
_MOST_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Values float32 [n, 100 samples, 3 axes] in [-1, 1]."""

    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and axes of every window."""
        return SAMPLES, AXES

    def take(self, rows: NDArray[np.int64]) -> Windows:
        """The windows of these rows, in this order."""
        return Windows(self.values[rows])

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these windows."""
        return sha256(b"windows" + np.ascontiguousarray(self.values).tobytes()).hexdigest()


def source_name(rate: int) -> str:
    """The name of the source with windows of this rate."""
    return f"{rate} Hz"


def in_range(accelerations: NDArray[np.float32]) -> Windows:
    """Accelerations [n, 100, 3] in m/s^2 divided by twice the standard gravity and clipped to [-1, 1].

    Uses no statistic of the data, so it costs no privacy.
    """
    return Windows(np.clip(accelerations / np.float32(RANGE), -1, 1).astype(np.float32))


def z_scored(train: NDArray[np.float32], test: NDArray[np.float32]) -> tuple[Windows, Windows]:
    """Both parts in units of two standard deviations from the mean of each axis, clipped to [-1, 1].

    As published by Lai et al. for HARW: mean and variance of the training part only, clipped to [-2, 2], then
    2 [(x - min) / (max - min) - 1/2] = x / 2. A constant axis becomes zeros. These are statistics of private data that no
    ledger accounts for.
    """
    flat = train.reshape(-1, AXES).astype(np.float64)
    mean, deviation = flat.mean(axis=0), flat.std(axis=0)
    units = np.where(deviation > 0, deviation, np.inf)
    pair = [np.clip((part - mean) / units, -_MOST_DEVIATIONS, _MOST_DEVIATIONS) / _MOST_DEVIATIONS for part in (train, test)]
    return Windows(pair[0].astype(np.float32)), Windows(pair[1].astype(np.float32))


# Rows of numbers: features of a table's rows, or precomputed embeddings.


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Values float32 [n, K] in [-1, 1]; K is public.

    `encoding`: how they were made of columns, where they were: a document that `row_encoding.read` takes.
    """

    values: NDArray[np.float32]
    encoding: str | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int]:
        """The number of values of every row."""
        return (self.values.shape[1],)

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """The values of these rows, in this order."""
        return Vectors(self.values[rows], self.encoding)

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these rows."""
        return sha256(b"vectors" + np.ascontiguousarray(self.values).tobytes()).hexdigest()
