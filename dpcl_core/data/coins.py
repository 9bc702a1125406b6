"""Public coins: the assignment of a training row is a function of its own bytes, so that no other row can change it.

Every rule that assigns private rows (division, subset, pools, parts, clients) uses such coins. Assigned by rank, a row would
move when an earlier one is added or removed; then removing one person would change two rows and cost twice the privacy. Rows
with equal bytes always have equal coins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

# The canonical text of a row: of its own cells alone, whatever type a file has given the columns that they stand in.
#
# pandas writes a column of whole numbers with one empty cell as floating point, in every form of file. So 3 and 3.0 are one
# value, and a whole number of a typed column beyond 2^53 counts as the nearest number of double precision: else the cell
# that one person leaves empty would change the rows of all others. So would the hour of one date, as pandas then writes it
# for all of them, and its zone. In a file of text a whole number beyond 2^53 is what its digits say.


_WHOLE = re.compile(r"\s*([-+]?\d+)\.0+\s*", re.ASCII)
_MOMENT = re.compile(r"\s*(\d{4}-\d\d-\d\d(?=[ T]))?([ T])?(\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?(Z|[-+]\d\d:?\d\d)?\s*")
_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
EXACT = 2**53  # whole numbers up to here are numbers of double precision


def word(cell: str) -> str:
    """A cell of text; a whole number without its zeros after the point, a moment without a midnight and such zeros."""
    if ":" in cell and (moment := _MOMENT.fullmatch(cell)) is not None:
        day, between, clock, fraction, zone = (part or "" for part in moment.groups())
        is_midnight = day and clock == "00:00:00" and not fraction and not zone
        return day if is_midnight else f"{day}{between}{clock}{'.' if fraction else ''}{fraction}{zone}"
    if cell[-1:] not in ("0", " ") or "." not in cell:
        return cell
    return found[1] if (found := _WHOLE.fullmatch(cell)) else cell


def nested(value: object) -> str:
    """A value of any nesting; a key without a value counts as none, since Arrow gives one row's keys to all."""
    if value is None or isinstance(value, str):
        return word(value or "")
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=True)


def _plain(value: object) -> object:
    match value:
        case dict():
            return {str(key): _plain(one) for key, one in value.items() if one is not None}
        case list() | tuple():
            return [_plain(one) for one in value]
        case None | bool():
            return value
        case bytes():
            return value.hex()
        case int() | float() | Decimal():
            number = float(value)
            return f"{number:.0f}" if abs(number) < EXACT and number == int(number) else repr(number)
        case timedelta():
            return repr(value.total_seconds())
        case datetime() if value.tzinfo is not None:
            return word(str(value.astimezone(UTC).replace(tzinfo=None)))
        case _:
            return word(str(value))


def row_text(pairs: Iterable[tuple[str, str | bytes]]) -> bytes:
    """The text of a row, from its values by name in alphabetical order; those that are empty are left out.

    True and TRUE are true, as in JSON: the same row has one text in every form of table.
    """
    return b"\x1e".join(
        f"{name}\x1f".encode("utf-8", "surrogatepass")
        + (value if isinstance(value, bytes) else _TRUTH.get(value, value).encode("utf-8", "surrogatepass"))
        for name, value in pairs
        if value
    )


_KEY = b"public coins of rows"
_DIGEST = 32  # bytes: nobody can find two rows of one digest
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
    more of k equal rows is the row of number k: it moves no other. Long rows are known again by their digests, which take
    less memory than a second copy of the file.
    """
    seen: dict[bytes, int] = {}
    for row in rows:
        known_by = row if len(row) < _DIGEST else blake2b(row, digest_size=_DIGEST).digest()
        number = seen.get(known_by, 0)
        seen[known_by] = number + 1
        yield row + number.to_bytes(8, "little")
