"""Detects a folder's data kind from file headers."""

from __future__ import annotations

from dataclasses import replace

from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.data.files import DataFiles
from dpcl_core.errors import BadInput


def kind(card: DatasetCard) -> Kind | None:
    """The kind of a dataset's files; None where there are none, or they cannot be read."""
    try:
        data_files = files.find(replace(card, held_out=0.5))  # texts may be in one file
    except (BadInput, OSError):
        return None
    detected = _kind(data_files)
    return detected if detected in ("text", "tagged") or data_files.test or card.held_out is not None else None


def _kind(data_files: DataFiles) -> Kind | None:
    if data_files.is_folder:
        return "image"
    if data_files.train[0].suffix == ".csv":
        return "text"
    if data_files.train[0].suffix == ".conll":
        return "tagged"
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcl_core.data.parquet import IMAGE_COLUMNS  # imported late, like pyarrow: a list of names needs neither
    from dpcl_core.data.sensors import WINDOW_COLUMN
    from dpcl_core.data.tagged_files import TAGS_COLUMN, WORDS_COLUMN

    try:
        columns = pq.read_schema(data_files.train[0]).names
    except (OSError, pa.ArrowException):
        return None
    if WINDOW_COLUMN in columns:
        return "sensor"
    if any(column in IMAGE_COLUMNS for column in columns):
        return "image"
    if {WORDS_COLUMN, TAGS_COLUMN} <= set(columns):
        return "tagged"
    return "text" if "text" in columns else None
