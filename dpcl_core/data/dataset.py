"""A dataset in memory: images, sensor windows, texts or rows of numbers, labels, and a truthful title."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.images import Images
from dpcl_core.data.texts import Canary, Sentences, Texts
from dpcl_core.data.windows import Vectors, Windows

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
