"""Public coins: the assignment of a training row is a function of its own bytes, so that no other row can change it.

Every rule that assigns private rows (division, subset, pools, parts, clients) uses such coins. Assigned by rank, a row would
move when an earlier one is added or removed; then removing one person would change two rows and cost twice the privacy. Rows
with equal bytes always have equal coins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_KEY = b"public coins of rows"
_DIVISION = 20_251_040  # public: the same division for every run, seed and user; of the bundled digits into 1,347 and 450
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


def division(row_keys: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Which rows, or people, with these keys [n] are the public test part: about this share of them."""
    return tossed(row_keys, np.random.default_rng(_DIVISION)) < share


def of_people(names: Iterable[str], row_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A key for the person of each row [n]; a row without a name is a person of its own."""
    return keys(
        b"person" + name.encode("utf-8", "surrogatepass") if name else b"row" + key.tobytes()
        for name, key in zip(names, row_keys, strict=True)
    )


def distinct(rows: Iterable[bytes]) -> Iterator[bytes]:
    """The rows, each with the number of equal ones before it.

    Short rows are often equal, and one coin for all would send them all to one side. As a row is no more than its bytes, one
    more of k equal rows is the row of number k: it moves no other.
    """
    seen: dict[bytes, int] = {}
    for row in rows:
        number = seen.get(row, 0)
        seen[row] = number + 1
        yield row + number.to_bytes(8, "little")
