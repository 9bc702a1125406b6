"""The public map from a row of a table to numbers in [-1, 1]: bounds and categories are declared, never read from rows.

A declared number is clipped to its bounds and scaled. A declared category is one of a list; all other values are one more.
A column of which nothing is declared is squashed, if it holds numbers, or hashed: both are constants, the same for any data.
Whether it holds numbers is read from the public part. A missing value, or a word among numbers, is the middle of a declared
range and all zeros elsewhere. So every row has values, whatever it holds, and they depend on that row and on public facts.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import sheets
from dpcl_core.data.card import DatasetCard, Feature, Writing
from dpcl_core.data.columns import Column, Table
from dpcl_core.errors import BadInput

Floats = NDArray[np.float32]
_LARGEST = 16.0  # arsinh of 4.4 million: larger numbers keep only their place on the circles
_TURNS = (math.pi / 2, math.pi)  # radians for each unit of arsinh: a circle for a factor of 55, and one for a factor of 7
_SQUASHED = 1 + 2 * len(_TURNS)
_PLACES = 4  # of a hashed word, each 1/2 or -1/2: two words are nearly orthogonal, and each has length 1
_NARROW, _WIDE, _MANY_WORDS = 32, 256, 4  # values of a hashed column; wide from so many words a cell on
MAX_WIDTH = 20_000
_BLOCK = 2**20  # values that are made at once, in double precision
_NO_FEATURES = ("nested", "vectors", "bytes")
_WORD = re.compile(r"\w+")
_MISSING = frozenset(  # among numbers, in small letters
    ["", "?", ".", "-", "--", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "unknown", "n.d.", "n/d", "k.a.",
     "#value!"]
)  # fmt: skip
_TRUTH = {"true": 1.0, "false": 0.0}
_WITHOUT_DIGITS = {*_TRUTH, *(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))}
_ENOUGH, _SHARE = 20, 0.95  # a column of so many public cells holds numbers where this share of them are some
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})*(\.\d+)?")
_NO_THOUSANDS = re.compile(r"^[-+]?0,|,(\d{1,2}|\d{4,})$")
_SIGN = re.compile(r"^[$€£¥]\s*|\s*[%$€£¥]$")  # of a share or a currency
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?.*)?")
_ORDERS: Mapping[Writing, tuple[int, int, int]] = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}


def width(feature: Feature, public: Column) -> int:
    """The number of values of a feature: of one whose column has many words in the public rows, more."""
    if feature.low is not None:
        return 1
    if feature.categories:
        return len(feature.categories) + 1
    if not feature.is_text:
        return _SQUASHED
    counts = [len(_WORD.findall(word)) for word in public.words(feature.name) if word]
    return _WIDE if counts and sum(counts) >= _MANY_WORDS * len(counts) else _NARROW


def _encoded(column: Column, feature: Feature, n_values: int) -> Floats:
    """The values float32 [n, n_values] of a feature's column."""
    if feature.categories:
        return _one_hot(column.words(feature.name), feature.categories)
    if feature.is_text:
        return _hashed(feature.name, column.words(feature.name), n_values)
    numbers = column_numbers(column, feature.name, feature.written)
    if feature.low is None or feature.high is None:
        return squashed(numbers)
    return _scaled(numbers, feature.low, feature.high)


def squashed(values: NDArray[np.float64]) -> Floats:
    """Numbers [n] of any size as values float32 [n, 5] in [-1, 1]; not-a-number gives zeros.

    u = arsinh(x) is x near 0 and the logarithm of 2x beyond. The first value is u / 16, clipped; the others are the cosine
    and the sine of u π/2 and of u π. On the circles a factor of two is far, however large the numbers are.
    """
    finite = np.isfinite(values)
    u = np.arcsinh(np.where(finite, values, 0.0))
    waves = [wave(u * turn) for turn in _TURNS for wave in (np.cos, np.sin)]
    together = np.stack([np.clip(u / _LARGEST, -1, 1), *waves], axis=1)
    return cast(Floats, np.where(finite[:, None], together, 0.0).astype(np.float32))


def _scaled(values: NDArray[np.float64], low: float, high: float) -> Floats:
    """Numbers [n] clipped to [low, high] and mapped onto [-1, 1]; not-a-number is the middle, 0."""
    middle = low / 2 + high / 2
    shares = (np.clip(np.where(np.isnan(values), middle, values), low, high) - middle) / (high / 2 - low / 2)
    return np.clip(shares, -1, 1).astype(np.float32)[:, None]


def _one_hot(words: Sequence[str | None], categories: Sequence[str]) -> Floats:
    """A 1 at the place of each word's category, or at the last place for any other word and for none."""
    places = {category: place for place, category in enumerate(categories)}
    chosen = [places.get((word or "").strip(), len(categories)) for word in words]
    return cast(Floats, (np.asarray(chosen)[:, None] == np.arange(len(categories) + 1)).astype(np.float32))


def _hashed(name: str, words: Sequence[str | None], n_values: int) -> Floats:
    """The mean direction of each cell's words [n, n_values], scaled to length 1; zeros for an empty cell."""
    found = np.zeros((len(words), n_values), np.float32)
    for row, cell in enumerate(words):
        low = (cell or "").strip().lower()
        # The words of a long text, each once; else the whole cell as one word.
        for term in sorted(set(_WORD.findall(low))) if n_values > _NARROW else filter(None, [low]):
            for place, sign in _places(name, term, n_values):
                found[row, place] += sign
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    units: Floats = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
    return np.clip(units, -1, 1, out=units)


@lru_cache(maxsize=2**16)
def _places(name: str, term: str, n_values: int) -> tuple[tuple[int, float], ...]:
    """Where a word of a column goes, by a public hash: four places with signs."""
    word = f"{name}\n{term}".encode("utf-8", "surrogatepass")
    drawn = np.frombuffer(blake2b(word, digest_size=4 * _PLACES, key=b"hashed cells").digest(), dtype="<u4").tolist()
    return tuple(((number >> 1) % n_values, 0.5 if number & 1 else -0.5) for number in drawn)


def _writing(public: Column, name: str) -> Writing | None:
    """How public cells write numbers; None where they hold none: where fewer than 95 % are some, of few cells one is not.

    A comma is a decimal one where a cell has other than three digits behind it, or 0 before. Day and month stand as most
    cells allow; if every cell allows both, points mean day first, and other dates are words.
    """
    if len(public.values) and np.isfinite(column_numbers(public, name)).all():
        return ""
    words = Counter(_present(public, name))
    n_cells = words.total()
    needed = _SHARE * n_cells if n_cells >= _ENOUGH else n_cells
    may_be = (n for word, n in words.items() if any(map(str.isdigit, word)) or word.lower() in _WITHOUT_DIGITS)
    if not n_cells or sum(may_be) < needed:
        return None
    counts: dict[Writing, int] = {}
    for written in get_args(Writing):  # the usual one first, and no other where it fits
        counts[written] = sum(n for word, n in words.items() if not math.isnan(_value(word, written)))
        if not written and counts[written] >= needed:
            return ""
    found = [written for written, n in counts.items() if n >= needed]
    if not found:
        return None
    if "comma" in found and "thousands" in found:
        return "comma" if any(map(_NO_THOUSANDS.search, words)) else "thousands"
    if {"dmy", "mdy"} <= set(found) and counts["dmy"] == counts["mdy"]:
        return "dmy" if all("." in word for word in words) else None
    return max(found, key=counts.__getitem__)


def _present(column: Column, name: str) -> list[str]:
    """The cells that are not missing."""
    return [cell for word in column.words(name) if word and (cell := word.strip()).lower() not in _MISSING]


def unread_cells(table: Table, features: Sequence[Feature], cells: str = "public cells") -> Iterator[str]:
    """Of features that hold numbers: the cells that hold none, in sentences. Private ones are missing, too, uncounted."""
    for feature in features:
        if feature.is_text or feature.categories or feature.name not in table.columns:
            continue
        words = _present(table[feature.name], feature.name)
        if others := [word for word in words if math.isnan(_value(word, feature.written))]:
            some = ", ".join(repr(one[:20]) for one in dict.fromkeys(others[:2]))
            counted = f"{len(others)} of {len(words):,} {cells} are no number ({some})"
            yield f"{feature.name}: {counted} and count as missing."


def column_numbers(column: Column, name: str, written: Writing = "") -> NDArray[np.float64]:
    """The values of a column as numbers float64 [n], dates in years since 2000; anything else is not-a-number."""
    if not written and column.holds == "numbers":
        return np.asarray(column.values, np.float64)
    words = column.words(name)
    if not written and not any("_" in word for word in words if word):
        with suppress(ValueError):  # the same numbers, much faster, where every value that is not empty is one
            return np.array([float(word) if word else math.nan for word in words], np.float64)
    return np.array([_value((word or "").strip(), written) for word in words], np.float64)


def _value(word: str, written: Writing) -> float:
    """The number that a cell holds, True and False as 1 and 0; else not-a-number."""
    word = _SIGN.sub("", word)
    match written:
        case "":
            try:
                return float(word) if "_" not in word else math.nan
            except ValueError:
                return _TRUTH.get(word.lower(), math.nan)
        case "comma":
            return float(word.replace(".", "").replace(",", ".")) if _COMMA.fullmatch(word) else math.nan
        case "thousands":
            return float(word.replace(",", "")) if _THOUSANDS.fullmatch(word) else math.nan
        case _:
            return _years(word, _ORDERS[written])


def _years(word: str, order: tuple[int, int, int]) -> float:
    """A date, with a time or without, in years since 2000."""
    if (found := _DATE.fullmatch(word)) is None:
        return math.nan
    parts = (found[1], found[3], found[4])
    if len(parts[order[0]]) != 4:
        return math.nan
    with suppress(ValueError):
        days = date(*(int(parts[place]) for place in order)).toordinal() - date(2000, 1, 1).toordinal()
        return (days + sum(int(found[place] or 0) * of for place, of in ((5, 3600), (6, 60), (7, 1))) / 86_400) / 365.2425
    return math.nan


# How a row of a table or of embeddings becomes values: by public facts alone, so that any row can be encoded later, too.


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """The features of a row, each with its number of values; of an embedding, the columns that hold it.

    `is_embedding`: the values are scaled to length 1 together. `has_names`: the file's first line names its columns.
    """

    features: tuple[Feature, ...]
    widths: tuple[int, ...]
    is_embedding: bool = False
    has_names: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(feature.name for feature in self.features)

    def values(self, table: Table, shown: str) -> NDArray[np.float32]:
        """The values float32 [n, sum of widths] of a table's rows, in [-1, 1]; a missing column counts as missing values.

        Raises BadInput for a column whose type no value can have; `shown`: the file's name in messages.
        """
        found = np.empty((len(table), sum(self.widths)), np.float32)
        rows = np.arange(len(table))
        for part in np.split(rows, rows[:: max(1, _BLOCK // max(1, found.shape[1]))][1:]):
            found[part] = self._of_block(table.take(part), shown)
        return found

    def _of_block(self, table: Table, shown: str) -> NDArray[np.float32]:
        if self.is_embedding and self.names == (sheets.EMBEDDING_COLUMN,):
            return units(_of_lists(table.columns.get(sheets.EMBEDDING_COLUMN), self.widths[0], len(table), shown))
        columns = [table.columns.get(name) or Column("text", [None] * len(table)) for name in self.names]
        if self.is_embedding:
            named = zip(columns, self.names, strict=True)
            return units(np.stack([column_numbers(column, f"{shown} column {name}") for column, name in named], axis=1))
        return np.concatenate([*map(_encoded, columns, self.features, self.widths)], axis=1)

    def document(self) -> str:
        """Itself as JSON, which `read` takes."""
        return json.dumps(asdict(self))


def read_encoding(document: str) -> RowEncoding:
    """The encoding that a document describes."""
    found = json.loads(document)
    features = tuple(Feature(**{**one, "categories": tuple(one["categories"])}) for one in found["features"])
    return RowEncoding(features, tuple(found["widths"]), found["is_embedding"], found["has_names"])


def planned_columns(card: DatasetCard, public: Table, shown: str) -> RowEncoding:
    """The encoding of a dataset's rows, by its schema and its public rows; where nothing is declared, of every column.

    Raises BadInput for columns of no use: for a declared one that the file lacks, one of lists, no column at all, or more
    than 20,000 values a row.
    """
    names = [name for name in public.columns if name not in sheets.CANONICAL.values()]
    if card.kind == "embedding":
        widths: tuple[int, ...] = (1,) * len(names)
        if (column := sheets.EMBEDDING_COLUMN) in names:
            names, widths = [column], (next((len(one) for one in _vectors(public[column], shown) if one is not None), 0),)
        if not 1 <= sum(widths) <= sheets.MAX_WIDTH:
            allowed = f"must have 1 to {sheets.MAX_WIDTH:,} numbers a row"
            raise BadInput(f"{shown} {column}", f"{sum(widths)} numbers", allowed)
        return RowEncoding(tuple(map(Feature, names)), widths, is_embedding=True, has_names=card.has_names)
    for name in [feature.name for feature in card.features if feature.name in names] or names:
        if public[name].holds in _NO_FEATURES:
            allowed = "must hold words or numbers, or be left out of the file"
            raise BadInput(f"{card.name} column {name}", public[name].kind, allowed)
    for feature in card.features:
        if feature.name not in names:
            allowed = f"must be one of the columns {sheets.first_names(names)}"
            raise BadInput(f"features.{feature.name}", "no such column", allowed)
    features = tuple(
        one if one.categories or one.is_text else replace(one, written=_writing(public[one.name], one.name) or "")
        for one in card.features
    )
    if not features:  # one for each column
        written = {name: _writing(public[name], name) for name in names}
        features = tuple(Feature(name, is_text=how is None, written=how or "") for name, how in written.items())
    if not features:
        raise BadInput("features", "no columns", "must have a column beside those of label, source, person and time")
    widths = tuple(width(feature, public[feature.name]) for feature in features)
    if (total := sum(widths)) > MAX_WIDTH:
        allowed = f"must give at most {MAX_WIDTH:,} values a row: declare fewer features in the schema"
        raise BadInput("features", f"{total:,} values", allowed)
    return RowEncoding(features, widths, has_names=card.has_names)


def units(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows [n, K] scaled to length 1; zeros for one with a missing or an infinite value."""
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)  # squares of large values stay finite
    values = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    scaled = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return cast(Floats, np.clip(scaled, -1, 1).astype(np.float32))


def _of_lists(column: Column | None, n_values: int, n_rows: int, shown: str) -> NDArray[np.float64]:
    """The vectors of a column as rows float64 [n, n_values]; not-a-number for one of another length and for none."""
    vectors = [] if column is None else _vectors(column, shown)
    if isinstance(vectors, np.ndarray) and vectors.shape == (n_rows, n_values):
        return vectors.astype(np.float64)
    values = np.full((n_rows, n_values), np.nan)
    for row, vector in enumerate(vectors):
        if vector is not None and len(vector) == n_values:
            values[row] = vector
    return values


def _vectors(column: Column, shown: str) -> Sequence[Any] | NDArray[Any]:
    if column.holds != "vectors":
        raise BadInput(f"{shown} column {sheets.EMBEDDING_COLUMN}", column.kind, "must hold lists of numbers")
    return column.values
