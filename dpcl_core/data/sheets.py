"""Tables in files as columns: CSV, TSV, JSON lines, parquet and NPZ, under the names that the readers of the kinds use.

The names of the columns are public: the first line of a CSV or TSV file, which names them as its owner declares; the header
of a parquet file and the arrays of an NPZ file, which are public by declaration, too; else what public lines say (`lines`).
All below is judged row by row.
"""

from __future__ import annotations

import json
import math
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcl_core.data import coins, lines
from dpcl_core.data.card import HELD_OUT, DatasetCard
from dpcl_core.data.columns import Column, Table, is_text, joined, of_arrow, pa, pc, pq
from dpcl_core.data.files import DataFiles, ending
from dpcl_core.data.schema import CONTROL, DOUBT
from dpcl_core.errors import BadInput, instead_of

Names = Sequence[str]  # of columns
# The names under which readers find a column, whatever the file calls it.
CANONICAL = {"target": "label", "text": "text", "source": "domain", "person": "person key", "time": "time key"}
PERSON, TIME = CANONICAL["person"], CANONICAL["time"]
LINES, DELIMITED = lines.SUFFIXES, lines.DELIMITED
TYPED = (".parquet", ".npz")
MAX_BYTES = 4 * 2**30
MAX_ROWS = 50_000_000
MAX_VALUES = 2**32  # bytes of a parquet file's columns when unpacked
_PIECE, _MOST_ROWS = 2**23, 2**16  # bytes and rows of a piece of a file
NO_ROW = 'must have as many values as there are columns, and close every quote (") on the same line'
_USUAL = ("label", "text")  # a first line with one of these names columns
NO_PARQUET = "must be a parquet file; this one is damaged or of another kind"


def shown_name(card: DatasetCard, path: Path) -> str:
    """A file's name in messages."""
    return f"{card.name}/{path.name}"


@contextmanager
def readable(path: Path, shown: str, allowed: str = "must be a file that you can read") -> Iterator[tuple[int, int]]:
    """Gives when a file was written and its size; errors of Arrow and the file system become a BadInput with one sentence.

    So do a pipe or device, which would never end, and a huge file.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError("no regular file")
        if status.st_size > MAX_BYTES:
            raise BadInput(shown, "larger", f"must have at most {MAX_BYTES:,} bytes")
        yield status.st_mtime_ns, status.st_size
    except BadInput:
        raise
    except PermissionError as error:
        raise BadInput(shown, "no permission", "must be a file that you can read") from error
    except Exception as error:
        is_of_file = isinstance(error, OSError | ValueError | KeyError | OverflowError | MemoryError)
        if not is_of_file and type(error).__module__.partition(".")[0] != "pyarrow":  # which CSV and JSON lines need not
            raise
        raise BadInput(shown, "unreadable" if path.exists() else "gone", allowed) from error


def content_of(path: Path, shown: str) -> bytes:
    """The bytes of a file. Raises BadInput as `readable` does."""
    with readable(path, shown):
        return path.read_bytes()


def _stamp(path: Path, shown: str) -> tuple[int, int]:
    """What changes when a file does. Raises BadInput as `readable` does."""
    with readable(path, shown) as stamp:
        return stamp


@contextmanager
def parquet_file(path: Path, card: DatasetCard) -> Iterator[pq.ParquetFile]:
    """An opened parquet file with a usable header. Raises BadInput for a damaged one, or one that unpacks to far more."""
    shown = shown_name(card, path)
    with readable(path, shown, NO_PARQUET), pq.ParquetFile(path) as file:
        _check_names(file.schema_arrow.names, shown)
        if file.metadata.num_rows > MAX_ROWS or _n_bytes(file) > MAX_VALUES:
            raise BadInput(shown, "larger", f"must have at most {MAX_ROWS:,} rows and {MAX_VALUES:,} bytes when unpacked")
        yield file


def _n_bytes(file: pq.ParquetFile) -> int:
    """The bytes of a file's columns when unpacked."""
    return sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))


def header(path: Path, card: DatasetCard) -> list[str]:
    """The names of a file's columns in its order, as readers use them. Raises BadInput for an unusable header."""
    shown = shown_name(card, path)
    if ending(path) == ".parquet":
        with parquet_file(path, card) as file:
            names = list(file.schema_arrow.names)
    elif ending(path) == ".npz":
        names = npz_names(path, shown)
    elif ending(path) in DELIMITED and card.has_names:  # the first line alone: cards are made of headers, and often
        names = [name for name in _header(_first_lines(path, shown), path, card, is_public=False)[1].names if name]
    elif card.columns:
        names = list(card.columns)
    else:
        what = lines.NO_OBJECT if ending(path) == ".jsonl" else "must be a row of values"
        raise BadInput(shown, "no usable public line", f"each line {what}")
    return _renamed(names, card, shown)


def is_unclear(path: Path) -> bool:
    """Whether the first line of a CSV or TSV file may be a row of data, whatever it holds: no usual name is in it.

    Raises BadInput for an empty file, and one that is not in UTF-8.
    """
    first = _first_lines(path, path.name)
    lines.refuse_utf16(first, path.name)
    if not (rows := lines.of_rows(first)):
        raise BadInput(path.name, "empty file", "must have rows")
    return not set(_USUAL) & set(lines.header_place(rows, ending(path), _USUAL)[1].names)


def by_public_lines(card: DatasetCard, found: DataFiles) -> DatasetCard:
    """The card with the columns and the separator of a file that has no first line of names, from its public lines."""
    path = found.train[0]
    if ending(path) not in LINES or (ending(path) in DELIMITED and card.has_names):
        return card
    public = (found.test or found.train)[0]
    person, share = dict(card.roles).get("person"), card.held_out or HELD_OUT
    with readable(public, shown_name(card, public)) as stamp:
        form = lines.by_public_lines(public, stamp, bool(found.test), card.coins, share, person)
    return replace(card, columns=form.names, separator=form.separator)


def lines_of(path: Path, card: DatasetCard, *, is_private: bool = True) -> tuple[list[bytes], lines.Form]:
    """The rows of a CSV, TSV or JSON lines file, and their form.

    `is_private`: each line is a row, usable or not. Else a value between quotes may have several lines. Raises BadInput for
    an unusable header, and for a line of a public file that is no row.
    """
    shown = shown_name(card, path)
    content = content_of(path, shown)
    rows = lines.of_rows(content)
    start, form = 0, lines.Form(card.columns, card.separator)
    if ending(path) in DELIMITED and card.has_names:
        start, form = _header(content, path, card, is_public=not is_private)
    if not is_private and ending(path) in DELIMITED:
        return lines.quoted_rows(content, form, shown, start), form
    if not is_private:
        for number, line in enumerate(rows, start=1):
            if lines.parsed(line) is None:
                raise BadInput(f"{shown} line {number}", "no JSON object", lines.NO_OBJECT)
    return rows[start:], form


def rows_of_lines(path: Path, card: DatasetCard, *, is_private: bool) -> tuple[Table, dict[int, bytes]]:
    """The table of a CSV, TSV or JSON lines file, and its lines that are no row by place, kept until it changes.

    Raises as `lines_of` does.
    """
    return _rows_of_lines(path, _stamp(path, shown_name(card, path)), card, is_private)


@lru_cache(maxsize=2)
def _rows_of_lines(
    path: Path, stamp: tuple[int, int], card: DatasetCard, is_private: bool
) -> tuple[Table, dict[int, bytes]]:
    rows, form = lines_of(path, card, is_private=is_private)
    return lines.table(rows, ending(path), form, version=card.coins)


def columns_of(path: Path, card: DatasetCard, needed: Names, wanted: Names | None, *, is_private: bool) -> Table:
    """Those of the wanted columns that a file has (None: all), under the readers' names.

    `is_private`: nothing is reported of its rows; malformed lines are skipped. Raises BadInput if the file cannot be read or
    lacks a needed column.
    """
    table = joined([*pieces_of(path, card, needed, wanted, is_private=is_private)])
    if not len(table) and not is_private:
        raise BadInput(shown_name(card, path), "no rows", "must have at least one row")
    return table


def pieces_of(path: Path, card: DatasetCard, needed: Names, wanted: Names | None, *, is_private: bool) -> Iterator[Table]:
    """The table of `columns_of` in pieces of consecutive rows, at least one, that take about 8 MB each as they are stored.

    A CSV, TSV or JSON lines file, and what was taken in under the first rule of coins, is one piece. Raises as `columns_of`.
    """
    shown = shown_name(card, path)

    def chosen(own: Names) -> dict[str, str]:
        names = _renamed(own, card, shown)
        for name in needed:
            if name not in names:
                raise BadInput(shown, "no such column", f"must have a column {name}: {first_names(names)}")
        return {name: column for name, column in zip(names, own, strict=True) if wanted is None or name in wanted}

    if ending(path) == ".parquet":
        yield from _of_parquet(path, card, shown, chosen)
    elif ending(path) == ".npz":
        yield from _of_npz(path, card, shown, chosen)
    else:
        whole, _ = rows_of_lines(path, card, is_private=is_private)
        yield Table({name: whole[column] for name, column in chosen(list(whole.columns)).items()}, len(whole))


def _of_parquet(path: Path, card: DatasetCard, shown: str, chosen: Callable[[Names], dict[str, str]]) -> Iterator[Table]:
    """The pieces of a parquet file; `chosen`: its wanted columns by their readers' names."""
    with parquet_file(path, card) as file:
        schema, meta = file.schema_arrow, file.metadata
        names = chosen(schema.names)
        # Text stays a list of distinct values: a few bytes can stand for terabytes.
        texts = [column for column in names.values() if is_text(schema.field(column).type)]
        sizes = Counter[str]()
        n_rows = meta.num_rows if card.coins == 1 else _PIECE * meta.num_rows // max(1, _n_bytes(file))
        # Page by page: pandas writes a million rows as one group.
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=2**16, pre_buffer=False) as packed:
            batches = packed.iter_batches(max(1, min(n_rows, _MOST_ROWS)), columns=list(names.values()))
            tables = map(pa.Table.from_batches, ([batch] for batch in batches))
            for table in tables if meta.num_rows and card.coins > 1 else [packed.read(columns=list(names.values()))]:
                columns = {}
                for name, own_name in names.items():
                    values = table[own_name]
                    sizes[own_name] += _unpacked_size(values)
                    if sizes[own_name] > MAX_VALUES:
                        allowed = f"must have at most {MAX_VALUES:,} bytes when unpacked"
                        raise BadInput(f"{shown} column {own_name}", f"{sizes[own_name]:,} bytes", allowed)
                    columns[name] = of_arrow(values, card.coins, is_vector=name == EMBEDDING_COLUMN)
                    is_target = name == CANONICAL["target"] and card.is_own and card.coins > 1
                    if is_target and pa.types.is_integer(values.type) and (labels := declared_names(schema, own_name)):
                        numbers = values.to_pylist()
                        words = [None if label is None else coins.word(labels.get(label, str(label))) for label in numbers]
                        columns[name] = Column("text", words)
                yield Table(columns, table.num_rows)


def rows_of(path: Path, shown: str, *, has_names: bool = True) -> Table:
    """All columns of a file that is not private, under its own names. Raises BadInput if it cannot be read."""
    card = DatasetCard(shown, shown, "", "", "", 0, 0, 0, has_names=has_names)
    return columns_of(path, by_public_lines(card, DataFiles((path,), (path,))), (), None, is_private=False)


def _header(content: bytes, path: Path, card: DatasetCard, *, is_public: bool) -> tuple[int, lines.Form]:
    """Where the rows of a CSV or TSV file begin, and what the line that names their columns says.

    Raises BadInput where it names no columns, in the same words for every line that nobody has said to name them: it may be
    a row of data.
    """
    shown, rows = shown_name(card, path), lines.of_rows(content)
    wanted = {column for _, column in card.roles} or set(_USUAL)
    place, form = lines.header_place(rows, ending(path), wanted, is_declared=card.is_named)
    names = [name for name in form.names if name]
    # Public as declared, or as one was named or is a usual one: else they may be a person's values in a file without names.
    is_declared = card.is_named or not card.has_names or not wanted.union(_USUAL).isdisjoint(names)
    if not is_public and rows and not is_declared:
        role, column = next(iter(card.roles), ("--target", "nothing"))
        allowed = f"must be a column of {shown}" if card.roles else "must name the column of labels"
        raise BadInput(role, column, f"{allowed}; {DOUBT}")
    lines.refuse_utf16(content, shown)
    if not rows:
        raise BadInput(shown, "empty file", "must have a first line that names the columns")
    _check_names(names, shown)
    return place + 1, form


def _first_lines(path: Path, shown: str) -> bytes:
    """The first lines of a regular file, one of which may name the columns."""
    with readable(path, shown), path.open("rb") as file:
        return b"".join(islice(file, 64))


def _renamed(names: Names, card: DatasetCard, shown: str) -> list[str]:
    """The readers' names: a column with a role has the role's, and one that bears a role's name without it loses it."""
    _check_names(names, shown)
    roles = dict(card.roles)
    for role, column in roles.items():
        if column not in names:
            raise BadInput(role, column, f"must be a column of {shown}: {first_names(names)}")
    by_column = {column: CANONICAL[role] for role, column in roles.items()}
    taken = set(by_column.values())
    if EMBEDDING_COLUMN in names:  # those of an NPZ file, but for those names that a column has by its role
        usual = {next(filter(names.__contains__, own), None): name for name, own in _OTHERS.items() if name not in taken}
        names = [usual.get(column, column) for column in names]
    return [by_column.get(name) or (f"{name} (unused)" if name in taken else name) for name in names]


def first_names(names: Names) -> str:
    """The names of columns, the first twelve."""
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")


def _check_names(names: Names, shown: str) -> None:
    """Raises BadInput for too many columns, for two of one name, and for a name that is not printed as it is."""
    if len(names) > lines.MAX_COLUMNS:
        raise BadInput(shown, f"{len(names):,} columns", f"must have at most {lines.MAX_COLUMNS:,} columns")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise BadInput(shown, f"two columns {repeated[0]}", "must name each column once")
    if place := next((place for place, name in enumerate(names, start=1) if CONTROL.search(name)), None):
        raise BadInput(f"{shown} column {place}", "a control character", "must have a name in one line, without such")


def _unpacked_size(column: pa.ChunkedArray) -> int:
    """The bytes of a dictionary of texts when unpacked; 0 for other columns."""
    if not pa.types.is_dictionary(column.type) or not is_text(column.type):
        return 0
    chunks = [(chunk.dictionary.cast(pa.large_binary()), chunk.indices) for chunk in column.chunks]
    return sum(pc.sum(pc.binary_length(words).take(places)).as_py() or 0 for words, places in chunks)


def declared_names(schema: pa.Schema, column: str) -> dict[int, str]:
    """Class names from the header of a Hugging Face file; empty where the header has none."""
    with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
        declared = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        declared = declared[0] if isinstance(declared, list) else declared.get("feature", declared)  # of lists of labels
        return {label: str(name) for label, name in enumerate(declared["names"])}
    return {}


EMBEDDING_COLUMN = "embedding"
MAX_WIDTH = 65_536
_ROWS = ("embeddings", "embedding", "features", "x", "X", "arr_0")
# By column: the names that its array may have.
_OTHERS = {
    "label": ("labels", "label", "y", "arr_1"), "domain": ("domain", "source"), "person": ("person",), "time": ("time",),
}  # fmt: skip
_Announced = tuple[tuple[int, ...], np.dtype[np.generic]]  # shape and dtype of an array
_KNOWN = {name for names in _OTHERS.values() for name in names}
_NPZ = (
    f"must hold a float array [rows, width] called {_ROWS[0]} (or {', '.join(_ROWS[1:])}) and an array [rows] called labels "
    "(or y), saved by numpy.savez without objects"
)


def _of_npz(path: Path, card: DatasetCard, shown: str, chosen: Callable[[Names], dict[str, str]]) -> Iterator[Table]:
    """The pieces of an NPZ file, each array a column: vectors float32, and text or numbers.

    One missing value makes floating point of an array of whole numbers or of truth values. So all of them are so here, but
    by the first rule of coins, which made words of them.

    Raises BadInput naming the array and what is allowed; sizes are checked in the headers before anything is unpacked.
    """
    with _archive(path, shown) as archive:
        members = _members(archive)
        forms = {name: _checked_form(archive, member, f"{shown} {name}") for name, member in members.items()}
        rows = _array_of_rows(members, shown)
        shape, dtype = forms[rows]
        if len(shape) != 2 or dtype.kind not in "fiu" or not 1 <= shape[1] <= MAX_WIDTH:
            width = "x".join(map(str, shape[1:]))
            raise BadInput(f"{shown} {rows}", f"{dtype} [rows, {width}]", f"{_NPZ}; the width is at most {MAX_WIDTH:,}")
        others = [name for name, (other, _) in forms.items() if name != rows and (other == shape[:1] or name in _KNOWN)]
        for name in others:
            if forms[name][0] != shape[:1] or forms[name][1].kind not in "biufUS":
                what = f"{forms[name][1]}, {len(forms[name][0])} axes"
                raise BadInput(f"{shown} {name}", what, "must have one number or word for each row")
        names = chosen([EMBEDDING_COLUMN, *others])
        columns = {
            name: _npz_column(npy.read_array(archive.open(members[other]), allow_pickle=False), card.coins)
            for name, other in names.items() if other != EMBEDDING_COLUMN
        }  # fmt: skip
        if EMBEDDING_COLUMN not in names:
            yield Table(columns, shape[0])
            return
        start = 0
        for block in _blocks(archive, members[rows]):
            part = slice(start, start + len(block))
            start += len(block)
            cells = {name: replace(column, values=column.values[part]) for name, column in columns.items()}
            cells[EMBEDDING_COLUMN] = Column("vectors", block, "list<float>")
            yield Table({name: cells[name] for name in names}, len(block))


def _blocks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[NDArray[np.float32]]:
    """The rows of an array [n, K] as float32 [b, K], at least one block; `zipfile` checks the bytes at the end."""
    with archive.open(member) as file, np.errstate(over="ignore"):
        shape, is_by_column, dtype = _npy_header(file)
        step = max(1, _PIECE // (shape[1] * dtype.itemsize))
        if is_by_column:
            whole = npy.read_array(archive.open(member), allow_pickle=False)
            yield from (whole[start : start + step].astype(np.float32, "C") for start in range(0, max(1, shape[0]), step))
            return
        for start in range(0, max(1, shape[0]), step):
            n_rows = min(step, shape[0] - start)
            content = file.read(n_rows * shape[1] * dtype.itemsize)
            yield np.frombuffer(content, dtype).reshape(n_rows, shape[1]).astype(np.float32)
        file.read()


def _npz_column(values: NDArray[np.generic], version: int) -> Column:
    if version > 1 and values.dtype.kind in "biuf":
        return Column("numbers", values.astype(np.float64))
    words = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in values.tolist()]
    return Column("text", [None if not one.isprintable() else one if version == 1 else coins.word(one) for one in words])


def npz_names(path: Path, shown: str) -> list[str]:
    """The columns of the table, from the headers of the arrays alone. Raises BadInput for what is no NPZ file."""
    with _archive(path, shown) as archive:
        shapes = {name: _announced(archive, member)[0] for name, member in _members(archive).items()}
    n_rows = shapes[_array_of_rows(shapes, shown)][:1]
    return [EMBEDDING_COLUMN, *(name for name, shape in shapes.items() if shape == n_rows or name in _KNOWN)]


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an NPZ file by name."""
    return {one.filename.removesuffix(".npy"): one for one in archive.infolist() if one.filename.endswith(".npy")}


def _array_of_rows(names: Collection[str], shown: str) -> str:
    """Which array holds the embeddings. Raises BadInput where none does."""
    if (found := next((name for name in _ROWS if name in names), None)) is None:
        raise BadInput(shown, ", ".join(names) or "no arrays", _NPZ)
    return found


@contextmanager
def _archive(path: Path, shown: str) -> Iterator[zipfile.ZipFile]:
    _stamp(path, shown)  # refuses a pipe
    # zipfile, zlib and numpy raise many kinds of error, all with the same meaning for the user.
    with instead_of(Exception, say=BadInput(shown, "other bytes", _NPZ)), zipfile.ZipFile(path) as archive:
        yield archive


def _checked_form(archive: zipfile.ZipFile, member: zipfile.ZipInfo, field: str) -> _Announced:
    """The shape and dtype of an array. Raises BadInput for objects, another size than announced, and a huge one."""
    shape, dtype = _announced(archive, member)
    if dtype.hasobject:
        raise BadInput(field, "objects", f"{_NPZ}: pickled objects could run any program")
    size = math.prod(map(int, shape)) * dtype.itemsize
    if size > MAX_BYTES or member.file_size > MAX_BYTES or size > member.file_size:
        raise BadInput(field, f"{size:,} bytes", f"must have at most {MAX_BYTES:,} bytes, and as many as its header says")
    return shape, dtype


def _announced(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Announced:
    """The shape and dtype that an array announces."""
    with archive.open(member) as file:
        shape, _, dtype = _npy_header(file)
    return shape, dtype


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    return npy.read_array_header_1_0(file) if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0(file)
