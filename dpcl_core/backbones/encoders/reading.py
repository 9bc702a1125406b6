"""Runs texts and words through an encoder one at a time; gives vectors of unit length. No torch."""

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

ALONE = "one text at a time"  # in identities: features computed beside other texts differ from these in the last digits
_CHUNK = 256  # texts between two progress reports


def in_batches(content: Content, name: str, feature_dim: int, texts: OfTexts, words: OfWords) -> Iterator[Floats]:
    """Features [b, feature_dim] of the texts, or of the sentences' words, batch by batch, of length at most 1.

    Rows of zeros stay zero: texts or words unknown to the encoder. Raises BadInput for anything but text.
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


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; zero and non-finite rows become zero."""
    finite_rows = finite(rows)
    lengths = np.linalg.norm(finite_rows, axis=1, keepdims=True)
    scaled: Floats = np.divide(finite_rows, lengths, out=np.zeros_like(finite_rows), where=lengths > 0)
    return scaled


def first_pieces(word_ids: Sequence[int | None], n_words: int) -> NDArray[np.int64]:
    """Index of each word's first piece among a sentence's pieces, int64 [n_words]; -1 for a word without pieces."""
    places = np.full(n_words, -1, dtype=np.int64)
    for place, word in enumerate(word_ids):
        if word is not None and places[word] < 0:
            places[word] = place
    return places
