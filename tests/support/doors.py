"""Every door of data with small data behind it, and neighbours of them: other training rows, the same test part.

Rows are few and cheap: what is compared is all that a run says beside its releases, not how well it learns.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from dpcl_core.data.card import Kind
from tests.data.making import picture, write

N, N_TEST = 120, 40
Row = TypeVar("Row")


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
Put = Callable[[Path, Change], None]  # a folder of a person's own data


def pictures(folder: Path, change: Change) -> None:
    rows: list[tuple[object, int | None]] = [(picture(row), row % 4) for row in range(N)]
    new = picture(200)
    odd = [(new, 1), (new, 77), (b"broken", 1), (None, 1), (new, None), (picture(255, (900, 300), "RGB"), 1)]
    for split, found in (("test", rows[:N_TEST]), ("train", change.of(rows, odd))):
        write(folder, split, image=[image for image, _ in found], label=[label for _, label in found])


def folders(folder: Path, change: Change) -> None:
    rows = [(f"c{row % 4}/{row:03d}.png", picture(row)) for row in range(N)]
    new = picture(200)
    odd = [("c0/new.png", new), ("nobody/new.png", new), ("c1/broken.png", b"broken"), ("c1/empty.png", b""),
           ("notes.txt", b"a note"), ("c1/huge.png", picture(255, (900, 300), "RGB"))]  # fmt: skip
    for split, found in (("test", rows[:N_TEST]), ("train", change.of(rows, odd))):
        for place, content in found:
            (folder / split / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / split / place).write_bytes(content)


def windows(folder: Path, change: Change) -> None:
    values = np.random.default_rng(0).standard_normal((N + 1, 300))
    rows = [(values[row].tolist(), row % 4, [20, 50][row % 2]) for row in range(N)]
    new, spoiled = values[N].tolist(), (values[N] * np.where(np.arange(300) == 7, np.nan, 1)).tolist()
    odd = [(new, 1, 20), (new, 77, 20), (spoiled, 1, 20), ([1.0], 1, 20), (new, 1, 25), ([3e38, -3e38, 1e-300] * 100, 1, 20)]
    for split, found in (("test", rows[:N_TEST]), ("train", change.of(rows, odd))):
        write(folder, split, window=[one for one, _, _ in found], label=[one for _, one, _ in found],
              rate_hz=[one for _, _, one in found])  # fmt: skip


TEXTS = [(f"text number {row} of many", f"c{row % 4}") for row in range(N)]
ODD_TEXTS = [
    ("brand new", "c1"), ("brand new", "nobody has it"), ("new, with \U0001f600", "c1"), (" ", "c1"), ("x", ""),
    ("word " * 20_000, "c1"),
]  # fmt: skip


def tables(folder: Path, change: Change) -> None:
    folder.mkdir(exist_ok=True)
    for split, rows in (("test", TEXTS[:N_TEST]), ("train", change.of(TEXTS, ODD_TEXTS))):
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("text", "label"), *rows])


def texts(folder: Path, change: Change) -> None:
    for split, rows in (("test", TEXTS[:N_TEST]), ("train", change.of(TEXTS, ODD_TEXTS))):
        write(folder, split, text=[text for text, _ in rows], label=[label for _, label in rows])


TAGGED = [([f"Ada{row}", "slept"], ["B-PER", "O"], "ab"[row % 2]) for row in range(N)]
ODD_TAGGED = [
    (["Eve", "left"], ["B-PER", "O"], "a"), (["Mars"], ["B-PLANET"], "a"), (["Eve", "left"], ["O"], "a"), ([], [], "a"),
    (["Eve"], ["O"], "nowhere"), (["E" * 50_000], ["B-PER"], "a"),
]  # fmt: skip


def tagged(folder: Path, change: Change) -> None:
    for split, rows in (("test", TAGGED[:N_TEST]), ("train", change.of(TAGGED, ODD_TAGGED))):
        write(folder, split, tokens=pa.array([words for words, _, _ in rows], pa.list_(pa.string())),
              tags=pa.array([tags for _, tags, _ in rows], pa.list_(pa.string())),
              domain=[domain for _, _, domain in rows])  # fmt: skip


def conll(folder: Path, change: Change) -> None:
    folder.mkdir(exist_ok=True)

    def line(genre: str, word: str, name: str) -> str:
        return " ".join([f"{genre}/x/1", "0", "0", word, *["-"] * 6, name]) + "\n"

    blocks = [line("ab"[row % 2], f"Ada{row}", "(PER)") + line("ab"[row % 2], "slept", "*") for row in range(N)]
    odd = [line("a", "Eve", "(PER)"), line("a", "Eve", "(PLANET)"), line("a", "Eve", "*)"), "too few\n",
           line("c", "Eve", "*"), line("a", "E" * 50_000, "(PER)")]  # fmt: skip
    for split, found in (("test", blocks[:N_TEST]), ("train", change.of(blocks, odd))):
        (folder / f"{split}.conll").write_text("\n".join(found), encoding="utf-8")


CELLS = [(f"{row * 0.5}", ["red", "blue", ""][row % 3], f"w{row % 7} and more", f"c{row % 4}") for row in range(N)]
ODD_CELLS = [
    ("7.25", "red", "brand new", "c1"), ("7.25", "red", "brand new", "nobody has it"), ("no number", "pink", "", "c1"),
    ("", "", "", ""), ("inf", "red", "x", "c" * 300), ("9" * 400, "blue", "word " * 20_000, "c1"),
]  # fmt: skip
HEAD = ("size", "colour", "note", "label")


def cells(folder: Path, change: Change) -> None:
    folder.mkdir(exist_ok=True)
    for split, rows in (("test", CELLS[:N_TEST]), ("train", change.of(CELLS, ODD_CELLS))):
        with (folder / f"{split}.tsv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, "excel-tab", lineterminator="\n").writerows([HEAD, *rows])


def lines(folder: Path, change: Change) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "schema.toml").write_text(
        '[features.size]\nlow = 0\nhigh = 50\n[features.colour]\ncategories = ["red", "blue"]\n', encoding="utf-8"
    )
    for split, rows in (("test", CELLS[:N_TEST]), ("train", change.of(CELLS, ODD_CELLS))):
        content = "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(content, encoding="utf-8")


VECTORS = np.random.default_rng(1).standard_normal((N + 1, 12)).astype(np.float32)


def vectors(folder: Path, change: Change) -> None:
    rows = [(VECTORS[row], f"c{row % 4}") for row in range(N)]
    new = VECTORS[N]
    odd = [(new, "c1"), (new, "nobody has it"), (new * np.nan, "c1"), (new * 0, ""), (new, "c" * 300), (new * 1e38, "c1")]
    folder.mkdir(exist_ok=True)
    for split, found in (("test", rows[:N_TEST]), ("train", change.of(rows, odd))):
        np.savez(folder / f"{split}.npz", embeddings=np.stack([one for one, _ in found]),
                 labels=np.array([one for _, one in found]))  # fmt: skip


# A kind of data in a form of file; the tests ask that every kind and every form has one.
DOORS: Mapping[tuple[Kind, str], Put] = {
    ("image", ".parquet"): pictures,
    ("image", "folder"): folders,
    ("sensor", ".parquet"): windows,
    ("text", ".csv"): tables,
    ("text", ".parquet"): texts,
    ("table", ".tsv"): cells,
    ("table", ".jsonl"): lines,
    ("embedding", ".npz"): vectors,
    ("tagged", ".parquet"): tagged,
    ("tagged", ".conll"): conll,
}
