"""A dataset in memory: images or vectors, integer labels, and a title that never claims more than what was read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.images import Images


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Examples of one split, row by row: images, labels int64 [n], and where each came from.

    `sources` (int64 [n], or None) indexes `Dataset.sources`: the member set of a combined dataset, or a style.
    """

    images: Images
    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A loaded dataset. `title` names it truthfully: a subset or a stand-in says so.

    `n_people` is the public nominal number of training examples that delta is compared with.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    sources: tuple[str, ...] = ()

    @property
    def n_people(self) -> int:
        return len(self.train)
