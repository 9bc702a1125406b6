"""Neighbours through every door: what a run says outside its releases is the same, whatever a training row holds.

D and D' differ in one training row: one more, with a label that nobody else has, without content, with a broken one.
Compared is everything that is said but the releases themselves: titles, counts, progress, notes, statements, and that
nothing is raised.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from dpcl_core import checks, engine
from dpcl_core.data import catalog, files
from dpcl_core.data.card import Kind
from dpcl_core.events import CellFinished, Event, TaskLearned
from tests.data.making import picture, write
from tests.scenarios.test_preview import data_dir  # noqa: F401

Put = Callable[[Path, int], None]  # a folder of a person's own data, the number of a neighbour (0: D itself)
N = 120
LABELS = [row % 4 for row in range(N)]


def pictures(folder: Path, neighbour: int) -> None:
    images: list[object] = [picture(row) for row in range(N)]
    new = picture(200)
    more: list[tuple[object, int | None]] = [(new, 1), (new, 77), (b"broken", 1), (None, 1), (new, None)]
    extra = more[neighbour - 1 : neighbour] if neighbour else []
    write(folder, "test", image=images[:40], label=LABELS[:40])
    write(folder, "train", image=images + [one for one, _ in extra], label=LABELS + [label for _, label in extra])


def folders(folder: Path, neighbour: int) -> None:
    for split, n in (("train", N), ("test", 40)):
        for row in range(n):
            (folder / split / f"c{row % 4}").mkdir(parents=True, exist_ok=True)
            (folder / split / f"c{row % 4}" / f"{row:03d}.png").write_bytes(picture(row))
    more = ["c1/new.png", "nobody/new.png", "c1/broken.png", "c1/notes.txt", "notes.txt"]
    for place in more[neighbour - 1 : neighbour] if neighbour else []:
        (folder / "train" / place).parent.mkdir(exist_ok=True)
        (folder / "train" / place).write_bytes(b"broken" if "broken" in place else picture(200))


def windows(folder: Path, neighbour: int) -> None:
    values = np.random.default_rng(0).standard_normal((N + 1, 300))
    spoiled = values[N] * np.where(np.arange(300) == 7, np.nan, 1)
    new = values[N].tolist()
    more = [(new, 1, 20), (new, 77, 20), (spoiled.tolist(), 1, 20), ([1.0], 1, 20), (new, 1, 25)]
    extra = more[neighbour - 1 : neighbour] if neighbour else []
    rates = [20, 50] * (N // 2)
    write(folder, "test", window=values[:40].tolist(), label=LABELS[:40], rate_hz=rates[:40])
    write(folder, "train", window=values[:N].tolist() + [one for one, _, _ in extra],
          label=LABELS + [label for _, label, _ in extra], rate_hz=rates + [rate for _, _, rate in extra])  # fmt: skip


TEXTS = [(f"text number {row} of many", f"c{row % 4}") for row in range(N)]
MORE = [("brand new", "c1"), ("brand new", "nobody has it"), (" ", "c1"), ("new, with \U0001f600", "c1"), ("x", "")]


def tables(folder: Path, neighbour: int) -> None:
    for split, rows in (("test", TEXTS[:40]), ("train", TEXTS + (MORE[neighbour - 1 : neighbour] if neighbour else []))):
        folder.mkdir(exist_ok=True)
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("text", "label"), *rows])


def texts(folder: Path, neighbour: int) -> None:
    for split, rows in (("test", TEXTS[:40]), ("train", TEXTS + (MORE[neighbour - 1 : neighbour] if neighbour else []))):
        write(folder, split, text=[text for text, _ in rows], label=[label for _, label in rows])


TAGGED = [([f"Ada{row}", "slept"], ["B-PER", "O"], "ab"[row % 2]) for row in range(N)]
ODD = [
    (["Eve", "left"], ["B-PER", "O"], "a"), (["Mars"], ["B-PLANET"], "a"), (["Eve", "left"], ["O"], "a"), ([], [], "a"),
    (["Eve"], ["O"], "nowhere"),
]  # fmt: skip


def tagged(folder: Path, neighbour: int) -> None:
    for split, rows in (("test", TAGGED[:40]), ("train", TAGGED + (ODD[neighbour - 1 : neighbour] if neighbour else []))):
        write(folder, split, tokens=pa.array([words for words, _, _ in rows], pa.list_(pa.string())),
              tags=pa.array([tags for _, tags, _ in rows], pa.list_(pa.string())),
              domain=[domain for _, _, domain in rows])  # fmt: skip


def conll(folder: Path, neighbour: int) -> None:
    folder.mkdir(exist_ok=True)

    def line(genre: str, word: str, name: str) -> str:
        return " ".join([f"{genre}/x/1", "0", "0", word, *["-"] * 6, name]) + "\n"

    blocks = [line("ab"[row % 2], f"Ada{row}", "(PER)") + line("ab"[row % 2], "slept", "*") for row in range(N)]
    odd = [line("a", "Eve", name) for name in ("(PER)", "(PLANET)", "*)")] + ["too few\n", line("c", "Eve", "*")]
    (folder / "test.conll").write_text("\n".join(blocks[:40]), encoding="utf-8")
    extra = odd[neighbour - 1 : neighbour] if neighbour else []
    (folder / "train.conll").write_text("\n".join(blocks + extra), encoding="utf-8")


# Every door: a kind of data in a form of file. A kind or a form without one makes the test of all doors red.
DOORS: Mapping[tuple[Kind, str], Put] = {
    ("image", ".parquet"): pictures,
    ("image", "folder"): folders,
    ("sensor", ".parquet"): windows,
    ("text", ".csv"): tables,
    ("text", ".parquet"): texts,
    ("tagged", ".parquet"): tagged,
    ("tagged", ".conll"): conll,
}
CLIENTS: Mapping[str, object] = {
    "scenario": {"kind": "federated", "clients": 3, "protocol": "domain-incremental", "tasks": 2},
    "method": "label-means",
}


def spec(kind: Kind, labels: str) -> dict[str, object]:
    raw: dict[str, object] = {
        "data": {"dataset": "own:mine", "backbone": "hashed-text" if kind in ("text", "tagged") else "pixels"},
        "scenario": {"kind": "class-incremental", "tasks": 2},
        "privacy": {"epsilons": [1.0], "delta": 1e-4},
        "labels": labels,
        "seeds": [0],
    }
    return {**raw, **(CLIENTS if kind == "tagged" else {})}


def outside(event: object) -> object:
    """What an event says beside releases: accuracies follow from noisy models, seconds are no statement."""
    if isinstance(event, TaskLearned):
        return "learned", event.cell, event.task, event.epsilon
    if isinstance(event, CellFinished):
        return "finished", event.cell, event.guarantee
    if is_dataclass(event):
        return type(event).__name__, [getattr(event, one.name) for one in fields(event)]
    return event


def said(kind: Kind, labels: str) -> list[object]:
    events: list[Event] = list(engine.run(checks.parse(spec(kind, labels))))
    return [outside(event) for event in events]


def test_every_door_is_tried() -> None:
    assert {kind for kind, _ in DOORS} == set(get_args(Kind))
    assert {form for _, form in DOORS} == {*files.TABLES, "folder"}


@pytest.mark.parametrize("labels", ["prior-const", "dp-learned"])
@pytest.mark.parametrize("door", DOORS, ids="-".join)
def test_a_training_row_changes_nothing_outside_the_releases(
    door: tuple[Kind, str], labels: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    kind, _ = door
    if kind == "tagged" and labels == "dp-learned":
        pytest.skip("no method of clients learns its list")
    found = []
    for neighbour in range(6):
        folder = tmp_path / f"neighbour {neighbour}"
        folder.mkdir()
        monkeypatch.setenv("DPCL_DATA", str(folder))
        DOORS[door](folder / "mine", neighbour)
        found.append((said(kind, labels), catalog.facts("own:mine")))
    assert [one for one in found[1:] if str(one) != str(found[0])] == []
