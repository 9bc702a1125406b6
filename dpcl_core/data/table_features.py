"""The public map from a row of a table to numbers in [-1, 1]: bounds and categories are declared, never read from rows.

A declared number is clipped to its bounds and scaled. A declared category is one of a list; all other values are one more.
A column of which nothing is declared is squashed, if it holds numbers, or hashed: both are constants, the same for any data.
Whether it holds numbers is read from the public part. A missing value, or a word among numbers, is the middle of a declared
range and all zeros elsewhere. So every row has values, whatever it holds, and they depend on that row and on public facts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcl_core.data.card import Feature
from dpcl_core.data.named_rows import as_words
from dpcl_core.errors import BadInput

Floats = NDArray[np.float32]
_LARGEST = 16.0  # arsinh of 4.4 million: larger numbers keep only their place on the circles
_TURNS = (math.pi / 2, math.pi)  # radians for each unit of arsinh: a circle for a factor of 55, and one for a factor of 7
_SQUASHED = 1 + 2 * len(_TURNS)
_PLACES = 4  # of a hashed word, each 1/2 or -1/2: two words are nearly orthogonal, and each has length 1
_NARROW, _WIDE, _MANY_WORDS = 32, 256, 4  # values of a hashed column; wide from so many words a cell on
MAX_WIDTH = 20_000
_WORD = re.compile(r"\w+")
_MISSING = ("?", "NA", "N/A", "na", "n/a", "nan", "NaN", "NAN", "null", "NULL", "None", "-")  # among numbers


def planned(names: Sequence[str], public: Mapping[str, pa.ChunkedArray], declared: Sequence[Feature]) -> tuple[Feature, ...]:
    """The features of a table: the declared ones or, where there are none, one for each column, by its public rows.

    Args: names: the columns without a role, in the file's order; public: their columns in the test part. Raises BadInput for
    a declared column that the file lacks, a column of lists, no column at all, or more than 20,000 values a row.
    """
    for feature in declared:
        if feature.name not in names:
            listed = f"{', '.join(names[:12])}{' ...' if len(names) > 12 else ''}"
            raise BadInput(f"features.{feature.name}", "no such column", f"must be one of the columns {listed}")
    features = tuple(declared) or tuple(Feature(name, is_text=not _holds_numbers(public[name], name)) for name in names)
    if not features:
        raise BadInput("features", "no columns", "must have a column beside those of label, source, person and time")
    total = sum(width(feature, public[feature.name]) for feature in features)
    if total > MAX_WIDTH:
        allowed = f"must give at most {MAX_WIDTH:,} values a row: declare fewer features in the schema"
        raise BadInput("features", f"{total:,} values", allowed)
    return features


def width(feature: Feature, public: pa.ChunkedArray) -> int:
    """The number of values of a feature: of one whose column has many words in the public rows, more."""
    if feature.low is not None:
        return 1
    if feature.categories:
        return len(feature.categories) + 1
    return _hashed_width(feature.name, public) if feature.is_text else _SQUASHED


def encoded(
    columns: Mapping[str, pa.ChunkedArray], features: Sequence[Feature], widths: Sequence[int], n_rows: int
) -> Floats:
    """The values float32 [n, sum of widths] of these rows; a missing column counts as missing values."""
    parts = [np.zeros((n_rows, 0), np.float32)]
    for feature, n_values in zip(features, widths, strict=True):
        column = columns.get(feature.name)
        if column is None:
            column = pa.chunked_array([pa.nulls(n_rows, pa.large_string())])
        if feature.low is not None and feature.high is not None:
            parts.append(_scaled(numbers(column, feature.name), feature.low, feature.high))
        elif feature.categories:
            parts.append(_one_hot(as_words(column, feature.name), feature.categories))
        elif feature.is_text:
            parts.append(_hashed(feature.name, as_words(column, feature.name), n_values))
        else:
            parts.append(squashed(numbers(column, feature.name)))
    return np.concatenate(parts, axis=1)


def squashed(values: NDArray[np.float64]) -> Floats:
    """Numbers [n] of any size as values float32 [n, 5] in [-1, 1]; not-a-number gives zeros.

    u = arsinh(x) is x near 0 and the logarithm of 2x beyond. The first value is u / 16, clipped; the others are the cosine
    and the sine of u π/2 and of u π. On the circles a factor of two is far, however large the numbers are.
    """
    finite = np.isfinite(values)
    u = np.arcsinh(np.where(finite, values, 0.0))
    waves = [wave(u * turn) for turn in _TURNS for wave in (np.cos, np.sin)]
    together = np.stack([np.clip(u / _LARGEST, -1, 1), *waves], axis=1)
    found: Floats = np.where(finite[:, None], together, 0.0).astype(np.float32)
    return found


def _scaled(values: NDArray[np.float64], low: float, high: float) -> Floats:
    """Numbers [n] clipped to [low, high] and mapped onto [-1, 1]; not-a-number is the middle, 0."""
    middle = low / 2 + high / 2
    shares = (np.clip(np.where(np.isnan(values), middle, values), low, high) - middle) / (high / 2 - low / 2)
    return np.clip(shares, -1, 1).astype(np.float32)[:, None]


def _one_hot(words: Sequence[str | None], categories: Sequence[str]) -> Floats:
    """A 1 at the place of each word's category, or at the last place for any other word and for none."""
    places = {category: place for place, category in enumerate(categories)}
    chosen = [places.get((word or "").strip(), len(categories)) for word in words]
    found: Floats = (np.asarray(chosen)[:, None] == np.arange(len(categories) + 1)).astype(np.float32)
    return found


def _hashed(name: str, words: Sequence[str | None], n_values: int) -> Floats:
    """The mean direction of each cell's words [n, n_values], scaled to length 1; zeros for an empty cell."""
    found = np.zeros((len(words), n_values), np.float32)
    for row, cell in enumerate(words):
        for term in _terms(cell, is_wide=n_values > _NARROW):
            for place, sign in _places(name, term, n_values):
                found[row, place] += sign
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    units: Floats = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
    return np.clip(units, -1, 1, out=units)


def _terms(cell: str | None, *, is_wide: bool) -> list[str]:
    """The words of a long text, each once; else the whole cell as one word."""
    low = (cell or "").strip().lower()
    if not is_wide:
        return [low] if low else []
    return sorted(set(_WORD.findall(low)))


@lru_cache(maxsize=2**16)
def _places(name: str, term: str, n_values: int) -> tuple[tuple[int, float], ...]:
    """Where a word of a column goes, by a public hash: four places with signs."""
    word = f"{name}\n{term}".encode("utf-8", "surrogatepass")
    drawn = blake2b(word, digest_size=4 * _PLACES, key=b"hashed cells").digest()
    numbers_drawn = np.frombuffer(drawn, dtype="<u4").tolist()
    return tuple(((number >> 1) % n_values, 0.5 if number & 1 else -0.5) for number in numbers_drawn)


def _hashed_width(name: str, public: pa.ChunkedArray) -> int:
    counts = [len(_WORD.findall(word)) for word in as_words(public, name) if word]
    return _WIDE if counts and sum(counts) >= _MANY_WORDS * len(counts) else _NARROW


def _holds_numbers(public: pa.ChunkedArray, name: str) -> bool:
    """Whether every value of the public rows that is not missing is a number, and there is one."""
    words = [word for word in as_words(public, name) if word and word.strip() and word.strip() not in _MISSING]
    return bool(words) and not np.isnan([_number(word) for word in words]).any()


def _is_text_like(kind: pa.DataType) -> bool:
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def numbers(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """The values of a column as numbers float64 [n]; anything else is not-a-number."""
    if pa.types.is_boolean(column.type) or not _is_text_like(column.type):
        return np.array([math.nan if value is None else _number(str(value)) for value in column.to_pylist()], np.float64)
    words = as_words(column, name)
    try:  # the same numbers, much faster, where every value that is not empty is one
        plain = pa.array([None if word is None or not word.strip() else word.strip() for word in words], pa.large_string())
        return np.asarray(plain.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        return np.array([_number(word or "") for word in words], np.float64)


def _number(word: str) -> float:
    """The number that a cell holds, True and False as 1 and 0; else not-a-number."""
    try:
        return float(word) if "_" not in word else math.nan
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(word.strip().lower(), math.nan)
