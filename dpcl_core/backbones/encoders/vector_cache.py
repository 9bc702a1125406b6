"""Cache of text vectors, one by one: a subset, a larger set and an interrupted run share them.

The file holds features of possibly private texts under the texts' hashes; only its owner can read it.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths

Floats = NDArray[np.float32]

_KEYS_PER_QUERY = 500  # hashes in one query
_WAITS_SECONDS = 10.0  # for another process that writes


def cached(identity: str, feature_dim: int, strings: Sequence[str], compute: Callable[[Sequence[str]], Floats]) -> Floats:
    """The vectors [n, feature_dim] of the strings; computes only those that the cache lacks, each once.

    `identity`: of the encoder, as in `Extractor`. If the file cannot be used, warns and computes all.
    """
    keys = [sha256(string.encode("utf-8", "surrogatepass")).digest() for string in strings]
    path = paths.features_dir() / f"texts-{sha256(identity.encode()).hexdigest()}.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT, 0o600))
        with closing(_opened(path)) as file:
            stored = _read(file, keys, feature_dim)
            fresh = {key: string for key, string in zip(keys, strings, strict=True) if key not in stored}
            if fresh:
                computed = dict(zip(fresh, compute(list(fresh.values())), strict=True))
                rows = [(key, np.ascontiguousarray(row, np.float32).tobytes()) for key, row in computed.items()]
                with file:
                    file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
                stored |= computed
    except (OSError, sqlite3.Error) as error:
        warnings.warn(f"features could not be kept in {path.parent}: {error}", stacklevel=2)
        return compute(strings)
    return np.stack([stored[key] for key in keys]) if keys else np.zeros((0, feature_dim), np.float32)


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_WAITS_SECONDS)
    try:
        file.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")
    except sqlite3.Error:
        file.close()
        raise
    return file


def _read(file: sqlite3.Connection, keys: Sequence[bytes], feature_dim: int) -> dict[bytes, Floats]:
    """The stored vectors of these keys, without rows of another length."""
    vectors: dict[bytes, Floats] = {}
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        batch = keys[start : start + _KEYS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        for key, vector in file.execute(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", batch):
            if len(vector) == 4 * feature_dim:
                vectors[key] = np.frombuffer(vector, np.float32)
    return vectors
