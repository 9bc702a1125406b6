"""Rows of CSV, TSV and JSON lines files: each line is read alone, and none that is private says which columns there are.

Columns, separator and number of values come from a first line that names the columns, as its owner declares, or else from
public lines: those of the test file or, of a single file, those that their own coins make public.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpcl_core.data import canonical, coins
from dpcl_core.data.card import HELD_OUT, DatasetCard
from dpcl_core.data.files import DataFiles, ending
from dpcl_core.data.schema import CONTROL
from dpcl_core.errors import BadInput

DELIMITED = (".csv", ".tsv")
SUFFIXES = (*DELIMITED, ".jsonl")
MAX_COLUMNS = 4096
_SEPARATORS = ",;\t"
_MAX_LINES = 1000  # of a value between quotes in a public file
_MAX_DEPTH = 50  # of brackets in a line of JSON
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_DECIMAL_COMMA = re.compile(r"^\s*([-+]?\d+),(\d+)\s*$")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
NO_OBJECT = f"must be one JSON object, in UTF-8, nested at most {_MAX_DEPTH} deep"


@dataclass(frozen=True, slots=True)
class Form:
    """What is public about the rows of a file: its columns, and what separates values ("" for JSON lines)."""

    names: tuple[str, ...]
    separator: str


def of_rows(content: bytes) -> list[bytes]:
    """The lines that are not blank."""
    return [line for line in content.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip(b" ")]


def text(line: bytes) -> str:
    """A line as text: UTF-8, else Windows-1252. Each is decoded alone, so that no other row decides."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def refuse_utf16(content: bytes, shown: str) -> None:
    """Raises BadInput for a file whose mark says that it is in UTF-16."""
    if content[:2] in _UTF16:
        raise BadInput(shown, "UTF-16", "must be saved as UTF-8")


def by_header(line: bytes, suffix: str) -> Form:
    """The form that a first line of names gives. Raises nothing: names are checked where they are used."""
    separator = _most_common_separator([text(line)], suffix)
    return Form(tuple(name.strip() for name in cells(text(line), separator) or [text(line)]), separator)


def by_public_lines(card: DatasetCard, data_files: DataFiles) -> Form:
    """The form of a file without a first line of names, from its public lines alone; without names where none is usable.

    Raises OSError where it cannot be read.
    """
    path = (data_files.test or data_files.train)[0]
    status = os.stat(path)
    stamp = (status.st_mtime_ns, status.st_size)
    person = dict(card.roles).get("person")
    return _by_public_lines(path, stamp, bool(data_files.test), card.coins, card.held_out or HELD_OUT, person)


@lru_cache(maxsize=64)
def _by_public_lines(
    path: Path, stamp: tuple[int, int], is_public: bool, version: int, share: float, person: str | None
) -> Form:
    rows = of_rows(path.read_bytes())
    is_lines = ending(path) == ".jsonl"
    constant = _by_ending(ending(path)) if person is not None and not is_public else None
    if version == 1:  # the rule by which data were taken in before: the first line says it
        chosen, constant = rows[:1], None
    elif is_public:
        chosen = rows
    else:
        keys = coins.keys(coins.distinct(texts_of(rows, ending(path), None)))
        if person is not None:  # whose rows go together; which value names her is known by the separator alone
            keys = coins.of_people(_people(rows, person, "" if is_lines else _by_ending(ending(path))), keys)
        chosen = [rows[place] for place in np.flatnonzero(coins.division(keys, share))]
    if is_lines:
        names = dict.fromkeys(key for one in map(parsed, chosen) if one for key in one)
        if version == 1:
            return Form(tuple(names), "")
        # In alphabetical order: of two rows of one text, whose keys may be in another order, either may be the public one.
        return Form(tuple(sorted(key for key in names if not CONTROL.search(key))), "")
    lines = [text(line) for line in chosen]
    separator = constant or _most_common_separator(lines, ending(path))
    widths = Counter(len(found) for line in lines if (found := cells(line, separator)) is not None)
    n_columns = max(widths, key=lambda width: (widths[width], width), default=0)
    return Form(tuple(f"column{place}" for place in range(1, n_columns + 1)), separator)


def _people(rows: Sequence[bytes], column: str, separator: str) -> list[str]:
    """What each row has in the column of people."""
    if not separator:
        words = [_canonical_cell((parsed(line) or {}).get(column)) or "" for line in rows]
    else:
        place = int(column.removeprefix("column")) - 1 if re.fullmatch(r"column[1-9]\d{0,5}", column) else MAX_COLUMNS
        found = [cells(text(line), separator) or [] for line in rows]
        words = [one[place] if place < len(one) else "" for one in found]
    return [canonical.word(one).strip() for one in words]


def texts_of(rows: Iterable[bytes], suffix: str, form: Form | None) -> Iterator[bytes]:
    """The canonical text of each row, which its coin is drawn from: its values by name, so that the same row has one text in
    every form of table.

    Of a line that is no row it is the line itself, and so of all lines without a header (`form` is None), whose names would
    depend on other lines.
    """
    for line in rows:
        pairs: list[tuple[str, str]] | None = None
        if suffix == ".jsonl":
            if (one := parsed(line)) is not None:
                pairs = sorted((key, canonical.nested(value)) for key, value in one.items())
        elif form is not None:
            found = cells(text(line), form.separator)
            if found is not None and len(found) == len(form.names):
                found = [_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in found] if form.separator == ";" else found
                pairs = sorted((name, canonical.word(cell)) for name, cell in zip(form.names, found, strict=True) if name)
        yield line.strip() if pairs is None else canonical.row_text(pairs)


def first_cells(rows: Iterable[bytes], suffix: str, form: Form) -> Iterator[list[bytes] | None]:
    """The cells of each row as coins were drawn from them first (`coins` = 1), by name; None for a line that is no row."""
    order = sorted(range(len(form.names)), key=form.names.__getitem__)
    for line in rows:
        if suffix == ".jsonl":
            one = parsed(line)
            found = None if one is None else [_cell(one.get(name)) or "" for name in form.names]
        else:
            found = cells(line.decode("utf-8", "replace"), form.separator)
            found = found if found is not None and len(found) == len(form.names) else None
            if found is not None:
                found = ["" if "\ufffd" in cell else cell for cell in found]
                found = [_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in found] if form.separator == ";" else found
        named = [place for place in order if form.names[place]]
        yield None if found is None else [found[place].encode("utf-8", "surrogatepass") for place in named]


def table(rows: Sequence[bytes], suffix: str, form: Form, *, version: int) -> pa.Table:
    """The columns of these rows as text, under the file's names; a line that is no row has no values.

    A column without a name, such as the row numbers that pandas writes, has nothing to be called by: it is left out.
    """
    if suffix == ".jsonl":
        objects = [parsed(line) or {} for line in rows]
        cell = _cell if version == 1 else _canonical_cell
        columns = {name: [cell(one.get(name)) for one in objects] for name in form.names}
    else:
        nothing: list[str | None] = [None] * len(form.names)
        found = [cells(text(line), form.separator) for line in rows]
        whole = [one if one is not None and len(one) == len(form.names) else nothing for one in found]
        by_place = list(zip(*whole, strict=True)) if whole else [()] * len(form.names)
        columns = {name: list(by_place[place]) for place, name in enumerate(form.names) if name}
    if form.separator == ";":  # as where numbers have a decimal comma, which is why the values are not separated by one
        columns = {name: [one and _DECIMAL_COMMA.sub(r"\1.\2", one) for one in column] for name, column in columns.items()}
    if version > 1:
        columns = {name: [one and canonical.word(one) for one in column] for name, column in columns.items()}
    return pa.table({name: pa.array(column, pa.large_string()) for name, column in columns.items()})


def joined(content: bytes, form: Form, shown: str) -> list[bytes]:
    """The rows of a public CSV or TSV file, whose quoted values may have line breaks.

    Raises BadInput naming the line of a row with an open quote or another number of values.
    """
    rows: list[bytes] = []
    open_line, start = b"", 0
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True), start=1):
        if not open_line and not line.strip(b" \r\n"):
            continue
        start = start if open_line else number
        whole = (open_line + line).rstrip(b"\r\n")
        found = cells(text(whole), form.separator)
        open_line = open_line + line if found is None else b""
        if found is None and number - start == _MAX_LINES:
            break
        if found is None:
            continue
        if len(found) != len(form.names):
            allowed = f"must have {len(form.names)}, as many as there are columns, and texts with a separator between quotes"
            raise BadInput(f"{shown} line {start}", f"{len(found)} values", allowed)
        rows.append(whole)
    if open_line:
        raise BadInput(f"{shown} line {start}", "an open quote", 'must close every quote (") that it opens')
    return rows


def cells(line: str, separator: str) -> list[str] | None:
    """The values of a line; None where it leaves a quote open or closes one that is not."""
    if '"' not in line:
        return line.split(separator)
    closed, value = _quoting(separator)
    if not closed.fullmatch(line):
        return None
    return [
        found[1].replace('""', '"') + found[2] if found[1] is not None else found[3] for found in value.finditer(line)
    ]


@lru_cache(maxsize=8)
def _quoting(separator: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A whole line of values, and one value with what follows it."""
    by = re.escape(separator)
    one = r'(?:"(?:[^"]++|"")*+"[^BY]*+|(?!")(?:[^BY]*[^BY"])?(?=BY|$))'
    value = r'(?:\A|(?<=BY))(?:"((?:[^"]++|"")*+)"([^BY]*+)|([^BY]*+))(?:BY|\Z)'
    whole = re.compile((one + "(?:BY" + one + ")*+").replace("BY", by))
    return whole, re.compile(value.replace("BY", by))


def _by_ending(suffix: str) -> str:
    return "\t" if suffix == ".tsv" else ","


def _most_common_separator(lines: Sequence[str], suffix: str) -> str:
    """A tab in a TSV file; in a CSV file what these lines have most of, commas, semicolons or tabs, outside quotes."""
    if suffix == ".tsv":
        return "\t"
    outside = "\n".join(re.sub(r'"[^"]*"', "", line) for line in lines)
    return max(_SEPARATORS, key=lambda one: (outside.count(one), one == ","))


def parsed(line: bytes) -> dict[str, object] | None:
    """The object on a line of JSON; None where it holds something else."""
    try:
        # Numbers stay as they are written: one of thousands of digits is no integer of Python.
        whole = "null" if _is_deep(line) else line.decode("utf-8")
        one = json.loads(whole, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return None
    return one if isinstance(one, dict) else None


def _is_deep(line: bytes) -> bool:
    """Whether brackets are nested deeper than `_MAX_DEPTH`, those within strings apart.

    Python reads and writes JSON recursively: how deep it gets depends on who calls, but which rows count must not.
    """
    if line.count(b"[") + line.count(b"{") <= _MAX_DEPTH:
        return False
    steps = [1 if one in b"[{" else -1 for one in re.findall(rb"[\[\]{}]", _JSON_STRING.sub(b"", line))]
    return max(accumulate(steps), default=0) > _MAX_DEPTH


def _canonical_cell(value: object) -> str | None:
    cell = _cell(value)
    return cell if cell is None or isinstance(value, str) else canonical.nested(value)


def _cell(value: object) -> str | None:
    """A value of JSON as text; null stays null."""
    if value is None or isinstance(value, str):
        usable = value is None or value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
        return value if usable else None
    return json.dumps(value, ensure_ascii=True)
