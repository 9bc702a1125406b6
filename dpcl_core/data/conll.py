"""Reader of CoNLL files: one word per line. CoNLL-2012 (OntoNotes 5) has names in brackets and documents by genre; others,
with 2 to 10 columns, have the word first and its tag last (IOB, BIO or BIOES)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dpcl_core.data.sheets import content_of
from dpcl_core.data.tags import BEGIN, INSIDE, OUTSIDE
from dpcl_core.errors import BadInput

WORD, ENTITY = 3, 10  # columns, counted from 0
_ENTITY = re.compile(r"(?:\(([A-Za-z][A-Za-z_-]*))?\*?(\))?")

_TAG = re.compile(r"([BIES])-([A-Za-z][A-Za-z0-9_-]*)")
_COLUMNS = (
    "must have a word first and its tag last (B-PER, I-PER, O), or 11 columns or more, as OntoNotes has them: the 4th a "
    "word, the 11th names in brackets"
)

_NO_TAG = "must end in O, or in B-, I-, E- or S- with the kind of a name, such as B-PER: a number without a name is no tag"

Tagged = tuple[tuple[str, ...], tuple[str, ...], str]  # words, their BIO tags, domain


def read(path: Path, shown: str) -> list[Tagged | BadInput]:
    """The sentences of a file; the domain is the part of a document's name before the first slash (bc, bn, nw, ...).

    An unreadable sentence is replaced by its error, which names the line and what is allowed, but no word of the file: it
    may be private. Raises BadInput for a file that cannot be opened.
    """
    sentences_read: list[Tagged | BadInput] = []
    for block in blocks(path, shown):
        try:
            sentences_read.append(_sentence(block, shown))
        except BadInput as wrong:
            sentences_read.append(wrong)
    return sentences_read


def blocks(path: Path, shown: str) -> list[list[tuple[int, bytes]]]:
    """The lines of each sentence of a file with their numbers, read or not. Raises BadInput as `read` does."""
    found: list[list[tuple[int, bytes]]] = [[]]
    for number, line in enumerate(content_of(path, shown).splitlines(), start=1):
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
    tags: list[str] = []
    for one in written:
        tags.append(_plain_tag(one, tags[-1] if tags else OUTSIDE, shown))
    return tuple(tags)


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
