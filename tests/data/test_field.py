"""Files as people bring them: each kind is read, or the sentence that refuses it says what is wrong with this file."""

import gzip
import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from dpcl_core import machine
from dpcl_core.data import catalog, intake, outline, table_features, understood
from dpcl_core.data.columns import Column
from dpcl_core.data.intake import Asked
from dpcl_core.data.load import load_dataset
from dpcl_core.data.schema import Columns, Schema
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.data.making import npz, picture, put, zipped
from tests.support.asserting import includes, printed, refusal_of

N = 200
ROWS = [(f"{row * 37 % 97 / 10 - 3}", f"{row % 50}", "abcd"[row % 4]) for row in range(N)]
TARGET = Asked(Columns(target="y"))
ALL = ("a", "b", "c", "d")
NAMES = ("f0", "f1", "y")


def csv(rows: list[tuple[str, ...]] = ROWS, separator: str = ",", head: str = "f0,f1,y") -> str:  # type: ignore[assignment]
    return "\n".join([head.replace(",", separator), *(separator.join(one) for one in rows), ""])


def seen(path: Path, asked: Asked = TARGET) -> tuple[tuple[str, ...], dict[str, str], list[str], int]:
    """Classes, how each column is read, what is said before a start, and how many rows are used."""
    with intake.looked_at(intake.Given(path, asked)) as name:
        found = understood.understand(name)
        data = load_dataset(DataSpec(dataset=name), undeclared=True)
        read_as = {one.name: one.read_as for one in found.columns}
        return data.classes, read_as, list(found.assumed), len(data.train) + len(data.test)


def told(folder: Path, content: str) -> tuple[tuple[str, ...], list[str], int]:
    """Of a table with this content: its classes, what is said, and how many rows are used."""
    classes, _, said, n = seen(put(folder / "table.csv", content))
    return classes, said, n


def refused(path: Path, asked: Asked = TARGET) -> BadInput:
    return refusal_of(seen, path, asked)


def values(path: Path, asked: Asked = TARGET) -> np.ndarray:
    with intake.looked_at(intake.Given(path, asked)) as name:
        found = load_dataset(DataSpec(dataset=name))
        return np.concatenate([np.asarray(one.images.values) for one in (found.train, found.test)])  # type: ignore[union-attr]


def are_alike(path: Path, other: Path) -> bool:
    """Whether two files give the same rows of numbers, in any order."""
    one, two = (sorted(map(tuple, values(each).tolist())) for each in (path, other))
    return one == two


# Numbers


@pytest.mark.parametrize(("cells", "written", "expected"), [
    (["1.5", "-2", "3e2", "True", "?", "n.d."], "", [1.5, -2, 300, 1]),
    (["1,5", "-2,25", "3", "n/a"], "comma", [1.5, -2.25, 3]),
    (["1.234,5", "2,1", "-"], "comma", [1234.5, 2.1]),
    (["1,234", "2,500,000.5", "7"], "thousands", [1234, 2500000.5, 7]),
    (["1,234", "12,340", "7"], "thousands", [1234, 12340, 7]),
    (["1,234", "0,125"], "comma", [1.234, 0.125]),
    (["12 %", "7.5%"], "", [12, 7.5]),
    (["$1,234.50", "$20.00"], "thousands", [1234.5, 20]),
    (["2000-01-01", "2001-01-01 12:00:00"], "ymd", [0, 366.5 / 365.2425]),
    (["01.01.2000", "31.12.1999"], "dmy", [0, -1 / 365.2425]),
    (["13/01/2000", "01/02/2000"], "dmy", [12 / 365.2425, 31 / 365.2425]),
    (["01/13/2000", "02/01/2000"], "mdy", [12 / 365.2425, 31 / 365.2425]),
    (["01/02/2000", "03/04/2000"], None, []),
    (["red", "1", "2"], None, []),
    (["", "?"], None, []),
])
def test_how_numbers_are_written_follows_from_public_cells(cells, written, expected):
    column = Column("text", cells)
    assert table_features._writing(column, "x") == written
    if written is not None:
        found = table_features.column_numbers(column, "x", written)
        assert found[~np.isnan(found)].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("n_words", "is_number"), [(0, True), (1, True), (2, False)])
def test_of_twenty_cells_one_may_be_a_word(n_words: int, is_number: bool) -> None:
    column = Column("text", [*["red"] * n_words, *["1.5"] * (20 - n_words)])
    assert (table_features._writing(column, "x") == "") == is_number


def test_a_few_words_in_a_column_of_numbers_are_missing_numbers_and_are_said(tmp_path: Path) -> None:
    rows = [("below" if row % 40 == 7 else f0, f1, y) for row, (f0, f1, y) in enumerate(ROWS)]
    lab, clean = put(tmp_path / "lab.csv", csv(rows)), put(tmp_path / "clean.csv", csv())
    _, read_as, said, _ = seen(lab)
    assert read_as["f0"] == "number of any size, squashed"
    (told,) = (one for one in said if one.startswith("f0: "))
    assert "public cells are no number ('below') and count as missing." in told
    assert values(lab).shape == values(clean).shape


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_decimal_comma_gives_the_numbers_of_a_point(separator: str, tmp_path: Path) -> None:
    commas = csv([(f'"{f0.replace(".", ",")}"', f1, y) for f0, f1, y in ROWS], separator)
    assert are_alike(put(tmp_path / "points.csv", csv(separator=separator)), put(tmp_path / "commas.csv", commas))


# Lines


@pytest.mark.parametrize("written", [
    "sep=;\n" + csv(separator=";"),
    csv(separator="|"),
    "Patients of 2024\n\n" + csv(),
    "# exported by a device\n# on Monday\n" + csv(),
    csv([(*one, "", "") for one in ROWS]),
    csv().replace("\n", "\r\n"),
    "\ufeff" + csv(),
], ids=["sep=", "bars", "title", "comments", "separators at the end", "Windows", "mark"])
def test_tables_as_programs_write_them_are_read_whole(written: str, tmp_path: Path) -> None:
    classes, read_as, _, n = seen(put(tmp_path / "table.csv", written))
    assert (classes, n, tuple(read_as)) == (ALL, N, NAMES)


@pytest.mark.parametrize("blanks", [" ", "   "])
def test_blanks_separate_where_the_first_line_is_said_to_name_columns(blanks: str, tmp_path: Path) -> None:
    rows = [(f0, f'"{f1} or so"', y) for f0, f1, y in ROWS]
    path = put(tmp_path / "table.csv", csv(rows, blanks, head=blanks.join(NAMES)))
    classes, read_as, _, n = seen(path, replace(TARGET, first_line="names"))
    assert (classes, n, tuple(read_as)) == (ALL, N, NAMES)
    assert "--header" in str(refused(path))


def test_each_line_has_its_own_encoding(tmp_path: Path) -> None:
    lines = csv([(f0, f1, ("Müller", "Café", "a", "b")[row % 4]) for row, (f0, f1, _) in enumerate(ROWS)]).split("\n")
    content = b"\n".join(line.encode("utf-8" if row % 3 else "cp1252") for row, line in enumerate(lines))
    classes, _, _, n = seen(put(tmp_path / "mixed.csv", content))
    assert (classes, n) == (("Café", "Müller", "a", "b"), N)


def test_lines_that_are_no_rows_are_said_with_their_reason(tmp_path: Path) -> None:
    rows = [(*one, '"12 Main St\nTown"' if row % 2 else "x") for row, one in enumerate(ROWS)]
    _, said, n = told(tmp_path, csv(rows, head="f0,f1,y,addr"))
    assert n == N // 2
    assert any("A private value of several lines cannot be read from CSV" in one for one in said)
    assert any("public rows are left out" in one and "as many values as there are columns" in one for one in said)


# Labels


def test_markers_of_missing_labels_are_no_class_and_are_counted(tmp_path: Path) -> None:
    rows = [(f0, f1, "?" if row % 5 == 0 else y) for row, (f0, f1, y) in enumerate(ROWS)]
    classes, said, n = told(tmp_path, csv(rows))
    assert (classes, n) == (ALL, N * 4 // 5)
    assert any("not a marker of a missing one (?)" in one for one in said)


def test_zero_and_zero_point_zero_are_one_label(tmp_path: Path) -> None:
    rows = [(f0, f1, f"{row % 3}" + (".0" if row % 2 else "")) for row, (f0, f1, _) in enumerate(ROWS)]
    assert told(tmp_path, csv(rows))[0] == ("0", "1", "2")


@pytest.mark.parametrize(("step", "what"), [(0.37, "different numbers with fractions"), (7, "different numbers")])
def test_a_column_that_measures_is_no_target(step: float, what: str, tmp_path: Path) -> None:
    rows = [(f0, f1, str(round(row * step, 3))) for row, (f0, f1, _) in enumerate(ROWS)]
    error = refused(put(tmp_path / "prices.csv", csv(rows)))
    assert (error.field, what in str(error.value)) == ("own:prices target", True)


def test_a_list_is_no_label(tmp_path: Path) -> None:
    lines = put(tmp_path / "lists.jsonl", "\n".join(json.dumps({"f": f, "y": [y, "z"]}) for f, _, y in ROWS))
    pq.write_table(pa.table({"f0": [1.0] * 60, "y": [["a", "b"]] * 60}), tmp_path / "lists.parquet")
    for path in (lines, tmp_path / "lists.parquet"):
        assert "a list is no label" in str(refused(path))


# Containers


def by_columns(rows: list[tuple[str, str, str]] = ROWS) -> dict[str, list[str]]:
    return dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))


def records(rows: list[tuple[str, str, str]] = ROWS) -> str:
    return json.dumps([dict(zip(NAMES, one, strict=True)) for one in rows], indent=1)


def feather() -> bytes:
    file = io.BytesIO()
    pf.write_feather(pa.table(by_columns()), file)
    return file.getvalue()


@pytest.mark.parametrize(("name", "content"), [
    ("a.json", records().encode()), ("a.csv.gz", gzip.compress(csv().encode())), ("a.feather", feather())])
def test_other_containers_hold_the_same_rows(name: str, content: bytes, tmp_path: Path) -> None:
    path = put(tmp_path / name, content)
    assert are_alike(path, put(tmp_path / "plain.csv", csv()))
    assert intake.columns(path, Schema()) == [*NAMES]
    assert intake.first_line(path) == ("unclear" if name == "a.csv.gz" else "none")


WRONG: dict[str, tuple[bytes, str]] = {
    "object.json": (b'{"data": [{"f0": 1, "y": "a"}]}', "is one JSON object: save its records as lines"),
    "heic.zip": (zipped({"0.HEIC": b"x"}), "holds no table, and no picture in CLASS/"),
    "stuff.npz": (npz(stuff=np.ones((4, 2)), y=np.arange(4)), "= stuff, y: must hold a float array"),
    "a.arff": (b"@relation x", "loadarff('a.arff')"),
    **{f"damaged{ending}": (b"[{1" * 50, "damaged") for ending in (".json", ".csv.gz", ".feather", ".npz")},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_refusal_says_what_is_wrong_with_this_file(name: str, tmp_path: Path) -> None:
    content, said = WRONG[name]
    assert said in str(refused(put(tmp_path / name, content), Asked()))


@pytest.mark.parametrize("is_packed", [True, False])
def test_parts_are_known_by_their_names_however_written(is_packed: bool, tmp_path: Path) -> None:
    photographs(tmp_path / "x", "Validation")
    (tmp_path / "x" / "train").rename(tmp_path / "x" / "Training")
    if is_packed:
        shutil.make_archive(str(tmp_path / "x"), "zip", tmp_path / "x")
    _, _, said, n = seen(tmp_path / ("x.zip" if is_packed else "x"), Asked())
    assert n == 100
    assert any(one.startswith("40 pictures in validation/ are not protected") for one in said)


@pytest.mark.parametrize("names", [("a.csv",), ("in/train.csv", "in/val.csv"), ("train.csv.gz", "test.csv.gz"), ("a.json",)])
@pytest.mark.parametrize("is_packed", [True, False])
def test_tables_in_a_zip_are_read_as_in_a_folder(names: tuple[str, ...], is_packed: bool, tmp_path: Path) -> None:
    forms = {"csv": csv, "gz": lambda rows: gzip.compress(csv(rows).encode()), "json": records}
    parts = [ROWS] if len(names) == 1 else [ROWS[:150], ROWS[150:]]
    with zipfile.ZipFile(tmp_path / "bag.zip", "w") as archive:
        for name, rows in zip(names, parts, strict=True):
            content = forms[name.rpartition(".")[2]](rows)
            archive.writestr(name, content)
            archive.writestr(f"__MACOSX/._{name}", b"no table")
            put(tmp_path / "bag" / Path(name).name, content)
    classes, _, said, n = seen(tmp_path / ("bag.zip" if is_packed else "bag"))
    assert (classes, n) == (ALL, N)
    assert any("50 rows in" in one for one in said) == (len(names) == 2)


def test_a_folder_of_pictures_is_none_of_the_notes_beside_it(tmp_path: Path) -> None:
    photographs(tmp_path / "shots")
    (tmp_path / "shots" / "notes.json").write_text("[]", encoding="utf-8")
    classes, *_, n = seen(tmp_path / "shots", Asked())
    assert (classes, n) == (("a", "b"), 100)


def test_a_sheet_of_excel_holds_the_same_rows(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [NAMES, *((float(one), int(two), label) for one, two, label in ROWS)]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert are_alike(tmp_path / "a.xlsx", put(tmp_path / "plain.csv", csv()))
    book.create_sheet("more").append(["f0", "y"])
    book.save(tmp_path / "two.xlsx")
    assert "one sheet that holds rows; it has 2" in str(refused(tmp_path / "two.xlsx"))


def test_a_sheet_of_excel_without_its_reader_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert "needs openpyxl: pip install 'dpcl[excel]'" in str(refused(put(tmp_path / "a.xlsx", b"PK")))


@pytest.mark.parametrize("names", [("x_train", "y_train", "x_test", "y_test"), ("X_train", "y_train", "X_val", "y_val")])
def test_arrays_by_part(names: tuple[str, ...], tmp_path: Path) -> None:
    rows, labels = np.arange(N * 3.0).reshape(N, 3) % 17, np.array(list("abcd") * (N // 4))
    arrays = dict(zip(names, (rows[:150], labels[:150], rows[150:], labels[150:]), strict=True))
    np.savez(tmp_path / "arrays.npz", **arrays)
    classes, _, said, n = seen(tmp_path / "arrays.npz", Asked())
    assert (classes, n) == (ALL, N)
    assert any("50 rows in" in one and "are not protected" in one for one in said)


def test_arrays_of_pictures_by_part(tmp_path: Path) -> None:
    pixels, labels = np.arange(40 * 64, dtype=np.uint8).reshape(40, 8, 8), np.arange(40).reshape(40, 1) % 2
    parts = {"train": slice(30), "test": slice(30, 40)}
    arrays = {f"{part}_images": pixels[rows] for part, rows in parts.items()}
    np.savez(tmp_path / "med.npz", **arrays, **{f"{part}_labels": labels[rows] for part, rows in parts.items()})
    classes, _, _, n = seen(tmp_path / "med.npz", Asked())
    assert (classes, n) == (("0", "1"), 40)


@pytest.mark.parametrize(("is_nested", "is_zipped"), [(False, False), (True, False), (True, True)])
def test_what_save_to_disk_has_left_is_read(is_nested: bool, is_zipped: bool, tmp_path: Path) -> None:
    root = tmp_path / "outer" / "saved" if is_nested else tmp_path / "outer"
    for split, rows in (("train", ROWS[:150]), ("test", ROWS[150:])):
        (root / split).mkdir(parents=True)
        table = pa.table(by_columns(rows))
        with pa.ipc.new_stream(root / split / "data-00000-of-00001.arrow", table.schema) as file:
            file.write_table(table)
        put(root / split / "state.json", "{}")
    put(root / "dataset_dict.json", "{}")
    path = Path(shutil.make_archive(str(tmp_path / "saved"), "zip", tmp_path / "outer")) if is_zipped else tmp_path / "outer"
    classes, _, said, n = seen(path)
    assert (classes, n) == (ALL, N)
    assert any(one.startswith("50 rows in test.parquet are not protected") for one in said)


@pytest.mark.parametrize("scheme", ["BIO", "IOB", "BIOES"])
def test_sentences_of_four_columns_are_read_in_every_scheme_of_tags(scheme: str, tmp_path: Path) -> None:
    tags = {"BIO": ("B-PER", "I-PER"), "IOB": ("I-PER", "I-PER"), "BIOES": ("B-PER", "E-PER")}[scheme]
    block = "Ann{0} NNP B-NP {1}\nLee NNP I-NP {2}\nsings VB B-VP O\n"
    text = "-DOCSTART- -X- -X- O\n\n" + "\n".join(block.format(row, *tags) for row in range(60))
    classes, *_, n = seen(put(tmp_path / "names.conll", text), Asked())
    assert (classes, n) == (("O", "B-PER", "I-PER"), 180)


@pytest.mark.parametrize("form", ["header", "words", "lines"])
def test_lists_of_words_and_tags_are_sentences(form: str, tmp_path: Path) -> None:
    tokens = [[f"Ann{row}", "Lee", "sings"] for row in range(60)]
    names = ["O", "B-PER", "I-PER", "B-LOC"]
    words = ["I-PER", "I-PER", "O"] if form == "lines" else ["B-PER", "I-PER", "O"]
    if form == "lines":
        path = tmp_path / "ner.jsonl"
        lines = [json.dumps({"id": str(row), "tokens": one, "ner_tags": words}) for row, one in enumerate(tokens)]
        path.write_text("\n".join([*lines, '{"tokens": ["a"], "ner_tags": ["O", "O"]}', "no row"]), encoding="utf-8")
    else:
        path, numbers = tmp_path / "ner.parquet", [names.index(one) for one in words]
        feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
        header = {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})} if form == "header" else {}
        tags = pa.array([numbers if form == "header" else words] * 60)
        pq.write_table(pa.table({"tokens": tokens, "ner_tags": tags}).replace_schema_metadata(header), path)
    classes, *_, n = seen(path, Asked())
    assert (classes, n) == (("O", "B-PER", "I-PER"), 180)
    assert intake.columns(path, Schema()) == []


def test_tags_that_are_numbers_without_names_are_said_to_be(tmp_path: Path) -> None:
    lines = [json.dumps({"tokens": ["Ann", f"sings{row}"], "ner_tags": [1, 0]}) for row in range(60)]
    assert "a number without a name is no tag" in str(refused(put(tmp_path / "ner.jsonl", "\n".join(lines)), Asked()))


# Parts


def photographs(root: Path, part: str = "val") -> Path:
    for row in range(100):
        put(root / ("train" if row < 60 else part) / "ab"[row % 2] / f"{row}.png", picture(row, (6, 5)))
    return root


@pytest.mark.parametrize("part", ["val", "valid", "validation", "dev", "test"])
def test_a_part_beside_train_is_public_and_said_to_be(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "data", "check", str(photographs(tmp_path / "photos", part)))
    includes(out, f"40 pictures in {part}/ are not protected", "60 training rows; 60 count.")


def test_a_part_stays_private_if_its_owner_says_so(tmp_path: Path) -> None:
    root = photographs(tmp_path / "photos")
    *_, said, n = seen(root, Asked(private=("val",)))
    assert n == 100
    assert not any("are not protected" in one for one in said)
    assert any("is set aside for testing" in one for one in said)
    error = refused(root, Asked(private=("dev",)))
    assert (error.field, error.value) == ("--private", "dev")


def test_a_private_part_of_a_table_joins_it(tmp_path: Path) -> None:
    for name, rows in (("train", ROWS[:150]), ("val", ROWS[150:])):
        put(tmp_path / "t" / f"{name}.csv", csv(rows))
    assert seen(tmp_path / "t")[3] == N
    *_, said, n = seen(tmp_path / "t", Asked(Columns(target="y"), private=("val",)))
    assert n == N
    assert any("is set aside for testing" in one for one in said)


def test_rows_of_people_in_the_public_part_are_left_out_whoever_has_some(tmp_path: Path, data_dir: Path) -> None:
    """By the public list of people alone: rows of p0 to p4 go, and no other row comes or goes."""
    mine = data_dir / "mine"
    put(mine / "schema.toml", '[columns]\ntarget = "y"\nperson = "who"\n')
    put(mine / "test.csv", csv([(*one, f"p{row % 5}") for row, one in enumerate(ROWS[:20])], head="f0,f1,y,who"))
    others = [(*one, f"p{5 + row}") for row, one in enumerate(ROWS[20:80])]
    said = "Training rows of people who also stand in the public part are left out."
    for known in ([], [(*ROWS[90], "p3")]):
        put(mine / "train.csv", csv([*known, *others], head="f0,f1,y,who"))
        assert len(outline.outline(catalog.card("own:mine")).train.rows) == 60
        assert said in understood.understand("own:mine").assumed
