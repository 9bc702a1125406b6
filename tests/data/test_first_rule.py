"""Data that were taken in under the first rule of coins keep it: rows once shown as test data never become private."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core import paths
from dpcl_core.data import catalog, files, intake, own, schema, understood
from dpcl_core.data.intake import Asked
from dpcl_core.data.outline import outline
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput

N = 80
CELLS = [
    (f"{row % 50 * 0.5}", ("red", "blue", "")[row % 3], f'w{row % 7} ""x"", y', f"c{row % 4}", row // 3) for row in range(N)
]
HEAD = "size,colour,note,label,who"
ODD = b'1,red,"open,c1,1\n2,red,x\xe9y,c2,2\n3,red\n\n4,blue,"a ""q"" b",c3,3\n'


def csv(path: Path, *, separator: str = ",", has_names: bool = True) -> None:
    lines = [separator.join((size.replace(".", "," if separator == ";" else "."), colour, f'"{note}"', label, str(who)))
             for size, colour, note, label, who in CELLS]  # fmt: skip
    head = [HEAD.replace(",", separator)] if has_names else []
    path.write_bytes("\n".join([*head, *lines, ""]).encode() + (ODD if separator == "," else b""))


def json_lines(path: Path) -> None:
    objects = [dict(zip(HEAD.split(","), (float(size), *rest), strict=True)) for size, *rest in CELLS]
    objects[3]["extra"] = [1, {"a": 2}]
    del objects[4]["note"]
    path.write_text("\n".join([*map(json.dumps, objects), "no object", "[1]", ""]), encoding="utf-8")


def parquet(path: Path) -> None:
    columns = {
        "age": [None if row % 11 == 0 else row for row in range(N)], "size": [float(one[0]) for one in CELLS],
        "note": [one[2] for one in CELLS], "label": [one[3] for one in CELLS], "list": [[row, row + 1] for row in range(N)],
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)


def npz(path: Path) -> None:
    values = (np.arange(N * 5).reshape(N, 5) * 37 % 101) / 8
    np.savez(path, embeddings=values, labels=np.arange(N) % 4, person=np.arange(N) % 33)


_TARGET, _PERSON = '[columns]\ntarget = "label"\n', '[columns]\ntarget = "label"\nperson = "who"\n'
# What the first rule made public, by the version of this program that had no other: a digest of the keys, and how many.
BEFORE: Mapping[str, tuple[Callable[[Path], None], str, str]] = {
    "a.csv": (csv, _TARGET, "879677e890382787 13 69"),
    "people.csv": (csv, _PERSON, "edc4a1e41f96cabe 6 21"),
    "semicolons.csv": (lambda path: csv(path, separator=";"), _TARGET, "13d6bf880cf7fbf6 13 67"),
    "names.csv": (
        lambda path: csv(path, has_names=False), 'first_line = "data"\n[columns]\ntarget = "column4"\n',
        "79e75bf9409fb28a 11 71",
    ),
    "a.jsonl": (json_lines, _TARGET, "b428f0b9c24b92cc 14 66"),
    "people.jsonl": (json_lines, _PERSON, "20ac8da8b3424757 6 21"),
    "a.parquet": (
        parquet, 'kind = "table"\n[columns]\ntarget = "label"\n[features.size]\nlow = 0\nhigh = 30\n',
        "cd8ab8b76c0b7aea 17 63",
    ),
    "a.npz": (npz, '[columns]\nperson = "person"\n', "30c8d01a5ebca8e5 8 25"),
}  # fmt: skip


def taken_in_before(name: str) -> str:
    """Data as the version before has left them in the home: a schema without a rule, and a mark of where they came from."""
    write, said, _ = BEFORE[name]
    folder = paths.home() / "data" / name.replace(".", "-")
    folder.mkdir(parents=True)
    write(folder / name)
    (folder / schema.NAME).write_text(said, encoding="utf-8")
    for of, content in ((own.ORIGIN, "x"), (own.OWNER, "")):
        (folder / of).write_text(content, encoding="ascii")
    return f"own:{folder.name}"


def digest(name: str) -> str:
    card = catalog.card(name)
    found = outline(card, files.find(card))
    keys = np.concatenate([found.test.keys(), found.open_train.keys()])
    return f"{sha256(keys.astype('<u8').tobytes()).hexdigest()[:16]} {len(found.test.rows)} {len(found.open_train.rows)}"


@pytest.mark.parametrize("name", BEFORE)
def test_what_was_public_under_the_first_rule_stays_public(name: str, data_dir: Path) -> None:
    assert digest(taken_in_before(name)) == BEFORE[name][2]
    assert understood.EARLIER in understood.understand(f"own:{name.replace('.', '-')}").assumed


@pytest.mark.parametrize("name", ["a.csv", "people.jsonl", "a.parquet"])
def test_rows_that_are_known_by_the_first_rule_keep_it_under_another_name(name: str, data_dir: Path, tmp_path: Path) -> None:
    """Also where the data were deleted since: then their marks stand in the store alone."""
    before = taken_in_before(name)
    card = catalog.card(before)
    known = own.marks_of(outline(card, files.find(card)))
    own.write_marks(paths.home() / "data" / before.removeprefix("own:"), known)
    path = tmp_path / f"brought-again{Path(name).suffix}"
    BEFORE[name][0](path)
    path.with_name(f"brought-again.{schema.NAME}").write_text(BEFORE[name][1], encoding="utf-8")
    with intake.taken_in(path, Asked()) as again:
        assert catalog.card(again).coins == 1
        assert digest(again) == BEFORE[name][2]
    with pytest.raises(BadInput, match="coins = 2: must be 1, or left out"), intake.taken_in(
        path, Asked(instead=replace(schema.parsed(intake.schema_beside(path), "x"), coins=2))
    ):  # fmt: skip
        pass
    intake.forget(before)
    intake.forget(again)
    with intake.looked_at(path, Asked()) as unknown:
        assert catalog.card(unknown).coins == 2
    with intake.looked_at(path, Asked(), seen=known) as deleted:
        assert catalog.card(deleted).coins == 1


def test_new_rows_have_the_new_rule_beside_old_ones(data_dir: Path, tmp_path: Path) -> None:
    before = taken_in_before("a.csv")
    own.write_marks(paths.home() / "data" / before.removeprefix("own:"), frozenset({"0" * 16}))
    csv(tmp_path / "new.csv")
    with intake.taken_in(tmp_path / "new.csv", Asked(Columns(target="label"))) as name:
        assert catalog.card(name).coins == 2
    assert intake.kept_folder(name)[1].coins == 2
