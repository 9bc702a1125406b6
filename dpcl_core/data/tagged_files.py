"""Reads sentences with a tag for every word from parquet files (tokens, tags, domain) or CoNLL files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data import canonical, conll, lines, named_rows, sheets
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.conll import Tagged
from dpcl_core.data.parquet import SOURCE_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows
from dpcl_core.data.sentences import Sentences
from dpcl_core.data.tags import BEGIN, INSIDE, OUTSIDE, tags_of
from dpcl_core.errors import BadInput

WORDS_COLUMN, TAGS_COLUMN = "tokens", "tags"
_TAGS_COLUMNS = (TAGS_COLUMN, "ner_tags")


class TaggedSheet:
    """The files of a split of tagged sentences. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, parts: Sequence[Path], card: DatasetCard, *, is_private: bool) -> None:
        self._card, self._shown = card, sheets.shown_name(card, parts[0])
        self._sentences = sentences(parts, card)
        if not self._sentences and not is_private:
            if parts[0].suffix == ".conll":
                allowed = "must hold at least one sentence in the form of OntoNotes (CoNLL-2012)"
                raise BadInput(self._shown, "no sentences", allowed)
            raise BadInput(self._shown, "no rows", "must have at least one row")
        self.has_sources = all(one.suffix != ".parquet" or SOURCE_COLUMN in pq.read_schema(one).names for one in parts)

    def __len__(self) -> int:
        return len(self._sentences)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; `rows` are sentences, and the result's rows are their words."""
        chosen = [(row, _usable(self._sentences[row])) for row in rows.tolist()]
        public_numbers = known.numbers if known else {name: place for place, name in enumerate(self._card.classes)}
        numbers = public_numbers or {name: place for place, name in enumerate(_tags([sentence for _, sentence in chosen]))}
        labels: list[int] = []
        for row, (_, tags, domain) in chosen:
            for tag in tags:
                if tag not in numbers:
                    kinds = sorted({name[2:] for name in numbers if name != OUTSIDE})
                    allowed = f"must be {OUTSIDE}, or {BEGIN} or {INSIDE} with one of {', '.join(kinds)}"
                    raise BadInput(f"{self._shown} sentence {row}, {TAGS_COLUMN}", tag, allowed)
                labels.append(numbers[tag])
            if known is not None and known.sources is not None and domain not in known.sources:
                raise BadInput(f"{self._shown} sentence {row}, {SOURCE_COLUMN}", domain, "is no source of the test part")
        lengths = [len(words) for _, (words, _, _) in chosen]
        domains = [domain for _, (_, _, domain) in chosen]
        with_sources = known.sources is not None if known else all(domains)
        sources = np.repeat(np.asarray(domains, dtype=np.str_), lengths) if with_sources else None
        names = {label: name for name, label in numbers.items()}
        return Rows(np.array(labels, dtype=np.int64), names, sources, np.repeat(rows, lengths), numbers)


def _usable(sentence: Tagged | BadInput) -> Tagged:
    """The sentence. Raises its error if it is unusable."""
    if isinstance(sentence, BadInput):
        raise sentence
    return sentence


def read_sentences(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64]) -> Sentences:
    """The sentences of these rows, ascending, each once even if its number is repeated."""
    all_sentences = sentences(parts, card)
    return Sentences([_usable(all_sentences[row])[0] for row in np.unique(rows).tolist()])


def _tags(sentences: Sequence[Tagged]) -> list[str]:
    """O, and both tags of every type that occurs, in alphabetical order."""
    return list(tags_of(sorted({tag[2:] for _, tags, _ in sentences for tag in tags if tag != OUTSIDE})))


def sentences(parts: Sequence[Path], card: DatasetCard) -> list[Tagged | BadInput]:
    """The sentences of a split; an unusable one is replaced by its error."""
    return [sentence for path in parts for sentence in _READERS[path.suffix](path, card)]


def tags_column(names: Collection[str]) -> str | None:
    """Which of a table's columns has the tags of its column of words; None where no words are tagged."""
    return next((one for one in _TAGS_COLUMNS if one in names and WORDS_COLUMN in names), None)


def _of_conll(path: Path, card: DatasetCard) -> list[Tagged | BadInput]:
    return conll.read(path, sheets.shown_name(card, path))


def _of_lines(path: Path, card: DatasetCard) -> list[Tagged | BadInput]:
    """JSON lines as the libraries of Hugging Face write them: lists of words, and of tags as words."""
    shown, rows = sheets.shown_name(card, path), sheets.lines_of(path, card)[0]
    pairs = []
    for one in (lines.parsed(line) or {} for line in rows):
        found = [one.get(name) for name in (WORDS_COLUMN, tags_column(one) or "")]
        is_usable = all(isinstance(each, list) and all(isinstance(word, str) for word in each) for each in found)
        pairs.append(found if is_usable else (None, None))
    return _checked(pairs, [""] * len(pairs), shown, is_bio=False)


def _of_parquet(path: Path, card: DatasetCard) -> list[Tagged | BadInput]:
    shown = sheets.shown_name(card, path)
    with sheets.parquet_file(path, shown) as file:
        schema: pa.Schema = file.schema_arrow
        tags_name = tags_column(schema.names) or TAGS_COLUMN
        names = sheets.declared_names(schema, tags_name)
        for name in (WORDS_COLUMN, tags_name):
            is_number = bool(names) and name == tags_name
            if name not in schema.names or not _holds(schema.field(name).type, is_number=is_number):
                allowed = f"must have a column {name} of lists of text (or of tags as numbers whose names its header has)"
                raise BadInput(shown, ", ".join(schema.names), allowed)
        wanted = [name for name in (WORDS_COLUMN, tags_name, SOURCE_COLUMN) if name in schema.names]
        table = sheets.decodable(file.read(columns=wanted))
    all_tags: list[Any] = canonical.values_of(table[tags_name])
    if names:
        all_tags = [tags and [names.get(tag) for tag in tags] for tags in all_tags]
    pairs = list(zip(canonical.values_of(table[WORDS_COLUMN]), all_tags, strict=True))
    domains: list[str | None] = [""] * len(pairs)
    if SOURCE_COLUMN in wanted:
        domains = named_rows.as_words(canonical.column(table[SOURCE_COLUMN]), f"{shown} column {SOURCE_COLUMN}")
    return _checked(pairs, domains, shown, is_bio=tags_name == TAGS_COLUMN)


def _checked(pairs: Sequence[Any], domains: Sequence[str | None], shown: str, *, is_bio: bool) -> list[Tagged | BadInput]:
    """The sentences with these words and tags, or the error of each. `is_bio`: tags are left as they are."""
    result: list[Tagged | BadInput] = []
    for row, ((words, tags), domain) in enumerate(zip(pairs, domains, strict=True)):
        if not words or not tags or len(words) != len(tags) or None in words or None in tags or domain is None:
            allowed = f"must have as many {TAGS_COLUMN} as {WORDS_COLUMN}, one at least, and none empty"
            result.append(BadInput(f"{shown} sentence {row}", f"{len(words or ())} and {len(tags or ())}", allowed))
            continue
        try:
            result.append((tuple(words), tuple(tags) if is_bio else conll.bio(tags, f"{shown} sentence {row}"), domain))
        except BadInput as wrong:
            result.append(wrong)
    return result


def _holds(kind: pa.DataType, *, is_number: bool) -> bool:
    """Whether a column of this type has lists of text, or of whole numbers."""
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return inner is not kind and bool(pa.types.is_integer(inner) if is_number else sheets.is_text(inner))


_READERS = {".conll": _of_conll, ".jsonl": _of_lines, ".parquet": _of_parquet}
