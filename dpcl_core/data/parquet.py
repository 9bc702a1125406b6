"""Reads one split from parquet files: images or sensor windows, labels, class names and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import arrow, coins
from dpcl_core.data.arrow import is_binary, is_list, is_text, pa, pc, without_struct
from dpcl_core.data.card import AXES, SAMPLES, DatasetCard
from dpcl_core.data.dataset import RATES, source_name
from dpcl_core.data.images import MAX_SIDE, Images
from dpcl_core.data.rows import SOURCE_COLUMN, PublicFacts, Rows, by_piece, refuse_unknown
from dpcl_core.data.sheets import declared_names, parquet_file, shown_name
from dpcl_core.errors import BadInput

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
_MOST = coins.EXACT  # labels beyond are none, as in a column of floating point


def source_column(card: DatasetCard) -> str:
    """The column with each row's source."""
    return RATE_COLUMN if card.kind == "sensor" else SOURCE_COLUMN


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """One file: its name in messages, its checked columns, the name of the label column, and class names of its header."""

    shown: str
    table: pa.Table
    label: str
    declared: Mapping[int, str]


class Sheet:
    """The parquet files of a split. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, parts: Sequence[Path], card: DatasetCard, *, is_private: bool) -> None:
        self._card, self._parts = card, parts
        self._pieces = [_opened(path, card, is_private) for path in parts]
        with_sources = [source_column(card) in piece.table.column_names for piece in self._pieces]
        if len(set(with_sources)) > 1:
            raise BadInput(self._pieces[0].shown, SOURCE_COLUMN, "must be a column of every piece of a split, or of none")
        self.has_sources = with_sources[0]

    def __len__(self) -> int:
        return sum(piece.table.num_rows for piece in self._pieces)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        # Without a card, n rows cannot have more than n classes: a larger label is an error, not a class.
        top = known.n_classes if known else self._card.n_classes or len(self)
        top = _MOST if known and known.is_open else top
        parts = zip(self._pieces, by_piece((piece.table.num_rows for piece in self._pieces), rows), strict=True)
        checked_pieces = [_checked_rows(piece, part, self._card, top, known) for piece, part in parts if len(part)]
        if not checked_pieces:
            no_sources = np.empty(0, dtype=np.str_) if self.has_sources else None
            return Rows(np.empty(0, dtype=np.int64), {}, no_sources)
        names: dict[int, str] = {}
        for piece_result in checked_pieces:
            for label, name in piece_result.names.items():
                if names.setdefault(label, name) != name:
                    allowed = f"label {label} must have one name"
                    raise BadInput(shown_name(self._card, self._parts[-1]), f"{names[label]} and {name}", allowed)
        sources = [piece.sources for piece in checked_pieces if piece.sources is not None]
        labels = np.concatenate([piece.labels for piece in checked_pieces])
        all_sources = np.concatenate(sources) if sources else None
        return Rows(labels, names, all_sources, numbers=checked_pieces[0].numbers, shape=checked_pieces[0].shape)


def read_images(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64], *, is_private: bool) -> Images:
    """The images of these rows (ascending) of a split; encoded images are read one row group at a time.

    Raises BadInput naming file, row and what is allowed; never for the content of a private image file.
    """
    pieces = [_images(path, card, part, is_private) for path, part in _by_file(parts, card, rows)]
    return pieces[0] if len(pieces) == 1 else concatenated(pieces, card.shape)


def read_windows(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The unscaled sensor windows of these rows (ascending) of a split: float32 [n, 100, 3] in m/s^2.

    Raises BadInput naming file, row and what is allowed.
    """
    return np.concatenate([_windows(path, card, part) for path, part in _by_file(parts, card, rows)])


def concatenated(pieces: Sequence[Images], shape: tuple[int, int, int] | None) -> Images:
    """The images of all pieces, concatenated; raw pixels stay raw where all pieces have them in one shape."""
    origins = [origin for piece in pieces for origin in (piece.origins or [""] * len(piece))]
    raw = [piece.content for piece in pieces if isinstance(piece.content, np.ndarray)]
    if len(raw) == len(pieces) and len({content.shape[1:] for content in raw}) == 1:
        return Images(np.concatenate(raw), shape, origins)
    is_private = any(piece.is_private for piece in pieces)
    return Images([image for piece in pieces for image in piece.encoded()], shape, origins, is_private)


def _by_file(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> Iterator[tuple[Path, NDArray[np.int64]]]:
    """Each file of a split with its part of these rows."""
    sizes = []
    for path in parts:
        with parquet_file(path, shown_name(card, path)) as file:
            sizes.append(int(file.metadata.num_rows))
    return zip(parts, by_piece(sizes, rows), strict=True)


def _opened(path: Path, card: DatasetCard, is_private: bool) -> _Piece:
    """A file with the columns to check. Raises BadInput for an unreadable file or an unusable header."""
    shown = shown_name(card, path)
    with parquet_file(path, shown) as file:
        schema: pa.Schema = file.schema_arrow
        column = _label_column(schema, card, shown)
        source = source_column(card)
        if card.kind == "sensor" and source not in schema.names:
            raise BadInput(shown, ", ".join(schema.names), f"must have a column {source} of samples a second")
        lists = [name for name in IMAGE_COLUMNS if name in schema.names and is_list(schema.field(name).type)][:1]
        wanted = [name for name in (column, card.name_column, source, WINDOW_COLUMN, *lists) if name in schema.names]
        table: pa.Table = file.read(columns=wanted)
    if pa.types.is_floating(schema.field(column).type):
        table = table.set_column(table.column_names.index(column), column, arrow.whole_numbers(table[column]))
    if not table.num_rows and not is_private:
        raise BadInput(shown, "no rows", "must have at least one row")
    return _Piece(shown, table, column, declared_names(schema, column))


def _checked_rows(piece: _Piece, rows: NDArray[np.int64], card: DatasetCard, top: int, known: PublicFacts | None) -> Rows:
    """The given rows of one file, checked."""
    table, shown = piece.table.take(pa.array(rows)), piece.shown
    numbers: Mapping[str, int] = {}
    if pa.types.is_integer(table.schema.field(piece.label).type):
        is_bounded = card.n_classes or known
        allowed = f"must be a whole number from 0 to {top - 1}" if is_bounded else "must number the classes 0, 1, 2, ..."
        labels = _whole_numbers(table[piece.label], piece.label, top, shown, allowed, rows)
    else:
        labels, numbers = _ranks(table[piece.label], piece.label, card, shown, rows, known)
    names: Mapping[int, str] = {}
    if known is None:
        is_named = card.name_column in table.column_names
        names = _names(table, labels, card, shown, rows) if is_named else piece.declared
    sources = None
    source = source_column(card)
    if card.kind == "sensor":
        sources = sources_of(table[source], shown, rows)
        if WINDOW_COLUMN in table.column_names:
            windows_of(table[WINDOW_COLUMN].combine_chunks(), shown, rows)
    elif source in table.column_names:
        texts, of_row = _texts(table[SOURCE_COLUMN], SOURCE_COLUMN, shown, rows)
        sources = np.asarray(texts, dtype=np.str_)[of_row]
    if sources is not None:
        refuse_unknown(sources, known, f"{shown} row", source, rows)
    shape = None
    for name in IMAGE_COLUMNS:
        if card.kind == "image" and name in table.column_names:
            form = known.shape if known else card.shape
            pixels = pixels_of(table[name].combine_chunks(), form, shown, rows, by_row=_by_row(card))
            shape = (pixels.shape[1], pixels.shape[2], pixels.shape[3])
    return Rows(labels, names, sources, numbers=numbers, shape=shape)


def _images(path: Path, card: DatasetCard, rows: NDArray[np.int64], is_private: bool) -> Images:
    shown = shown_name(card, path)
    origins = [f"{shown} row {row}" for row in rows]
    with parquet_file(path, shown) as file:
        schema: pa.Schema = file.schema_arrow
        name = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
        if name is None:
            raise BadInput(shown, ", ".join(schema.names), "must have a column image (or img)")
        if is_list(schema.field(name).type):
            column = file.read(columns=[name])[name].take(pa.array(rows)).combine_chunks()
            pixels = pixels_of(column, card.shape, shown, rows, by_row=_by_row(card))
            return Images(pixels, (pixels.shape[1], pixels.shape[2], pixels.shape[3]), origins)
        encoded: list[bytes] = []
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            wanted = rows[(rows >= start) & (rows < end)]
            if len(wanted):
                column = file.read_row_group(group, columns=[name])[name]
                encoded += _encoded(column, wanted - start, name, shown, None if is_private else start)
    return Images(encoded, card.shape, origins, is_private)


def _by_row(card: DatasetCard) -> bool:
    """Whether each row says alone how its pixels are written."""
    return card.is_own and card.coins > 1


def _windows(path: Path, card: DatasetCard, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    shown = shown_name(card, path)
    with parquet_file(path, shown) as file:
        if WINDOW_COLUMN not in file.schema_arrow.names:
            raise BadInput(shown, ", ".join(file.schema_arrow.names), f"must have a column {WINDOW_COLUMN}")
        column = file.read(columns=[WINDOW_COLUMN])[WINDOW_COLUMN].take(pa.array(rows)).combine_chunks()
        return windows_of(column, shown, rows)


def _encoded(column: pa.ChunkedArray, wanted: NDArray[np.int64], name: str, shown: str, start: int | None) -> list[bytes]:
    """The image files in the wanted rows of a row group that starts at row `start` (None: null becomes an empty file)."""
    column = without_struct(column)
    if not is_binary(column.type):
        raise BadInput(f"{shown} column {name}", str(column.type), "must hold the bytes of image files, or lists of pixels")
    chosen = column if len(wanted) == len(column) else column.take(pa.array(wanted))
    if start is not None:
        _refuse_nulls(chosen, name, shown, "must hold the bytes of an image file", start + wanted)
    return [file or b"" for file in chosen.to_pylist()]


def _label_column(schema: pa.Schema, card: DatasetCard, shown: str) -> str:
    for name in LABEL_COLUMNS:
        if name in schema.names:
            kind = schema.field(name).type
            if not pa.types.is_integer(kind) and not (card.is_own and pa.types.is_floating(kind)):
                raise BadInput(f"{shown} column {name}", str(schema.field(name).type), "must hold whole numbers")
            return name
    if card.label_column in schema.names:
        return card.label_column
    raise BadInput(shown, ", ".join(schema.names), "must have a column label (or fine_label) of whole numbers")


def _whole_numbers(
    column: pa.ChunkedArray, name: str, top: int, shown: str, allowed: str, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The labels, checked to be from 0 to `top` - 1."""
    _refuse_nulls(column, name, shown, allowed, rows)
    labels: NDArray[np.integer] = column.to_numpy()
    for place in np.flatnonzero((labels < 0) | (labels >= top))[:1]:
        raise BadInput(f"{shown} row {rows[place]}, {name}", int(labels[place]), allowed)
    return labels.astype(np.int64)


def _ranks(
    column: pa.ChunkedArray, name: str, card: DatasetCard, shown: str, rows: NDArray[np.int64], known: PublicFacts | None
) -> tuple[NDArray[np.int64], Mapping[str, int]]:
    """Labels of a column of class codes, by alphabetical rank of the code, and the rank of each code."""
    codes, of_row = _texts(column, name, shown, rows)
    if known is None and len(codes) != card.n_classes:
        raise BadInput(f"{shown} column {name}", f"{len(codes)} classes", f"must have all {card.n_classes} classes")
    numbers = known.numbers if known else {code: place for place, code in enumerate(sorted(codes))}
    for code in codes:
        if code not in numbers:
            raise BadInput(f"{shown} column {name}", code, f"must be one of the {len(numbers)} classes of the test part")
    return np.array([numbers[code] for code in codes], dtype=np.int64)[of_row], numbers


def _names(
    table: pa.Table, labels: NDArray[np.int64], card: DatasetCard, shown: str, rows: NDArray[np.int64]
) -> dict[int, str]:
    """The name of each label. Raises BadInput for a row whose name for a label differs from an earlier row's."""
    texts, of_row = _texts(table[card.name_column], card.name_column, shown, rows)
    first = np.full(int(labels.max()) + 1, -1)
    first[labels[::-1]] = of_row[::-1]  # for repeated indices the last assignment counts: each label's first row
    for place in np.flatnonzero(first[labels] != of_row)[:1]:
        allowed = f"label {labels[place]} is called {texts[first[labels[place]]]} elsewhere"
        raise BadInput(f"{shown} row {rows[place]}, {card.name_column}", texts[of_row[place]], allowed)
    return {int(label): texts[first[label]] for label in np.flatnonzero(first >= 0)}


def _texts(column: pa.ChunkedArray, name: str, shown: str, rows: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct texts of a column, and each row's index into them."""
    refuse_other_than_text(column, name, shown, "must hold text", rows)
    coded: pa.DictionaryArray = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def refuse_other_than_text(column: pa.ChunkedArray, name: str, shown: str, allowed: str, rows: NDArray[np.int64]) -> None:
    """Raises BadInput for a column of another type, and naming the first row without a value: that it is not `allowed`."""
    if not is_text(column.type):
        raise BadInput(f"{shown} column {name}", str(column.type), "must hold text")
    _refuse_nulls(column, name, shown, allowed, rows)


def _refuse_nulls(column: pa.ChunkedArray, name: str, shown: str, allowed: str, rows: NDArray[np.int64]) -> None:
    """Raises BadInput naming the first row without a value; `rows` [n]: the rows' numbers in messages."""
    if column.null_count:
        row = rows[int(np.flatnonzero(column.is_null().to_numpy())[0])]
        raise BadInput(f"{shown} row {row}, {name}", "nothing", allowed)


# Reads and checks sensor windows in a parquet file: a column of lists of numbers and one of rates.


WINDOW_COLUMN = "window"
RATE_COLUMN = "rate_hz"
_SIZE = SAMPLES * AXES
_WINDOW = f"must be a list of {_SIZE} numbers, {SAMPLES} samples of {AXES} axes in m/s^2"


def windows_of(column: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Accelerations float32 [n, 100, 3] of a column of lists, sample after sample; `rows` [n]: row numbers in messages.

    Raises BadInput naming the first row with another number of values, null, or a non-finite value.
    """
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise BadInput(f"{shown} column {WINDOW_COLUMN}", str(kind), _WINDOW)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    for row in np.flatnonzero(lengths != _SIZE)[:1]:
        raise BadInput(f"{shown} row {rows[row]}, {WINDOW_COLUMN}", f"a list of {lengths[row]}", _WINDOW)
    # A missing number becomes NaN, one too large for 32 bits infinity.
    with np.errstate(over="ignore"):
        values: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(values))[:1]:
        raise BadInput(
            f"{shown} row {rows[place // _SIZE]}, {WINDOW_COLUMN}", float(values[place]), f"{_WINDOW}, all of them finite"
        )
    return values.reshape(-1, SAMPLES, AXES)


def sources_of(column: pa.ChunkedArray, shown: str, rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """The source name of each row's rate; `rows` [n]: the rows' numbers in messages.

    Raises BadInput for a column that is not numeric, and naming the first row of another rate.
    """
    allowed = f"must be {', '.join(map(str, RATES[:-1]))} or {RATES[-1]} samples a second"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise BadInput(f"{shown} column {RATE_COLUMN}", str(column.type), allowed)
    rates: NDArray[np.float64] = column.to_numpy().astype(np.float64)  # null becomes NaN, which is no valid rate either
    for row in np.flatnonzero(~np.isin(rates, RATES))[:1]:
        value = "nothing" if np.isnan(rates[row]) else f"{rates[row]:g}"
        raise BadInput(f"{shown} row {rows[row]}, {RATE_COLUMN}", value, allowed)
    names = np.asarray([source_name(rate) for rate in RATES], dtype=np.str_)
    return names[np.searchsorted(RATES, rates)]


# Reads and checks pixels stored as lists of numbers in a parquet column.


def pixels_of(
    column: pa.Array, shape: tuple[int, int, int] | None, shown: str, rows: NDArray[np.int64], *, by_row: bool
) -> NDArray[np.uint8]:
    """Pixels [n, H, W, C] of a column of lists: one flat list per row for a known `shape`, else nested H x W (x C).

    `rows` [n]: the rows' numbers in the file, for messages.
    Fractions must be in [0, 1] and become round(255 v); whole numbers must be in 0 ... 255. Which of them a row has, its
    column's type says; `by_row`: its own values, as one row of fractions would change the type of all.
    Raises BadInput naming the first row with another size, NaN, null, or a value out of range.
    """
    sizes: list[int] = []
    values: pa.Array = column
    n_rows = len(column)
    if not n_rows:
        return np.zeros((0, *(shape or (1, 1, 1))), np.uint8)
    while is_list(values.type):
        values, size = _flattened(values, sizes, shown, rows)
        sizes.append(size)
    height, width, channels = _shape(tuple(sizes), shape, shown)
    numbers = _by_own_values(values, shown, rows) if by_row else _by_type(values, shown, rows)
    return numbers.reshape(n_rows, height, width, channels)


def _flattened(values: pa.Array, sizes: list[int], shown: str, rows: NDArray[np.int64]) -> tuple[pa.Array, int]:
    """The concatenated content of the lists, and their common length."""
    lengths = np.asarray(pc.list_value_length(values).fill_null(0))
    size = int(lengths.max())
    for place in np.flatnonzero(lengths != size)[:1]:
        row = rows[int(place) // int(np.prod(sizes, dtype=np.int64))]
        allowed = f"must have {size} values there, as other rows have"
        raise BadInput(f"{shown} row {row}, image", f"a list of {lengths[place]}", allowed)
    if size == 0:
        raise BadInput(f"{shown} row {rows[0]}, image", "an empty list", "must hold pixels")
    return values.flatten(), size


def _shape(sizes: tuple[int, ...], shape: tuple[int, int, int] | None, shown: str) -> tuple[int, int, int]:
    if shape is not None and sizes in ((int(np.prod(shape)),), shape, shape[:2] if shape[2] == 1 else shape):
        return shape
    shown_sizes = "x".join(map(str, sizes))
    if shape is not None:
        raise BadInput(f"{shown} column image", f"lists of {shown_sizes}", f"must have {'x'.join(map(str, shape))} pixels")
    if len(sizes) == 2:
        sizes = (*sizes, 1)
    if len(sizes) != 3 or sizes[2] not in (1, 3) or max(sizes[:2]) > MAX_SIDE:
        allowed = f"must be lists of height x width, or height x width x 1 or 3, of at most {MAX_SIDE}x{MAX_SIDE} pixels"
        raise BadInput(f"{shown} column image", f"lists of {shown_sizes}", allowed)
    return sizes


def _by_own_values(values: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pixels [n, size]: fractions in a row without a value above 1."""
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise BadInput(f"{shown} column image", str(values.type), "must hold the bytes of image files, or lists of pixels")
    numbers = arrow.doubles(values).reshape(len(rows), -1)
    is_fraction = (numbers <= 1).all(axis=1, keepdims=True)
    fits = (numbers >= 0) & (is_fraction | ((numbers <= 255) & (numbers == np.rint(numbers))))  # written so that NaN fails
    for place in np.flatnonzero(~fits.all(axis=1))[:1]:
        allowed = "must be whole numbers from 0 to 255, or numbers from 0 to 1"
        found = numbers[place][~fits[place]][0]
        raise BadInput(f"{shown} row {rows[place]}, image", f"pixel {found:g}", allowed)
    return np.rint(np.where(is_fraction, numbers * 255, numbers)).astype(np.uint8)


def _by_type(values: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise BadInput(f"{shown} column image", str(values.type), "must hold the bytes of image files, or lists of pixels")
    numbers: NDArray[np.number] = values.to_numpy(zero_copy_only=False)  # a missing number becomes NaN
    per_row = len(numbers) // len(rows)
    is_fraction = pa.types.is_floating(values.type)
    top = 1 if is_fraction else 255
    allowed = "must be a number from 0 to 1" if is_fraction else "must be a whole number from 0 to 255"
    for place in np.flatnonzero(~((numbers >= 0) & (numbers <= top)))[:1]:  # written so that NaN fails
        raise BadInput(f"{shown} row {rows[place // per_row]}, image", f"pixel {numbers[place]}", allowed)
    return np.rint(numbers * 255).astype(np.uint8) if is_fraction else numbers.astype(np.uint8)
