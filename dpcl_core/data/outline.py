"""Outlines of datasets: which rows of the files are training and test examples, with labels and sources, without images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import coins, columns, files, lines, parquet, rows, sheets, tables, tagged
from dpcl_core.data.card import HELD_OUT, Caps, DatasetCard, Kind
from dpcl_core.data.columns import Column, is_list, pa, pc
from dpcl_core.data.files import Contents
from dpcl_core.data.rows import PublicFacts, RowReader, Rows, usable_rows
from dpcl_core.errors import BadInput, instead_of

# Public constants: the same subset for every run, seed and user.
_SUBSET, _CONTRIBUTION = 20_250_917, 20_261_123
_SHEETS: Mapping[Kind, Callable[[Contents], RowReader]] = {
    "tagged": tagged.TaggedSheet, "table": tables.TableSheet, "embedding": tables.TableSheet, "text": tables.TextSheet,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One split: labels int64 [n], sources int64 [n] or None, and the row of the files of each example.

    `contents`: these files. `of_words`: examples are words, and each row of the files is a sentence.
    """

    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    contents: Contents
    of_words: bool = False

    def take(self, which: NDArray[np.int64]) -> Part:
        """These examples, in this order."""
        sources = None if self.sources is None else self.sources[which]
        return replace(self, labels=self.labels[which], sources=sources, rows=self.rows[which])

    def keys(self) -> NDArray[np.uint64]:
        """Keys of public coins, uint64 [n], from the row's own bytes (for words, their sentence's). Reads the files."""
        return keys_of(self.contents)[self.rows]


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A dataset without its images. `sources`: names that the parts' sources index. The test part has every class.

    `n_train`: the public nominal number of training examples. `undeclared`: other labels of training examples, private,
    where neither card nor schema lists all; `open_train`: the training part including those, numbered from `classes` on.
    `facts`: what training rows were checked against. `lost`: why public rows of a single file cannot be used, and how many.
    """

    classes: tuple[str, ...]
    sources: tuple[str, ...]
    train: Part
    test: Part
    n_train: int
    undeclared: tuple[str, ...]
    open_train: Part
    facts: PublicFacts
    lost: tuple[tuple[str, int], ...] = ()

    def opened(self) -> Outline:
        """The outline whose training part includes the undeclared labels."""
        return replace(self, train=self.open_train)

    def thinned(self, caps: Caps) -> Outline:
        """The outline with about as many training examples per class or source as the caps allow, and at most as many test
        examples per class. For words both training caps count whole sentences of a source.

        Each training example is kept with probability cap / nominal size of its class or source, by a coin of its own bytes;
        smaller subsets are parts of larger ones. An undeclared class counts as one of mean size. The test part is public, so
        there the first examples in a public order are kept.
        """
        train, (cap, by_source) = self.train, caps.train
        if cap is not None:
            kinds, of_row = _kinds(train, by_source=by_source)
            sizes = self._nominal_sizes(by_source=by_source)
            sizes = np.append(sizes, np.full(len(self.undeclared), sizes.mean()))
            chance = (cap / sizes)[kinds][of_row]
            train = train.take(np.flatnonzero(coins.tossed(train.keys(), np.random.default_rng(_SUBSET)) < chance))
        return replace(self, train=train, n_train=self.n_kept(caps), test=self.thinned_test(caps))

    def thinned_test(self, caps: Caps) -> Part:
        """At most as many test examples of each kind as the caps allow, by rank in a public order.

        For public rows only, as one more row moves others.
        """
        if caps.test_per_class is None:
            return self.test
        kinds, of_row = _kinds(self.test, by_source=False)
        return self.test.take(np.flatnonzero((_places(kinds) < caps.test_per_class)[of_row]))

    def n_kept(self, caps: Caps) -> int:
        """The public nominal number of training examples under these caps; reads no file."""
        cap, by_source = caps.train
        if cap is None:
            return self.n_train
        sizes = self._nominal_sizes(by_source=by_source)
        return round(self.n_train * float(np.minimum(sizes, cap).sum() / sizes.sum()))

    def _nominal_sizes(self, *, by_source: bool) -> NDArray[np.float64]:
        """Public nominal numbers of training examples of each class, or of examples or sentences of each source, in
        proportion to the test part."""
        kinds, of_row = _kinds(self.test, by_source=by_source)
        n_kinds = max(1, len(self.sources)) if by_source or self.test.of_words else len(self.classes)
        kind_counts = np.bincount(kinds.astype(np.intp), minlength=n_kinds)
        n_units = self.n_train * len(kinds) / len(of_row)  # for words, as many per sentence as in the test part
        return n_units * np.where(kind_counts > 0, kind_counts / len(kinds), 1 / n_kinds)


def outline(card: DatasetCard) -> Outline:
    """The outline of one dataset's files, cached until a file changes.

    Raises BadInput naming file, row and what is allowed, DataMissing where there are no files.
    """
    return _outline(_contents(card))


def _contents(card: DatasetCard) -> tuple[Contents, ...]:
    """The training part of a dataset, or the file that is divided; and the test part where it has its own."""
    found = files.find(card)
    with instead_of(OSError, say=BadInput(files.FIELD, card.name, "its folder must be readable by you")):
        stamp = tuple(entry for path in (*found.train, *found.test) for entry in tables.stamp(path))
    train, test = Contents(card, found.train, stamp), Contents(card, found.test, stamp, is_private=False)
    return (train, test) if found.test else (train,)


@lru_cache(maxsize=32)
def _outline(contents: tuple[Contents, ...]) -> Outline:
    """The test part is public and checked first, in full. Training rows are checked against it and the card only; rows that
    do not fit count as no examples."""
    card, reader = contents[0].card, row_reader(contents[0])
    test_reader = row_reader(contents[1]) if len(contents) == 2 else reader
    if reader.has_sources != test_reader.has_sources:
        raise BadInput(card.name, rows.SOURCE_COLUMN, "must be a column of both train and test, or of neither")
    test_rows, lost = _test_rows(contents, test_reader)
    public = test_reader.checked(test_rows, None)
    classes, sources = rows.class_names(card, public), rows.source_names(card, public)
    rows.refuse_missing(card, public.labels, classes)
    numbers = public.numbers or {name: place for place, name in enumerate(classes)}
    is_open = card.is_own and not card.classes and card.kind != "tagged"  # BIO tags are fixed in pairs
    facts = PublicFacts(numbers, frozenset(sources) if sources else None, card.shape or public.shape, is_open)
    all_rows = train_rows = _train_rows(contents, reader)
    people = [_people_of(one) for one in contents]
    if len(people) == 2 and people[0] is not None and people[1] is not None:
        # People who stand in a test part of its own are no training examples: by the public list of these alone.
        train_rows = train_rows[~np.isin(people[0], people[1])]
    usable = _bounded(usable_rows(reader, train_rows, facts), contents[0])
    private = reader.checked(usable, facts)
    test = _part(public, test_rows, sources, contents[-1])
    numbered, undeclared = _numbered(private, len(classes))
    everything = _part(numbered, usable, sources, contents[0])
    train = everything.take(np.flatnonzero(numbered.labels < len(classes))) if undeclared else everything
    # The public nominal number of training examples. In the user's own data nothing of the training part is counted: it is
    # the schema's number or, without one, four for each test example, as in an 80:20 division. Of a benchmark the number in
    # its files is taken as public (the statement says so).
    n_train = card.n_train
    if card.is_own:
        share = card.held_out or HELD_OUT
        n_train = n_train or round(len(test.labels) * (1 - share) / share)
    elif contents[0].paths:
        n_train = len(private) if train.of_words else len(all_rows)
    return Outline(classes, sources, train, test, n_train, undeclared, everything, facts, lost)


def _train_rows(contents: Sequence[Contents], reader: RowReader) -> NDArray[np.int64]:
    """The rows of the training part; of a file that is divided, those that are not public.

    All rows of a person are on one side: else the public part would show people of the private one.
    """
    return np.arange(len(reader)) if len(contents) == 2 else np.flatnonzero(~division_of(contents[0]))


def _test_rows(contents: Sequence[Contents], reader: RowReader) -> tuple[NDArray[np.int64], tuple[tuple[str, int], ...]]:
    """The rows of the test part, and why others of a file that is divided cannot be used, and how many."""
    if len(contents) == 2:
        return np.arange(len(reader)), ()
    of, wrong = contents[0], dict[int, BadInput]()
    found = np.flatnonzero(division_of(of))
    if not of.card.is_own:
        return found, ()
    # By the same rule as training rows: nobody chose what is in the test part.
    found = _bounded(usable_rows(reader, found, None, wrong), of)
    lost = tuple(Counter(one.allowed for one in _reasons(wrong, of).values()).most_common())
    if not len(found):
        why = f"; here {lost[0][1]:,} of them: {lost[0][0]}" if lost else ""
        allowed = f"needs rows with {_needed(of.card)}: public coins make about a fifth the public test part{why}"
        raise BadInput(of.card.name, "no usable test part", allowed)
    return found, lost


def _bounded(rows: NDArray[np.int64], contents: Contents) -> NDArray[np.int64]:
    """The rows, of each person at most the public number: those with the smallest coins of their own bytes.

    Which rows of a person are kept depends on that person's usable rows alone, so one person changes at most that many rows
    of the training part, and no other person's.
    """
    people = _people_of(contents)
    if people is None:
        return rows
    tossed = coins.tossed(keys_of(contents), np.random.default_rng(_CONTRIBUTION))[rows]
    order = np.lexsort((rows, tossed, people[rows]))
    of_person = people[rows][order]
    place = np.arange(len(rows)) - np.searchsorted(of_person, of_person)
    return np.sort(rows[order[place < contents.card.per_person]])


def refused(card: DatasetCard) -> tuple[int, dict[int, BadInput]]:
    """The number of training rows, and the error of each unusable one: for their owner only."""
    contents, errors = _contents(card), dict[int, BadInput]()
    reader = row_reader(contents[0])
    train_rows = _train_rows(contents, reader)
    usable_rows(reader, train_rows, _outline(contents).facts, errors)
    return len(train_rows), _reasons(errors, contents[0])


def _reasons(errors: dict[int, BadInput], of: Contents) -> dict[int, BadInput]:
    """The errors of rows, where lines that are no row say so."""
    is_of_lines = of.card.kind != "tagged" and not of.paths[0].is_dir() and files.ending(of.paths[0]) in lines.SUFFIXES
    none = sheets.rows_of_lines(of.paths[0], of.card, is_private=True)[1] if errors and is_of_lines else {}
    told = {row: BadInput(errors[row].field.rpartition(",")[0], "no row", sheets.NO_ROW) for row in none if row in errors}
    return {**errors, **told}


def _needed(card: DatasetCard) -> str:
    """What a row of the user's own data must have to count, in words."""
    if card.kind == "image":
        return "a picture in the folder of a class"
    if card.kind == "tagged":
        return "words, each with a tag"
    columns = dict(card.roles)
    also = ["a text"] if card.kind == "text" else []
    if "time" in columns and "source" not in columns:  # a source says where a row belongs, whatever its date
        also.append(f"a date that begins with year and month, such as 2024-05, in {columns['time']}")
    if card.has_people:
        also.append(f"in {columns['person']} a text or a number below 2^53")
    return ", and ".join(["a label of 1 to 200 characters", *also])


def row_reader(of: Contents) -> RowReader:
    """A reader of a split's files. Raises BadInput for unusable files or headers."""
    if not of.paths:
        return rows.Digits()
    return tables.FolderSheet(of) if of.paths[0].is_dir() else _SHEETS.get(of.card.kind, parquet.Sheet)(of)


def _numbered(private: Rows, n_classes: int) -> tuple[Rows, tuple[str, ...]]:
    """The rows with labels beyond the classes renumbered consecutively, and the names of these labels."""
    beyond = np.unique(private.labels[private.labels >= n_classes])
    if not len(beyond):
        return private, ()
    places = n_classes + np.searchsorted(beyond, private.labels)
    labels = np.where(private.labels < n_classes, private.labels, places).astype(np.int64)
    return replace(private, labels=labels), tuple(private.names.get(label, str(label)) for label in beyond.tolist())


def _part(checked_rows: Rows, rows: NDArray[np.int64], names: tuple[str, ...], contents: Contents) -> Part:
    sources = None
    if checked_rows.sources is not None:
        source_names, of_row = np.unique(checked_rows.sources, return_inverse=True)
        sources = np.asarray([names.index(name) for name in source_names], dtype=np.int64)[of_row]
    if checked_rows.sentences is not None:
        return Part(checked_rows.labels, sources, checked_rows.sentences, contents, of_words=True)
    return Part(checked_rows.labels, sources, rows, contents)


def _kinds(part: Part, *, by_source: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The kind of each unit that a subset counts, and the unit of each example.

    Units are examples, whose kind is their class or source, or whole sentences, whose kind is their source. Without sources
    the dataset counts as one source.
    """
    sources = np.zeros(len(part.rows), dtype=np.int64) if part.sources is None else part.sources
    if not part.of_words:
        return sources if by_source else part.labels, np.arange(len(part.labels))
    _, first, of_row = np.unique(part.rows, return_index=True, return_inverse=True)
    return sources[first], of_row


def _places(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each row's position (0, 1, ...) within its class, in a public order."""
    by_class = np.lexsort((np.random.default_rng(_SUBSET).random(len(labels)), labels))
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels.astype(np.intp)))])
    places = np.empty(len(labels), dtype=np.int64)
    places[by_class] = np.arange(len(labels)) - starts[labels[by_class]]
    return places


# The text of every row of a split, for its public coin: a function of that row alone, so that no other row moves it.


@lru_cache(maxsize=64)
def keys_of(contents: Contents) -> NDArray[np.uint64]:
    """A key for each row of the files, uint64 [n], cached until they change; independent of the schema."""
    return coins.keys(_rows(contents))


@lru_cache(maxsize=64)
def _people_of(contents: Contents) -> NDArray[np.uint64] | None:
    """A key for the person of each row, uint64 [n]; rows without one are a person each. None without such a column."""
    card, names = contents.card, list[str]()
    if not card.has_people:
        return None
    for path in contents.paths:
        column = sheets.columns_of(path, card, (), (sheets.PERSON,), is_private=contents.is_private)[sheets.PERSON]
        names += [(name or "").strip() for name in column.words(f"{card.name} column person")]
    return coins.of_people(names, keys_of(contents))


def division_of(contents: Contents) -> NDArray[np.bool_]:
    """Which rows are the public test part of a single file: all of a person's, or none."""
    people = _people_of(contents)
    return coins.division(keys_of(contents) if people is None else people, contents.card.held_out or 0)


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
        for sentence in tagged.sentences(of):  # an unreadable one counts as empty
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
        for table in sheets.pieces_of(path, replace(card, roles=()), (), None, is_private=True):
            # pandas writes the numbers that rows had in another table as a column: a part of rows is known again without.
            names = sorted(name for name in table.columns if not name.startswith("__index_level_"))
            for cells in zip(*[_texts(table[name], f"{card.name} column {name}") for name in names], strict=True):
                yield coins.row_text(zip(names, cells, strict=True))


def _texts(column: Column, field: str) -> Iterable[str | bytes]:
    """The canonical text of each cell of a typed column. Other lists than embeddings have the same in every type of list."""
    match column.holds:
        case "bytes":
            return map(_readable, column.values)
        case "vectors":
            return (b"" if one is None else np.asarray(one, np.float64).tobytes() for one in column.values)
        case "nested":
            return map(coins.nested, column.values)
        case _:
            return [word or "" for word in column.words(field)]


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
        found, form = sheets.lines_of(path, card, is_private=of.is_private)
        for line, values in zip(found, lines.first_cells(found, path.suffix, form), strict=True):
            yield b"no row" + line if values is None else _with_lengths(values)
        return
    table = sheets.columns_of(path, replace(card, roles=()), (), None, is_private=True)
    typed = [table[name] for name in sorted(table.columns) if table[name].holds != "nested"]
    yield from map(_with_lengths, zip(*[_first_bytes(column, f"{card.name} column") for column in typed], strict=True))


def _with_lengths(cells: Iterable[bytes]) -> bytes:
    return b"".join(len(cell).to_bytes(8, "little") + cell for cell in cells)


def _first_bytes(column: Column, field: str) -> Iterable[bytes]:
    """The bytes of each cell by the first rule: numbers as their type has them, dates and the like as words."""
    if column.holds in ("numbers", "vectors"):
        return [b"" if value is None else value.tobytes() for value in column.values]
    if column.holds == "bytes":
        return [value or b"" for value in column.values]
    return [(word or "").encode("utf-8", "surrogatepass") for word in column.words(field)]


def _of_parquet(path: Path, card: DatasetCard) -> Iterator[bytes]:
    with sheets.parquet_file(path, card) as file:
        names = file.schema_arrow.names
        content = ("text", *card.text_columns) if card.kind == "text" else (parquet.WINDOW_COLUMN, *parquet.IMAGE_COLUMNS)
        chosen = [name for name in dict.fromkeys(content) if name in names]
        for group in range(file.num_row_groups):
            table, of_double = file.read_row_group(group, columns=chosen), card.is_own and card.coins > 1
            values = [_of_column(column.combine_chunks(), of_double=of_double) for column in table.columns]
            yield from map(b"".join, zip(*values, strict=True))


def _of_column(column: pa.Array, *, of_double: bool = False) -> Iterator[bytes]:
    """The bytes of each value; null counts as empty. `of_double`: whole numbers become floating point, whatever the type."""
    column = columns.without_struct(column)
    if columns.is_text(column.type):
        column = pc.cast(column, pa.large_string()).cast(pa.large_binary())
    if columns.is_binary(column.type):
        yield from (value or b"" for value in column.to_pylist())
        return
    bounds = np.arange(len(column) + 1)
    while is_list(column.type):
        bounds = np.concatenate([[0], np.cumsum(np.asarray(pc.list_value_length(column).fill_null(0)))])[bounds]
        column = column.flatten()
    values = columns.doubles(column) if of_double else np.asarray(column.to_numpy(zero_copy_only=False))
    yield from (values[start:end].tobytes() for start, end in pairwise(bounds.tolist()))
