"""Reads one split: pictures in a folder for each class, and rows of tables, embeddings and texts in files of every form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import isdir, isfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import columns, parquet, sheets, table_features
from dpcl_core.data.card import PICTURES, DatasetCard
from dpcl_core.data.columns import Table
from dpcl_core.data.dataset import Images, Vectors
from dpcl_core.data.files import TESTS, TRAIN, Contents
from dpcl_core.data.rows import LABEL_COLUMN, WORD_COLUMNS, PublicFacts, Rows, by_piece, checked_words, have_sources
from dpcl_core.data.schema import CONTROL
from dpcl_core.data.texts import KINDS, Span, Texts
from dpcl_core.errors import BadInput, instead_of

MAX_BYTES = 64 * 2**20  # more than 4096 x 4096 colour pixels take uncompressed


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a split: its name in messages, its class folder, and its error, if any."""

    path: Path
    shown: str
    label: str
    wrong: BadInput | None

    def content(self, *, is_private: bool = True) -> bytes:
        """Its bytes; empty where a private one cannot be read, which then fails to decode as well. Raises BadInput."""
        try:
            return b"" if self.wrong and is_private else self.path.read_bytes()
        except OSError as error:
            if is_private:
                return b""
            raise BadInput(self.shown, type(error).__name__, "must be a file that you can read") from error


def listing(split: Path, card: DatasetCard) -> list[Entry]:
    """The files of a split by class, in alphabetical order, without hidden ones.

    Raises BadInput for a split that is not a folder.
    """
    listed: list[Entry] = []
    for outer in _outer(split, card):
        shown = _shown(card, split, outer)
        if not isdir(outer):
            wrong: BadInput | None = BadInput(shown, outer.name, "only folders, one for each class, may lie here")
            listed += [] if card.is_own else [Entry(outer, shown, "", wrong)]  # own: left out, as every door says
        elif wrong := _leads_out(outer, split, shown):
            listed.append(Entry(outer, shown, outer.name, wrong))
        elif CONTROL.search(outer.name):  # a label is written on one line, in folders as in tables
            wrong = BadInput(shown, "a control character", "must be a folder whose name, the label, is in one line")
            listed.append(Entry(outer, shown, outer.name, wrong))
        else:
            for inner in _entries(outer, split, card):
                if not card.is_own or inner.name.lower().endswith(PICTURES):
                    shown = _shown(card, split, inner)
                    wrong = _leads_out(inner, split, shown) or _unusable(inner, shown)
                    listed.append(Entry(inner, shown, outer.name, wrong))
    return listed


def _outer(split: Path, card: DatasetCard) -> list[Path]:
    """What lies in a split; of a whole set without a test part what lies in its folder train, too: CLASS and train/CLASS are
    alike, so that the place of one picture decides nothing about others."""
    found = _entries(split, split, card)
    if split.name in (TRAIN, *TESTS):
        return found
    inside = [one for outer in found if outer.name == TRAIN and isdir(outer) for one in _entries(outer, split, card)]
    nested = [one for one in inside if isdir(one)]
    return [one for one in found if one.name != TRAIN or len(nested) < len(inside)] + nested


class FolderSheet:
    """A split as one folder of images per class. Raises BadInput on opening where it cannot be read at all."""

    has_sources = False

    def __init__(self, of: Contents) -> None:
        self._card = of.card
        self._entries = listing(of.paths[0], of.card)
        if not of.is_private:
            self._refuse_empty(of.paths[0])

    def __len__(self) -> int:
        return len(self._entries)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        chosen = [self._entries[row] for row in rows.tolist()]
        for entry in chosen:
            if entry.wrong:
                raise entry.wrong
            if known and not known.is_open and entry.label not in known.numbers:
                raise BadInput(entry.shown, entry.label, "train and test must have the same classes")
        folders = {entry.label for entry in chosen}
        listed = [*known.numbers] if known else [*self._card.classes] if folders <= {*self._card.classes} else []
        numbers = {name: place for place, name in enumerate([*listed, *sorted(folders.difference(listed))])}
        labels = np.array([numbers[entry.label] for entry in chosen], dtype=np.int64)
        return Rows(labels, {label: name for name, label in numbers.items()}, None, numbers=numbers)

    def _refuse_empty(self, split: Path) -> None:
        """Raises BadInput for a split without classes, or a class without images."""
        folders = [entry for entry in _entries(split, split, self._card) if isdir(entry)]
        if not folders or (self._card.is_own and not self._entries):
            if self._entries and self._entries[0].wrong:
                raise self._entries[0].wrong
            raise BadInput(_shown(self._card, split, split), "no folders", "must have a folder of images for each class")
        with_files = {entry.label for entry in self._entries}
        for folder in [] if self._card.is_own else folders:  # an empty folder is no class
            if folder.name not in with_files:
                raise BadInput(_shown(self._card, split, folder), "no files", "a class must have at least one image")


def read_images(of: Contents, rows: NDArray[np.int64]) -> Images:
    """The images of these rows of the listing, still encoded. Raises BadInput for a public file that cannot be read."""
    entries = listing(of.paths[0], of.card)
    chosen = [entries[row] for row in rows.tolist()]
    content = [entry.content(is_private=of.is_private) for entry in chosen]
    return Images(content, of.card.shape, [entry.shown for entry in chosen], of.is_private)


def stamp(path: Path) -> Iterator[tuple[str, int]]:
    """A file's name with its time and size; names and times of a split's folder and its class folders, which change with
    their files."""
    if not path.is_dir():
        yield path.name, path.stat().st_size
    yield path.name, path.stat().st_mtime_ns
    for root in (path, path / TRAIN):
        for one in sorted(root.iterdir()) if root.is_dir() else ():
            if one.is_dir():
                yield one.name, one.stat().st_mtime_ns


def _entries(folder: Path, split: Path, card: DatasetCard) -> list[Path]:
    shown, allowed = _shown(card, split, folder), "must be a folder that you can read"
    with instead_of(OSError, say=lambda error: BadInput(shown, type(error).__name__, allowed)):
        return sorted((one for one in folder.iterdir() if not one.name.startswith(".")), key=lambda one: one.name)


def _leads_out(entry: Path, split: Path, shown: str) -> BadInput | None:
    try:
        leads_out = entry.is_symlink() and not entry.resolve().is_relative_to(split.resolve())
    except (OSError, RuntimeError):
        return BadInput(shown, "links in a circle", "must lead to a file inside its folder")
    return BadInput(shown, "a link that leads out", "must stay inside its folder") if leads_out else None


def _unusable(image: Path, shown: str) -> BadInput | None:
    if not image.name.lower().endswith(PICTURES) or not isfile(image):
        return BadInput(shown, image.name, f"only image files may lie here ({', '.join(PICTURES)})")
    if (size := image.stat().st_size) > MAX_BYTES:
        return BadInput(shown, f"{size} bytes", f"must have at most {MAX_BYTES} bytes")
    return None


def _shown(card: DatasetCard, split: Path, path: Path) -> str:
    return "/".join((card.name, split.name, *path.relative_to(split).parts))


# Reads rows of tables and precomputed embeddings, with labels, from CSV, TSV, JSON lines, parquet and NPZ files.


class TableSheet:
    """The files of a split of a table or of embeddings. Raises BadInput on opening for an unusable file or header.

    Every row with a label is usable: what its other cells hold is mapped by public rules.
    """

    def __init__(self, of: Contents, needed: Sequence[str] = (LABEL_COLUMN,), more: Sequence[str] = ()) -> None:
        self._card, wanted = of.card, (*WORD_COLUMNS, *more)
        read = [sheets.columns_of(path, of.card, needed, wanted, is_private=of.is_private) for path in of.paths]
        self._pieces = [(sheets.shown_name(of.card, path), table) for path, table in zip(of.paths, read, strict=True)]
        self.has_sources = have_sources(read)

    def __len__(self) -> int:
        return sum(len(table) for _, table in self._pieces)

    def pieces(self, rows: NDArray[np.int64]) -> list[tuple[str, Table, NDArray[np.int64]]]:
        """The columns of these rows by file: its name in messages, the columns, and the rows' numbers in it."""
        parts = by_piece((len(table) for _, table in self._pieces), rows)
        return [(shown, table.take(part), part) for (shown, table), part in zip(self._pieces, parts, strict=True)]

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; labels are words, numbered in alphabetical order, whole numbers first and by value."""
        return checked_words(self.pieces(rows), self._card, known)


def read_vectors(
    train: Contents, train_rows: NDArray[np.int64], test: Contents, test_rows: NDArray[np.int64]
) -> tuple[Vectors, Vectors]:
    """The values of these rows (ascending) of both parts, in the form that the public test part has.

    Raises BadInput for columns that cannot be used, naming file and column.
    """
    public = take_rows(test, test_rows)
    shown = sheets.shown_name(test.card, test.paths[0])
    encoding = table_features.planned_columns(test.card, public, shown)
    tested = encoding.values(public, shown)
    del public  # before the training rows need room
    start, forms = 0, set()
    trained = np.empty((len(train_rows), tested.shape[1]), np.float32)
    for table in taken_pieces(train, train_rows):
        forms.add(columns.form(table))
        if len(forms) > 1:
            raise _other_pieces(train)
        trained[start : start + len(table)] = encoding.values(table, shown)
        start += len(table)
    return Vectors(trained, encoding.document()), Vectors(tested, encoding.document())


def take_rows(of: Contents, rows: NDArray[np.int64]) -> Table:
    """All columns of these rows (ascending) of a part. Raises BadInput for pieces of several forms."""
    with instead_of(ValueError, say=_other_pieces(of)):
        return columns.joined([*taken_pieces(of, rows)])


def taken_pieces(of: Contents, rows: NDArray[np.int64]) -> Iterator[Table]:
    """All columns of these rows (ascending) of a part, in pieces as they are read."""
    pieces = (one for path in of.paths for one in sheets.pieces_of(path, of.card, (), None, is_private=of.is_private))
    start = 0
    for piece in pieces:
        first, last = np.searchsorted(rows, (start, start + len(piece)))
        yield piece.take(rows[first:last] - start)
        start += len(piece)


def _other_pieces(of: Contents) -> BadInput:
    allowed = "every piece of a split must have the same columns, of the same types"
    return BadInput(of.card.name, f"{len(of.paths)} pieces", allowed)


PERSON_COLUMN, SPANS_COLUMN = "person", "spans"
_NO_TEXT = "must hold text; leave out rows without any"


class TextSheet(TableSheet):
    """The files of a split of texts. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, of: Contents) -> None:
        card, first = of.card, of.paths[0]
        are_words = first.suffix != ".parquet" or bool(card.roles) or card.is_own
        if not are_words:
            with sheets.parquet_file(first, card) as file:
                schema = file.schema_arrow
            are_words = LABEL_COLUMN in schema.names and columns.is_text(schema.field(LABEL_COLUMN).type)
        self._numbered = None if are_words else parquet.Sheet(of)
        needed = ("text", LABEL_COLUMN) if are_words else ()
        # Whom a text is about only our own corpus says: of own data a schema names the column of people.
        marks = (PERSON_COLUMN, SPANS_COLUMN) if card.made_per_source else (SPANS_COLUMN,)
        super().__init__(of, needed, (*card.text_columns, "text", *(marks if first.suffix == ".parquet" else ())))

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; words are numbered in alphabetical order, whole numbers first and by value."""
        self.texts(rows)
        return super().checked(rows, known) if self._numbered is None else self._numbered.checked(rows, known)

    def texts(self, rows: NDArray[np.int64]) -> Texts:
        """The texts of these rows (ascending), with marked spans and people where a parquet file has them.

        Raises BadInput naming file, row and what is allowed, also for a blank text.
        """
        return joined_texts([_texts(table, part, self._card, shown) for shown, table, part in self.pieces(rows)])


def joined_texts(pieces: Sequence[Texts]) -> Texts:
    """The texts of all pieces, concatenated; spans and people only where every piece has them."""
    if len(pieces) == 1:
        return pieces[0]
    spans = [piece.spans for piece in pieces if piece.spans is not None]
    people = [piece.people for piece in pieces if piece.people is not None]
    return Texts(
        [string for piece in pieces for string in piece.strings],
        [marked for piece in spans for marked in piece] if len(spans) == len(pieces) else None,
        np.concatenate(people) if len(people) == len(pieces) else None,
    )


def _texts(table: Table, rows: NDArray[np.int64], card: DatasetCard, shown: str) -> Texts:
    """The texts of a table; `rows` are the numbers of its rows in the file."""
    names = ("text",) if "text" in table.columns else card.text_columns
    if missing := [name for name in names if name not in table.columns]:
        raise BadInput(shown, "no column " + missing[0], f"must have a column {' and a column '.join(names)}")
    for name in names:
        if table[name].holds != "text":
            raise BadInput(f"{shown} column {name}", table[name].kind, "must hold text")
        for row, text in zip(rows, table[name].values, strict=True):
            if text is None:
                raise BadInput(f"{shown} row {row}, {name}", "nothing", _NO_TEXT)
    strings = ["\n".join(pair) for pair in zip(*(table[name].values for name in names), strict=True)]
    for row, string in zip(rows, strings, strict=True):
        if not string.strip():
            raise BadInput(f"{shown} row {row}, {names[-1]}", "nothing", _NO_TEXT)
    people = spans = None
    if PERSON_COLUMN in table.columns:
        people = np.asarray(table[PERSON_COLUMN].values, np.int64)
    if SPANS_COLUMN in table.columns:
        marked = zip(table[SPANS_COLUMN].values, strings, rows, strict=True)
        spans = [_spans(one, string, f"{shown} row {row}") for one, string, row in marked]
    return Texts(strings, spans, people)


def _spans(raw: object, string: str, shown: str) -> tuple[Span, ...]:
    """A row's spans. Raises BadInput for spans outside its text and for unknown kinds."""
    wrong = BadInput(f"{shown}, {SPANS_COLUMN}", raw, "must be a list of start, end and kind")
    with instead_of(TypeError, KeyError, ValueError, OverflowError, say=wrong):
        spans = tuple(Span(int(one["start"]), int(one["end"]), str(one["kind"])) for one in raw or ())  # type: ignore[attr-defined]
    for span in spans:
        if not 0 <= span.start < span.end <= len(string):
            allowed = f"must lie within the {len(string)} characters of its text"
            raise BadInput(f"{shown}, {SPANS_COLUMN}", f"{span.start} to {span.end}", allowed)
        if span.kind not in KINDS:
            raise BadInput(f"{shown}, {SPANS_COLUMN}", span.kind, f"must be one of {', '.join(KINDS)}")
    return spans
