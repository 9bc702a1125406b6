"""Encodes texts for a language model: tokens, with flags for stop words and marked spans."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import tokenizer
from dpcl_core.backbones.language.stop_words import STOP_WORDS
from dpcl_core.data.texts import KIND, KINDS, PADDING, PLANES, STOP, TOKEN, Span, Texts

_WORD = re.compile(r"\S+")
_NUMBER = {kind: 1 + place for place, kind in enumerate(KINDS)}


def read(texts: Texts, backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded texts [n, length, 3] with the planes of `data.texts`, truncated to `length` tokens.

    A token is in a stop word if its whole word, up to the blanks around it, is in the list, and has a span's kind if they
    share a character. Raises what `tokenizer.load` raises.
    """
    ready = tokenizer.load(backbone)
    encoded = np.zeros((len(texts), length, PLANES), np.int32)
    encoded[:, :, TOKEN] = PADDING
    for row, (ids, offsets) in enumerate(ready.encode_all(texts.strings)):
        n_tokens = min(len(ids), length)
        if n_tokens == 0:
            continue
        places = np.asarray(offsets[:n_tokens], dtype=np.int64)
        encoded[row, :n_tokens, TOKEN] = ids[:n_tokens]
        encoded[row, :n_tokens, STOP] = stops(texts.strings[row], places)
        if texts.spans is not None:
            encoded[row, :n_tokens, KIND] = kinds(texts.spans[row], places)
    return encoded


def stops(string: str, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the tokens in stop words. `offsets` [m, 2]: characters [start, end) of each; the last one decides its word."""
    in_stop = np.zeros(max(len(string), 1), np.bool_)
    end = int(offsets[-1, 1]) if len(offsets) else 0
    for word in _WORD.finditer(string):
        if word.start() >= end:
            break
        if word.group().lower() in STOP_WORDS:
            in_stop[word.start() : word.end()] = True
    return in_stop[np.maximum(offsets[:, 1] - 1, 0)]


def kinds(spans: Sequence[Span], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """For each token 1 + the index in `KINDS` of the span that it shares a character with, 0 outside any."""
    indices = np.zeros(len(offsets), np.int32)
    for span in spans:
        inside = (offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)
        indices[inside] = _NUMBER[span.kind]
    return indices
