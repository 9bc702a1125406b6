"""One split read from parquet files: images or sensor windows, labels, class names, and where each row came from."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data.cards import DatasetCard
from dpcl_core.data.images import Images
from dpcl_core.data.pixels import is_list, pixels_of
from dpcl_core.data.sensors import RATE_COLUMN, WINDOW_COLUMN, sources_of, windows_of
from dpcl_core.errors import BadInput

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
SOURCE_COLUMN = "domain"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The cheap columns of a split: labels int64 [n], names of labels where the file tells, sources by name or None.

    `sentences` int64 [n], ascending: the row of the file that each example, a word of it, is in; None: a row an example.
    """

    labels: NDArray[np.int64]
    names: dict[int, str]
    sources: NDArray[np.str_] | None
    sentences: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)


def source_column(card: DatasetCard) -> str:
    """The column that says which part of the dataset a row belongs to."""
    return RATE_COLUMN if card.kind == "sensor" else SOURCE_COLUMN


def read_rows(parts: Sequence[Path], card: DatasetCard) -> Rows:
    """Labels, class names and sources of a split. Raises BadInput naming file, row and what is allowed."""
    # Without a card, n rows cannot have more than n classes: a larger label is a slip, not a class.
    top = card.n_classes or sum(_n_rows(path, card) for path in parts)
    pieces = [_rows(path, card, top) for path in parts]
    names: dict[int, str] = {}
    for path, piece in zip(parts, pieces, strict=True):
        for label, name in piece.names.items():
            if names.setdefault(label, name) != name:
                raise BadInput(called(card, path), f"{names[label]} and {name}", f"label {label} must have one name")
    sources = [piece.sources for piece in pieces if piece.sources is not None]
    if len(sources) not in (0, len(pieces)):
        raise BadInput(called(card, parts[0]), SOURCE_COLUMN, "must be a column of every piece of a split, or of none")
    return Rows(np.concatenate([piece.labels for piece in pieces]), names, np.concatenate(sources) if sources else None)


def read_images(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> Images:
    """The images of these rows (ascending) of a split; of image files, one row group at a time is in memory besides.

    Raises BadInput naming file, row and what is allowed.
    """
    pieces = [_images(path, card, chosen) for path, chosen in _by_part(parts, card, rows)]
    return pieces[0] if len(pieces) == 1 else concatenated(pieces, card.shape)


def read_windows(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The sensor windows of these rows (ascending) of a split as they were measured: float32 [n, 100, 3] in m/s^2.

    Raises BadInput naming file, row and what is allowed; every row of the files is checked.
    """
    return np.concatenate([_windows(path, card)[chosen] for path, chosen in _by_part(parts, card, rows)])


def _by_part(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> Iterator[tuple[Path, NDArray[np.int64]]]:
    """Each file of a split with those of these rows that it holds, counted from its own start."""
    start = 0
    for path in parts:
        end = start + _n_rows(path, card)
        yield path, rows[(rows >= start) & (rows < end)] - start
        start = end


def concatenated(pieces: Sequence[Images], shape: tuple[int, int, int] | None) -> Images:
    """The images of all pieces, one after another; raw pixels stay raw where all pieces have them in one shape."""
    origins = [origin for piece in pieces for origin in (piece.origins or [""] * len(piece))]
    raw = [piece.content for piece in pieces if isinstance(piece.content, np.ndarray)]
    if len(raw) == len(pieces) and len({content.shape[1:] for content in raw}) == 1:
        return Images(np.concatenate(raw), shape, origins)
    return Images([image for piece in pieces for image in piece.encoded()], shape, origins)


def _n_rows(path: Path, card: DatasetCard) -> int:
    with readable(path, called(card, path)), pq.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def _rows(path: Path, card: DatasetCard, top: int) -> Rows:
    shown = called(card, path)
    with readable(path, shown), pq.ParquetFile(path) as file:
        schema: pa.Schema = file.schema_arrow
        column = _label_column(schema, card, shown)
        source = source_column(card)
        if card.kind == "sensor" and source not in schema.names:
            raise BadInput(shown, ", ".join(schema.names), f"must have a column {source} of samples a second")
        wanted = [name for name in (column, card.name_column, source) if name in schema.names]
        table: pa.Table = file.read(columns=wanted)
    if not table.num_rows:
        raise BadInput(shown, "no rows", "must have at least one row")
    if pa.types.is_integer(schema.field(column).type):
        allowed = f"must be a whole number from 0 to {top - 1}" if card.n_classes else "must number the classes 0, 1, 2, ..."
        labels = _whole_numbers(table[column], column, top, shown, allowed)
    else:
        labels = _ranks(table[column], column, card, shown)
    names = _names(table, labels, card, shown) if card.name_column in wanted else _declared_names(schema, column)
    sources = None
    if card.kind == "sensor":
        sources = sources_of(table[source], shown)
    elif source in wanted:
        texts, of_row = _texts(table[SOURCE_COLUMN], SOURCE_COLUMN, shown)
        sources = np.asarray(texts, dtype=np.str_)[of_row]
    return Rows(labels, names, sources)


def _images(path: Path, card: DatasetCard, rows: NDArray[np.int64]) -> Images:
    shown = called(card, path)
    origins = [f"{shown} row {row}" for row in rows]
    with readable(path, shown), pq.ParquetFile(path) as file:
        schema: pa.Schema = file.schema_arrow
        name = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
        if name is None:
            raise BadInput(shown, ", ".join(schema.names), "must have a column image (or img)")
        if is_list(schema.field(name).type):
            pixels = pixels_of(file.read(columns=[name])[name].combine_chunks(), card.shape, shown)
            return Images(pixels[rows], (pixels.shape[1], pixels.shape[2], pixels.shape[3]), origins)
        encoded: list[bytes] = []
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            wanted = rows[(rows >= start) & (rows < end)]
            if len(wanted):
                column = file.read_row_group(group, columns=[name])[name]
                encoded += _encoded(column, wanted - start, name, shown, start)
    return Images(encoded, card.shape, origins)


def _windows(path: Path, card: DatasetCard) -> NDArray[np.float32]:
    shown = called(card, path)
    with readable(path, shown), pq.ParquetFile(path) as file:
        if WINDOW_COLUMN not in file.schema_arrow.names:
            raise BadInput(shown, ", ".join(file.schema_arrow.names), f"must have a column {WINDOW_COLUMN}")
        return windows_of(file.read(columns=[WINDOW_COLUMN])[WINDOW_COLUMN].combine_chunks(), shown)


def _encoded(column: pa.ChunkedArray, wanted: NDArray[np.int64], name: str, shown: str, start: int) -> list[bytes]:
    """The image files in the wanted rows of a row group that starts at row `start`."""
    if pa.types.is_struct(column.type) and "bytes" in [field.name for field in column.type]:
        column = pc.struct_field(column, "bytes")
    kind = column.type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)):
        raise BadInput(f"{shown} column {name}", str(kind), "must hold the bytes of image files, or lists of pixels")
    _refuse_nulls(column, name, shown, "must hold the bytes of an image file", start)
    files: list[bytes] = (column if len(wanted) == len(column) else column.take(pa.array(wanted))).to_pylist()
    return files


def _label_column(schema: pa.Schema, card: DatasetCard, shown: str) -> str:
    for name in LABEL_COLUMNS:
        if name in schema.names:
            if not pa.types.is_integer(schema.field(name).type):
                raise BadInput(f"{shown} column {name}", str(schema.field(name).type), "must hold whole numbers")
            return name
    if card.label_column in schema.names:
        return card.label_column
    raise BadInput(shown, ", ".join(schema.names), "must have a column label (or fine_label) of whole numbers")


def _whole_numbers(column: pa.ChunkedArray, name: str, top: int, shown: str, allowed: str) -> NDArray[np.int64]:
    """Labels from 0 up and below `top`."""
    _refuse_nulls(column, name, shown, allowed)
    labels: NDArray[np.integer] = column.to_numpy()
    for row in np.flatnonzero((labels < 0) | (labels >= top))[:1]:
        raise BadInput(f"{shown} row {row}, {name}", int(labels[row]), allowed)
    return labels.astype(np.int64)


def _ranks(column: pa.ChunkedArray, name: str, card: DatasetCard, shown: str) -> NDArray[np.int64]:
    """Labels of a column of class codes: the place of each code among all codes in alphabetical order."""
    codes, of_row = _texts(column, name, shown)
    if len(codes) != card.n_classes:
        raise BadInput(f"{shown} column {name}", f"{len(codes)} classes", f"must have all {card.n_classes} classes")
    return np.argsort(np.argsort(codes))[of_row].astype(np.int64)


def _names(table: pa.Table, labels: NDArray[np.int64], card: DatasetCard, shown: str) -> dict[int, str]:
    """The one name of each label. Raises BadInput naming a row that calls its label otherwise than another row does."""
    texts, of_row = _texts(table[card.name_column], card.name_column, shown)
    first = np.full(int(labels.max()) + 1, -1)
    first[labels[::-1]] = of_row[::-1]  # of repeated places the last assignment stays: each label's first row
    for row in np.flatnonzero(first[labels] != of_row)[:1]:
        allowed = f"label {labels[row]} is called {texts[first[labels[row]]]} elsewhere"
        raise BadInput(f"{shown} row {row}, {card.name_column}", texts[of_row[row]], allowed)
    return {int(label): texts[first[label]] for label in np.flatnonzero(first >= 0)}


def _declared_names(schema: pa.Schema, column: str) -> dict[int, str]:
    """Class names as files from the Hugging Face hub declare them in their header; none where the header has none."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        declared = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]["names"]
        return {label: str(name) for label, name in enumerate(declared)}
    return {}


def _texts(column: pa.ChunkedArray, name: str, shown: str) -> tuple[list[str], NDArray[np.int64]]:
    """The different texts of a column, and which of them each row holds."""
    if not is_text(column.type):
        raise BadInput(f"{shown} column {name}", str(column.type), "must hold text")
    _refuse_nulls(column, name, shown, "must hold text")
    coded: pa.DictionaryArray = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, each value once or every time."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def _refuse_nulls(column: pa.ChunkedArray, name: str, shown: str, allowed: str, start: int = 0) -> None:
    """Raises BadInput naming the first row without a value, of a column that starts at row `start` of its file."""
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise BadInput(f"{shown} row {row}, {name}", "nothing", allowed)


def called(card: DatasetCard, path: Path) -> str:
    """What a file is called in a sentence about it."""
    return f"{card.name}/{path.name}"


@contextlib.contextmanager
def readable(path: Path, shown: str) -> Iterator[None]:
    """Turns what Arrow and the file system raise while a file is read into one sentence."""
    try:
        yield
    except PermissionError as error:
        raise BadInput(shown, "no permission", "must be a file that you can read") from error
    except (pa.ArrowException, OSError) as error:
        size = f"{path.stat().st_size} bytes"
        raise BadInput(shown, size, "must be a parquet file; this one is damaged or of another kind") from error
