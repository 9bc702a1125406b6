"""What kind of data lies in a folder, told by file headers alone."""

from __future__ import annotations

from dpcl_core.data import files
from dpcl_core.data.cards import DatasetCard, Kind
from dpcl_core.errors import BadInput


def kind(card: DatasetCard) -> Kind | None:
    """Pictures, or windows of a sensor; None where neither is there, or nothing can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcl_core.data.parquet import IMAGE_COLUMNS  # with pyarrow late, like it: a list of names needs neither
    from dpcl_core.data.sensors import WINDOW_COLUMN

    try:
        found = files.find(card)
        if found.is_folder:
            return "image"
        columns = pq.read_schema(found.train[0]).names
    except (BadInput, OSError, pa.ArrowException):
        return None
    if WINDOW_COLUMN in columns:
        return "sensor"
    return "image" if any(column in IMAGE_COLUMNS for column in columns) else None
