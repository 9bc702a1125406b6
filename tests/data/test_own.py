"""A person's own data: found by what they hold, told to their owner alone, and what was once public stays public."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core import cli, paths
from dpcl_core.data import catalog, intake, own, schema, understood
from dpcl_core.data.intake import Asked
from dpcl_core.data.load import load_dataset
from dpcl_core.data.outline import outline
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.data.making import picture, put, write, write_both, write_pair
from tests.support.asserting import complaint, document_of, includes, printed, raising, refusal_of, refuses
from tests.support.doors import DOORS, SINGLE, Change
from tests.support.watching import watched


def test_folders_that_can_be_read_are_listed_and_others_are_not(data_dir: Path, tmp_path: Path) -> None:
    write_pair(data_dir / "mine", [0, 1], [0, 1])
    write_both(data_dir / "texts", text=["a", "b"], label=[0, 1])
    write_both(data_dir / "numbers", value=[1.0, 2.0], label=[0, 1])
    write_both(data_dir / "no labels", value=[1.0, 2.0])
    for split in ("train", "test"):
        put(tmp_path / "home" / "data" / "photos" / split / "cats" / "1.png", picture())
        put(data_dir / "broken" / f"{split}.parquet", b"no parquet")
    write_pair(data_dir / "mnist", [0, 1], [0, 1])  # the catalog's own
    write(data_dir / "half", "train", image=[picture()], label=[0])
    (data_dir / "bad name").mkdir()
    assert own.names_of_own_data() == ["own:mine", "own:numbers", "own:texts", "own:photos"]


def test_no_folder_of_data_is_no_trouble(data_dir: Path) -> None:
    data_dir.rmdir()
    assert own.names_of_own_data() == []


@pytest.fixture
def hers(data_dir: Path, tmp_path: Path) -> Path:
    """The folder of data that a visitor has taken in."""
    table = put(tmp_path / "visits.csv", "x,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(80)))
    with intake.taken_in(intake.Given(table, Asked(), "anna")) as name:
        pass
    assert (name, own.owner(name)) == ("own:visits", "anna")
    return paths.home() / "data" / "visits"


@pytest.mark.parametrize("trouble", ["unlinked", "a folder", "no text"])
def test_data_whose_owner_cannot_be_told_are_nobodys(trouble: str, hers: Path) -> None:
    (hers / own.OWNER).unlink()
    if trouble == "a folder":  # what cannot be read, whoever asks
        (hers / own.OWNER).mkdir()
    elif trouble == "no text":
        (hers / own.OWNER).write_bytes(b"\xff")
    assert own.owner("own:visits") is None
    assert own.stored_bytes({""}) == 0, "nor the computer's"


def test_data_put_there_by_hand_or_taken_in_from_a_terminal_are_everybodys(hers: Path, data_dir: Path) -> None:
    write_pair(data_dir / "mine", [0, 1], [0, 1])
    with intake.taken_in(intake.Given(hers.parents[2] / "visits.csv", Asked())) as name:
        pass
    assert (own.owner("own:mine"), own.owner(name), own.owner("own:none")) == ("", "", None)


def test_the_disk_has_the_owner_before_the_data_have_their_name(data_dir, tmp_path, monkeypatch):
    """A power cut could otherwise leave an empty file, which gives the data to everybody."""
    waited = list[str]()

    def kept(_found: object, given: tuple[Path]) -> None:
        assert not (paths.home() / "data" / "visits").exists()
        waited.append((given[0] / own.OWNER).read_text(encoding="ascii"))

    watched(monkeypatch, paths, "keep_names", kept)
    table = put(tmp_path / "visits.csv", "x,label\n" + "1,a\n2,b\n" * 40)
    with intake.taken_in(intake.Given(table, Asked(), "anna")):
        pass
    assert waited == ["anna"]


def test_data_are_gone_at_once_and_what_is_left_of_them_is_swept_up(hers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies while it deletes leaves nothing under their name: half of them would be everybody's."""

    def killed(folder: Path, **_: bool) -> None:
        (folder / own.OWNER).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            intake.forget("own:visits")
    assert (own.names_of_own_data(), own.owner("own:visits"), intake.was_taken_in("own:visits")) == ([], None, False)
    (left,) = hers.parent.iterdir()
    assert (left / "visits.csv").exists()
    own.sweep()
    assert list(hers.parent.iterdir()) == []


def test_a_deletion_that_fails_says_so(hers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", raising(PermissionError(13, "Permission denied")))
        refuses(r"^data = own:visits: could not be deleted: Permission denied$", intake.forget, "own:visits")
    assert own.owner("own:visits") == "anna"
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    refuses("own:visits: is out of reach, but some of its files could not be deleted", intake.forget, "own:visits")
    assert own.names_of_own_data() == []


@pytest.mark.parametrize("name", [own.OWNER, own.ORIGIN])
def test_what_an_earlier_version_half_deleted_can_be_deleted(name: str, hers: Path) -> None:
    (hers / name).unlink()
    intake.forget("own:visits")
    assert not hers.exists()


def test_an_upload_that_nobody_keeps_goes_after_a_day(home: Path) -> None:
    for name, age in (("old", own.UPLOAD_SECONDS + 1), ("new", own.UPLOAD_SECONDS - 3600)):
        folder = paths.make_folder(paths.uploads(name))
        (folder / "x.csv").write_bytes(b"x")
        os.utime(folder, (time.time() - age,) * 2)
    own.sweep()
    assert own.uploaders() == ["new"]


# What an owner is told of their own data: the public part depends on public facts alone, the rest is marked as private.


EVERYTHING = Change(more=(0, 1, 2, 3, 4, 5))


@pytest.mark.parametrize("door", DOORS, ids="-".join)
def test_at_every_door_rows_are_counted_as_runs_use_them(door: tuple[str, str], data_dir: Path) -> None:
    found = []
    changes = {"plain": Change(), "odd": EVERYTHING, **{f"one{place}": one for place, one in enumerate(SINGLE.values())}}
    for name, change in changes.items():
        DOORS[door](data_dir / name, change)  # type: ignore[index]
        found.append((understood.report(name), load_dataset(DataSpec(dataset=f"own:{name}"))))
    (plain, loaded), (odd, _) = found[:2]
    assert (plain.private.n_rows, plain.private.n_used, plain.private.refused) == (120, 120, ())
    n_odd = 126 - (door == ("image", "folder"))  # a note among pictures is no row
    assert odd.private.n_rows == n_odd
    undeclared = sum(odd.private.undeclared.values())
    assert odd.private.n_used + undeclared + sum(count for _, count, _ in odd.private.refused) == n_odd
    assert (undeclared == 1) == (door[0] != "tagged")
    assert plain.public.n_train == loaded.n_people
    for one, read in found:
        assert (one.public.classes, one.public.n_train, one.public.n_test) == (
            plain.public.classes, plain.public.n_train, plain.public.n_test
        )  # fmt: skip
        units = len(read.train) if door[0] != "tagged" else len(set(read.train.images.sentence_of.tolist()))  # type: ignore[union-attr]
        assert one.private.n_used == units


def test_the_terminal_tells_the_owner_what_is_private(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DOORS["text", ".csv"](data_dir / "mine", EVERYTHING)
    with (data_dir / "mine" / "train.csv").open("a", encoding="utf-8") as file:
        file.write("one,two,three\n")
    public, private = printed(capsys, "data", "check", "mine").split("PRIVATE, for you alone.")
    assert "classes            c0, c1, c2, c3 (from the test part)" in public
    assert "training examples  160 (four for each in the test part, as no schema says)" in public
    assert "127 training rows; 123 count." in private
    assert "must hold text; leave out rows without any. First: own:mine/train.csv row 123, text." in private
    assert '1 row labelled "nobody has it", which the schema does not declare: used only under dp-learned.' in private
    assert "1 row left out: must have as many values as there are columns, and close every quote" in private
    told = document_of(capsys, "data", "check", str(data_dir / "mine"))
    assert (told["public"]["name"], told["private"]["n_used"]) == ("own:mine", 123)
    assert "do not pass it on" in told["private"]["warning"]
    assert os.environ["DPCL_DATA"] == str(data_dir)


def test_a_schema_is_written_of_public_facts_alone_and_read_again(data_dir, tmp_path, capsys):
    """Two neighbours get the same file; it says what held before, and is never written over."""
    content = []
    for name, change in (("one", Change()), ("other", EVERYTHING)):
        DOORS["image", "folder"](tmp_path / name / "mine", change)
        assert cli.main(["data", "check", str(tmp_path / name / "mine"), "--write-schema"]) == 0
        content.append((tmp_path / name / "mine" / schema.NAME).read_text(encoding="utf-8"))
    assert content[0] == content[1]
    includes(content[0], 'classes = ["c0", "c1", "c2", "c3"]', "n_train = 160")
    found = understood.report(str(tmp_path / "other" / "mine"))
    assert {"title", "classes", "n_train"} <= set(found.public.from_schema)
    assert found.private.undeclared == {}
    capsys.readouterr()
    assert "is there already" in complaint(capsys, "data", "check", str(tmp_path / "one" / "mine"), "--write-schema")


def test_odd_names_survive_in_a_schema(data_dir: Path) -> None:
    names = ('quo"te', "back\\slash", "é", "\u2028")
    DOORS["text", ".csv"](data_dir / "mine", Change())
    fields = schema.Schema(title='a "title"', classes=names, sources=("a", "b"), n_train=7)
    (data_dir / "mine" / schema.NAME).write_text(schema.schema_toml(fields), encoding="utf-8")
    card = catalog.card("own:mine")
    assert (card.title, card.classes, card.n_train) == ('a "title"', names, 7)
    assert [name for name, _ in card.sources] == ["a", "b"]


@pytest.mark.parametrize("named", ["digits", "../mine", "nowhere"])
def test_what_is_no_data_of_ones_own_is_refused(named: str, data_dir: Path) -> None:
    refusal_of(understood.report, named)


def clinic(data_dir: Path, lines: list[str]) -> understood.Report:
    put(data_dir / "mine" / "all.csv", "\n".join(["age,bp,sex,label", *lines]) + "\n")
    return understood.report("mine")


@pytest.mark.parametrize("line", ['40,120,"f,home', '40,120,f,"home', '"', '40,120,"f ""x"",home', '40,"12"0","f,home'])
@pytest.mark.parametrize("place", [0, 200, 400])
def test_an_open_quote_is_one_row_left_out(line: str, place: int, data_dir: Path) -> None:
    """Neighbours: the row swallows none after it, so that sizes of the public part stay what they are.

    With so many letters more its own coin makes it a training row.
    """
    rows = [f'{20 + k % 60},{100 + k},"{"mf"[k % 2]}","{["home", "ward, ""2"""][k // 2 % 2]}"' for k in range(400)]
    alone = clinic(data_dir, rows)
    for more in range(20):
        beside = clinic(data_dir, [*rows[:place], line + "x" * more, *rows[place:]])
        if beside.private.n_rows > alone.private.n_rows:
            break
    assert beside.public == alone.public
    assert (beside.private.n_rows, beside.private.n_used) == (alone.private.n_rows + 1, alone.private.n_used)
    assert "close every quote" in beside.private.refused[0][0]


def test_a_break_inside_quotes_is_two_lines_left_out_and_every_line_counts_alone(data_dir: Path) -> None:
    rows = [f"{20 + k % 60},{100 + k},{'mf'[k % 2]},{['home', 'ward'][k // 2 % 2]}" for k in range(100)]
    alone, n_rows = clinic(data_dir, rows), 0
    for more in range(40):  # until their own coins make both training rows
        broken = [f'{40 + more},120,"f', f'm",home{more}']
        whole = clinic(data_dir, [*rows[:50], *broken, *rows[50:]])
        n_rows = whole.private.n_rows - alone.private.n_rows
        if n_rows == 2:
            break
    for kept in ([], broken[:1], broken[1:]):
        assert clinic(data_dir, [*rows[:50], *kept, *rows[50:]]).public == whole.public
    assert whole.private.refused[0][1] == 2


def test_an_open_quote_among_the_names_is_quoted_only_if_they_are_names(data_dir: Path) -> None:
    put(data_dir / "mine" / "all.csv", 'age,"label\n1,a\n2,b\n')
    refuses(schema.DOUBT, understood.report, "mine")
    put(data_dir / "mine" / "schema.toml", 'first_line = "names"\n')
    refuses('must have a column text: age,"label', understood.report, "mine")


# Data that were taken in under the first rule of coins keep it: rows once shown as test data never become private.


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
    for of, content in ((schema.NAME, said), (own.ORIGIN, "x"), (own.OWNER, "")):
        put(folder / of, content)
    write(folder / name)
    return f"own:{folder.name}"


def digest(name: str) -> str:
    found = outline(catalog.card(name))
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
    known = own.marks_of(outline(catalog.card(before)))
    own.write_marks(paths.home() / "data" / before.removeprefix("own:"), known)
    path = tmp_path / f"brought-again{Path(name).suffix}"
    BEFORE[name][0](path)
    path.with_name(f"brought-again.{schema.NAME}").write_text(BEFORE[name][1], encoding="utf-8")
    with intake.taken_in(intake.Given(path, Asked())) as again:
        assert (catalog.card(again).coins, digest(again)) == (1, BEFORE[name][2])
    with pytest.raises(BadInput, match="coins = 2: must be 1, or left out"), intake.taken_in(intake.Given(
        path, Asked(instead=replace(schema.parsed(intake.schema_beside(path), "x"), coins=2))
    )):  # fmt: skip
        pass
    intake.forget(before)
    intake.forget(again)
    with intake.looked_at(intake.Given(path, Asked())) as unknown:
        assert catalog.card(unknown).coins == 2
    with intake.looked_at(intake.Given(path, Asked(), seen=known)) as deleted:
        assert catalog.card(deleted).coins == 1


def test_new_rows_have_the_new_rule_beside_old_ones(data_dir: Path, tmp_path: Path) -> None:
    before = taken_in_before("a.csv")
    own.write_marks(paths.home() / "data" / before.removeprefix("own:"), frozenset({"0" * 16}))
    csv(tmp_path / "new.csv")
    with intake.taken_in(intake.Given(tmp_path / "new.csv", Asked(Columns(target="label")))) as name:
        assert catalog.card(name).coins == 2
    assert intake.kept_folder(name)[1].coins == 2
