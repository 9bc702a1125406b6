"""The raw bytes of every row of a split, for its public coin: independent of parsing, so that every row has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data import bundled, coins, folder, named_rows, parquet, sheets, tagged_files
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

    def people(self) -> NDArray[np.uint64] | None:
        """A key for the person of each row, uint64 [n]; rows without one are a person each. None without such a column."""
        return _people(self) if self.card.has_people else None


@lru_cache(maxsize=64)
def _keys(of: Contents) -> NDArray[np.uint64]:
    return coins.keys(_rows(of.card, of.paths))


@lru_cache(maxsize=64)
def _people(of: Contents) -> NDArray[np.uint64]:
    field, names = f"{of.card.name} column person", list[str]()
    for path in of.paths:
        column = sheets.columns_of(path, of.card, (), (sheets.PERSON,), is_private=True)[sheets.PERSON]
        names += [(name or "").strip() for name in named_rows.as_words(column, field)]
    own_keys = of.keys()
    return coins.keys(
        b"person" + name.encode("utf-8", "surrogatepass") if name else b"row" + key.tobytes()
        for name, key in zip(names, own_keys, strict=True)
    )


def _rows(card: DatasetCard, paths: tuple[Path, ...]) -> Iterator[bytes]:
    if not paths:
        yield from (row.tobytes() for row in np.asarray(bundled.digits()[0].content))
    elif paths[0].is_dir():
        yield from (entry.content() for entry in folder.listing(paths[0], card))
    elif card.kind == "tagged":
        for sentence in tagged_files.sentences(paths, card):  # an unreadable one counts as empty
            words = () if isinstance(sentence, BadInput) else sentence[0]
            yield "\n".join(words).encode("utf-8", "surrogatepass")
    elif card.kind in ("table", "embedding") or card.roles:
        yield from _distinct(row for path in paths for row in _cells(path, card))
    else:
        for path in paths:
            if path.suffix != ".parquet":
                yield from _bytes(sheets.columns_of(path, card, ("text",), ("text",), is_private=True))
            else:
                yield from _of_parquet(path, card)


def _cells(path: Path, card: DatasetCard) -> Iterator[bytes]:
    """The bytes of all cells of each row that a reader can use, with the length of each before it.

    In the order of the file's own names: which column is the target changes no coin. Else a second schema of the same file
    would make other rows public.
    """
    table = sheets.columns_of(path, replace(card, roles=()), (), None, is_private=True)
    plain = [_plain(table[name], card) for name in sorted(table.column_names)]
    for cells in zip(*(_of_column(column) for column in plain if column is not None), strict=True):
        yield b"".join(len(cell).to_bytes(8, "little") + cell for cell in cells)


def _plain(column: pa.ChunkedArray, card: DatasetCard) -> pa.Array | None:
    """The column if it holds numbers, words, bytes or lists of numbers; dates and the like as words; None for the rest."""
    kind = column.type.value_type if is_list(column.type) else column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or (kind == column.type and _is_bytes(kind)):
        return column.combine_chunks()
    if pa.types.is_nested(column.type):
        return None
    return pa.array(named_rows.as_words(column, f"{card.name} column"), pa.large_string())


def _is_bytes(kind: pa.DataType) -> bool:
    return sheets.is_text(kind) or parquet.is_binary(kind)


def _distinct(rows: Iterator[bytes]) -> Iterator[bytes]:
    """The rows, each with the number of equal ones before it.

    Short rows are often equal, and one coin for all would send them all to one side. As a row is no more than its bytes, one
    more of k equal rows is the row of number k: it moves no other.
    """
    seen: Counter[bytes] = Counter()
    for row in rows:
        yield row + seen[row].to_bytes(8, "little")
        seen[row] += 1


def _of_parquet(path: Path, card: DatasetCard) -> Iterator[bytes]:
    with sheets.parquet_file(path, sheets.shown_name(card, path)) as file:
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
    if sheets.is_text(column.type):
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
