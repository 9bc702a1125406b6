"""Texts of one split, with marked spans of personal data and the people that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

# The planes of an encoded text, int32 [n, length, PLANES].
TOKEN, STOP, KIND, PLANES = 0, 1, 2, 3
PADDING = -1  # in the plane of tokens, after the end of a text
LOOKALIKE = "D:"  # prefix of the kind of a span that looks private but is harmless
# All kinds of spans, in the numbering of plane KIND.
KINDS = (
    *("NAME", "EMAIL", "PHONE", "ADDRESS", "SSN", "CARD", "IBAN", "DOB", "RECORD", "CONDITION", "DRUG", "EMPLOYER", "CODE"),
    *("D:city", "D:company", "D:public figure", "D:year", "D:price", "D:percentage", "D:product code", "D:job title"),
    "D:jargon",
)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text, and their kind, one of `KINDS`."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Canary:
    """A planted secret: the text before it, its code of digits, and the number of training texts with it (0: a control).

    `source`: the part of the dataset in which it was planted.
    """

    prefix: str
    code: str
    repetitions: int
    source: str


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of encoded texts: all of it public.

    `length`: tokens kept of each text. `kinds`: names of spans; plane KIND has 1 + an index into it, 0 outside any span.
    `may_show`: texts are synthetic or public, so that pages may show them token by token.
    """

    length: int
    kinds: tuple[str, ...] = KINDS
    may_show: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Texts, one per row. `spans`: marked spans of each text, if any are marked; `people` int64 [n]: whom each is about."""

    strings: Sequence[str]
    spans: Sequence[tuple[Span, ...]] | None = None
    people: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def shape(self) -> None:
        """None: texts have no common shape."""
        return None

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """The texts of these rows, in this order."""
        places = rows.tolist()
        return Texts(
            [self.strings[place] for place in places],
            None if self.spans is None else [self.spans[place] for place in places],
            None if self.people is None else self.people[rows],
        )

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these texts."""
        content = sha256(b"texts")
        for string in self.strings:
            row = string.encode("utf-8", "surrogatepass")
            content.update(len(row).to_bytes(8, "little"))
            content.update(row)
        return content.hexdigest()


# Sentences whose words are the examples, for tagging: one row per word, sentence after sentence.


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
