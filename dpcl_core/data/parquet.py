"""Reads one split from parquet files: images or sensor windows, labels, class names and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import coins
from dpcl_core.data.card import AXES, SAMPLES, DatasetCard, Shape
from dpcl_core.data.columns import doubles, is_binary, is_list, is_number, is_text, pa, pc, without_struct
from dpcl_core.data.dataset import MAX_SIDE, RATES, Images
from dpcl_core.data.files import Contents
from dpcl_core.data.rows import SOURCE_COLUMN, PublicFacts, Rows, by_piece, refuse_unknown, source_column
from dpcl_core.data.sheets import declared_names, parquet_file, shown_name
from dpcl_core.errors import BadInput

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
WINDOW_COLUMN = "window"
_MOST = coins.EXACT  # labels beyond are none, as in a column of floating point
_SIZE = SAMPLES * AXES
_WINDOW = f"must be a list of {_SIZE} numbers, {SAMPLES} samples of {AXES} axes in m/s^2"
_PIXELS = "must hold the bytes of image files, or lists of pixels"


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """A column of some rows, its name and its file's in messages, and the rows' numbers [n] there."""

    values: pa.ChunkedArray
    name: str
    shown: str
    rows: NDArray[np.int64]

    def of_type(self, allowed: str) -> BadInput:
        """The refusal of the whole column for its type."""
        return BadInput(f"{self.shown} column {self.name}", str(self.values.type), allowed)

    def of_row(self, place: int, value: object, allowed: str) -> BadInput:
        """The refusal of one row."""
        return BadInput(f"{self.shown} row {self.rows[place]}, {self.name}", value, allowed)

    def refuse_nulls(self, allowed: str) -> None:
        """Raises BadInput naming the first row without a value."""
        if self.values.null_count:
            raise self.of_row(int(np.flatnonzero(self.values.is_null().to_numpy())[0]), "nothing", allowed)

    def texts(self) -> list[str]:
        """The text of each row. Raises BadInput for other values, and for a missing one."""
        if not is_text(self.values.type):
            raise self.of_type("must hold text")
        self.refuse_nulls("must hold text")
        return cast("list[str]", self.values.to_pylist())


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """One file: its name in messages, its checked columns, the name of the label column, and class names of its header."""

    shown: str
    table: pa.Table
    label: str
    declared: Mapping[int, str]


class Sheet:
    """The parquet files of a split. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, of: Contents) -> None:
        self._card = of.card
        self._pieces = [_opened(path, of) for path in of.paths]
        with_sources = [source_column(of.card) in piece.table.column_names for piece in self._pieces]
        if len(set(with_sources)) > 1:
            raise BadInput(self._pieces[0].shown, SOURCE_COLUMN, "must be a column of every piece of a split, or of none")
        self.has_sources = with_sources[0]

    def __len__(self) -> int:
        return sum(piece.table.num_rows for piece in self._pieces)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        # Without a card, n rows cannot have more than n classes: a larger label is an error, not a class.
        of_known = (_MOST if known.is_open else len(known.numbers)) if known else 0
        top = of_known or self._card.n_classes or len(self)
        parts = zip(self._pieces, by_piece((piece.table.num_rows for piece in self._pieces), rows), strict=True)
        found = [_checked_rows(piece, part, self._card, top, known) for piece, part in parts if len(part)]
        if not found:
            return Rows(np.empty(0, dtype=np.int64), {}, np.empty(0, dtype=np.str_) if self.has_sources else None)
        names: dict[int, str] = {}
        for label, name in (pair for piece in found for pair in piece.names.items()):
            if names.setdefault(label, name) != name:
                raise BadInput(self._pieces[-1].shown, f"{names[label]} and {name}", f"label {label} must have one name")
        sources = [piece.sources for piece in found if piece.sources is not None]
        labels, all_sources = np.concatenate([piece.labels for piece in found]), np.concatenate(sources) if sources else None
        return Rows(labels, names, all_sources, numbers=found[0].numbers, shape=found[0].shape)


def read_images(of: Contents, rows: NDArray[np.int64]) -> Images:
    """The images of these rows (ascending) of a split; encoded images are read one row group at a time.

    Raises BadInput naming file, row and what is allowed; never for the content of a private image file.
    """
    pieces = [_images(path, of, part) for path, part in _by_file(of, rows)]
    return pieces[0] if len(pieces) == 1 else concatenated(pieces, of.card.shape)


def read_windows(of: Contents, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The unscaled sensor windows of these rows (ascending) of a split: float32 [n, 100, 3] in m/s^2.

    Raises BadInput naming file, row and what is allowed.
    """
    found = []
    for path, part in _by_file(of, rows):
        with parquet_file(path, of.card) as file:
            column = file.read(columns=[WINDOW_COLUMN])[WINDOW_COLUMN].take(pa.array(part))
        found.append(_windows_of(_Cells(column, WINDOW_COLUMN, shown_name(of.card, path), part)))
    return np.concatenate(found)


def concatenated(pieces: Sequence[Images], shape: Shape | None) -> Images:
    """The images of all pieces, concatenated; raw pixels stay raw where all pieces have them in one shape."""
    origins = [origin for piece in pieces for origin in (piece.origins or [""] * len(piece))]
    raw = [piece.content for piece in pieces if isinstance(piece.content, np.ndarray)]
    if len(raw) == len(pieces) and len({content.shape[1:] for content in raw}) == 1:
        return Images(np.concatenate(raw), shape, origins)
    is_private = any(piece.is_private for piece in pieces)
    return Images([image for piece in pieces for image in piece.encoded()], shape, origins, is_private)


def _by_file(of: Contents, rows: NDArray[np.int64]) -> Iterator[tuple[Path, NDArray[np.int64]]]:
    """Each file of a split with its part of these rows."""
    sizes = []
    for path in of.paths:
        with parquet_file(path, of.card) as file:
            sizes.append(int(file.metadata.num_rows))
    return zip(of.paths, by_piece(sizes, rows), strict=True)


def _opened(path: Path, of: Contents) -> _Piece:
    """A file with the columns to check. Raises BadInput for an unreadable file or an unusable header."""
    card, shown = of.card, shown_name(of.card, path)
    with parquet_file(path, card) as file:
        schema: pa.Schema = file.schema_arrow
        column = next((name for name in (*LABEL_COLUMNS, card.label_column) if name in schema.names), "")
        if not column:
            raise BadInput(shown, ", ".join(schema.names), "must have a column label (or fine_label) of whole numbers")
        kind = schema.field(column).type
        is_number = pa.types.is_integer(kind) or (card.is_own and pa.types.is_floating(kind))
        if column in LABEL_COLUMNS and not is_number:
            raise BadInput(f"{shown} column {column}", str(kind), "must hold whole numbers")
        source = source_column(card)
        needed = {source: f"{source} of samples a second", WINDOW_COLUMN: WINDOW_COLUMN} if card.kind == "sensor" else {}
        for name, what in needed.items():
            if name not in schema.names:
                raise BadInput(shown, ", ".join(schema.names), f"must have a column {what}")
        lists = [name for name in IMAGE_COLUMNS if name in schema.names and is_list(schema.field(name).type)][:1]
        wanted = [name for name in (column, card.name_column, source, WINDOW_COLUMN, *lists) if name in schema.names]
        table: pa.Table = file.read(columns=wanted)
    if pa.types.is_floating(kind):  # whole numbers as such; anything else is missing
        values = table[column]
        is_whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), float(_MOST)))
        whole = pc.if_else(is_whole, values, pa.scalar(None, values.type)).cast(pa.int64())
        table = table.set_column(table.column_names.index(column), column, whole)
    if not table.num_rows and not of.is_private:
        raise BadInput(shown, "no rows", "must have at least one row")
    return _Piece(shown, table, column, declared_names(schema, column))


def _checked_rows(piece: _Piece, rows: NDArray[np.int64], card: DatasetCard, top: int, known: PublicFacts | None) -> Rows:
    """The given rows of one file, checked."""
    table = piece.table.take(pa.array(rows))
    cells = {name: _Cells(table[name], name, piece.shown, rows) for name in table.column_names}
    names, numbers, sources, shape = piece.declared, dict[str, int](), None, None
    if pa.types.is_integer(cells[piece.label].values.type):
        is_bounded = card.n_classes or known
        allowed = f"must be a whole number from 0 to {top - 1}" if is_bounded else "must number the classes 0, 1, 2, ..."
        cells[piece.label].refuse_nulls(allowed)
        labels = cells[piece.label].values.to_numpy()
        for place in np.flatnonzero((labels < 0) | (labels >= top))[:1]:
            raise cells[piece.label].of_row(place, int(labels[place]), allowed)
        labels = labels.astype(np.int64)
    else:
        labels, numbers = _ranks(cells[piece.label], card, known)
    if known is None and card.name_column in cells:
        names = _names(cells[card.name_column], labels)
    source = source_column(card)
    if card.kind == "sensor":
        sources = _rates_of(cells[source])
        _windows_of(cells[WINDOW_COLUMN])
    elif source in cells:
        sources = np.asarray(cells[source].texts(), dtype=np.str_)
    if sources is not None:
        refuse_unknown(sources, known, f"{piece.shown} row", source, rows)
    for name in IMAGE_COLUMNS:
        if card.kind == "image" and name in cells:
            pixels = _pixels_of(table[name], known.shape if known else card.shape, piece.shown, rows, card)
            shape = (pixels.shape[1], pixels.shape[2], pixels.shape[3])
    return Rows(labels, names if known is None else {}, sources, numbers=numbers, shape=shape)


def _ranks(cells: _Cells, card: DatasetCard, known: PublicFacts | None) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Labels of a column of class codes, by alphabetical rank of the code, and the rank of each code."""
    codes, field = cells.texts(), f"{cells.shown} column {cells.name}"
    if known is None and len({*codes}) != card.n_classes:
        raise BadInput(field, f"{len({*codes})} classes", f"must have all {card.n_classes} classes")
    numbers = dict(known.numbers) if known else {code: place for place, code in enumerate(sorted({*codes}))}
    if others := [code for code in codes if code not in numbers]:
        raise BadInput(field, others[0], f"must be one of the {len(numbers)} classes of the test part")
    return np.array([numbers[code] for code in codes], dtype=np.int64), numbers


def _names(cells: _Cells, labels: NDArray[np.int64]) -> dict[int, str]:
    """The name of each label. Raises BadInput for a row whose name for a label differs from an earlier row's."""
    names: dict[int, str] = {}
    for place, (label, name) in enumerate(zip(labels.tolist(), cells.texts(), strict=True)):
        if names.setdefault(label, name) != name:
            raise cells.of_row(place, name, f"label {label} is called {names[label]} elsewhere")
    return names


def _rates_of(cells: _Cells) -> NDArray[np.str_]:
    """The source name of each row's rate. Raises BadInput for other values, and naming the first row of another rate."""
    allowed = f"must be {', '.join(map(str, RATES[:-1]))} or {RATES[-1]} samples a second"
    if not is_number(cells.values.type):
        raise cells.of_type(allowed)
    rates: NDArray[np.float64] = cells.values.to_numpy().astype(np.float64)  # null becomes NaN, which is no rate either
    for place in np.flatnonzero(~np.isin(rates, RATES))[:1]:
        raise cells.of_row(place, "nothing" if np.isnan(rates[place]) else f"{rates[place]:g}", allowed)
    return np.asarray([f"{rate} Hz" for rate in RATES], dtype=np.str_)[np.searchsorted(RATES, rates)]


def _windows_of(cells: _Cells) -> NDArray[np.float32]:
    """Accelerations float32 [n, 100, 3] of a column of lists, sample after sample.

    Raises BadInput naming the first row with another number of values, null, or a non-finite value.
    """
    column = cells.values.combine_chunks()
    if not is_list(column.type) or not is_number(column.type.value_type):
        raise cells.of_type(_WINDOW)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    for row in np.flatnonzero(lengths != _SIZE)[:1]:
        raise cells.of_row(row, f"a list of {lengths[row]}", _WINDOW)
    # A missing number becomes NaN, one too large for 32 bits infinity.
    with np.errstate(over="ignore"):
        values: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(values))[:1]:
        raise cells.of_row(place // _SIZE, float(values[place]), f"{_WINDOW}, all of them finite")
    return values.reshape(-1, SAMPLES, AXES)


def _images(path: Path, of: Contents, rows: NDArray[np.int64]) -> Images:
    card, shown = of.card, shown_name(of.card, path)
    with parquet_file(path, card) as file:
        origins = [f"{shown} row {row}" for row in rows]
        schema: pa.Schema = file.schema_arrow
        name = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
        if name is None:
            raise BadInput(shown, ", ".join(schema.names), "must have a column image (or img)")
        if is_list(schema.field(name).type):
            column = file.read(columns=[name])[name].take(pa.array(rows))
            pixels = _pixels_of(column, card.shape, shown, rows, card)
            return Images(pixels, (pixels.shape[1], pixels.shape[2], pixels.shape[3]), origins)
        encoded: list[bytes] = []
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            wanted = rows[(rows >= start) & (rows < end)]
            if not len(wanted):
                continue
            column = without_struct(file.read_row_group(group, columns=[name])[name])
            chosen = column if len(wanted) == len(column) else column.take(pa.array(wanted - start))
            cells = _Cells(chosen, name, shown, wanted)
            if not is_binary(column.type):
                raise cells.of_type(_PIXELS)
            if not of.is_private:
                cells.refuse_nulls("must hold the bytes of an image file")
            encoded += [one or b"" for one in chosen.to_pylist()]
    return Images(encoded, card.shape, origins, of.is_private)


def _pixels_of(
    column: pa.ChunkedArray, shape: Shape | None, shown: str, rows: NDArray[np.int64], card: DatasetCard
) -> NDArray[np.uint8]:
    """Pixels [n, H, W, C] of a column of lists: one flat list per row for a known `shape`, else nested H x W (x C).

    Fractions must be in [0, 1] and become round(255 v); whole numbers must be in 0 ... 255. Which of them a row has, its
    column's type says; in own data its own values, as one row of fractions would change the type of all.
    Raises BadInput naming the first row with another size, NaN, null, or a value out of range.
    """
    sizes: list[int] = []
    values = column.combine_chunks()
    if not len(rows):
        return np.zeros((0, *(shape or (1, 1, 1))), np.uint8)
    while is_list(values.type):
        lengths = np.asarray(pc.list_value_length(values).fill_null(0))
        size = int(lengths.max())
        cells = _Cells(values, "image", shown, rows)
        for place in np.flatnonzero(lengths != size)[:1]:
            allowed = f"must have {size} values there, as other rows have"
            raise cells.of_row(int(place) // int(np.prod(sizes, dtype=np.int64)), f"a list of {lengths[place]}", allowed)
        if size == 0:
            raise cells.of_row(0, "an empty list", "must hold pixels")
        values = values.flatten()
        sizes.append(size)
    height, width, channels = _shape(tuple(sizes), shape, shown)
    cells = _Cells(values, "image", shown, rows)
    if not is_number(values.type):
        raise cells.of_type(_PIXELS)
    numbers = _by_own_values(cells) if card.is_own and card.coins > 1 else _by_type(cells)
    return numbers.reshape(len(rows), height, width, channels)


def _shape(sizes: tuple[int, ...], shape: Shape | None, shown: str) -> Shape:
    if shape is not None and sizes in ((int(np.prod(shape)),), shape, shape[:2] if shape[2] == 1 else shape):
        return shape
    field, value = f"{shown} column image", f"lists of {'x'.join(map(str, sizes))}"
    if shape is not None:
        raise BadInput(field, value, f"must have {'x'.join(map(str, shape))} pixels")
    if len(sizes) == 2:
        sizes = (*sizes, 1)
    if len(sizes) != 3 or sizes[2] not in (1, 3) or max(sizes[:2]) > MAX_SIDE:
        allowed = f"must be lists of height x width, or height x width x 1 or 3, of at most {MAX_SIDE}x{MAX_SIDE} pixels"
        raise BadInput(field, value, allowed)
    return sizes


def _by_own_values(cells: _Cells) -> NDArray[np.uint8]:
    """Pixels [n, size]: fractions in a row without a value above 1."""
    numbers = doubles(cells.values).reshape(len(cells.rows), -1)
    is_fraction = (numbers <= 1).all(axis=1, keepdims=True)
    fits = (numbers >= 0) & (is_fraction | ((numbers <= 255) & (numbers == np.rint(numbers))))  # written so that NaN fails
    for place in np.flatnonzero(~fits.all(axis=1))[:1]:
        allowed = "must be whole numbers from 0 to 255, or numbers from 0 to 1"
        raise cells.of_row(place, f"pixel {numbers[place][~fits[place]][0]:g}", allowed)
    return np.rint(np.where(is_fraction, numbers * 255, numbers)).astype(np.uint8)


def _by_type(cells: _Cells) -> NDArray[np.uint8]:
    numbers: NDArray[np.number] = cells.values.to_numpy(zero_copy_only=False)  # a missing number becomes NaN
    is_fraction = pa.types.is_floating(cells.values.type)
    allowed = "must be a number from 0 to 1" if is_fraction else "must be a whole number from 0 to 255"
    for place in np.flatnonzero(~((numbers >= 0) & (numbers <= (1 if is_fraction else 255))))[:1]:  # so that NaN fails
        raise cells.of_row(place // (len(numbers) // len(cells.rows)), f"pixel {numbers[place]}", allowed)
    return np.rint(numbers * 255).astype(np.uint8) if is_fraction else numbers.astype(np.uint8)
