"""Texts of one split, with marked spans of personal data and the people that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar

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


def content_digest(kind: bytes, rows: Iterable[bytes]) -> str:
    """SHA-256 over the content of every row, in order: the cache key of results computed from rows of this kind."""
    content = sha256(kind)
    for row in rows:
        content.update(len(row).to_bytes(8, "little"))
        content.update(row)
    return content.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Texts, one per row. `spans`: marked spans of each text, if any are marked; `people` int64 [n]: whom each is about."""

    strings: Sequence[str]
    spans: Sequence[tuple[Span, ...]] | None = None
    people: NDArray[np.int64] | None = None
    shape: ClassVar[None] = None  # none that all have

    def __len__(self) -> int:
        return len(self.strings)

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """The texts of these rows, in this order."""
        places = rows.tolist()
        return Texts(
            [self.strings[place] for place in places],
            None if self.spans is None else [self.spans[place] for place in places],
            None if self.people is None else self.people[rows],
        )

    def digest(self) -> str:
        """See `content_digest`."""
        return content_digest(b"texts", (string.encode("utf-8", "surrogatepass") for string in self.strings))


# Sentences whose words are the examples, for tagging: one row per word, sentence after sentence.


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Non-empty sentences as lists of words. Rows are words, so the length is the number of words."""

    words: Sequence[tuple[str, ...]]
    shape: ClassVar[None] = None  # none that all have

    def __len__(self) -> int:
        return sum(map(len, self.words))

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
        """See `content_digest`."""
        return content_digest(b"sentences", (repr(words).encode() for words in self.words))


# BIO tags of words: allowed transitions, Viterbi decoding under them, and entity-level F1 counts.
#
# A tag is O, B-TYPE (an entity of that type begins) or I-TYPE (it continues): I-X may only follow B-X or I-X. A decoded
# sequence gives entities without any repair rule, because each B tag marks a beginning.


OUTSIDE, BEGIN, INSIDE = "O", "B-", "I-"
_NEVER = -1e30  # in place of -inf, which would give NaN in sums with inf


def tags_of(types: Sequence[str]) -> tuple[str, ...]:
    """O, then B- and I- of each type in turn: 1 + 2 x types."""
    return (OUTSIDE, *(mark + name for name in types for mark in (BEGIN, INSIDE)))


def may_follow(tags: Sequence[str]) -> NDArray[np.bool_]:
    """[C + 1, C]: whether a tag may come right after another; the last row is the start of a sentence."""
    allowed = np.ones((len(tags) + 1, len(tags)), dtype=np.bool_)
    for place, tag in enumerate(tags):
        if tag.startswith(INSIDE):
            allowed[:, place] = [before in (BEGIN + tag.removeprefix(INSIDE), tag) for before in tags] + [False]
    return allowed


def decode(scores: NDArray[np.floating], sentences: NDArray[np.int64], tags: Sequence[str]) -> NDArray[np.int64]:
    """The tags int64 [n] of words with scores [n, C] that have the largest sum of scores in each sentence (Viterbi).

    Scores may be logits: normalisation adds one constant per word, which does not change the maximum. -inf: a tag not in the
    model's list; a word with all scores -inf is O. Ties go to the smaller index. `sentences` int64 [n] as in `Examples`.
    """
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    outside = list(tags).index(OUTSIDE)
    finite_scores = np.where(np.isfinite(scores), scores, _NEVER).astype(np.float64)
    finite_scores[~np.isfinite(scores).any(axis=1), outside] = 0.0
    starts = np.flatnonzero(np.r_[True, sentences[1:] != sentences[:-1]])
    lengths = np.diff(np.r_[starts, len(sentences)])
    by_length = np.argsort(-lengths, kind="stable")  # longest first: unfinished sentences are always the first ones
    starts, lengths = starts[by_length], lengths[by_length]
    allowed = may_follow(tags)
    steps = np.where(allowed[:-1], 0.0, _NEVER)
    best = finite_scores[starts] + np.where(allowed[-1], 0.0, _NEVER)
    came_from = np.zeros(scores.shape, dtype=np.int32)
    ends = best.copy()
    for place in range(1, int(lengths[0])):
        n_on = int((lengths > place).sum())
        reached = best[:n_on, :, None] + steps
        rows = starts[:n_on] + place
        came_from[rows] = reached.argmax(axis=1)
        best = reached.max(axis=1) + finite_scores[rows]
        ends[:n_on] = best
    decoded = np.empty(len(scores), dtype=np.int64)
    tag = ends.argmax(axis=1)
    for place in range(int(lengths[0]) - 1, -1, -1):
        n_on = int((lengths > place).sum())
        rows = starts[:n_on] + place
        decoded[rows] = tag[:n_on]
        tag[:n_on] = came_from[rows, tag[:n_on]]
    return decoded


def entities(labels: NDArray[np.int64], sentences: NDArray[np.int64], tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The entities of tagged words as (first row, end row, type). An I- tag that does not continue its type begins one."""
    spans: set[tuple[int, int, str]] = set()
    start, kind = -1, ""
    for row, label in enumerate(labels.tolist()):
        tag = tags[label]
        continues = start >= 0 and tag == INSIDE + kind and sentences[row] == sentences[row - 1]
        if start >= 0 and not continues:
            spans.add((start, row, kind))
            start = -1
        if tag != OUTSIDE and not continues:
            start, kind = row, tag[2:]
    if start >= 0:
        spans.add((start, len(labels), kind))
    return spans


def f1_counts(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], sentences: NDArray[np.int64], tags: Sequence[str]
) -> tuple[int, int]:
    """(2 x entities with exact span and type; predicted + true entities): their ratio is micro-F1."""
    guesses, truth = entities(predicted, sentences, tags), entities(labels, sentences, tags)
    return 2 * len(guesses & truth), len(guesses) + len(truth)
