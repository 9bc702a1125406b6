"""The corpus as parquet files: made where it is first asked for, and anew where files are damaged or of another version."""

from __future__ import annotations

import json
import os
import tempfile
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_FORM = 1  # counts changes of the code that makes the corpus
_RECORD = "made.json"
_SPLITS = ("train", "test")


def ready(folder: Path, n_per_source: int) -> tuple[Path, Path]:
    """The files of both parts in this folder, of a corpus with so many texts a source; made now, in a second, if need be.

    Raises OSError where the folder cannot be written.
    """
    train, test = (folder / f"{split}.parquet" for split in _SPLITS)
    if not _is_whole(folder, _identity(n_per_source), _stamps(folder)):
        _make(folder, n_per_source)
    return train, test


def _make(folder: Path, n_per_source: int) -> None:
    """Writes both parts, and last of all what tells that they are whole; of several writers all write the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcl_core.data.synthetic import corpus
    from dpcl_core.data.texts import Texts

    names = [(source, label) for source, labels in corpus.classes() for label in labels]
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for split, part in zip(_SPLITS, corpus.corpus(n_per_source), strict=True):
        assert isinstance(part.images, Texts)
        columns = {
            "text": list(part.images.strings),
            "label": pa.array(part.labels, pa.int16()),
            "label_name": [names[label][1] for label in part.labels],
            "domain": [names[label][0] for label in part.labels],
            "person": part.images.people,
            "spans": [
                [{"start": span.start, "end": span.end, "kind": span.kind} for span in spans]
                for spans in part.images.spans or ()
            ],
        }
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), buffer)
        content = buffer.getvalue().to_pybytes()
        digests[split] = sha256(content).hexdigest()
        _write(folder / f"{split}.parquet", content)
    _write(folder / _RECORD, json.dumps({"identity": _identity(n_per_source), **digests}).encode())


@lru_cache(maxsize=8)
def _is_whole(folder: Path, identity: str, _stamps_of_files: tuple[tuple[int, int], ...]) -> bool:
    """Whether the files are what was written for this version, to the byte; asked again when one of them changes."""
    try:
        record = json.loads((folder / _RECORD).read_bytes())
        found = {split: sha256((folder / f"{split}.parquet").read_bytes()).hexdigest() for split in _SPLITS}
    except (OSError, ValueError):
        return False
    return bool(record == {"identity": identity, **found})


def _identity(n_per_source: int) -> str:
    """What the corpus follows from: its sentences, Faker's version, this code and its size."""
    from dpcl_core.data.synthetic import corpus

    return f"{_FORM} {version('faker')} {n_per_source} {sha256(corpus.template_file()).hexdigest()}"


def _stamps(folder: Path) -> tuple[tuple[int, int], ...]:
    """What changes when the files do; empty where one is not there."""
    try:
        found = [os.stat(folder / name) for name in (_RECORD, *(f"{split}.parquet" for split in _SPLITS))]
    except OSError:
        return ()
    return tuple((status.st_mtime_ns, status.st_size) for status in found)


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
