"""Sentences whose words are the examples, for tagging: one row per word, sentence after sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Non-empty sentences as lists of words. Rows are words, so the length is the number of words."""

    words: Sequence[tuple[str, ...]]

    def __len__(self) -> int:
        return sum(map(len, self.words))

    @property
    def shape(self) -> None:
        """None: words have no common shape."""
        return None

    @property
    def sentence_of(self) -> NDArray[np.int64]:
        """The index of each word's sentence, int64 [rows], ascending."""
        return np.repeat(np.arange(len(self.words), dtype=np.int64), [len(words) for words in self.words])

    def take(self, rows: NDArray[np.int64]) -> Sentences:
        """The sentences of these words. Raises ValueError unless these are all words of each sentence, in order."""
        which = np.unique(self.sentence_of[rows])
        chosen = Sentences([self.words[place] for place in which.tolist()])
        if not np.array_equal(np.flatnonzero(np.isin(self.sentence_of, which)), rows):
            raise ValueError("sentences can only be taken whole, in order")
        return chosen

    def digest(self) -> str:
        """SHA-256 over every word, in order: the cache key of results computed from these sentences."""
        content = sha256(b"sentences")
        for words in self.words:
            content.update(len(words).to_bytes(8, "little"))
            for word in words:
                row = word.encode("utf-8", "surrogatepass")
                content.update(len(row).to_bytes(8, "little"))
                content.update(row)
        return content.hexdigest()
