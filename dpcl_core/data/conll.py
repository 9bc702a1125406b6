"""Reader of CoNLL-2012 files (OntoNotes 5): one word per line, names in brackets, documents by genre."""

from __future__ import annotations

import re
from pathlib import Path

from dpcl_core.data.sheets import content_of
from dpcl_core.data.tags import BEGIN, INSIDE, OUTSIDE
from dpcl_core.errors import BadInput

WORD, ENTITY = 3, 10  # columns, counted from 0
_ENTITY = re.compile(r"(?:\(([A-Za-z][A-Za-z_-]*))?\*?(\))?")

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
        if not line.startswith(b"#") and line.strip():
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
            allowed = "must have 11 columns or more, as OntoNotes has them: the 4th a word, the 11th names in brackets"
            raise BadInput(f"{shown} line {number}", f"{len(columns)} columns", allowed)
        domain = columns[0].partition("/")[0]
        tag, inside = _tag(columns[ENTITY], inside, f"{shown} line {number}")
        words.append(columns[WORD])
        tags.append(tag)
    if inside:
        raise BadInput(f"{shown} line {lines[-1][0] + 1}", "end of a sentence", "a name was opened before and is not closed")
    return tuple(words), tuple(tags), domain


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
