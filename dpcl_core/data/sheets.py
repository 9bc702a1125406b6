"""Tables in files as columns: CSV, TSV, JSON lines, parquet and NPZ, under the names that the readers of the kinds use.

The names of the columns are public, like all that a schema declares: the first line of a CSV or TSV file, the keys in the
first line of a JSON lines file, the header of a parquet file, the arrays of an NPZ file. All below is judged row by row.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dpcl_core.data import arrays
from dpcl_core.data.arrays import EMBEDDING_COLUMN
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.schema import CONTROL, NO_HEADER
from dpcl_core.errors import BadInput

# The names under which readers find a column, whatever the file calls it.
CANONICAL = {"target": "label", "text": "text", "source": "domain", "person": "person key", "time": "time key"}
PERSON, TIME = CANONICAL["person"], CANONICAL["time"]
DELIMITED = (".csv", ".tsv")
LINES = (*DELIMITED, ".jsonl")
TYPED = (".parquet", ".npz")
MAX_COLUMNS = 4096
MAX_BYTES = 4 * 2**30
MAX_ROWS = 50_000_000
MAX_VALUES = 2**32  # bytes of a parquet file's columns when unpacked
_MAX_DEPTH = 50  # of brackets in a line of JSON
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_DECIMAL_COMMA = r"^\s*([-+]?\d+),(\d+)\s*$"
_ROW = re.compile(r"Row #\d+: Expected \d+ columns, got \d+")
_NO_PARQUET = "must be a parquet file; this one is damaged or of another kind"


def shown_name(card: DatasetCard, path: Path) -> str:
    """A file's name in messages."""
    return f"{card.name}/{path.name}"


@contextmanager
def readable(path: Path, shown: str, allowed: str = _NO_PARQUET) -> Iterator[None]:
    """Turns errors of Arrow and the file system while reading a file into a BadInput with one sentence."""
    try:
        yield
    except BadInput:
        raise
    except PermissionError as error:
        raise BadInput(shown, "no permission", "must be a file that you can read") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise BadInput(shown, _size(path), allowed) from error


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size} bytes"
    except OSError:
        return "a file that is gone"


def content_of(path: Path, shown: str) -> bytes:
    """The bytes of a regular file. Raises BadInput for a pipe or device, which would never end, and for a huge file."""
    with readable(path, shown, "must be a file that you can read"):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(shown, "no regular file", "must be a file or a folder, not a pipe or a device")
        if status.st_size > MAX_BYTES:
            raise BadInput(shown, f"{status.st_size} bytes", f"must have at most {MAX_BYTES} bytes")
        return path.read_bytes()


@contextmanager
def parquet_file(path: Path, shown: str) -> Iterator[pq.ParquetFile]:
    """An opened parquet file with a usable header. Raises BadInput for a damaged one, or one that unpacks to far more."""
    with readable(path, shown):
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise OSError("no regular file")
        with pq.ParquetFile(path) as file:
            _check_names(file.schema_arrow.names, shown)
            meta = file.metadata
            unpacked = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
            if meta.num_rows > MAX_ROWS or unpacked > MAX_VALUES:
                allowed = f"must have at most {MAX_ROWS:,} rows and {MAX_VALUES:,} bytes when unpacked"
                raise BadInput(shown, f"{meta.num_rows:,} rows", allowed)
            yield file


def header(path: Path, card: DatasetCard) -> list[str]:
    """The names of a file's columns in its order, as readers use them. Raises BadInput for an unusable header."""
    shown = shown_name(card, path)
    return _renamed(_names(path, shown, card.has_names), card, shown)


def is_unclear(path: Path) -> bool:
    """Whether the first line of a CSV or TSV file holds values, so that it may be a row and name nothing.

    Raises BadInput for a line that is neither: none at all, or one that is not in UTF-8.
    """
    first = _delimited(_first_line(path, path.name), path, path.name, is_private=False, has_names=False)
    return _looks_like_values([cell or "" for column in first.columns for cell in column.to_pylist()])


def columns_of(
    path: Path, card: DatasetCard, needed: Sequence[str], wanted: Sequence[str] | None, *, is_private: bool
) -> pa.Table:
    """Those of the wanted columns that a file has (None: all), under the readers' names.

    `is_private`: nothing is reported of its rows; malformed lines are skipped. Raises BadInput if the file cannot be read or
    lacks a needed column.
    """
    shown = shown_name(card, path)
    if path.suffix == ".parquet":
        with parquet_file(path, shown) as file:
            own = file.schema_arrow.names
            names = _renamed(own, card, shown)
            chosen = [place for place, name in enumerate(names) if wanted is None or name in wanted]
            # Text stays a list of distinct values until its length is known: a few bytes can stand for terabytes.
            table = _unpacked(_columns_read(path, file, [own[place] for place in chosen]), shown)
            table = _decodable(table).rename_columns([names[place] for place in chosen])
    else:
        table = _read_from(content_of(path, shown), path, shown, is_private, card.has_names)
        names = _renamed(table.column_names, card, shown)
        chosen = [place for place, name in enumerate(names) if wanted is None or name in wanted]
        table = table.select(chosen).rename_columns([names[place] for place in chosen])
    for name in needed:
        if name not in names:
            commas = ", separated from others by commas" if path.suffix == ".csv" else ""
            raise BadInput(shown, ", ".join(names), f"must have a column {name}{commas}")
    if not table.num_rows and not is_private:
        raise BadInput(shown, "no rows", "must have at least one row")
    return table


def rows_of(path: Path, shown: str, *, has_names: bool = True) -> pa.Table:
    """All columns of a file that is not private, under its own names. Raises BadInput if it cannot be read."""
    if path.suffix != ".parquet":
        return _read_from(content_of(path, shown), path, shown, False, has_names)
    with parquet_file(path, shown) as file:
        return _decodable(_unpacked(_columns_read(path, file, file.schema_arrow.names), shown))


def has_decimal_commas(path: Path, shown: str) -> bool:
    """Whether 1,5 in a file stands for 1.5: where its first line is separated by semicolons."""
    return path.suffix in DELIMITED and _delimiter(_first_line(path, shown), path) == ";"


def n_skipped(path: Path, has_names: bool) -> int:
    """Number of malformed lines of a file, for their owner only. Raises BadInput as reading it does."""
    if path.suffix in TYPED:
        return 0
    content = _replaced(content_of(path, path.name))
    if path.suffix == ".jsonl":
        return sum(one is None for one in _objects(content))
    delimiter = _delimiter(content, path)
    content, n_open = _closed(content, delimiter, path.name if has_names else None)
    skipped: list[object] = []

    def skip(row: object) -> Literal["skip"]:
        skipped.append(row)
        return "skip"

    with readable(path, path.name):
        as_they_are = pyarrow.csv.ConvertOptions(check_utf8=False)
        parsing = _parsing(delimiter, skip)
        pyarrow.csv.read_csv(pa.py_buffer(content), _reading(content, has_names), parsing, as_they_are)
    return len(skipped) + n_open


def _names(path: Path, shown: str, has_names: bool) -> list[str]:
    if path.suffix == ".parquet":
        with parquet_file(path, shown) as file:
            return list(file.schema_arrow.names)
    if path.suffix == ".npz":
        found = arrays.names(path, shown)
        _check_names(found, shown)
        return found
    # The first line alone: cards are made of headers, and often.
    return list(_read_from(_first_line(path, shown), path, shown, True, has_names).column_names)


def _first_line(path: Path, shown: str) -> bytes:
    """The first line of a regular file that is not blank."""
    with readable(path, shown, "must be a file that you can read"):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("no regular file")
        with path.open("rb") as file:
            return next((line for line in file if line.strip()), b"")


def _read_from(content: bytes, path: Path, shown: str, is_private: bool, has_names: bool) -> pa.Table:
    if path.suffix == ".jsonl":
        return _json_lines(content, shown, is_private)
    if path.suffix == ".npz":
        table = arrays.table(content, shown)
        _check_names(table.column_names, shown)
        return table
    return _delimited(content, path, shown, is_private, has_names)


def _renamed(names: Sequence[str], card: DatasetCard, shown: str) -> list[str]:
    """The readers' names: a column with a role has the role's, and one that bears a role's name without it loses it."""
    roles = dict(card.roles)
    for role, column in roles.items():
        if column not in names:
            listed = "" if _looks_like_values(names) else f": {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}"
            allowed = f"must be a column of {shown}{listed}"
            if not listed:
                allowed += f", whose first line must name the columns; this one holds values {NO_HEADER}"
            raise BadInput(role, column, allowed)
    by_column = {column: CANONICAL[role] for role, column in roles.items()}
    taken = set(by_column.values())
    if EMBEDDING_COLUMN in names:
        names = arrays.canonical(names, taken)
    return [by_column.get(name) or (f"{name} (unused)" if name in taken else name) for name in names]


def _looks_like_values(names: Sequence[str]) -> bool:
    """Whether a first line holds a number or a date, so that it may be a private row instead of names."""
    return any(re.fullmatch(r"[-+]?[\d.,:/ -]*\d([eE][-+]?\d+)?", name.strip()) for name in names)


def _check_names(names: Sequence[str], shown: str) -> None:
    """Raises BadInput for too many columns, for two of one name, and for a name that is not printed as it is."""
    if len(names) > MAX_COLUMNS:
        raise BadInput(shown, f"{len(names):,} columns", f"must have at most {MAX_COLUMNS:,} columns")
    if repeated := [name for name in names if names.count(name) > 1]:
        is_unclear = _looks_like_values(names)
        named = "two columns of one name" if is_unclear else f"two columns {repeated[0]}"
        raise BadInput(shown, named, f"must name each column once {NO_HEADER if is_unclear else ''}".strip())
    if place := next((place for place, name in enumerate(names, start=1) if CONTROL.search(name)), None):
        raise BadInput(f"{shown} column {place}", "a control character", "must have a name in one line, without such")


def _columns_read(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    texts = [name for name in columns if is_text(file.schema_arrow.field(name).type)]
    with pq.ParquetFile(path, read_dictionary=texts) as packed:
        return packed.read(columns=list(columns))


def _unpacked(table: pa.Table, shown: str) -> pa.Table:
    """The table with plain text columns. Raises BadInput where these would be larger than allowed."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if not pa.types.is_dictionary(column.type) or not is_text(column.type):
            continue
        size = 0
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary.cast(pa.large_binary()))
            size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
        if size > MAX_VALUES:
            allowed = f"must have at most {MAX_VALUES:,} bytes when unpacked"
            raise BadInput(f"{shown} column {name}", f"{size:,} bytes", allowed)
        plain = pa.chunked_array(
            [chunk.dictionary.cast(pa.large_binary()).take(chunk.indices) for chunk in column.chunks], pa.large_binary()
        )
        table = table.set_column(place, name, _text(plain))
    return table


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text; a value that is not UTF-8 becomes null."""
    as_text = column.cast(pa.large_string(), safe=False)
    try:
        as_text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array(map(_decoded, column.to_pylist()), pa.large_string())])
    return as_text


def _decodable(table: pa.Table) -> pa.Table:
    """The table with text columns in which every value is UTF-8 or null."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if is_text(column.type) and not pa.types.is_dictionary(column.type):
            kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
            if pa.types.is_string_view(column.type):
                column = column.cast(pa.large_string(), safe=False)
                kind = pa.large_binary()
            table = table.set_column(place, name, _text(column.cast(kind, safe=False)))
    return table


def _delimited(content: bytes, path: Path, shown: str, is_private: bool, has_names: bool) -> pa.Table:
    """A CSV or TSV file, every column as text. Raises BadInput naming the error and its line.

    `has_names`: the first line names the columns; else they are called by their places. `is_private`: nothing about its rows
    is reported. Rows with another number of values are skipped, and a value that is not UTF-8 becomes null.
    """
    checked = content.partition(b"\n")[0] if is_private and has_names else b"" if is_private else content
    try:
        checked.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{shown} line {line}", f"byte {content[error.start]:#04x}", "must be saved as UTF-8") from None
    content = _replaced(content)
    delimiter = _delimiter(content, path)
    if is_private:
        content, _ = _closed(content, delimiter, shown if has_names else None)
    n_columns = content.partition(b"\n")[0].count(delimiter.encode()) + 1
    if n_columns > MAX_COLUMNS:
        raise BadInput(shown, f"{n_columns:,} columns", f"must have at most {MAX_COLUMNS:,} columns")
    parsing = _parsing(delimiter, (lambda _: "skip") if is_private else None)
    try:
        reading = _reading(content, has_names)
        opened = pyarrow.csv.open_csv(pa.py_buffer(content), read_options=reading, parse_options=parsing)
        names = opened.schema.names
        _check_names([name.strip() for name in names if name.strip()], shown)
        kinds = dict.fromkeys(names, pa.large_binary())
        as_bytes = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
        table = pyarrow.csv.read_csv(pa.py_buffer(content), reading, parsing, as_bytes)
        called = names if has_names else [f"column{place}" for place in range(1, len(names) + 1)]
        # A column without a name, such as the row numbers that pandas writes, has nothing to be called by: it is left out.
        columns = {name.strip(): table.column(place) for place, name in enumerate(called) if name.strip()}
        texts = {name: _legible(column.cast(pa.large_string())) for name, column in columns.items()}
        if delimiter == ";":  # as where numbers have a decimal comma, which is why the values are not separated by one
            texts = {name: pc.replace_substring_regex(one, _DECIMAL_COMMA, r"\1.\2") for name, one in texts.items()}
        return pa.table(texts)
    except (pa.ArrowException, UnicodeDecodeError, MemoryError) as error:
        # The message has only the row's number: its text may be private, and messages are stored.
        row = _ROW.search(str(error))
        problem = "empty file" if not content.strip() else row.group() if row else "no table"
        allowed = 'must be a CSV file with a first line text,label, and texts with commas between quotes (")'
        raise BadInput(shown, problem, allowed) from None


def _replaced(content: bytes) -> bytes:
    """The content with U+FFFD in the place of bytes that are no UTF-8, which Arrow cannot hand to a Python function."""
    return content.decode("utf-8", "replace").encode("utf-8")


def _legible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with null in the place of every value in which a letter was not UTF-8 (or was lost before)."""
    is_spoiled = pc.match_substring(column, "\ufffd")
    return pc.if_else(is_spoiled, pa.scalar(None, pa.large_string()), column) if pc.any(is_spoiled).as_py() else column


def _delimiter(content: bytes, path: Path) -> str:
    """What separates the values: a tab in a TSV file; in a CSV file what its first line has most of, commas, semicolons or
    tabs, outside quotes."""
    if path.suffix == ".tsv":
        return "\t"
    first = re.sub(rb'"[^"]*"', b"", content.partition(b"\n")[0])
    return max(",;\t", key=lambda one: (first.count(one.encode()), one == ","))


def _closed(content: bytes, delimiter: str, named: str | None) -> tuple[bytes, int]:
    """A private file without the lines that leave a quote open or close one that is not, and their number.

    Every line is judged alone: an open quote would make all lines up to the next quote one value, and so move the rows of
    other people. A value with a line break between its quotes is therefore no value here. `named`: the file in messages,
    where its first line has the names. Raises BadInput if that line leaves a quote open.
    """
    if b'"' not in content:
        return content, 0
    by = re.escape(delimiter).encode()
    value = rb'(?:"(?:[^"]++|"")*+"[^BY]*+|(?!")(?:[^BY]*[^BY"])?(?=BY|$))'.replace(b"BY", by)
    is_closed = re.compile(value + rb"(?:" + by + value + rb")*+").fullmatch
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    kept = [line for line in lines if b'"' not in line or is_closed(line)]
    first = next((line for line in lines if line.strip()), b"")
    if named is not None and b'"' in first and not is_closed(first):
        raise BadInput(f"{named} line 1", "an open quote", 'must name the columns, and close every quote (") that it opens')
    return b"\n".join([*kept, b""]), len(lines) - len(kept)


def _parsing(delimiter: str, on_malformed_row: Callable[[object], Literal["skip"]] | None) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_malformed_row
    )


def _reading(content: bytes, has_names: bool) -> pyarrow.csv.ReadOptions:
    """Reads the whole file as one block, so that rows of any length fit and errors have row numbers."""
    block = min(len(content) + 1, 2**31 - 1)
    return pyarrow.csv.ReadOptions(use_threads=False, block_size=block, autogenerate_column_names=not has_names)


def _json_lines(content: bytes, shown: str, is_private: bool) -> pa.Table:
    """A file with a JSON object a line; the keys of the first line name the columns, values become text.

    A key that a line lacks is null, further keys are ignored, and a line that is no object is skipped (an error where the
    file is public).
    """
    objects = list(_objects(content))
    if not objects or objects[0] is None:
        problem = "no JSON object in its first line" if objects else "empty file"
        raise BadInput(shown, problem, 'must have a JSON object on each line, such as {"text": "...", "label": "..."}')
    for line, one in enumerate(objects, start=1):
        if one is None and not is_private:
            allowed = f"must be one JSON object, in UTF-8, nested at most {_MAX_DEPTH} deep"
            raise BadInput(f"{shown} line {line}", "no JSON object", allowed)
    names = list(objects[0])
    _check_names(names, shown)
    rows = [one for one in objects if one is not None]
    return pa.table({name: pa.array([_cell(one.get(name)) for one in rows], pa.large_string()) for name in names})


def _objects(content: bytes) -> Iterator[dict[str, object] | None]:
    """The object on each line that is not blank; None where it holds something else."""
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip():
            continue
        try:
            # Numbers stay as they are written: one of thousands of digits is no integer of Python.
            text = "null" if _is_deep(line) else line.decode("utf-8")
            one = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
        except ValueError:
            one = None
        yield one if isinstance(one, dict) else None


def _is_deep(line: bytes) -> bool:
    """Whether brackets are nested deeper than `_MAX_DEPTH`, those within strings apart.

    Python reads and writes JSON recursively: how deep it gets depends on who calls, but which rows count must not.
    """
    if line.count(b"[") + line.count(b"{") <= _MAX_DEPTH:
        return False
    steps = [1 if one in b"[{" else -1 for one in re.findall(rb"[\[\]{}]", _JSON_STRING.sub(b"", line))]
    return max(accumulate(steps), default=0) > _MAX_DEPTH


def _cell(value: object) -> str | None:
    """A value of JSON as text; null stays null."""
    if value is None or isinstance(value, str):
        usable = value is None or value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
        return value if usable else None
    return json.dumps(value, ensure_ascii=True)


def _decoded(value: bytes | None) -> str | None:
    """A value as text; None where it is not UTF-8."""
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has text, plain or dictionary-encoded."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))
