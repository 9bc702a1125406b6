"""A text encoder without weights: hashed word stems under a fixed random projection.

Texts are similar where they share words, not where they share meaning. All its parts are public constants, so the features
of a text depend on that text alone. Measured on AG News (500 texts per class, a linear classifier): 69 % of the test texts;
with whole words 65 %, with pairs of words added 54 %, because 384 numbers are too few for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from dpcl_core.backbones import encoder_library
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.encoder_library import Floats
from dpcl_core.backbones.plain_language import STOP_WORDS
from dpcl_core.data.dataset import Content

NAME, FEATURE_DIM = "hashed-text", 384
_BUCKETS, _STEM, _SEED = 2**14, 5, 20_250_920
_WORD = re.compile(r"\w\w+")
_HASHED = HashingVectorizer(n_features=_BUCKETS, analyzer=list, norm=None)  # MurmurHash3, with signs


class HashedText:
    """Features of a text from the stems of its words without stop words; of a word from spelling, ends and neighbours."""

    feature_dim = FEATURE_DIM
    identity = f"{NAME}|{_BUCKETS}|{_STEM}|{_SEED}"

    def batches(self, content: Content) -> Iterator[Floats]:
        """float32 [b, 384] of unit length, zeros for a text of stop words only. Raises BadInput for anything but text."""
        return encoder_library.in_batches(content, NAME, FEATURE_DIM, _of_texts, _of_words)


def make(card: BackboneCard, device: str) -> HashedText:
    """The encoder; both arguments are unused, since there is one kind and it uses no device."""
    return HashedText()


def _of_texts(strings: Sequence[str]) -> Floats:
    return _projected([_terms(string) for string in strings])


def _of_words(sentences: Sequence[tuple[str, ...]]) -> Floats:
    return _projected([_description(words, place) for words in sentences for place in range(len(words))])


def _terms(string: str) -> list[str]:
    """Approximate stems: the first letters of words of two letters or more that are not stop words."""
    return [word[:_STEM] for word in _WORD.findall(string.lower()) if word not in STOP_WORDS]


def _description(words: tuple[str, ...], place: int) -> list[str]:
    """Terms of a word: spelling, beginnings and ends, letter pattern, and the words beside it."""
    word = words[place]
    low = word.lower()
    before, after = (words[neighbour].lower() if 0 <= neighbour < len(words) else "" for neighbour in (place - 1, place + 1))
    kinds = ("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
    looks = "".join(kind for kind, _ in groupby(kinds))  # "Paris" and "Rome" have one pattern
    ends = [end for n in (2, 3) for end in (f"<{low[:n]}", f">{low[-n:]}")]
    return [f"={low}", f"-{before}", f"+{after}", f"?{looks}", f"!{word[:1].isupper()}{place == 0}", *ends]


def _projected(terms: Sequence[list[str]]) -> Floats:
    counts = cast(Any, _HASHED.transform(terms))  # a sparse matrix; scipy has no types
    counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
    return np.asarray(counts @ _directions(), np.float32)


@cache
def _directions() -> NDArray[np.float32]:
    """A fixed direction for each bucket [buckets, 384], any two nearly orthogonal."""
    return np.random.default_rng(_SEED).standard_normal((_BUCKETS, FEATURE_DIM), dtype=np.float32)
