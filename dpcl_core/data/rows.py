"""The rows of a split before their content is read, and the check which of them are usable as examples.

An error in a public row (test part) is reported in one sentence. An unusable private row (training part) counts as no
example and is not reported: a message about it, or a run that stops, would be a release outside the ledger. Whether a row is
usable depends only on that row and on public facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import Shape
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The cheap columns of some rows: labels int64 [n], names of labels where the file has them, sources by name or None.

    `numbers`: the label of each word, where labels are written as words. `sentences` int64 [n], ascending: the row of the
    file of each example, where examples are words; None: one example per row. `shape`: of pictures stored as pixel lists.
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
class PublicFacts:
    """Public facts known before a private row is read: from the card, a schema or the test part.

    `is_open`: labels beyond these classes are valid, too, because nothing declares the list complete.
    """

    n_classes: int
    numbers: Mapping[str, int]
    sources: frozenset[str] | None
    shape: Shape | None
    is_open: bool = False


class RowReader(Protocol):
    """The opened files of a split, with their headers checked."""

    def __len__(self) -> int:
        """Number of rows; of sentences, where words are tagged."""

    @property
    def has_sources(self) -> bool:
        """Whether there is a column of sources."""

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """The cheap columns of these rows (ascending), all checked. With `known`, labels and sources must be among its own,
        and names are not read. If `known` is open, a label beyond its classes is a number from `n_classes` on, named in
        `names` unless the file has only numbers.

        Raises BadInput naming file, row and what is allowed. Given `known`, rows pass together if each passes alone.
        """


def by_piece(sizes: Iterable[int], rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """For each piece of a split, with these numbers of rows: its part of `rows`, counted from the piece's start."""
    start = 0
    for size in sizes:
        yield rows[(rows >= start) & (rows < start + size)] - start
        start += size


def usable_rows(
    reader: RowReader, rows: NDArray[np.int64], known: PublicFacts | None, refused: dict[int, BadInput] | None = None
) -> NDArray[np.int64]:
    """The usable ones of these rows; the others count as no examples. `known`: None for the public part of a single file.

    `refused` gets the error of each unusable row, for their owner only.
    """
    if not len(rows):
        return rows
    try:
        reader.checked(rows, known)
    except MemoryError:
        raise
    except Exception as error:  # whatever a library makes of it: whether a run ends must not depend on one private row
        if len(rows) == 1:
            if refused is not None:
                unforeseen = BadInput(f"row {rows[0]}", type(error).__name__, "must be a row that can be read")
                refused[int(rows[0])] = error if isinstance(error, BadInput) else unforeseen
            return rows[:0]
        halves = np.array_split(rows, 2)
        return np.concatenate([usable_rows(reader, half, known, refused) for half in halves])
    return rows


# The bundled dataset, which needs no download: scikit-learn's digits.


_INK = 15  # 16 levels of ink become 0, 15, ..., 240: exactly proportional


class Digits:
    """All digits, as the rows of a split."""

    has_sources = False

    def __len__(self) -> int:
        return len(digits()[1])

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        return Rows(digits()[1][rows], {}, None)


def digits() -> tuple[Images, NDArray[np.int64]]:
    """All 1,797 digits as raw pixels [1797, 8, 8, 1] with their labels.

    The file is read directly: importing scikit-learn for it takes seconds, reading it milliseconds.
    """
    package = find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    pixels = (table[:, :64] * _INK).reshape(-1, 8, 8, 1)
    return Images(pixels, (8, 8, 1)), table[:, 64].astype(np.int64)
