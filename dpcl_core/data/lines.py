"""Rows of CSV, TSV and JSON lines files: each line is read alone, and none that is private says which columns there are.

Columns, separator and number of values come from a first line that names the columns, as its owner declares, or else from
public lines: those of the test file or, of a single file, those that their own coins make public.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from dpcl_core.data import coins
from dpcl_core.data.columns import Column, Table
from dpcl_core.data.files import ending
from dpcl_core.data.schema import CONTROL
from dpcl_core.errors import BadInput

DELIMITED = (".csv", ".tsv")
SUFFIXES = (*DELIMITED, ".jsonl")
MAX_COLUMNS = 4096
_SEPARATORS = ",;\t|"
_MOST_TITLES = 20  # lines before the one that names the columns
_INSTRUCTION = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MAX_LINES = 1000  # of a value between quotes in a public file
_MAX_DEPTH = 50  # of brackets in a line of JSON
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_DECIMAL_COMMA = re.compile(r"^\s*([-+]?\d+),(\d+)\s*$")
_COMMA_CELL = re.compile(r"[\t\n\f\r ]*([-+]?[0-9]+),([0-9]+)[\t\n\f\r ]*")
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


def header_place(
    rows: Sequence[bytes], suffix: str, wanted: Collection[str], *, is_declared: bool = False
) -> tuple[int, Form]:
    """Which of the first lines names the columns, and the form that it gives; names are checked where they are used.

    It is the first one that has a wanted name, below titles and comments; else the first one that is neither a comment nor
    Excel's instruction `sep=;`. `is_declared`: the owner says that a line names the columns, so that it is public. Only then
    may blanks separate its names: elsewhere a line of words may be somebody's text.
    """
    told = _INSTRUCTION.fullmatch(text(rows[0]).strip()) if rows else None
    separator, start = (told[1], 1) if told else (None, 0)
    places = range(start, min(len(rows), start + _MOST_TITLES))
    forms = []
    for place in places:
        forms.append((place, by_header(rows[place], suffix, separator)))
        has_separator = separator is not None or any(one in text(rows[place]) for one in _SEPARATORS)
        if is_declared and not has_separator and b" " in rows[place].strip():
            forms.append((place, by_header(rows[place], suffix, " ")))
    first = next((one for one in forms if any(name in one[1].names for name in wanted)), None)
    return first or next((one for one in forms if not rows[one[0]].startswith(b"#")), None) or (0, Form((), ","))


def by_header(line: bytes, suffix: str, separator: str | None = None) -> Form:
    """The form that a line of names gives."""
    separator = separator or _most_common_separator([text(line)], suffix)
    return Form(tuple(name.strip() for name in cells(text(line), separator) or [text(line)]), separator)


@lru_cache(maxsize=64)
def by_public_lines(
    path: Path, stamp: tuple[int, int], is_public: bool, version: int, share: float, person: str | None
) -> Form:
    """The form of a file without a first line of names, from its public lines alone; without names where none is usable.

    Cached until `stamp` changes. `is_public`: all lines are; else this share of them, or of people where a column names the
    person, by the rule of coins of this version. Raises OSError where the file cannot be read.
    """
    rows = of_rows(path.read_bytes())
    is_lines = ending(path) == ".jsonl"
    constant = ("\t" if ending(path) == ".tsv" else ",") if person is not None and not is_public else ""
    if version == 1:  # the rule by which data were taken in before: the first line says it
        chosen, constant = rows[:1], ""
    elif is_public:
        chosen = rows
    else:
        keys = coins.keys(coins.distinct(texts_of(rows, ending(path))))
        if person is not None:  # whose rows go together; which value names her is known by the separator alone
            keys = coins.of_people(_people(rows, person, "" if is_lines else constant), keys)
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
    return [coins.word(one).strip() for one in words]


def texts_of(rows: Iterable[bytes], suffix: str) -> Iterator[bytes]:
    """The canonical text of each row of JSON lines, which its coin is drawn from: values by name, as in `texts_of_table`.

    Of a line that is no object it is the line itself, and so of all lines without a header, whose names would depend on
    other lines.
    """
    for line in rows:
        one = parsed(line) if suffix == ".jsonl" else None
        pairs = None if one is None else sorted((key, coins.nested(value)) for key, value in one.items())
        yield line.strip() if pairs is None else coins.row_text(pairs)


def texts_of_table(table: Table, others: dict[int, bytes]) -> Iterator[bytes]:
    """The canonical text of each row of a CSV or TSV file, so that the same row has one text in every form of table.

    `others`: the lines that are no row, by place.
    """
    columns = [(name, [_with_point(cell) for cell in table[name].values]) for name in sorted(table.columns)]
    for place in range(len(table)):
        yield others[place].strip() if place in others else coins.row_text((name, cells[place]) for name, cells in columns)


def _with_point(cell: str | None) -> str:
    """A cell as other programs write it, with a decimal point; empty for none."""
    found = _COMMA_CELL.fullmatch(cell) if cell and "," in cell else None
    return cell or "" if found is None else coins.word(f"{found[1]}.{found[2]}")


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


def table(rows: Sequence[bytes], suffix: str, form: Form, *, version: int) -> tuple[Table, dict[int, bytes]]:
    """The columns of these rows as text, under the file's names, and by place the lines that are no row: without values.

    A column without a name, such as the row numbers that pandas writes, has nothing to be called by: it is left out.
    """
    others: dict[int, bytes] = {}
    columns: dict[str, list[str | None]]
    if suffix == ".jsonl":
        objects = [parsed(line) for line in rows]
        others = {place: rows[place] for place, one in enumerate(objects) if one is None}
        cell = _cell if version == 1 else _canonical_cell
        columns = {name: [None if one is None else cell(one.get(name)) for one in objects] for name in form.names}
    else:
        n_columns, whole = len(form.names), list[str | None]()
        for place, line in enumerate(rows):
            found = values(line, form)
            if found is None or len(found) != n_columns:
                others[place] = line
                whole += [None] * n_columns
            else:
                whole += found if version == 1 else map(coins.word, found)
        columns = {name: whole[place::n_columns] for place, name in enumerate(form.names) if name}
    return Table({name: Column("text", column) for name, column in columns.items()}, len(rows)), others


def quoted_rows(content: bytes, form: Form, shown: str, start_row: int) -> list[bytes]:
    """The rows of a public CSV or TSV file from one on, whose quoted values may have line breaks.

    Raises BadInput naming the line of a row with an open quote or another number of values.
    """
    rows: list[bytes] = []
    open_line, start, n_seen = b"", 0, 0
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True), start=1):
        if not open_line and not line.strip(b" \r\n"):
            continue
        n_seen += 1
        if n_seen <= start_row:
            continue
        start = start if open_line else number
        whole = (open_line + line).rstrip(b"\r\n")
        found = values(whole, form)
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


def values(line: bytes, form: Form) -> list[str] | None:
    """What `cells` gives, without empty values behind the last column."""
    found, n_columns = cells(text(line), form.separator), len(form.names)
    return found if found is None or any(map(str.strip, found[n_columns:])) else found[:n_columns]


def cells(line: str, separator: str) -> list[str] | None:
    """The values of a line; None where it leaves a quote open or closes one that is not.

    Where a blank separates values, several in a row count as one.
    """
    if separator == " ":
        line = " ".join(re.findall(r'(?:[^\s"]|"[^"]*+"?)++', line))
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
    return re.compile((one + "(?:BY" + one + ")*+").replace("BY", by)), re.compile(value.replace("BY", by))


def _most_common_separator(lines: Sequence[str], suffix: str) -> str:
    """A tab in a TSV file; in a CSV file what these lines have most of, commas, semicolons or tabs, outside quotes."""
    if suffix == ".tsv":
        return "\t"
    outside = "\n".join(re.sub(r'"[^"]*"', "", line) for line in lines)
    return max(_SEPARATORS, key=lambda one: (outside.count(one), one == ","))


def parsed(line: bytes) -> dict[str, object] | None:
    """The object on a line of JSON; None where it holds something else."""
    # Python reads and writes JSON recursively: how deep it gets depends on who calls, but which rows count must not.
    if line.count(b"[") + line.count(b"{") > _MAX_DEPTH:
        steps = (1 if one in b"[{" else -1 for one in re.findall(rb"[\[\]{}]", _JSON_STRING.sub(b"", line)))
        if max(accumulate(steps), default=0) > _MAX_DEPTH:
            return None
    try:
        # Numbers stay as they are written: one of thousands of digits is no integer of Python.
        one = json.loads(line.decode("utf-8"), parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return None
    return one if isinstance(one, dict) else None


def _canonical_cell(value: object) -> str | None:
    cell = _cell(value)
    return cell if cell is None else coins.word(cell) if isinstance(value, str) else coins.nested(value)


def _cell(value: object) -> str | None:
    """A value of JSON as text; null stays null."""
    if isinstance(value, str):
        return value if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value) else None
    return None if value is None else json.dumps(value, ensure_ascii=True)
