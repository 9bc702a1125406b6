"""Sentences with a tag for every word, read from parquet files (tokens, tags, domain) or from CoNLL files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data import conll, parquet
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.conll import Tagged
from dpcl_core.data.parquet import SOURCE_COLUMN, Rows
from dpcl_core.data.sentences import Sentences
from dpcl_core.data.tags import BEGIN, INSIDE, OUTSIDE, tags_of
from dpcl_core.errors import BadInput

WORDS_COLUMN, TAGS_COLUMN = "tokens", "tags"


def read_rows(parts: Sequence[Path], card: DatasetCard, known: Mapping[int, str] | None = None) -> Rows:
    """Labels, tags by name and sources of a split's words, and the sentence that each is in.

    `known`: the training part's tags, where the card has none. Raises BadInput naming file, sentence and what is allowed.
    """
    found = sentences(parts, card)
    names = list(card.classes or (known or {}).values()) or _tags(found)
    number = {name: place for place, name in enumerate(names)}
    labels: list[int] = []
    for row, (_, tags, _) in enumerate(found):
        for tag in tags:
            if tag not in number:
                kinds = sorted({name[2:] for name in names if name != OUTSIDE})
                allowed = f"must be {OUTSIDE}, or {BEGIN} or {INSIDE} with one of {', '.join(kinds)}"
                raise BadInput(f"{parquet.called(card, parts[0])} sentence {row}, {TAGS_COLUMN}", tag, allowed)
            labels.append(number[tag])
    lengths = [len(words) for words, _, _ in found]
    domains = [domain for _, _, domain in found]
    sources = np.repeat(np.asarray(domains, dtype=np.str_), lengths) if all(domains) else None
    rows = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    return Rows(np.array(labels, dtype=np.int64), dict(enumerate(names)), sources, rows)


def read_sentences(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> Sentences:
    """The sentences of these rows, ascending, each once however often its number is there."""
    found = sentences(parts, card)
    return Sentences([found[row][0] for row in np.unique(rows).tolist()])


def _tags(sentences: Sequence[Tagged]) -> list[str]:
    """O, and both tags of every type that occurs, by the alphabet."""
    return list(tags_of(sorted({tag[2:] for _, tags, _ in sentences for tag in tags if tag != OUTSIDE})))


def sentences(parts: Sequence[Path], card: DatasetCard) -> list[Tagged]:
    return [
        sentence
        for path in parts
        for sentence in (
            conll.read(path, parquet.called(card, path)) if path.suffix == ".conll" else _of_parquet(path, card)
        )
    ]


def _of_parquet(path: Path, card: DatasetCard) -> list[Tagged]:
    shown = parquet.called(card, path)
    with parquet.readable(path, shown), pq.ParquetFile(path) as file:
        schema: pa.Schema = file.schema_arrow
        for name in (WORDS_COLUMN, TAGS_COLUMN):
            if name not in schema.names or not _holds_texts(schema.field(name).type):
                raise BadInput(shown, ", ".join(schema.names), f"must have a column {name} of lists of text")
        wanted = [name for name in (WORDS_COLUMN, TAGS_COLUMN, SOURCE_COLUMN) if name in schema.names]
        columns = file.read(columns=wanted).to_pydict()
    pairs = list(zip(columns[WORDS_COLUMN], columns[TAGS_COLUMN], strict=True))
    domains = columns.get(SOURCE_COLUMN) or [""] * len(pairs)
    found: list[Tagged] = []
    for row, ((words, tags), domain) in enumerate(zip(pairs, domains, strict=True)):
        if not words or not tags or len(words) != len(tags) or None in words or None in tags or domain is None:
            allowed = f"must have as many {TAGS_COLUMN} as {WORDS_COLUMN}, one at least, and none empty"
            raise BadInput(f"{shown} sentence {row}", f"{len(words or ())} and {len(tags or ())}", allowed)
        found.append((tuple(words), tuple(tags), domain))
    if not found:
        raise BadInput(shown, "no rows", "must have at least one row")
    return found


def _holds_texts(kind: pa.DataType) -> bool:
    return bool((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and parquet.is_text(kind.value_type))
