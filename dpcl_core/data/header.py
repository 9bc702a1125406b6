"""Detects a folder's data kind from file headers."""

from __future__ import annotations

from dataclasses import replace

from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.data.files import DataFiles
from dpcl_core.errors import BadInput

DIVISIBLE: tuple[Kind, ...] = ("text", "tagged", "table", "embedding")  # kinds whose test part may be part of a single file


def kind(card: DatasetCard) -> Kind | None:
    """The kind of a dataset's files; None where there are none, or they cannot be read."""
    try:
        data_files = files.find(replace(card, held_out=0.5))  # texts may be in one file
    except (BadInput, OSError):
        return None
    detected = _kind(data_files, card)
    is_divisible = data_files.is_folder or detected in DIVISIBLE
    return detected if is_divisible or data_files.test or card.held_out is not None else None


def with_columns(card: DatasetCard, share: float) -> DatasetCard:
    """The card with the columns that public lines have, where no first line names them; `share`: of rows that are public."""
    from dpcl_core.data import sheets

    try:
        divided = replace(card, held_out=share)
        return replace(sheets.by_public_lines(divided, files.find(divided)), held_out=card.held_out)
    except (BadInput, OSError):  # reported where the files are needed
        return card


def declared(card: DatasetCard) -> tuple[str, ...]:
    """What the form of a folder's files makes public, as their owner declares by bringing them in this form."""
    try:
        first = files.find(replace(card, held_out=0.5)).train[0]
    except (BadInput, OSError):
        return ()
    if first.suffix == ".parquet":
        return ("what a parquet file says of its columns, for all rows together: names, types and lists of categories",)
    if first.suffix == ".npz":
        return ("what an NPZ file says of its arrays: names, types and widths",)
    is_named = first.suffix in (".csv", ".tsv") and card.has_names
    return ("the first line of the file, which names the columns",) if is_named else ()


def of_damaged(card: DatasetCard) -> Kind:
    """The kind of files that have none: the one whose reader says what is wrong with a single table."""
    from dpcl_core.data import sheets

    try:
        data_files = files.find(replace(card, held_out=0.5))
    except BadInput:  # reported where the files are needed
        return "image"
    try:
        if not data_files.test and data_files.train[0].suffix in sheets.TYPED:
            sheets.header(data_files.train[0], card)
    except BadInput:
        return "table"
    return "image"


def _kind(data_files: DataFiles, card: DatasetCard) -> Kind | None:
    first = data_files.train[0]
    if data_files.is_folder:
        return "image"
    if first.suffix == ".conll":
        return "tagged"
    from dpcl_core.data import sheets  # imported late, like pyarrow: a list of names needs neither
    from dpcl_core.data.parquet import IMAGE_COLUMNS, WINDOW_COLUMN
    from dpcl_core.data.rows import LABEL_COLUMN
    from dpcl_core.data.sheets import EMBEDDING_COLUMN
    from dpcl_core.data.tagged import TAGS_COLUMN, tags_column

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
    if EMBEDDING_COLUMN in columns:
        return "embedding"
    if LABEL_COLUMN in columns:
        return "table"
    return None if first.suffix in sheets.TYPED else "text"
