"""Reads one split from a folder with one folder of image files per class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcl_core.data import named_rows, sheets, table_features
from dpcl_core.data.card import PICTURES, DatasetCard
from dpcl_core.data.files import TESTS, TRAIN
from dpcl_core.data.images import Images
from dpcl_core.data.named_rows import LABEL_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows, by_piece
from dpcl_core.data.schema import CONTROL
from dpcl_core.data.windows import Vectors
from dpcl_core.errors import BadInput

MAX_BYTES = 64 * 2**20  # more than 4096 x 4096 colour pixels take uncompressed


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a split: its name in messages, its class folder, and its error, if any."""

    path: Path
    shown: str
    label: str
    wrong: BadInput | None

    def content(self) -> bytes:
        """Its bytes; empty where it cannot be read, which then fails to decode as well."""
        try:
            return b"" if self.wrong else self.path.read_bytes()
        except OSError:
            return b""


def listing(split: Path, card: DatasetCard) -> list[Entry]:
    """The files of a split by class, in alphabetical order, without hidden ones.

    Raises BadInput for a split that is not a folder.
    """
    listed: list[Entry] = []
    for outer in _outer(split, card):
        shown = _shown(card, split, Path(outer.path))
        if not _is_folder(outer):
            if card.is_own:  # what is no picture in the folder of a class is left out, as every door says
                continue
            allowed = "only folders, one for each class, may lie here"
            listed.append(Entry(Path(outer.path), shown, "", BadInput(shown, outer.name, allowed)))
        elif wrong := _leads_out(outer, split, shown) or _misnamed(outer, shown):
            listed.append(Entry(Path(outer.path), shown, outer.name, wrong))
        else:
            for inner in _entries(Path(outer.path), split, card):
                if card.is_own and not inner.name.lower().endswith(PICTURES):
                    continue
                shown = _shown(card, split, Path(inner.path))
                wrong = _leads_out(inner, split, shown) or _unusable(inner, shown)
                listed.append(Entry(Path(inner.path), shown, outer.name, wrong))
    return listed


def _outer(split: Path, card: DatasetCard) -> list[os.DirEntry[str]]:
    """What lies in a split; of a whole set without a test part what lies in its folder train, too: CLASS and train/CLASS are
    alike, so that the place of one picture decides nothing about others."""
    found = _entries(split, split, card)
    if split.name in (TRAIN, *TESTS):
        return found
    outer = [Path(one.path) for one in found if one.name == TRAIN and _is_folder(one)]
    inside = [one for folder in outer for one in _entries(folder, split, card)]
    nested = [one for one in inside if _is_folder(one)]
    return [one for one in found if one.name != TRAIN or len(nested) < len(inside)] + nested


class FolderSheet:
    """A split as one folder of images per class. Raises BadInput on opening where it cannot be read at all."""

    has_sources = False

    def __init__(self, split: Path, card: DatasetCard, *, is_private: bool) -> None:
        self._card = card
        self._entries = listing(split, card)
        if not is_private:
            self._refuse_empty(split)

    def __len__(self) -> int:
        return len(self._entries)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        chosen = [self._entries[row] for row in rows.tolist()]
        for entry in chosen:
            if entry.wrong:
                raise entry.wrong
        base = known.numbers if known else {name: place for place, name in enumerate(self._card.classes)}
        folders = {entry.label for entry in chosen}
        numbers = base if known or base.keys() >= folders else {name: place for place, name in enumerate(sorted(folders))}
        if known and known.is_open:
            numbers = {**base, **{name: place for place, name in enumerate(sorted(folders - base.keys()), start=len(base))}}
        for entry in chosen:
            if known is not None and entry.label not in numbers:
                raise BadInput(entry.shown, entry.label, "train and test must have the same classes")
        labels = np.array([numbers[entry.label] for entry in chosen], dtype=np.int64)
        return Rows(labels, {label: name for name, label in numbers.items()}, None, numbers=numbers)

    def _refuse_empty(self, split: Path) -> None:
        """Raises BadInput for a split without classes, or a class without images."""
        folders = [entry for entry in _entries(split, split, self._card) if _is_folder(entry)]
        if not folders or (self._card.is_own and not self._entries):
            if self._entries and self._entries[0].wrong:
                raise self._entries[0].wrong
            raise BadInput(_shown(self._card, split, split), "no folders", "must have a folder of images for each class")
        for class_folder in [] if self._card.is_own else folders:  # an empty folder is no class
            if not any(entry.label == class_folder.name for entry in self._entries):
                shown = _shown(self._card, split, Path(class_folder.path))
                raise BadInput(shown, "no files", "a class must have at least one image")


def read_images(split: Path, card: DatasetCard, rows: NDArray[np.int64], *, is_private: bool) -> Images:
    """The images of these rows of the listing, still encoded. Raises BadInput for a public file that cannot be read."""
    entries = listing(split, card)
    chosen = [entries[row] for row in rows.tolist()]
    content = [entry.content() if is_private else _bytes(entry.path, entry.shown) for entry in chosen]
    return Images(content, card.shape, [entry.shown for entry in chosen], is_private)


def stamp(split: Path) -> Iterator[tuple[str, int]]:
    """Names and modification times of the split's folder and of each class folder, which change with their files."""
    inner = split / TRAIN
    folders = sorted(path for root in (split, inner) if root.is_dir() for path in root.iterdir() if path.is_dir())
    for path in (split, *folders):
        yield path.name, path.stat().st_mtime_ns


def _entries(folder: Path, split: Path, card: DatasetCard) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(_shown(card, split, folder), type(error).__name__, "must be a folder that you can read") from error
    return [entry for entry in sorted_entries if not entry.name.startswith(".")]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _leads_out(entry: os.DirEntry[str], split: Path, shown: str) -> BadInput | None:
    try:
        leads_out = entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(split.resolve())
    except (OSError, RuntimeError):
        return BadInput(shown, "links in a circle", "must lead to a file inside its folder")
    return BadInput(shown, "a link that leads out", "must stay inside its folder") if leads_out else None


def _misnamed(folder: os.DirEntry[str], shown: str) -> BadInput | None:
    """A label is written on one line, in folders as in tables."""
    allowed = "must be a folder whose name, the label, is in one line"
    return BadInput(shown, "a control character", allowed) if CONTROL.search(folder.name) else None


def _unusable(image: os.DirEntry[str], shown: str) -> BadInput | None:
    if not image.name.lower().endswith(PICTURES) or not image.is_file():
        return BadInput(shown, image.name, f"only image files may lie here ({', '.join(PICTURES)})")
    if image.stat().st_size > MAX_BYTES:
        return BadInput(shown, f"{image.stat().st_size} bytes", f"must have at most {MAX_BYTES} bytes")
    return None


def _bytes(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(shown, type(error).__name__, "must be a file that you can read") from error


def _shown(card: DatasetCard, split: Path, path: Path) -> str:
    return "/".join((card.name, split.name, *path.relative_to(split).parts))


# Reads rows of tables and precomputed embeddings, with labels, from CSV, TSV, JSON lines, parquet and NPZ files.


class TableSheet:
    """The files of a split of a table or of embeddings. Raises BadInput on opening for an unusable file or header.

    Every row with a label is usable: what its other cells hold is mapped by public rules.
    """

    def __init__(
        self, parts: Sequence[Path], card: DatasetCard, needed: Sequence[str] = (LABEL_COLUMN,), more: Sequence[str] = (), *,
        is_private: bool,
    ) -> None:  # fmt: skip
        self._card, wanted = card, (*named_rows.COLUMNS, *more)
        read = [sheets.columns_of(path, card, needed, wanted, is_private=is_private) for path in parts]
        self._pieces = [(sheets.shown_name(card, path), table) for path, table in zip(parts, read, strict=True)]
        self.has_sources = named_rows.have_sources(read)

    def __len__(self) -> int:
        return sum(table.num_rows for _, table in self._pieces)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; labels are words, numbered in alphabetical order, whole numbers first and by value."""
        parts = list(by_piece((table.num_rows for _, table in self._pieces), rows))
        return named_rows.checked(self._pieces, parts, self._card, known)


def read_vectors(
    card: DatasetCard,
    train: tuple[Sequence[Path], NDArray[np.int64]],
    test: tuple[Sequence[Path], NDArray[np.int64]],
    *,
    is_divided: bool,
) -> tuple[Vectors, Vectors]:
    """The values of these rows (ascending) of both parts, in the form that the public test part has.

    `is_divided`: both are parts of one file. Raises BadInput for columns that cannot be used, naming file and column.
    """
    tables = [taken(*train, card, is_private=True), taken(*test, card, is_private=is_divided)]
    shown = sheets.shown_name(card, test[0][0])
    encoding = table_features.planned_columns(card, tables[1], shown)
    trained, tested = (Vectors(encoding.values(table, shown), encoding.document()) for table in tables)
    return trained, tested


def taken(paths: Sequence[Path], rows: NDArray[np.int64], card: DatasetCard, *, is_private: bool) -> pa.Table:
    """All columns of these rows of a part. Raises BadInput for pieces of several forms."""
    pieces = [sheets.columns_of(path, card, (), None, is_private=is_private) for path in paths]
    parts = by_piece((piece.num_rows for piece in pieces), rows)
    found = [piece.take(pa.array(part)) for piece, part in zip(pieces, parts, strict=True)]
    try:
        return found[0] if len(found) == 1 else pa.concat_tables(found)
    except pa.ArrowException:
        allowed = "every piece of a split must have the same columns, of the same types"
        raise BadInput(card.name, f"{len(found)} pieces", allowed) from None
