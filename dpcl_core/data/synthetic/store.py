"""The corpus as parquet files: generated at first use, and again where files are damaged or of another version."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data.arrow import pa, pq
from dpcl_core.data.held import replacing

_FORM = 1  # counts changes of the code that makes the corpus
_RECORD = "made.json"
_SPLITS = ("train", "test")


def ready(folder: Path, n_per_source: int) -> tuple[Path, Path]:
    """The files of both parts in this folder, for `n_per_source` texts per source; generated in a second if necessary.

    Raises OSError where the folder cannot be written.
    """
    train, test = (folder / f"{split}.parquet" for split in _SPLITS)
    if not _is_whole(folder, _identity(n_per_source), _stamps(folder)):
        _make(folder, n_per_source)
    return train, test


def _make(folder: Path, n_per_source: int) -> None:
    """Writes both parts, and last the record that they are complete; concurrent writers write the same bytes."""

    from dpcl_core.data.synthetic import corpus
    from dpcl_core.data.texts import Texts

    names = [(source, label) for source, labels in corpus.classes() for label in labels]
    paths.made(folder)
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
        with replacing(folder / f"{split}.parquet") as file:
            file.write(content)
    with replacing(folder / _RECORD) as file:
        file.write(json.dumps({"identity": _identity(n_per_source), **digests}).encode())


@lru_cache(maxsize=8)
def _is_whole(folder: Path, identity: str, _stamps_of_files: tuple[tuple[int, int], ...]) -> bool:
    """Whether the files are byte for byte those written for this version; cached until one of them changes."""
    try:
        record = json.loads((folder / _RECORD).read_bytes())
        digests = {split: sha256((folder / f"{split}.parquet").read_bytes()).hexdigest() for split in _SPLITS}
    except (OSError, ValueError):
        return False
    return bool(record == {"identity": identity, **digests})


def _identity(n_per_source: int) -> str:
    """Everything that determines the corpus: its templates, Faker's version, this code's version and its size."""
    from dpcl_core.data.synthetic import corpus

    return f"{_FORM} {version('faker')} {n_per_source} {sha256(corpus.template_file()).hexdigest()}"


def _stamps(folder: Path) -> tuple[tuple[int, int], ...]:
    """Times and sizes of the files; empty where one is missing."""
    try:
        statuses = [os.stat(folder / name) for name in (_RECORD, *(f"{split}.parquet" for split in _SPLITS))]
    except OSError:
        return ()
    return tuple((status.st_mtime_ns, status.st_size) for status in statuses)
