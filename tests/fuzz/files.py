"""Every file that somebody may hand to the program, with seeded changes, and paths that are no files, in its place."""

import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import checks, engine, errors, export
from dpcl_core.classifiers import predict
from dpcl_core.data import intake, schema
from dpcl_core.data.rows import digits
from dpcl_core.papers import measured
from dpcl_core.paths import read_file
from dpcl_core.privacy import card
from dpcl_core.runs.store import Store
from tests.data.making import picture, put
from tests.support import bad_files, replay

_RAW = {
    "method": "cosine", "data": {"dataset": "digits", "train_per_class": 30, "test_per_class": 5},
    "scenario": {"kind": "class-incremental", "tasks": 2}, "labels": "prior",
    "privacy": {"epsilons": [8.0, math.inf]}, "seeds": [0],
}  # fmt: skip
_SCHEMA = 'title = "Cats"\nclasses = ["a", "b"]\nn_train = 100\nsources = ["here", "there"]\n[columns]\ntarget = "label"\n'


@dataclass(frozen=True)
class Door:
    """A place where a file comes in: its name, what it holds when it is good, and what is done with it."""

    path: Path
    good: bytes
    use: Callable[[], object]

    def trouble(self) -> str:
        """What happens that should not: empty if the file is used, or refused in one sentence."""
        try:
            self.use()
        except errors.BadInput as refused:
            sentence = str(refused)
            return "" if "\n" not in sentence and len(sentence) < 3000 else f"no sentence: {sentence[:200]}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
        return ""


def doors(folder: Path) -> list[Door]:
    """The doors, with files below a folder, which is also the home: DPCL_HOME must name it."""
    store = Store(f"sqlite:///{folder / 'store.sqlite'}")
    spec = checks.parse(_RAW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_figures", lambda *_: {})
        exported = export.bundle(store, replay.fill(store, spec, list(engine.run(spec))))
    for name, content in exported.items():
        put(folder / "DIR" / name, content)
    pixels = np.asarray(digits()[0].content)[:10]
    np.savez(folder / "asked.npz", features=pixels.reshape(10, -1).astype(np.float32) / 255)
    np.save(folder / "asked.npy", pixels.reshape(10, -1).astype(np.float32) / 255)
    rows = "\n".join(",".join(map(str, row)) for row in pixels.reshape(10, -1) / 255)
    (folder / "asked.csv").write_text(",".join(f"c{place}" for place in range(64)) + "\n" + rows + "\n", encoding="ascii")
    (folder / "asked.png").write_bytes(picture())
    (folder / "asked.txt").write_text("one\ntwo\n", encoding="ascii")
    (folder / "spec.toml").write_text(checks.to_toml(spec), encoding="utf-8")
    (folder / "schema.toml").write_text(_SCHEMA, encoding="utf-8")
    (run,) = store.list_runs()
    measured.write(folder / "record.json", "tobaben", [measured.measured_run(run, store.events(run.id))])
    for (name, _), content in bad_files.GOOD.items():
        (folder / name).write_bytes(content)

    def door(name: str, use: Callable[[Path], object]) -> Door:
        path = folder / name
        return Door(path, path.read_bytes(), lambda: use(path))

    def answered(path: Path) -> object:
        return predict.predicted(folder / "DIR", path)

    def answers(_path: Path) -> object:
        return predict.predicted(folder / "DIR", folder / "asked.npz")

    def settings(path: Path) -> object:
        try:
            return checks.parse(checks.read_toml(read_file(path, "SPEC.toml").decode()))
        except UnicodeDecodeError as error:
            raise errors.BadInput("SPEC.toml", path.name, "must be a text file") from error

    def taken(path: Path) -> None:
        with intake.taken_in(intake.Given(path, intake.Asked())):
            pass

    arrays = sorted(name for name in exported if name.endswith(".safetensors"))[0]
    (card_name,) = (name for name in exported if name.endswith("privacy_card.json"))
    return [
        door("spec.toml", settings), door(f"DIR/{card_name}", lambda path: card.verify(read_file(path, "CARD"))),
        door("record.json", measured.read_measured),
        door("schema.toml", lambda path: schema.parsed(path, "schema.toml")),
        door("DIR/classifier/classifier.json", answers), door(f"DIR/{arrays}", answers),
        *(door(f"asked.{ending}", answered) for ending in ("npz", "npy", "csv", "png", "txt")),
        *(door(name, taken) for name, _ in bad_files.GOOD),
    ]  # fmt: skip


def changed(one: Door, draw: random.Random) -> str:
    """Puts a changed file into the door; gives the trouble."""
    is_document = one.path.suffix == ".json" and draw.random() < 0.5
    one.path.write_bytes(_other_json(one.good, draw) if is_document else bad_files.mutated(one.good, draw))
    try:
        return one.trouble()
    finally:
        one.path.write_bytes(one.good)


def no_files(one: Door) -> Iterator[tuple[str, str]]:
    """Puts what is no file into the door: gives what it was, and the trouble. What waits for a pipe's end waits for ever."""
    makers: dict[str, Callable[[Path], object]] = {
        "nothing": lambda path: None, "a pipe": os.mkfifo, "a folder": Path.mkdir,
        "a circle": lambda path: path.symlink_to(path), "a device": lambda path: path.symlink_to("/dev/zero"),
        "a huge file": _huge,
    }  # fmt: skip
    for what, make in makers.items():
        one.path.unlink()
        make(one.path)
        try:
            yield what, one.trouble()
        finally:
            if one.path.is_dir() and not one.path.is_symlink():
                shutil.rmtree(one.path)
            one.path.unlink(missing_ok=True)
            one.path.write_bytes(one.good)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**42)  # takes no room on the disk


def _other_json(good: bytes, draw: random.Random) -> bytes:
    """The document with one of its values replaced by another kind."""
    document = json.loads(good)
    place = document
    while True:
        name = draw.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
        inner = place[name]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.85:
            place = inner
            continue
        place[name] = draw.choice([None, True, -1, 1e308, "x", [], {}, [[1]], "inf", 10**400, "../x", "é" * 200])
        return json.dumps(document).encode()
