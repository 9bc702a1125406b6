"""The raw bytes of every row of a split, for its public coin: independent of parsing, so that every row has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data import bundled, coins, folder, parquet, tagged_files, text_files
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.pixels import is_list
from dpcl_core.data.sensors import WINDOW_COLUMN
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a split (none: the bundled digits), and their names, times and sizes."""

    card: DatasetCard
    paths: tuple[Path, ...]
    stamp: tuple[tuple[str, int], ...]

    def keys(self) -> NDArray[np.uint64]:
        """A key for each row of the files, uint64 [n], cached until they change; independent of labels and sources."""
        return _keys(self)


@lru_cache(maxsize=64)
def _keys(of: Contents) -> NDArray[np.uint64]:
    return coins.keys(_rows(of.card, of.paths))


def _rows(card: DatasetCard, paths: tuple[Path, ...]) -> Iterator[bytes]:
    if not paths:
        yield from (row.tobytes() for row in np.asarray(bundled.digits()[0].content))
    elif paths[0].is_dir():
        yield from (entry.content() for entry in folder.listing(paths[0], card))
    elif card.kind == "tagged":
        for sentence in tagged_files.sentences(paths, card):  # an unreadable one counts as empty
            words = () if isinstance(sentence, BadInput) else sentence[0]
            yield "\n".join(words).encode("utf-8", "surrogatepass")
    else:
        for path in paths:
            if path.suffix == ".csv":
                yield from _bytes(text_files.columns_of(path, card, ("text",), ("text",), is_private=True))
            else:
                yield from _of_parquet(path, card)


def _of_parquet(path: Path, card: DatasetCard) -> Iterator[bytes]:
    with parquet.readable(path, parquet.shown_name(card, path)), pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        content = ("text", *card.text_columns) if card.kind == "text" else (WINDOW_COLUMN, *parquet.IMAGE_COLUMNS)
        chosen = [name for name in dict.fromkeys(content) if name in names]
        for group in range(file.num_row_groups):
            yield from _bytes(file.read_row_group(group, columns=chosen))


def _bytes(table: pa.Table) -> Iterator[bytes]:
    """The bytes of each row: its values, one column after the other."""
    return map(b"".join, zip(*(_of_column(column.combine_chunks()) for column in table.columns), strict=True))


def _of_column(column: pa.Array) -> Iterator[bytes]:
    """The bytes of each value; null counts as empty."""
    column = parquet.without_struct(column)
    if parquet.is_text(column.type):
        column = pc.cast(column, pa.large_string()).cast(pa.large_binary())
    if parquet.is_binary(column.type):
        yield from (value or b"" for value in column.to_pylist())
        return
    bounds = np.arange(len(column) + 1)
    while is_list(column.type):
        lengths = np.asarray(pc.list_value_length(column).fill_null(0))
        bounds = np.concatenate([[0], np.cumsum(lengths)])[bounds]
        column = column.flatten()
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    yield from (values[start:end].tobytes() for start, end in pairwise(bounds.tolist()))
