"""Loads extractors by name. Imports no torch: a backbone that needs it loads it when it first computes features."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.backbones import catalog, packaged, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content, Images, Vectors, Windows
from dpcl_core.data.files import replacing
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    import sqlite3

# Cache of the vectors of texts and pictures, one by one: a subset, a larger set and a stopped run share them.
#
# The file holds features of possibly private examples under the examples' hashes; only its owner can read it.


Floats = NDArray[np.float32]

Yielded = TypeVar("Yielded")
Returned = TypeVar("Returned")
_KEYS_PER_QUERY = 500  # hashes in one query
_CHECK = 4  # bytes behind each vector
_WAITS_SECONDS = 10.0  # for another process that writes


def result_of(steps: Generator[Yielded, None, Returned], tell: Callable[[Yielded], object] = lambda _: None) -> Returned:
    """What a generator returns; what it yields is told to `tell`."""
    while True:
        try:
            tell(next(steps))
        except StopIteration as ended:
            return cast(Returned, ended.value)


def cached(
    kind: Literal["texts", "pictures"], identity: str, feature_dim: int, contents: Sequence[bytes],
    compute: Callable[[Sequence[int]], Floats],
) -> Floats:  # fmt: skip
    """The vectors [n, feature_dim] of examples with these contents; computes only those that the cache lacks, each once.

    `identity`: of the network, as in `Extractor`. `compute`: the vectors of the examples at these places. A damaged file is
    replaced. If the file cannot be used, warns and computes all.
    """
    keys = [sha256(content).digest() for content in contents]
    path = paths.features_dir() / f"{kind}-{sha256(identity.encode()).hexdigest()}.sqlite"
    try:
        import sqlite3
    except ImportError:  # in a page of a browser, which keeps nothing
        return compute(range(len(contents)))
    try:
        paths.make_folder(path.parent)
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


def of_texts(identity: str, feature_dim: int, strings: Sequence[str], compute: Callable[[Sequence[str]], Floats]) -> Floats:
    """`cached` for texts, which are computed from strings."""
    contents = [string.encode("utf-8", "surrogatepass") for string in strings]
    return cached("texts", identity, feature_dim, contents, lambda rows: compute([strings[row] for row in rows]))


def _stored(
    path: Path, keys: Sequence[bytes], feature_dim: int, compute: Callable[[Sequence[int]], Floats]
) -> dict[bytes, Floats]:
    """The vectors by key, from the file; those that it lacks are computed and kept in it."""
    import sqlite3

    os.close(os.open(path, os.O_CREAT, 0o600))
    with closing(sqlite3.connect(path, timeout=_WAITS_SECONDS)) as file:
        file.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")
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


class Extractor(Protocol):
    """A frozen public function from an example (an image, a window, a text) to a feature vector.

    `feature_dim`: length of a feature vector; None where it depends on the images' size. `identity`: name, hash of the
    weights, preprocessing and precision; two extractors of one identity give the same features.
    """

    feature_dim: int | None
    identity: str

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """Features [b, K] of the images in order, batch by batch; non-finite rows become zero, never dropped.

        At least one batch, empty where there are no images, so that K is known. Raises BadInput for unreadable content.
        """


def load(name: str, device: str = "cpu", resolution: int | None = None) -> Extractor:
    """The named extractor on a torch device, reading pictures at a resolution (None: its own).

    Raises BadInput for unknown names, damaged weights and a resolution that it does not have, DataMissing for missing
    weights or packages.
    """
    card = catalog.card(name)
    if card.is_language_model:
        raise BadInput(FIELD, name, "must be a backbone that gives features: a language model is trained itself")
    return cast(Extractor, made(card, import_module(card.module).make, device, resolution))


def made(card: BackboneCard, make: Callable[..., object], device: str, resolution: int | None) -> object:
    """What a card's module makes of it; only a card with `resolutions` is made at one. Raises BadInput for another."""
    catalog.refuse_resolution(card, resolution)
    return make(card, device) if resolution is None else make(card, device, resolution=resolution)


@lru_cache(maxsize=8)
def identity(name: str, device: str = "cpu", resolution: int | None = None) -> str:
    """The `identity` of the named extractor; for a language model its name and the SHA-256 of its weights: of its package's
    file, of the bundled file, or of a hub model's files in order.

    Raises what `load` raises.
    """
    card = catalog.card(name)
    if not card.is_language_model:
        return load(name, device, resolution).identity
    if card.package or name == packaged.BUNDLED:
        return f"{name}|{card.package.sha256 if card.package else packaged.bundled().weights_sha256}"
    parts = sorted(packaged.FOLDERS.folder(name.removeprefix(packaged.HUB)).glob("*.safetensors"))
    return f"{name}|{'+'.join(map(weights.digest, parts))}"


def pictures(content: Content, name: str) -> Images:
    """The examples as pictures. Raises BadInput, naming the network, where they are not pictures."""
    if not isinstance(content, Images):
        raise BadInput(FIELD, name, catalog.NO_PICTURES)
    return content


def precision(device: str) -> str:
    """Part of an extractor's identity: half precision on a graphics card gives slightly different features."""
    if device == "cpu":
        return "single"
    from dpcl_core.backbones.gpu import half_precision  # loads torch, which a card's user has anyway

    return "single" if half_precision(device) is None else "bfloat16"


def finite(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows with every row that has NaN or infinity replaced by zeros.

    Dropping it instead would reveal how many images break the network, and would shift all later rows.
    """
    return np.where(np.isfinite(features).all(axis=1, keepdims=True), features, np.float32(0))


# Cache of features, addressed by a hash of extractor and images.
#
# The files hold features of possibly private images; only their owner can read them.


def features(backbone: str, images: Content, device: str = "cpu", resolution: int | None = None) -> NDArray[np.float32]:
    """Features of the images [n, K] float32 by the named backbone, from the cache if present.

    Raises what `computed` raises.
    """
    return result_of(computed(backbone, images, device, resolution))


def computed(
    backbone: str, images: Content, device: str = "cpu", resolution: int | None = None
) -> Generator[int, None, NDArray[np.float32]]:
    """The features in steps: yields the number of images done, returns them.

    Recomputes a damaged file. If the cache cannot be written, warns and returns the features all the same. Raises what
    `extractor.load` raises, and BadInput naming an image that cannot be decoded.
    """
    extractor = load(backbone, device, resolution)
    # The features are these values: a file of them would be a second copy.
    if backbone == "pixels" and isinstance(images, Windows | Vectors):
        (values,) = extractor.batches(images)
        return values
    path = paths.features_dir() / f"{key(extractor, images)}.npz"
    cached = _read_cache(path, len(images))
    if cached is not None:
        return cached
    parts, done = list[NDArray[np.float32]](), 0
    for part in extractor.batches(images):
        parts.append(part)
        done += len(part)
        yield done
    fresh = np.concatenate(parts)
    try:
        paths.make_folder(path.parent)
        with replacing(path) as file:
            np.savez(file, features=fresh)
    except OSError as error:
        warnings.warn(f"features could not be kept in {path.parent}: {error.strerror or error}", stacklevel=2)
    return fresh


def key(extractor: Extractor, images: Content) -> str:
    """Cache key of the features: 64 hexadecimal digits over extractor, content of the images, and their public shape."""
    return sha256(f"{extractor.identity}\n{images.digest()}\n{images.shape}".encode()).hexdigest()


def _read_cache(path: Path, n_images: int) -> NDArray[np.float32] | None:
    """The stored array; None where there is none or the file is damaged (zip has a checksum)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            stored_features = stored["features"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = stored_features.dtype == np.float32 and stored_features.ndim == 2 and len(stored_features) == n_images
    return stored_features if fits else None
