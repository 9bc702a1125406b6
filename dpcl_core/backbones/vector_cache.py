"""Cache of the vectors of texts and pictures, one by one: a subset, a larger set and a stopped run share them.

The file holds features of possibly private examples under the examples' hashes; only its owner can read it.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths

Floats = NDArray[np.float32]

_KEYS_PER_QUERY = 500  # hashes in one query
_CHECK = 4  # bytes behind each vector
_WAITS_SECONDS = 10.0  # for another process that writes


def cached(
    kind: Literal["texts", "pictures"],
    identity: str,
    feature_dim: int,
    contents: Sequence[bytes],
    compute: Callable[[Sequence[int]], Floats],
) -> Floats:
    """The vectors [n, feature_dim] of examples with these contents; computes only those that the cache lacks, each once.

    `identity`: of the network, as in `Extractor`. `compute`: the vectors of the examples at these places. A damaged file is
    replaced. If the file cannot be used, warns and computes all.
    """
    keys = [sha256(content).digest() for content in contents]
    path = paths.features_dir() / f"{kind}-{sha256(identity.encode()).hexdigest()}.sqlite"
    try:
        paths.made(path.parent)
        try:
            stored = _stored(path, keys, feature_dim, compute)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            # Its journal first: SQLite would take it for that of the new file.
            path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            stored = _stored(path, keys, feature_dim, compute)
    except (OSError, sqlite3.Error) as error:
        warnings.warn(f"features could not be kept in {path.parent}: {error}", stacklevel=2)
        return compute(range(len(contents)))
    return np.stack([stored[key] for key in keys]) if keys else np.zeros((0, feature_dim), np.float32)


def of_texts(
    identity: str, feature_dim: int, strings: Sequence[str], compute: Callable[[Sequence[str]], Floats]
) -> Floats:
    """`cached` for texts, which are computed from strings."""
    contents = [string.encode("utf-8", "surrogatepass") for string in strings]
    return cached("texts", identity, feature_dim, contents, lambda rows: compute([strings[row] for row in rows]))


def _stored(
    path: Path, keys: Sequence[bytes], feature_dim: int, compute: Callable[[Sequence[int]], Floats]
) -> dict[bytes, Floats]:
    """The vectors by key, from the file; those that it lacks are computed and kept in it."""
    os.close(os.open(path, os.O_CREAT, 0o600))
    with closing(_opened(path)) as file:
        stored = _read(file, keys, feature_dim)
        fresh = {key: place for place, key in enumerate(keys) if key not in stored}
        if fresh:
            computed = dict(zip(fresh, compute(list(fresh.values())), strict=True))
            vectors = {key: np.ascontiguousarray(row, np.float32).tobytes() for key, row in computed.items()}
            with file:
                rows = [(key, vector + _check(key, vector)) for key, vector in vectors.items()]
                file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            stored |= computed
    return stored


def _check(key: bytes, vector: bytes) -> bytes:
    """What stands behind a vector in the file, and tells whether it is still the one of this key."""
    return zlib.crc32(key + vector).to_bytes(_CHECK, "little")


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_WAITS_SECONDS)
    try:
        file.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")
    except sqlite3.Error:
        file.close()
        raise
    return file


def _read(file: sqlite3.Connection, keys: Sequence[bytes], feature_dim: int) -> dict[bytes, Floats]:
    """The stored vectors of these keys, without rows that are damaged, of another length, or of before there was a check."""
    vectors: dict[bytes, Floats] = {}
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        batch = keys[start : start + _KEYS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        for key, row in file.execute(f"SELECT text, CAST(vector AS BLOB) FROM vectors WHERE text IN ({marks})", batch):
            vector = row[:-_CHECK]
            if len(vector) == 4 * feature_dim and row[-_CHECK:] == _check(key, vector):
                vectors[key] = np.frombuffer(vector, np.float32)
    return vectors
