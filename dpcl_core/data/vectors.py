"""Rows of numbers: features of a table's rows, or precomputed embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray


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
