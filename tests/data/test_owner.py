"""What an owner is told of their own data: the public part depends on public facts alone, the rest is marked as private."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpcl_core import cli
from dpcl_core.data import schema, understood
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.support.doors import DOORS, SINGLE, Change

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
    assert cli.main(["data", "check", "mine"]) == 0
    out = capsys.readouterr().out
    public, private = out.split("PRIVATE, for you alone.")
    assert "classes            c0, c1, c2, c3 (from the test part)" in public
    assert "training examples  160 (four for each in the test part, as no schema says)" in public
    assert "127 training rows; 123 count." in private
    assert "must hold text; leave out rows without any. First: own:mine/train.csv row 123, text." in private
    assert '1 row labelled "nobody has it", which the schema does not declare: used only under dp-learned.' in private
    assert "1 row left out: must have as many values as there are columns, and close every quote" in private
    assert cli.main(["data", "check", str(data_dir / "mine"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["public"]["name"] == "own:mine"
    assert told["private"]["n_used"] == 123
    assert "do not pass it on" in told["private"]["warning"]
    assert os.environ["DPCL_DATA"] == str(data_dir)


def test_a_folder_without_data_is_refused_without_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").mkdir()
    assert cli.main(["data", "check", str(tmp_path / "notes")]) == 2
    said = capsys.readouterr().err
    assert "notes: holds no table, and no picture in CLASS/" in said
    assert str(tmp_path) not in said


def test_a_schema_is_written_of_public_facts_alone_and_read_again(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two neighbours get the same file; it says what held before, and is never written over."""
    content = []
    for name, change in (("one", Change()), ("other", EVERYTHING)):
        DOORS["image", "folder"](tmp_path / name / "mine", change)
        assert cli.main(["data", "check", str(tmp_path / name / "mine"), "--write-schema"]) == 0
        content.append((tmp_path / name / "mine" / schema.NAME).read_text(encoding="utf-8"))
    assert content[0] == content[1]
    assert 'classes = ["c0", "c1", "c2", "c3"]' in content[0]
    assert "n_train = 160" in content[0]
    found = understood.report(str(tmp_path / "other" / "mine"))
    assert {"title", "classes", "n_train"} <= set(found.public.from_schema)
    assert found.private.undeclared == {}
    capsys.readouterr()
    assert cli.main(["data", "check", str(tmp_path / "one" / "mine"), "--write-schema"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_odd_names_survive_in_a_schema(data_dir: Path) -> None:
    names = ('quo"te', "back\\slash", "é", "\u2028")
    DOORS["text", ".csv"](data_dir / "mine", Change())
    fields = schema.Schema(title='a "title"', classes=names, sources=("a", "b"), n_train=7)
    (data_dir / "mine" / schema.NAME).write_text(schema.schema_toml(fields), encoding="utf-8")
    from dpcl_core.data import catalog

    card = catalog.card("own:mine")
    assert (card.title, card.classes, card.n_train) == ('a "title"', names, 7)
    assert [name for name, _ in card.sources] == ["a", "b"]


@pytest.mark.parametrize("named", ["digits", "../mine", "nowhere"])
def test_what_is_no_data_of_ones_own_is_refused(named: str, data_dir: Path) -> None:
    with pytest.raises(BadInput):
        understood.report(named)


def clinic(data_dir: Path, lines: list[str]) -> understood.Report:
    (data_dir / "mine").mkdir(exist_ok=True)
    (data_dir / "mine" / "all.csv").write_text("\n".join(["age,bp,sex,label", *lines]) + "\n", encoding="utf-8")
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
    (data_dir / "mine").mkdir()
    (data_dir / "mine" / "all.csv").write_text('age,"label\n1,a\n2,b\n', encoding="utf-8")
    with pytest.raises(BadInput, match=schema.DOUBT):
        understood.report("mine")
    (data_dir / "mine" / "schema.toml").write_text('first_line = "names"\n', encoding="utf-8")
    with pytest.raises(BadInput, match='must have a column text: age,"label'):
        understood.report("mine")
