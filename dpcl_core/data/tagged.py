"""Reads sentences with a tag for every word from parquet files (tokens, tags, domain) or CoNLL files."""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import lines, sheets
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.columns import is_list, is_text, of_arrow, pa, pq, values_of
from dpcl_core.data.files import Contents
from dpcl_core.data.rows import SOURCE_COLUMN, PublicFacts, Rows, refuse_unknown
from dpcl_core.data.texts import BEGIN, INSIDE, OUTSIDE, Sentences, tags_of
from dpcl_core.errors import BadInput

# Reader of CoNLL files: one word per line. CoNLL-2012 (OntoNotes 5) has names in brackets and documents by genre; others,
# with 2 to 10 columns, have the word first and its tag last (IOB, BIO or BIOES).


WORD, ENTITY = 3, 10  # columns, counted from 0
_ENTITY = re.compile(r"(?:\(([A-Za-z][A-Za-z_-]*))?\*?(\))?")

_TAG = re.compile(r"([BIES])-([A-Za-z][A-Za-z0-9_-]*)")
_COLUMNS = (
    "must have a word first and its tag last (B-PER, I-PER, O), or 11 columns or more, as OntoNotes has them: the 4th a "
    "word, the 11th names in brackets"
)

_NO_TAG = "must end in O, or in B-, I-, E- or S- with the kind of a name, such as B-PER: a number without a name is no tag"

Tagged = tuple[tuple[str, ...], tuple[str, ...], str]  # words, their BIO tags, domain


def blocks(path: Path, shown: str) -> list[list[tuple[int, bytes]]]:
    """The lines of each sentence of a file with their numbers. Raises BadInput for a file that cannot be opened."""
    found: list[list[tuple[int, bytes]]] = [[]]
    for number, line in enumerate(sheets.content_of(path, shown).splitlines(), start=1):
        if not line.startswith((b"#", b"-DOCSTART-")) and line.strip():
            found[-1].append((number, line))
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def _sentence(lines: list[tuple[int, bytes]], shown: str) -> Tagged:
    words: list[str] = []
    tags: list[str] = []
    domain, inside = "", ""
    for number, line in lines:
        try:
            columns = line.decode("utf-8").split()
        except UnicodeDecodeError:
            raise BadInput(f"{shown} line {number}", "bytes of another kind", "must be saved as UTF-8") from None
        if len(columns) <= ENTITY:
            if len(columns) < 2 or domain:
                raise BadInput(f"{shown} line {number}", f"{len(columns)} columns", _COLUMNS)
            tags.append(_plain_tag(columns[-1], tags[-1] if tags else OUTSIDE, f"{shown} line {number}"))
            words.append(columns[0])
            continue
        domain = columns[0].partition("/")[0]
        tag, inside = _tag(columns[ENTITY], inside, f"{shown} line {number}")
        words.append(columns[WORD])
        tags.append(tag)
    if inside:
        raise BadInput(f"{shown} line {lines[-1][0] + 1}", "end of a sentence", "a name was opened before and is not closed")
    return tuple(words), tuple(tags), domain


def bio(written: Sequence[str], shown: str) -> tuple[str, ...]:
    """The tags of a sentence in BIO, whichever scheme they are written in. Raises BadInput for what is no tag."""
    return tuple(accumulate(written, lambda before, one: _plain_tag(one, before, shown), initial=OUTSIDE))[1:]


def _plain_tag(written: str, before: str, shown: str) -> str:
    """A tag of any of these schemes as BIO: a name begins with B- or S-, or where another kind or none stood before."""
    if written == OUTSIDE:
        return OUTSIDE
    match = _TAG.fullmatch(written)
    if match is None:
        raise BadInput(shown, "another tag", _NO_TAG)
    goes_on = match[1] in "IE" and before in (f"{BEGIN}{match[2]}", f"{INSIDE}{match[2]}")
    return f"{INSIDE if goes_on else BEGIN}{match[2]}"


def _tag(written: str, inside: str, shown: str) -> tuple[str, str]:
    """A word's BIO tag, and the type of the name that continues after it ("": none)."""
    match = _ENTITY.fullmatch(written)
    opened, closed = match.groups() if match else (None, None)
    if match is None or not written or (opened and inside) or (closed and not (opened or inside)):
        allowed = "its 11th column must open or close one name at a time, as (ORG*, *, *) or (ORG)"
        raise BadInput(shown, "brackets that do not fit", allowed)
    kind = opened or inside
    tag = f"{BEGIN if opened else INSIDE}{kind}" if kind else OUTSIDE
    return tag, "" if closed else kind


WORDS_COLUMN, TAGS_COLUMN = "tokens", "tags"
_TAGS_COLUMNS = (TAGS_COLUMN, "ner_tags")


class TaggedSheet:
    """The files of a split of tagged sentences. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, of: Contents) -> None:
        self._card, self._shown = of.card, sheets.shown_name(of.card, of.paths[0])
        self._sentences = sentences(of)
        if not self._sentences and not of.is_private:
            if of.paths[0].suffix == ".conll":
                allowed = "must hold at least one sentence in the form of OntoNotes (CoNLL-2012)"
                raise BadInput(self._shown, "no sentences", allowed)
            raise BadInput(self._shown, "no rows", "must have at least one row")
        self.has_sources = all(one.suffix != ".parquet" or SOURCE_COLUMN in pq.read_schema(one).names for one in of.paths)

    def __len__(self) -> int:
        return len(self._sentences)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; `rows` are sentences, and the result's rows are their words."""
        chosen = [_usable(self._sentences[row]) for row in rows.tolist()]
        public_numbers = known.numbers if known else {name: place for place, name in enumerate(self._card.classes)}
        kinds = sorted({tag[2:] for _, tags, _ in chosen for tag in tags if tag != OUTSIDE})
        numbers = public_numbers or {name: place for place, name in enumerate(tags_of(kinds))}
        for row, (_, tags, _) in zip(rows, chosen, strict=True):
            if others := [tag for tag in tags if tag not in numbers]:
                known_kinds = sorted({name[2:] for name in numbers if name != OUTSIDE})
                allowed = f"must be {OUTSIDE}, or {BEGIN} or {INSIDE} with one of {', '.join(known_kinds)}"
                raise BadInput(f"{self._shown} sentence {row}, {TAGS_COLUMN}", others[0], allowed)
        domains = np.asarray([domain for _, _, domain in chosen], dtype=np.str_)
        refuse_unknown(domains, known, f"{self._shown} sentence", SOURCE_COLUMN, rows)
        lengths = [len(tags) for _, tags, _ in chosen]
        sources = np.repeat(domains, lengths) if (known.sources is not None if known else all(domains)) else None
        labels = np.array([numbers[tag] for _, tags, _ in chosen for tag in tags], dtype=np.int64)
        return Rows(labels, {label: name for name, label in numbers.items()}, sources, np.repeat(rows, lengths), numbers)


def _usable(sentence: Tagged | BadInput) -> Tagged:
    """The sentence. Raises its error if it is unusable."""
    if isinstance(sentence, BadInput):
        raise sentence
    return sentence


def read_sentences(of: Contents, rows: NDArray[np.int64]) -> Sentences:
    """The sentences of these rows, ascending, each once even if its number is repeated."""
    all_sentences = sentences(of)
    return Sentences([_usable(all_sentences[row])[0] for row in np.unique(rows).tolist()])


def sentences(of: Contents) -> list[Tagged | BadInput]:
    """The sentences of a split; an unusable one is replaced by its error."""
    return [sentence for path in of.paths for sentence in _READERS[path.suffix](path, of.card)]


def tags_column(names: Collection[str]) -> str | None:
    """Which of a table's columns has the tags of its column of words; None where no words are tagged."""
    return next((one for one in _TAGS_COLUMNS if one in names and WORDS_COLUMN in names), None)


def _of_conll(path: Path, card: DatasetCard) -> list[Tagged | BadInput]:
    """The sentences of a file; the domain is the part of a document's name before the first slash (bc, bn, nw, ...).

    An error names the line and what is allowed, but no word of the file: it may be private.
    """
    shown = sheets.shown_name(card, path)
    return [_judged(_sentence, block, shown) for block in blocks(path, shown)]


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
    with sheets.parquet_file(path, card) as file:
        schema: pa.Schema = file.schema_arrow
        tags_name = tags_column(schema.names) or TAGS_COLUMN
        names = sheets.declared_names(schema, tags_name)
        for name in (WORDS_COLUMN, tags_name):
            fits = pa.types.is_integer if names and name == tags_name else is_text
            if name not in schema.names or not is_list(kind := schema.field(name).type) or not fits(kind.value_type):
                allowed = f"must have a column {name} of lists of text (or of tags as numbers whose names its header has)"
                raise BadInput(shown, ", ".join(schema.names), allowed)
        wanted = [name for name in (WORDS_COLUMN, tags_name, SOURCE_COLUMN) if name in schema.names]
        table = file.read(columns=wanted)
    all_tags: list[Any] = values_of(table[tags_name])
    if names:
        all_tags = [tags and [names.get(tag) for tag in tags] for tags in all_tags]
    pairs = list(zip(values_of(table[WORDS_COLUMN]), all_tags, strict=True))
    domains: list[str | None] = [""] * len(pairs)
    if SOURCE_COLUMN in wanted:
        domains = of_arrow(table[SOURCE_COLUMN], 2).words(f"{shown} column {SOURCE_COLUMN}")
    return _checked(pairs, domains, shown, is_bio=tags_name == TAGS_COLUMN)


def _checked(pairs: Sequence[Any], domains: Sequence[str | None], shown: str, *, is_bio: bool) -> list[Tagged | BadInput]:
    """The sentences with these words and tags, or the error of each. `is_bio`: tags are left as they are."""
    rows = enumerate(zip(pairs, domains, strict=True))
    return [_judged(_of_row, *pair, domain, f"{shown} sentence {row}", is_bio) for row, (pair, domain) in rows]


def _of_row(words: Any, tags: Any, domain: str | None, shown: str, is_bio: bool) -> Tagged:
    if not words or not tags or len(words) != len(tags) or None in words or None in tags or domain is None:
        allowed = f"must have as many {TAGS_COLUMN} as {WORDS_COLUMN}, one at least, and none empty"
        raise BadInput(shown, f"{len(words or ())} and {len(tags or ())}", allowed)
    return tuple(words), tuple(tags) if is_bio else bio(tags, shown), domain


def _judged(read: Callable[..., Tagged], *given: Any) -> Tagged | BadInput:
    """What is read of a sentence, or why it cannot be."""
    try:
        return read(*given)
    except BadInput as wrong:
        return wrong


_READERS = {".conll": _of_conll, ".jsonl": _of_lines, ".parquet": _of_parquet}
