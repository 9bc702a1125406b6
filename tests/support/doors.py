"""Every door of data with small data behind it, and neighbours of them: other training rows, the same test part.

Rows are few and cheap: what is compared is all that a run says beside its releases, not how well it learns.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcl_core.data.card import Kind
from tests.data.making import picture, put, write

N, N_TEST = 120, 40
Row = Any
Write = Callable[[Path, Sequence[Row]], None]


@dataclass(frozen=True)
class Change:
    """How the training part of a neighbour differs: which of a door's odd rows are there besides, how many rows are gone,
    which of them is in the first row's place."""

    more: tuple[int, ...] = ()
    fewer: int = 0
    replaced: int | None = None

    def of(self, rows: Sequence[Row], odd: Sequence[Row]) -> list[Row]:
        """The rows of the neighbour."""
        kept = [rows[0] if self.replaced is None else odd[self.replaced], *rows[1 : len(rows) - self.fewer]]
        return kept + [odd[place] for place in self.more]


# A good row, a label (type of name) that nobody else has, broken content, none, an unknown place, huge finite values.
SINGLE: Mapping[str, Change] = {
    "a row more": Change(more=(0,)),
    "a label of its own": Change(more=(1,)),
    "a broken row": Change(more=(2,)),
    "an empty row": Change(more=(3,)),
    "a row that belongs nowhere": Change(more=(4,)),
    "a huge row": Change(more=(5,)),
    "a row fewer": Change(fewer=1),
    "another row": Change(replaced=0),
    "a broken row first": Change(replaced=2),
    "a huge row first": Change(replaced=5),
}
# What depends on public facts alone is the same under any change: all of them at once find as much as one by one.
TOGETHER = Change(more=(0, 1, 2, 3, 4, 5), fewer=13, replaced=5)


def by_columns(*names: str, **types: pa.DataType) -> Write:
    """Parquet of these columns; what Arrow makes of one, unless its type is said."""

    def written(path: Path, rows: Sequence[Row]) -> None:
        columns = zip(names, zip(*rows, strict=True), strict=True)
        write(path.parent, path.stem, **{name: pa.array(column, types.get(name)) for name, column in columns})

    return written


def delimited(mark: str, *names: str) -> Write:
    def written(path: Path, rows: Sequence[Row]) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=mark, lineterminator="\n").writerows([names, *rows])

    return written


def folders(path: Path, rows: Sequence[tuple[str, bytes]]) -> None:
    for place, content in rows:
        put(path / place, content)


def lines(path: Path, rows: Sequence[Row]) -> None:
    schema = '[features.size]\nlow = 0\nhigh = 50\n[features.colour]\ncategories = ["red", "blue"]\n'
    put(path.with_name("schema.toml"), schema)
    put(path, "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in rows))


def vectors(path: Path, rows: Sequence[tuple[NDArray[np.float32], str]]) -> None:
    np.savez(path, embeddings=np.stack([one for one, _ in rows]), labels=np.array([one for _, one in rows]))


def conll(path: Path, rows: Sequence[str]) -> None:
    put(path, "\n".join(rows))


def line(genre: str, word: str, name: str) -> str:
    return " ".join([f"{genre}/x/1", "0", "0", word, *["-"] * 6, name]) + "\n"


NEW, HUGE = picture(200), picture(255, (900, 300), "RGB")
PICTURES = [(picture(row), row % 4) for row in range(N)]
ODD_PICTURES = [(NEW, 1), (NEW, 77), (b"broken", 1), (None, 1), (NEW, None), (HUGE, 1)]
FILES = [(f"c{label}/{row:03d}.png", content) for row, (content, label) in enumerate(PICTURES)]
ODD_FILES = [
    ("c0/new.png", NEW), ("nobody/new.png", NEW), ("c1/broken.png", b"broken"), ("c1/empty.png", b""),
    ("notes.txt", b"a note"), ("c1/huge.png", HUGE),
]  # fmt: skip
SIGNALS = np.random.default_rng(0).standard_normal((N + 1, 300))
WINDOWS = [(SIGNALS[row].tolist(), row % 4, [20, 50][row % 2]) for row in range(N)]
SPOILED = np.where(np.arange(300) == 7, np.nan, SIGNALS[N]).tolist()
ODD_WINDOWS = [
    (SIGNALS[N].tolist(), 1, 20), (SIGNALS[N].tolist(), 77, 20), (SPOILED, 1, 20), ([1.0], 1, 20),
    (SIGNALS[N].tolist(), 1, 25), ([3e38, -3e38, 1e-300] * 100, 1, 20),
]  # fmt: skip
TEXTS = [(f"text number {row} of many", f"c{row % 4}") for row in range(N)]
ODD_TEXTS = [
    ("brand new", "c1"), ("brand new", "nobody has it"), ("new, with \U0001f600", "c1"), (" ", "c1"), ("x", ""),
    ("word " * 20_000, "c1"),
]  # fmt: skip
TAGGED = [([f"Ada{row}", "slept"], ["B-PER", "O"], "ab"[row % 2]) for row in range(N)]
ODD_TAGGED = [
    (["Eve", "left"], ["B-PER", "O"], "a"), (["Mars"], ["B-PLANET"], "a"), (["Eve", "left"], ["O"], "a"), ([], [], "a"),
    (["Eve"], ["O"], "nowhere"), (["E" * 50_000], ["B-PER"], "a"),
]  # fmt: skip
BLOCKS = [line("ab"[row % 2], f"Ada{row}", "(PER)") + line("ab"[row % 2], "slept", "*") for row in range(N)]
ODD_BLOCKS = [
    line("a", "Eve", "(PER)"), line("a", "Eve", "(PLANET)"), line("a", "Eve", "*)"), "too few\n", line("c", "Eve", "*"),
    line("a", "E" * 50_000, "(PER)"),
]  # fmt: skip
CELLS = [(f"{row * 0.5}", ["red", "blue", ""][row % 3], f"w{row % 7} and more", f"c{row % 4}") for row in range(N)]
ODD_CELLS = [
    ("7.25", "red", "brand new", "c1"), ("7.25", "red", "brand new", "nobody has it"), ("no number", "pink", "", "c1"),
    ("", "", "", ""), ("inf", "red", "x", "c" * 300), ("9" * 400, "blue", "word " * 20_000, "c1"),
]  # fmt: skip
HEAD = ("size", "colour", "note", "label")
VECTORS = np.random.default_rng(1).standard_normal((N + 1, 12)).astype(np.float32)
LABELLED = [(VECTORS[row], f"c{row % 4}") for row in range(N)]
ODD_LABELLED = [
    (VECTORS[N], "c1"), (VECTORS[N], "nobody has it"), (VECTORS[N] * np.nan, "c1"), (VECTORS[N] * 0, ""),
    (VECTORS[N], "c" * 300), (VECTORS[N] * 1e38, "c1"),
]  # fmt: skip
WORDS = pa.list_(pa.string())
# A kind of data in a form of file, with what writes it and its rows; the tests ask that every kind and every form has one.
_HELD: Mapping[tuple[Kind, str], tuple[Write, Sequence[Row], Sequence[Row]]] = {
    ("image", ".parquet"): (by_columns("image", "label"), PICTURES, ODD_PICTURES),
    ("image", "folder"): (folders, FILES, ODD_FILES),
    ("sensor", ".parquet"): (by_columns("window", "label", "rate_hz"), WINDOWS, ODD_WINDOWS),
    ("text", ".csv"): (delimited(",", "text", "label"), TEXTS, ODD_TEXTS),
    ("text", ".parquet"): (by_columns("text", "label"), TEXTS, ODD_TEXTS),
    ("table", ".tsv"): (delimited("\t", *HEAD), CELLS, ODD_CELLS),
    ("table", ".jsonl"): (lines, CELLS, ODD_CELLS),
    ("embedding", ".npz"): (vectors, LABELLED, ODD_LABELLED),
    ("tagged", ".parquet"): (by_columns("tokens", "tags", "domain", tokens=WORDS, tags=WORDS), TAGGED, ODD_TAGGED),
    ("tagged", ".conll"): (conll, BLOCKS, ODD_BLOCKS),
}


def _put(door: tuple[Kind, str], folder: Path, change: Change) -> None:
    """Puts a neighbour into a folder of a person's own data."""
    write, rows, odd = _HELD[door]
    folder.mkdir(parents=True, exist_ok=True)
    for split, found in (("test", rows[:N_TEST]), ("train", change.of(rows, odd))):
        write(folder / (split if door[1] == "folder" else split + door[1]), found)


DOORS: Mapping[tuple[Kind, str], Callable[[Path, Change], None]] = {door: partial(_put, door) for door in _HELD}
