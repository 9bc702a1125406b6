"""The rows of a split before their content is read, and which of them count as examples.

What is wrong with a public row, of the test part, is said in one sentence. A private row, of the training part, that cannot
be used counts as no example, and nothing is said: a sentence about it, or a run that stops, would be a release that no
ledger has. Whether a row can be used follows from that row and public facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import Shape
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The cheap columns of some rows: labels int64 [n], names of labels where the file tells, sources by name or None.

    `numbers`: the label of each word, where labels are written as words. `sentences` int64 [n], ascending: the row of the
    file that each example, a word of it, is in; None: a row an example. `shape`: of pictures as lists of pixels.
    """

    labels: NDArray[np.int64]
    names: Mapping[int, str]
    sources: NDArray[np.str_] | None
    sentences: NDArray[np.int64] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    shape: Shape | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is public before a private row is looked at: from the card, a schema or the test part.

    `is_open`: labels beyond these classes are good labels, too: nobody said that there are no others.
    """

    n_classes: int
    numbers: Mapping[str, int]
    sources: frozenset[str] | None
    shape: Shape | None
    is_open: bool = False


class Door(Protocol):
    """The files of a split, opened: what their headers say has been found good."""

    def __len__(self) -> int:
        """Number of rows; of sentences, where words are tagged."""

    @property
    def has_sources(self) -> bool:
        """Whether there is a column of sources."""

    def judged(self, rows: NDArray[np.int64], known: Known | None) -> Rows:
        """The cheap columns of these rows (ascending), all of which have been checked. With `known`, labels and sources must
        be among those, and names are not read. Where it is open, a label beyond its classes is a number from `n_classes` on,
        named in `names` unless the number is all that the file has.

        Raises BadInput naming file, row and what is allowed. Given `known`, rows pass together if each passes alone.
        """


def sound(
    door: Door, rows: NDArray[np.int64], known: Known, refused: list[BadInput] | None = None
) -> NDArray[np.int64]:
    """Those of these rows that can be used: the others count as no examples.

    `refused` takes what is wrong with each of those, for their owner alone.
    """
    if not len(rows):
        return rows
    try:
        door.judged(rows, known)
    except BadInput as error:
        if len(rows) == 1:
            if refused is not None:
                refused.append(error)
            return rows[:0]
        halves = np.array_split(rows, 2)
        return np.concatenate([sound(door, half, known, refused) for half in halves])
    return rows
