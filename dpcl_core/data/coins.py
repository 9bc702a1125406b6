"""Public coins: the assignment of a training row is a function of its own bytes, so that no other row can change it.

Every rule that assigns private rows (division, subset, pools, parts, clients) uses such coins. Assigned by rank, a row would
move when an earlier one is added or removed; then removing one person would change two rows and cost twice the privacy. Rows
with equal bytes always have equal coins.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_KEY = b"public coins of rows"
_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def keys(rows: Iterable[bytes]) -> NDArray[np.uint64]:
    """64 bits of each row's BLAKE2b digest under a public key, uint64 [n]."""
    digests = (blake2b(row, digest_size=8, key=_KEY).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def tossed(row_keys: NDArray[np.uint64], draw: np.random.Generator) -> NDArray[np.float64]:
    """A number in [0, 1) for each key [n], a multiple of 2^-53: a function of the key and of the generator's next word.

    The word is public and differs by purpose, so that two purposes share no coins. Keys and word are mixed by the finaliser
    of SplitMix64 (Steele, Lea and Flood 2014), a bijection of 64 bits.
    """
    salt = draw.integers(0, 2**64 - 1, dtype=np.uint64, endpoint=True)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        mixed = (row_keys ^ salt) + _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
