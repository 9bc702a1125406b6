"""Texts and words through an encoder in batches of like length, with vectors of unit length at the end. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.extractor import finite
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content
from dpcl_core.data.sentences import Sentences
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput

Floats = NDArray[np.float32]
OfTexts = Callable[[Sequence[str]], Floats]  # strings -> [n, K]
OfWords = Callable[[Sequence[tuple[str, ...]]], Floats]  # sentences -> a row for each of their words

_CHUNK = 256  # texts between two words on progress; within them batches are made of like lengths
_BATCH = 32


def in_batches(content: Content, name: str, feature_dim: int, texts: OfTexts, words: OfWords) -> Iterator[Floats]:
    """Features [b, feature_dim] of some texts, or of some sentences' words, after the other; none longer than one.

    A row of zeros stays one: a text or word that the encoder knows nothing of. Raises BadInput for anything but text.
    """
    yield np.zeros((0, feature_dim), np.float32)
    if isinstance(content, Texts):
        for start in range(0, len(content), _CHUNK):
            yield unit(texts(content.strings[start : start + _CHUNK]))
    elif isinstance(content, Sentences):
        for start in range(0, len(content.words), _CHUNK):
            yield unit(words(content.words[start : start + _CHUNK]))
    else:
        raise BadInput(FIELD, name, "reads texts, not pictures or windows of a sensor")


def by_length(lengths: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Places of rows of like length, so many at a time, the longest first."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    for start in range(0, len(order), _BATCH):
        yield order[start : start + _BATCH]


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; zeros, and rows that are not finite, become zeros."""
    kept = finite(rows)
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    scaled: Floats = np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths > 0)
    return scaled


def first_pieces(word_ids: Sequence[int | None], n_words: int) -> NDArray[np.int64]:
    """Where each word's first piece lies among a sentence's pieces, int64 [n_words]; -1 for a word without any."""
    places = np.full(n_words, -1, dtype=np.int64)
    for place, word in enumerate(word_ids):
        if word is not None and places[word] < 0:
            places[word] = place
    return places
