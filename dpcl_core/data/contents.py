"""The text of every row of a split, for its public coin: a function of that row alone, so that no other row moves it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import arrow, coins, lines, parquet, rows, sheets, tables, tagged
from dpcl_core.data.arrow import is_list, pa, pc
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.parquet import WINDOW_COLUMN
from dpcl_core.data.sheets import EMBEDDING_COLUMN
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a split (none: the bundled digits), and their names, times and sizes. `is_private`: nothing of their rows
    is reported."""

    card: DatasetCard
    paths: tuple[Path, ...]
    stamp: tuple[tuple[str, int], ...]
    is_private: bool = True

    def keys(self) -> NDArray[np.uint64]:
        """A key for each row of the files, uint64 [n], cached until they change; independent of the schema."""
        return _keys(self)

    def people(self) -> NDArray[np.uint64] | None:
        """A key for the person of each row, uint64 [n]; rows without one are a person each. None without such a column."""
        return _people(self) if self.card.has_people else None

    def division(self) -> NDArray[np.bool_]:
        """Which rows are the public test part of a single file: all of a person's, or none."""
        people = self.people()
        return coins.division(self.keys() if people is None else people, self.card.held_out or 0)


@lru_cache(maxsize=64)
def _keys(of: Contents) -> NDArray[np.uint64]:
    return coins.keys(_rows(of))


@lru_cache(maxsize=64)
def _people(of: Contents) -> NDArray[np.uint64]:
    field, names = f"{of.card.name} column person", list[str]()
    for path in of.paths:
        column = sheets.columns_of(path, of.card, (), (sheets.PERSON,), is_private=of.is_private)[sheets.PERSON]
        names += [(name or "").strip() for name in arrow.as_words(column, field)]
    return coins.of_people(names, of.keys())


def _rows(of: Contents) -> Iterator[bytes]:
    """The text of each row. Of own data that is the whole row, of pictures and windows what they hold.

    Benchmarks, and data that were taken in before rows had a canonical text (`coins` = 1), keep the bytes that they had.
    """
    card, paths = of.card, of.paths
    if not paths:
        yield from (row.tobytes() for row in np.asarray(rows.digits()[0].content))
    elif paths[0].is_dir():
        yield from (entry.content() for entry in tables.listing(paths[0], card))
    elif card.is_own and card.coins > 1 and card.kind not in ("image", "sensor"):
        yield from coins.distinct(row for path in paths for row in _whole(path, of))
    elif card.kind == "tagged":
        for sentence in tagged.sentences(paths, card):  # an unreadable one counts as empty
            words = () if isinstance(sentence, BadInput) else sentence[0]
            yield "\n".join(words).encode("utf-8", "surrogatepass")
    elif card.kind in ("table", "embedding") or card.roles:
        yield from coins.distinct(row for path in paths for row in _cells(path, of))
    else:
        for path in paths:
            yield from _of_parquet(path, card)


def _whole(path: Path, of: Contents) -> Iterator[bytes]:
    """The canonical text of each row of a file: no schema, no type of a column and no other row decides it."""
    card = of.card
    if path.suffix == ".conll":
        blocks = tagged.blocks(path, sheets.shown_name(card, path))
        yield from (b"\n".join(b" ".join(line.split()) for _, line in block) for block in blocks)
    elif path.suffix in lines.SUFFIXES:
        if path.suffix == ".jsonl" or not card.has_names:
            yield from lines.texts_of(sheets.lines_of(path, card, is_private=of.is_private)[0], path.suffix)
        else:
            yield from lines.texts_of_table(*sheets.rows_of_lines(path, card, is_private=of.is_private))
    else:
        table = sheets.columns_of(path, replace(card, roles=()), (), None, is_private=True)
        # pandas writes the numbers that rows had in another table as a column: a part of the rows is known again without.
        names = sorted(name for name in table.column_names if not name.startswith("__index_level_"))
        columns = [
            _texts(table[name], f"{card.name} column {name}", is_embedding=name == EMBEDDING_COLUMN) for name in names
        ]
        for cells in zip(*columns, strict=True):
            yield coins.row_text(zip(names, cells, strict=True))


def _texts(column: pa.ChunkedArray, field: str, *, is_embedding: bool) -> Iterable[str | bytes]:
    """The canonical text of each cell of a typed column. Other lists than embeddings have the same in every type of list."""
    column = arrow.canonical(column)
    if arrow.is_binary(column.type):
        return map(_readable, column.to_pylist())
    inner = column.type.value_type if is_list(column.type) else None
    if is_embedding and inner is not None and (pa.types.is_integer(inner) or pa.types.is_floating(inner)):
        return _of_column(column.combine_chunks(), of_double=True)
    if pa.types.is_nested(column.type):
        return map(coins.nested, arrow.values_of(column))
    return [word or "" for word in arrow.as_words(column, field)]


def _readable(value: bytes | None) -> str | bytes:
    """Bytes as the same text that they have in a column of text, where they are one."""
    try:
        return coins.word((value or b"").decode("utf-8"))
    except UnicodeDecodeError:
        return value or b""


def _cells(path: Path, of: Contents) -> Iterator[bytes]:
    """The bytes of all cells of each row by the first rule (`coins` = 1), with the length of each before it."""
    card = of.card
    if path.suffix in lines.SUFFIXES:
        rows, form = sheets.lines_of(path, card, is_private=of.is_private)
        for line, found in zip(rows, lines.first_cells(rows, path.suffix, form), strict=True):
            yield b"no row" + line if found is None else _with_lengths(found)
        return
    table = sheets.columns_of(path, replace(card, roles=()), (), None, is_private=True)
    plain = [_plain(table[name], card) for name in sorted(table.column_names)]
    for cells in zip(*(_of_column(column) for column in plain if column is not None), strict=True):
        yield _with_lengths(cells)


def _with_lengths(cells: Iterable[bytes]) -> bytes:
    return b"".join(len(cell).to_bytes(8, "little") + cell for cell in cells)


def _plain(column: pa.ChunkedArray, card: DatasetCard) -> pa.Array | None:
    """The column if it holds numbers, words, bytes or lists of numbers; dates and the like as words; None for the rest."""
    kind = column.type.value_type if is_list(column.type) else column.type
    has_bytes = kind == column.type and (arrow.is_text(kind) or arrow.is_binary(kind))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or has_bytes:
        return column.combine_chunks()
    if pa.types.is_nested(column.type):
        return None
    return pa.array(arrow.as_words(column, f"{card.name} column"), pa.large_string())


def _of_parquet(path: Path, card: DatasetCard) -> Iterator[bytes]:
    with sheets.parquet_file(path, sheets.shown_name(card, path)) as file:
        names = file.schema_arrow.names
        content = ("text", *card.text_columns) if card.kind == "text" else (WINDOW_COLUMN, *parquet.IMAGE_COLUMNS)
        chosen = [name for name in dict.fromkeys(content) if name in names]
        for group in range(file.num_row_groups):
            table, of_double = file.read_row_group(group, columns=chosen), card.is_own and card.coins > 1
            values = [_of_column(column.combine_chunks(), of_double=of_double) for column in table.columns]
            yield from map(b"".join, zip(*values, strict=True))


def _of_column(column: pa.Array, *, of_double: bool = False) -> Iterator[bytes]:
    """The bytes of each value; null counts as empty. `of_double`: whole numbers become floating point, whatever the type."""
    column = arrow.without_struct(column)
    if arrow.is_text(column.type):
        column = pc.cast(column, pa.large_string()).cast(pa.large_binary())
    if arrow.is_binary(column.type):
        yield from (value or b"" for value in column.to_pylist())
        return
    bounds = np.arange(len(column) + 1)
    while is_list(column.type):
        lengths = np.asarray(pc.list_value_length(column).fill_null(0))
        bounds = np.concatenate([[0], np.cumsum(lengths)])[bounds]
        column = column.flatten()
    values = arrow.doubles(column) if of_double else np.asarray(column.to_numpy(zero_copy_only=False))
    yield from (values[start:end].tobytes() for start, end in pairwise(bounds.tolist()))
