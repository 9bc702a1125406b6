"""What kind of data lies in a folder, told by file headers alone."""

from __future__ import annotations

from dataclasses import replace

from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.data.files import Found
from dpcl_core.errors import BadInput


def kind(card: DatasetCard) -> Kind | None:
    """Pictures, windows of a sensor, texts or tagged sentences; None where none is there, or nothing can be read."""
    try:
        found = files.find(replace(card, held_out=0.5))  # texts may lie in one file
    except (BadInput, OSError):
        return None
    told = _kind(found)
    return told if told in ("text", "tagged") or found.test or card.held_out is not None else None


def _kind(found: Found) -> Kind | None:
    if found.is_folder:
        return "image"
    if found.train[0].suffix == ".csv":
        return "text"
    if found.train[0].suffix == ".conll":
        return "tagged"
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcl_core.data.parquet import IMAGE_COLUMNS  # with pyarrow late, like it: a list of names needs neither
    from dpcl_core.data.sensors import WINDOW_COLUMN
    from dpcl_core.data.tagged_files import TAGS_COLUMN, WORDS_COLUMN

    try:
        columns = pq.read_schema(found.train[0]).names
    except (OSError, pa.ArrowException):
        return None
    if WINDOW_COLUMN in columns:
        return "sensor"
    if any(column in IMAGE_COLUMNS for column in columns):
        return "image"
    if {WORDS_COLUMN, TAGS_COLUMN} <= set(columns):
        return "tagged"
    return "text" if "text" in columns else None
