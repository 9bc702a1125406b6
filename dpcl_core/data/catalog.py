"""The datasets by name: their cards, whether they can be used here, and their public numbers. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import files, schema, sheets, table_features, tables
from dpcl_core.data.card import CARDS, HELD_OUT, LIMITS, UNCAPPED, Caps, DatasetCard, Kind
from dpcl_core.data.files import BUNDLED
from dpcl_core.data.outline import Outline, outline
from dpcl_core.data.parquet import IMAGE_COLUMNS, WINDOW_COLUMN
from dpcl_core.data.rows import LABEL_COLUMN
from dpcl_core.data.tagged import TAGS_COLUMN, tags_column
from dpcl_core.errors import BadInput, DataMissing, unknown
from dpcl_core.spec import DataSpec

__all__ = ["BUNDLED", "CARDS", "Caps", "DatasetCard"]  # of other modules

_PUBLIC_PARTS = "the test part and the schema: classes, sources and sizes are read from them, as they are public"
_OF_PERSON = ("a person whom the rows of others describe, too: each is protected for the rows under their own name",)
_OWN = {
    "image": "images", "sensor": "sensor windows", "text": "texts", "tagged": "sentences with tagged names",
    "table": "rows of a table", "embedding": "embeddings",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Public sizes and names of a dataset, without reading an image: sizes after the subset, and the truthful title.

    `classes` is None where the names are only in files not yet downloaded; `sources` are names. `is_here`: counted in the
    files on this computer, not taken from the card.
    """

    name: str
    title: str
    n_train: int
    n_test: int
    n_classes: int
    classes: tuple[str, ...] | None
    sources: tuple[str, ...]
    is_here: bool


def score(name: str) -> str:
    """Name of the score on the dataset: "entity F1" where words are tagged, else "accuracy"."""
    with suppress(BadInput):  # a run on data that have been removed
        return "entity F1" if card(name).kind == "tagged" else "accuracy"
    return "accuracy"


def card(name: str) -> DatasetCard:
    """The card of a dataset, or of the user's own folder as own:NAME, from the headers of its files and its schema.

    Raises BadInput naming the known ones, and for a schema that cannot be used.
    """
    if name in CARDS:
        return CARDS[name]
    if not name.startswith("own:"):
        raise unknown(files.FIELD, name, CARDS, ", or own:NAME for a folder of yours")
    folder_name = name.removeprefix("own:")
    paths.inside(paths.home() / "data", folder_name, files.FIELD)
    own = DatasetCard(name, folder_name, "", source="your own", licence="your own", n_classes=0, n_train=0, n_test=0)
    fields = schema.read_schema(own) or schema.Schema()
    own = with_public_columns(replace(schema.with_columns(own, fields), held_out=fields.held_out or HELD_OUT))
    kind = fields.kind or kind_of_files(own) or ("table" if _is_damaged_table(own) else "image")
    limits = (*(_OF_PERSON if own.has_people else LIMITS[kind]), _PUBLIC_PARTS, *public_by_form(own))
    own = replace(own, kind=kind)
    found = files.find(own) if kind in DIVISIBLE else _found(own)
    is_whole = found is not None and not found.test and (kind in DIVISIBLE or (kind == "image" and found.is_folder))
    return replace(
        own,
        title=fields.title or folder_name,
        summary=f"Your own {_OWN[kind]}, read from a folder on this computer.",
        limits=limits,
        may_show=kind == "text" and files.is_marked(own),
        classes=fields.classes,
        n_classes=len(fields.classes),
        n_train=fields.n_train or 0,
        sources=tuple((source, fields.classes) for source in fields.sources),
        held_out=own.held_out if is_whole else None,
    )


def called(name: str) -> str:
    """What pages and captions call a dataset: its title, of own data as in "people (own data)"; else the name itself."""
    try:
        one = card(name)
    except BadInput:  # of another version of the app, or removed
        return name
    return f"{one.title} (own data)" if one.is_own else one.title


def members(dataset: DatasetCard) -> tuple[DatasetCard, ...]:
    """The cards of the sets that a dataset joins: its own card if it is a single set."""
    return tuple(CARDS[name] for name in dataset.members) or (dataset,)


def available(dataset: DatasetCard) -> str | None:
    """None if the dataset can be used; else one sentence with the file to add and its folder. Opens no file.

    A dataset that is not on this computer counts as usable while the hub answers.
    """
    for member in members(dataset):
        try:
            if not member.made_per_source:
                files.find(member)
        except DataMissing as missing:
            if member.hub is None or not files.is_reachable():
                which = "" if member is dataset else f"for {member.title}, "
                why = "" if member.hub is None else ", and the Hugging Face hub cannot be reached"
                return f"{which}{missing.allowed}{why}"
        except BadInput as refused:
            return refused.allowed
    return None


def facts_of(data: DataSpec) -> DatasetFacts:
    """The public facts of the part of a dataset that these settings keep; raises as `facts` does."""
    return facts(data.dataset, Caps.of(data))


def facts(name: str, caps: Caps = UNCAPPED) -> DatasetFacts:
    """The public facts of a dataset, or of its subset with these caps.

    Reads the label columns of files on this computer, cached until they change. Raises BadInput for an unknown name or files
    that cannot be used, DataMissing for own data that do not exist.
    """
    dataset = card(name)
    parts = outlines(dataset)
    by_member = list(zip(members(dataset), parts, strict=True))
    full, subset = (
        [Sizes.published(one, kept) if part is None else Sizes.of(part, kept) for one, part in by_member]
        for kept in (UNCAPPED, caps)
    )
    only = parts[0] if not dataset.members else None
    return DatasetFacts(
        name=name,
        title=truthful_title(dataset, members(dataset), subset, full),
        n_train=sum(sizes.totals[0] for sizes in subset),
        n_test=sum(sizes.totals[1] for sizes in subset),
        n_classes=sum(len(sizes.train) for sizes in subset),
        classes=only.classes if only else (dataset.classes or None),
        sources=only.sources if only else dataset.members,
        is_here=None not in parts,
    )


def needed_bytes(data: DataSpec) -> float:
    """About the memory that a run on own rows of numbers takes at its peak, by public sizes alone; 0 for other data.

    That is 2.2 times the values in single precision (measured: 1.6 to 1.8 times), and half a gigabyte for the program. A
    CSV file is read as text first, about 100 bytes a cell. Raises as reading the public part does.
    """
    dataset = card(data.dataset)
    if not dataset.is_own or dataset.kind not in ("table", "embedding"):
        return 0.0
    found, outlined = files.find(dataset), outlines(dataset)[0]
    assert outlined is not None
    kept, rows = facts_of(data), outlined.n_train + len(outlined.test.labels)
    n_cells = 0 if found.train[0].suffix in sheets.TYPED else len(sheets.header(found.train[0], dataset))
    return 5e8 + 2.2 * 4 * (kept.n_train + kept.n_test) * _n_values(outlined) + 100.0 * rows * n_cells


@lru_cache(maxsize=32)
def _n_values(outlined: Outline) -> int:
    """How many numbers a row becomes, by the first public rows."""
    of = outlined.test.contents
    first = next(filter(len, tables.taken_pieces(of, outlined.test.rows)))
    return sum(table_features.planned_columns(of.card, first, sheets.shown_name(of.card, of.paths[0])).widths)


def of_own_labels(dataset: DatasetCard) -> str:
    """Which labels of own data are classes, for the refusal of tasks that do not divide them; empty for other data.

    From the schema and the public test part alone: of a label that no schema lists only private rows may tell.
    """
    (of_files,) = outlines(dataset) if dataset.is_own else (None,)
    if of_files is None:
        return ""
    if not dataset.classes:
        named = sheets.first_names(of_files.classes)
        return f"classes are the labels of the public test part ({named}): list one that it lacks as a class in a schema"
    seen = {of_files.classes[label] for label in np.unique(of_files.test.labels).tolist()}
    lacking = [name for name in of_files.classes if name not in seen]
    return f"the test part has no row of {sheets.first_names(lacking)}" if lacking else ""


def source_sizes(data: DataSpec) -> dict[str, int]:
    """Nominal numbers of training examples of a dataset's sources under the settings' caps, from its card alone.

    The sources of a combined dataset are its members; those of a generated one are equally large. Empty where the card has
    no sizes.
    """
    dataset = card(data.dataset)
    caps = Caps.of(data)
    if dataset.members:
        return {one.name: Sizes.published(one, caps).totals[0] for one in members(dataset)}
    if not dataset.made_per_source:
        return {}
    n_each = dataset.n_train // len(dataset.sources)
    parts = [replace(dataset, n_train=n_each, n_classes=len(classes), sources=()) for _, classes in dataset.sources]
    totals = [Sizes.published(part, caps).totals[0] for part in parts]
    return dict(zip((source for source, _ in dataset.sources), totals, strict=True))


def outlines(dataset: DatasetCard) -> list[Outline | None]:
    """The outline of each member's files; None where they would have to be downloaded. Raises as `facts` does."""
    found: list[Outline | None] = []
    for member in members(dataset):
        try:
            found.append(outline(member))
        except DataMissing:
            if member.hub is None:
                raise
            found.append(None)
    return found


_WHAT: Mapping[Kind, str] = {
    "image": "images", "sensor": "windows", "text": "texts", "tagged": "words", "table": "rows", "embedding": "embeddings",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Nominal numbers of training examples and numbers of test examples of each class: int64 [classes]."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, outline: Outline, caps: Caps = UNCAPPED) -> Sizes:
        """Sizes of an outline or of its subset; nothing of the training part is counted."""
        test = np.bincount(outline.thinned_test(caps).labels.astype(np.intp), minlength=len(outline.classes))
        return cls(_evenly(outline.n_kept(caps), len(outline.classes)), test)

    @classmethod
    def published(cls, card: DatasetCard, caps: Caps = UNCAPPED) -> Sizes:
        """The card's sizes or those of a subset, as even over sources and classes as integers allow."""
        n_train = int(_capped(_evenly(card.n_train, max(1, len(card.sources))), caps.train_per_source).sum())
        train, test = _evenly(n_train, card.n_classes), _evenly(card.n_test, card.n_classes)
        return cls(_capped(train, caps.train_per_class), _capped(test, caps.test_per_class))

    @property
    def totals(self) -> tuple[int, int]:
        return int(self.train.sum()), int(self.test.sum())


def truthful_title(card: DatasetCard, members: Sequence[DatasetCard], subset: Sequence[Sizes], full: Sequence[Sizes]) -> str:
    """The card's title with its difference from the published set: of each member the `subset` was read out of `full`.

    For instance "CIFAR-100 (subset: 300 of 500 training and 40 of 100 test images a class)".
    """
    read = [sizes.totals for sizes in subset]
    published = [
        sizes.totals if member.is_own else (member.n_train, member.n_test)
        for member, sizes in zip(members, full, strict=True)
    ]
    notes = ["own data"] if card.is_own else []
    if card.stands_in_for:
        notes.append(f"stands in for {card.stands_in_for}")
    each = zip(members, read, published, strict=True)
    # Of a set that is divided here only the sum is published.
    if any(now != then if one.held_out is None else sum(now) != sum(then) for one, now, then in each):
        notes.append(_difference(card, subset, *np.sum(read, axis=0).tolist(), *np.sum(published, axis=0).tolist()))
    return f"{card.title} ({'; '.join(notes)})" if notes else card.title


def _difference(card: DatasetCard, subset: Sequence[Sizes], n_train: int, n_test: int, of_train: int, of_test: int) -> str:
    what = _WHAT[card.kind]
    n_all, of_all = n_train + n_test, of_train + of_test
    if n_all > of_all or (card.held_out is None and (n_train > of_train or n_test > of_test)):
        return f"not as published: {n_train:,} training and {n_test:,} test {what} instead of {of_train:,} and {of_test:,}"
    if card.held_out is not None:
        return f"subset: {n_train:,} training and {n_test:,} test {what} of {of_all:,}"
    is_even = card.is_balanced and all(np.ptp(sizes) == 0 for sizes in (subset[0].train, subset[0].test))
    per = card.n_classes if is_even else 1
    pairs = [(n_train // per, of_train // per), (n_test // per, of_test // per)]
    train, test = (f"all {of:,}" if n == of else f"{n:,} of {of:,}" for n, of in pairs)
    return f"subset: {train} training and {test} test {what}{' a class' if is_even else ''}"


def _evenly(n: int, n_classes: int) -> NDArray[np.int64]:
    return (n + np.arange(n_classes)) // n_classes


def _capped(sizes: NDArray[np.int64], cap: int | None) -> NDArray[np.int64]:
    return sizes if cap is None else np.minimum(sizes, cap)


DIVISIBLE: tuple[Kind, ...] = ("text", "tagged", "table", "embedding")  # kinds whose test part may be part of a single file


def kind_of_files(card: DatasetCard) -> Kind | None:
    """The kind of a dataset's files; None where there are none, or they cannot be read."""
    if (data_files := _found(card)) is None:
        return None
    kind = _kind_by_columns(data_files, card)
    return kind if data_files.is_folder or kind in DIVISIBLE or data_files.test else None


def _found(card: DatasetCard) -> files.DataFiles | None:
    """The files of a folder; None where they cannot be found, as is reported elsewhere."""
    with suppress(BadInput, OSError):
        return files.find(card)
    return None


def with_public_columns(card: DatasetCard) -> DatasetCard:
    """The card with the columns that public lines have, where no first line names them."""
    with suppress(BadInput, OSError):  # reported where the files are needed
        return sheets.by_public_lines(card, files.find(card))
    return card


def public_by_form(card: DatasetCard) -> tuple[str, ...]:
    """What the form of a folder's files makes public, as their owner declares by bringing them in this form."""
    if (data_files := _found(card)) is None:
        return ()
    said = {
        ".parquet": "what a parquet file says of its columns, for all rows together: names, types and lists of categories",
        ".npz": "what an NPZ file says of its arrays: names, types and widths",
        **dict.fromkeys((".csv", ".tsv") if card.has_names else (), "the first line of the file, which names the columns"),
    }
    suffix = data_files.train[0].suffix
    return (said[suffix],) if suffix in said else ()


def _is_damaged_table(card: DatasetCard) -> bool:
    """Whether this is a single table whose header is damaged: its reader says what is wrong."""
    data_files = _found(card)
    with suppress(BadInput):
        if data_files and not data_files.test and data_files.train[0].suffix in sheets.TYPED:
            sheets.header(data_files.train[0], card)
        return False
    return True


def _kind_by_columns(data_files: files.DataFiles, card: DatasetCard) -> Kind | None:
    first = data_files.train[0]
    if data_files.is_folder:
        return "image"
    if first.suffix == ".conll":
        return "tagged"
    try:
        columns = sheets.header(first, card)
    except BadInput:
        return None if first.suffix in sheets.TYPED else "text"
    if WINDOW_COLUMN in columns:
        return "sensor"
    if first.suffix == ".parquet" and any(column in IMAGE_COLUMNS for column in columns):
        return "image"
    is_new = first.suffix == ".jsonl" or tags_column(columns) != TAGS_COLUMN  # a column of labels goes before
    if first.suffix in (".parquet", ".jsonl") and tags_column(columns) and not (is_new and LABEL_COLUMN in columns):
        return "tagged"
    if "text" in columns and not card.features:
        return "text"
    if sheets.EMBEDDING_COLUMN in columns:
        return "embedding"
    if LABEL_COLUMN in columns:
        return "table"
    return None if first.suffix in sheets.TYPED else "text"
