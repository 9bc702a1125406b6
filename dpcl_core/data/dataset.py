"""A dataset in memory: images, sensor windows, texts or rows of numbers, labels, and a truthful title."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import AXES
from dpcl_core.data.images import Images
from dpcl_core.data.texts import Canary, Sentences, Texts

RATES = (5, 10, 20, 50)  # samples a second
STANDARD_GRAVITY = 9.80665  # m/s^2
# The smallest range of phones' accelerometers: a constant independent of the examples. In the two sets of the catalog fewer
# than 0.3 % of all values are beyond it.
RANGE = 2 * STANDARD_GRAVITY
_MOST_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Numbers float32 [n, ...] in [-1, 1], a row for each example."""

    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The public form of every row: the samples and axes of a window, or the number of values."""
        return self.values.shape[1:]

    def take(self, rows: NDArray[np.int64]) -> Self:
        """The values of these rows, in this order."""
        return replace(self, values=self.values[rows])

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these rows."""
        found = sha256(type(self).__name__.lower().encode())
        found.update(np.ascontiguousarray(self.values).data)
        return found.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Windows(_Values):
    """Sensor windows: values float32 [n, 100 samples, 3 axes] in [-1, 1]."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(_Values):
    """Features of a table's rows, or precomputed embeddings: values float32 [n, K] in [-1, 1]; K is public.

    `encoding`: how they were made of columns, where they were: a document that `table_features.read_encoding` takes.
    """

    encoding: str | None = None


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


Content = Images | Windows | Texts | Sentences | Vectors  # the examples before a backbone reads them


@dataclass(frozen=True, slots=True)
class Form:
    """Layout of an example's values in a row of a table: all of it public.

    `shape`: (height, width, channels) of a picture, (samples, axes) of a sensor's window, (values,) of a row of numbers; its
    product is a row's length.
    `low` and `high`: the range of all values. `encoding`: how columns become a row of numbers, as in `Vectors`.
    """

    shape: tuple[int, ...]
    low: float
    high: float
    encoding: str | None = None

    @property
    def planes(self) -> tuple[int, int, int]:
        """(height, width, channels) as networks of pictures read it: a window is a grey picture, a row of numbers one pixel
        with a channel for each."""
        if len(self.shape) == 1:
            return 1, 1, self.shape[0]
        height, width, n_channels = (*self.shape, 1)[:3]
        return height, width, n_channels


@dataclass(frozen=True, slots=True)
class Source:
    """A part of the dataset: a member set of a combined one, or a style. `classes`: the public list of its classes."""

    name: str
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Examples of one split, row by row: pictures, windows, texts or rows of numbers, labels int64 [n], and their sources.

    `sources` (int64 [n], or None) indexes `Dataset.sources`. `keys` (uint64 [n], or None for public examples): the keys of
    public coins.
    """

    images: Content
    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None = None
    keys: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Split:
        """The examples of these rows, in this order."""
        sources = None if self.sources is None else self.sources[rows]
        keys = None if self.keys is None else self.keys[rows]
        return Split(self.images.take(rows), self.labels[rows], sources, keys)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A loaded dataset. `title` names it truthfully: a subset or a stand-in says so.

    Labels index `classes`, all of which are in the test part, and then `undeclared`: other labels of training examples,
    private candidates for a list learned under DP. `sources` is empty where examples have no source.
    `canaries`: the secrets planted among the training texts, with controls that were not planted. `n_people`: public nominal
    number of training examples, which delta is compared with.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    sources: tuple[Source, ...] = ()
    canaries: tuple[Canary, ...] = ()
    n_people: int = 0
    undeclared: tuple[str, ...] = ()
