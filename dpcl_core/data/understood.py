"""What was understood of the user's own data: what each column means, and what was assumed. Public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcl_core.data import catalog, files, header, outline, sheets, table_features, tables
from dpcl_core.data.card import HELD_OUT, DatasetCard, Feature, Kind, Writing
from dpcl_core.data.files import DataFiles
from dpcl_core.data.images import AS_READ
from dpcl_core.data.outline import Outline
from dpcl_core.data.sheets import EMBEDDING_COLUMN
from dpcl_core.data.table_features import RowEncoding

EARLIER = (
    "An earlier version took these data in, and its rule says which rows are public: rows once shown never become private. "
    "By that rule the first line of JSON lines, or one empty cell of a typed column, could move other rows."
)
_LINES = (
    "A private value of several lines cannot be read from CSV: its row is left out. Parquet and JSON lines can hold it."
)
_WRITTEN: dict[Writing, str] = {
    "": "number of any size, squashed", "comma": "number with a decimal comma, squashed",
    "thousands": "number with commas between thousands, squashed", "ymd": "date (year, month, day), in years",
    "dmy": "date (day, month, year), in years", "mdy": "date (month, day, year), in years",
}  # fmt: skip
Use = Literal["target", "text", "source", "person", "time", "feature", "unused"]
_ROLES: dict[str, Use] = {
    "label": "target", "text": "text", "domain": "source", sheets.PERSON: "person", sheets.TIME: "time",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table as the file calls it, what it is used as, and for a feature how it becomes numbers."""

    name: str
    use: Use
    read_as: str = ""


@dataclass(frozen=True, slots=True)
class Understood:
    """`columns` is empty for data without columns of the user's own; `undeclared`: features that a schema could describe.

    `assumed`: what holds for lack of a schema, one sentence each. `n_values`: numbers of an example as features, 0 where a
    network makes them.
    """

    kind: Kind
    columns: tuple[Column, ...]
    undeclared: tuple[str, ...]
    n_values: int
    assumed: tuple[str, ...]


def understood(card: DatasetCard, data_files: DataFiles, outlined: Outline) -> Understood:
    """What was understood of these files. Raises BadInput as reading them does."""
    is_divided = not data_files.test
    has_columns = card.kind in ("text", "table", "embedding") and not data_files.is_folder
    columns, undeclared, n_values, unread = tuple[Column, ...](), tuple[str, ...](), 0, list[str]()
    if has_columns:
        paths = data_files.test or data_files.train
        rows = None
        if card.kind == "table":
            rows = tables.taken(paths, outlined.test.rows, card, is_private=is_divided)
        encoding = None if rows is None else table_features.planned_columns(card, rows, card.name)
        unread = [] if rows is None or encoding is None else table_features.unread_cells(rows, encoding.features)
        columns, undeclared, n_values = _columns(card, data_files, encoding)
    assumed = [*_declared(card, data_files), *_first_line(card, data_files), *_lost(card, outlined, is_divided), *unread]
    assumed += _assumed(card, data_files, outlined, undeclared, is_divided)
    return Understood(card.kind, columns, undeclared, n_values, tuple(assumed))


def of(name: str) -> Understood:
    """What was understood of own:NAME. Raises BadInput and DataMissing as a run does."""
    card = catalog.card(name)
    data_files = files.find(card)
    return understood(card, data_files, outline.outline(card, data_files))


def _declared(card: DatasetCard, data_files: DataFiles) -> list[str]:
    """What the form of the file makes public, and an earlier rule of coins."""
    said = []
    if data_files.train[0].suffix in sheets.TYPED:
        said = [f"Public by declaration: {one}." for one in header.declared(card)]
    if card.coins == 1:
        said.append(EARLIER)
    return said


def _first_line(card: DatasetCard, data_files: DataFiles) -> list[str]:
    """What the first line of a CSV or TSV file was taken for."""
    path = data_files.train[0]
    if path.suffix not in sheets.DELIMITED or card.kind == "tagged":
        return []
    if not card.has_names:
        return ["The first line is a row of data: columns are called column1, column2, and so on.", _LINES]
    named = "The line that names the columns is public. Where the first line is a row of data, say --no-header."
    return [named, "A column without a name is left out.", _LINES]


def _lost(card: DatasetCard, outlined: Outline, is_divided: bool) -> list[str]:
    """What is lost on the way in: of public rows counted, with the reason; of private ones by rule alone."""
    said = []
    if outlined.lost:
        lost = "; ".join(f"{n:,} of them: {why}" for why, n in outlined.lost)
        n_lost = sum(n for _, n in outlined.lost)
        said.append(f"{n_lost:,} public rows are left out. {lost}. So are private rows of the kind.")
    if card.kind == "image":
        said.append(AS_READ)
    if card.has_people and not is_divided:
        said.append("Training rows of people who also stand in the public part are left out.")
    return said


def _columns(
    card: DatasetCard, data_files: DataFiles, encoding: RowEncoding | None
) -> tuple[tuple[Column, ...], tuple[str, ...], int]:
    path = data_files.train[0]
    names = sheets.header(path, card)
    called = {sheets.CANONICAL[role]: column for role, column in card.roles}
    read_as: dict[str, str] = {}
    n_values = 0
    if encoding is not None:
        read_as = {one.name: described(one, width) for one, width in zip(encoding.features, encoding.widths, strict=True)}
        n_values = sum(encoding.widths)
    elif card.kind == "embedding":
        embedded = [EMBEDDING_COLUMN] if EMBEDDING_COLUMN in names else [name for name in names if name not in _ROLES]
        read_as = dict.fromkeys(embedded, "numbers of an embedding, scaled to length 1")
    columns = []
    for name in names:
        use = _ROLES.get(name) or ("feature" if name in read_as else "unused")
        columns.append(Column(called.get(name, name), use, read_as.get(name, "")))
    has_declared = bool(card.features) or card.kind != "table"
    undeclared = () if has_declared else tuple(read_as)
    return tuple(columns), undeclared, n_values


def described(feature: Feature, width: int) -> str:
    """How a feature becomes numbers, in words."""
    if feature.low is not None and feature.high is not None:
        return f"number from {feature.low:g} to {feature.high:g}"
    if feature.categories:
        return f"one of {len(feature.categories)} categories, or another"
    return f"words, hashed to {width} values" if feature.is_text else _WRITTEN[feature.written]


def _assumed(
    card: DatasetCard, data_files: DataFiles, outlined: Outline, undeclared: tuple[str, ...], is_divided: bool
) -> list[str]:
    unit = {"text": "text", "tagged": "sentence", "image": "picture"}.get(card.kind, "row")
    said = []
    if not is_divided:
        place, n_public = data_files.test[0], len(np.unique(outlined.test.rows))
        where = f"{place.name}/" if place.is_dir() else place.name
        said.append(f"{n_public:,} {unit}s in {where} are not protected: they are the public test part.")
    if is_divided:
        side = f"all {unit}s of a person together" if card.has_people else f"each {unit} by a public coin of its own bytes"
        share = card.held_out or HELD_OUT
        said.append(
            f"About {share:.0%} of the {unit}s, {side}, are the public test part: no budget protects them, and classes, "
            "sizes and titles come from them."
        )
    if not card.n_train:
        example = "word" if card.kind == "tagged" else "example"
        about = f"About {outlined.n_train:,} training {example}s"
        said.append(f"{about}, four for each test {example}; a schema can give another number.")
    if not card.classes:
        labels = _some(outlined.classes)
        said.append(f"The labels of the test part are public: {labels}. Others are learned, or left out.")
    if undeclared:
        said.append(
            "Nothing is declared about the features: every number goes through one fixed public squashing, and words are "
            "hashed. The test part decides which columns hold numbers."
        )
    if card.has_people:
        at_most = f"{card.per_person} {unit}s count" if card.per_person > 1 else f"1 {unit} counts"
        said.append(f"The privacy unit is a person, of whom at most {at_most}.")
    elif card.kind in ("text", "table", "embedding"):
        said.append(f"Every {unit} counts as another person: where people have several, name the column of the person.")
    return said


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")
