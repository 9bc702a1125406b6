"""Any one private row, the first and the last included, decides nothing about columns, types, width, coins or other rows.

For every form of file, whole or with a test part: D and D' differ in one row, which is replaced, added or removed, and in
what the file's writer makes of the whole column then. All that is public is the same, and of the training part, whole and
thinned, at most this row is another.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core.data import catalog, files, outline, understood
from dpcl_core.data.dataset import Images, Split, Vectors
from dpcl_core.data.load import load_dataset
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.data.making import picture

N, N_TEST = 120, 30
Row = Any
Write = Callable[[Path, Sequence[Row]], None]


class Form(NamedTuple):
    """A form of file: its ending, what writes rows to it, its rows, rows that may stand in the place of one, its schema."""

    ending: str
    write: Write
    rows: Sequence[Row]
    odd: Sequence[Row]
    schema: str = '[columns]\ntarget = "label"\n'


def cells(row: int) -> dict[str, Any]:
    return {"age": row % 50, "dose": row * 0.5, "colour": ("red", "blue")[row % 2], "label": row % 4, "who": row // 2}


def csv_line(row: Row, separator: str = ",") -> bytes:
    return row if isinstance(row, bytes) else separator.join(map(str, row.values())).encode()


def csv(separator: str, *, has_names: bool) -> Write:
    head = [separator.join(cells(0)).encode()] if has_names else []

    def write(path: Path, rows: Sequence[Row]) -> None:
        path.write_bytes(b"\n".join([*head, *(csv_line(one, separator) for one in rows)]) + b"\n")

    return write


def json_lines(path: Path, rows: Sequence[Row]) -> None:
    path.write_bytes(b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows) + b"\n")


def by_pandas(to: str) -> Write:
    """What pandas makes of the whole table: an empty cell turns whole numbers of a column into floating point."""

    def write(path: Path, rows: Sequence[Row]) -> None:
        frame = pd.DataFrame(list(rows))
        if to == "parquet":
            frame.to_parquet(path)
        elif to == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)

    return write


def dated(to: str) -> Write:
    """Days and moments of a column as pandas writes them: with the hours of all where one has any, in the finest unit."""

    def write(path: Path, rows: Sequence[Row]) -> None:
        by_pandas(to)(path, pd.DataFrame(list(rows)).assign(day=lambda all_: pd.to_datetime(all_["day"])).to_dict("records"))

    return write


def arrow(path: Path, rows: Sequence[Row]) -> None:
    """Columns whose types Arrow takes from all rows; bytes in lists of text are text that is not UTF-8."""
    columns = {name: pa.array([one.get(name) for one in rows]) for name in sorted({*rows[0], *rows[-1]})}
    for name, column in columns.items():
        if pa.types.is_list(column.type) and pa.types.is_binary(column.type.value_type):
            flat = column.flatten()
            texts = pa.Array.from_buffers(pa.string(), len(flat), flat.buffers())
            columns[name] = pa.ListArray.from_arrays(column.offsets, texts)
    pq.write_table(pa.table(columns), path)


def npz(path: Path, rows: Sequence[Row]) -> None:
    columns = (np.array(column) for column in zip(*rows, strict=True))
    np.savez(path, **dict(zip(("embeddings", "labels", "person"), columns, strict=False)))


def conll(path: Path, rows: Sequence[Row]) -> None:
    path.write_bytes(b"\n".join(rows))


def block(row: int, genre: str = "ab") -> bytes:
    line = " ".join([f"{genre[row % 2]}/x/1", "0", "0", f"Ada{row}", *["-"] * 6, "(PER)"])
    return f"{line}\n{line.replace('(PER)', '*').replace('Ada', 'slept')}\n".encode()


def folder(path: Path, rows: Sequence[Row]) -> None:
    for name, content in rows:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


PLAIN = [cells(row) for row in range(N)]
_PERSON = '[columns]\ntarget = "label"\nperson = "who"\n'
_UNNAMED = 'first_line = "data"\n[columns]\ntarget = "column4"\n'
_LINES = [
    b"Alice Smith, positive", b"1,2", b"1,2,red,1,3,4,5,6", b"7;0,5;red;1;9", b'7,"open,red,1,9', b"\xff\xfe7,0.5,red,1,9",
    b"\xef\xbb\xbf7,0.5,red,1,9", b"7,0.5,caf\xe9,1,9", b"7\t0.5\tred\t1\t9", b",,,,", b"x" * 5000,
    b"7,n.d.,red,nobody has it,9",
    b"7.0,0.5,red,1.0,9.0", b",".join([b"1"] * 5000), b"age,dose,colour,label,who", b"text,label",
]  # fmt: skip
_OBJECTS: list[Row] = [
    {**cells(7), "diagnosis": "secret"}, {"diagnosis": "secret"}, {"label": 1}, {}, b"no object", b"[1, 2]", b"{" * 400,
    {**cells(7), "age": None}, {**cells(7), "label": None}, {**cells(7), "age": "7.0"}, {**cells(7), "age": [7, {"a": 1}]},
    b'{"age": 7, "label": "caf\xe9"}', {**cells(7), "label": {"a": [1]}}, {"who": 3, **cells(7)}, {**cells(7), "a\x1bb": 1},
    b'\xef\xbb\xbf{"age": 7, "label": 1}', b'{"age": 1e999, "label": 123456789012345678901234567890}',
]  # fmt: skip
_TYPED: list[Row] = [
    {**cells(7), "age": None}, {**cells(7), "label": None}, {**cells(7), "who": None}, {**cells(7), "age": 7.5},
    {**cells(7), "colour": None}, {**cells(7), "dose": None}, {**cells(7), "age": 2**40},
]  # fmt: skip
_NAMED = [
    *_TYPED, {**cells(7), "age": "n.d."}, {**cells(7), "dose": "n.d."}, {**cells(7), "label": "nobody has it"},
]  # fmt: skip


def nested(row: int, **more: Any) -> dict[str, Any]:
    """Cells whose column's type Arrow takes from all rows."""
    return {
        "price": Decimal(row) / 4, "flag": row % 3 == 0, "empty": None, "none": {"a": row}, "list": [row, row + 1],
        "label": f"c{row % 4}", **more,
    }  # fmt: skip


def moment(row: int, **more: Any) -> dict[str, Any]:
    return {"day": datetime(2024, 1 + row % 12, 1 + row % 28), "dose": row, "label": f"c{row % 4}", **more}


DAYS = [moment(row) for row in range(N)]
_NOON = datetime(2024, 1, 1, 12, 30)
_MOMENTS = [
    moment(7, day=None), moment(7, day=_NOON), moment(8, day=_NOON.replace(microsecond=5)),
    moment(9, day=pd.Timestamp("2024-01-01 12:30:00.123456789")),
]  # fmt: skip


def written_as_text_if_one_is(rows: Sequence[Row]) -> list[Row]:
    mixed = {
        name for name in rows[0] if len({isinstance(one[name], str) for one in rows if one.get(name) is not None}) > 1
    }
    return [
        {name: str(value) if name in mixed and value is not None else value for name, value in one.items()} for one in rows
    ]


def parquet(path: Path, rows: Sequence[Row]) -> None:
    by_pandas("parquet")(path, written_as_text_if_one_is(rows))


FORMS: Mapping[str, Form] = {
    "csv": Form(".csv", csv(",", has_names=True), PLAIN, _LINES),
    "csv of people": Form(".csv", csv(",", has_names=True), PLAIN, _LINES, _PERSON),
    "csv with semicolons": Form(".csv", csv(";", has_names=True), PLAIN, _LINES),
    "csv with blanks": Form(
        ".csv", csv(" ", has_names=True), PLAIN, [*_LINES, b"1 2 a b", b"a label of 7 words"],
        'first_line = "names"\n[columns]\ntarget = "label"\n'),
    "csv without names": Form(".csv", csv(",", has_names=False), PLAIN, _LINES, _UNNAMED),
    "csv of people without names": Form(
        ".csv", csv(",", has_names=False), PLAIN, _LINES,
        'first_line = "data"\n[columns]\ntarget = "column4"\nperson = "column5"\n'),
    "csv with old ends of lines": Form(
        ".csv", lambda path, rows: path.write_bytes(b"\r".join([",".join(cells(0)).encode(), *map(csv_line, rows)])),
        PLAIN, [*_LINES, b";" * 5000, b"1,2\n3,4,5,6,7"]),
    "tsv without names": Form(".tsv", csv("\t", has_names=False), PLAIN, _LINES, _UNNAMED),
    "csv of which nothing is said": Form(".csv", csv(",", has_names=False), PLAIN, _LINES[:-2], ""),
    "csv by pandas": Form(".csv", by_pandas("csv"), PLAIN, _NAMED, _PERSON),
    "json lines": Form(".jsonl", json_lines, PLAIN, _OBJECTS),
    "json lines of people": Form(".jsonl", json_lines, PLAIN, _OBJECTS, _PERSON),
    "json lines of people who are objects": Form(
        ".jsonl", json_lines, [{**cells(row), "who": {"b": row // 2, "a": 1}} for row in range(N)],
        [{**cells(7), "who": {"b": one, "a": 2.0}, "diagnosis": "secret"} for one in range(12)], _PERSON),
    "json lines without a target": Form(".jsonl", json_lines, PLAIN, _OBJECTS, '[columns]\ntarget="x"\n'),
    "json lines by pandas": Form(".jsonl", by_pandas("json"), PLAIN, _NAMED, _PERSON),
    "parquet": Form(".parquet", parquet, PLAIN, _NAMED, "kind = 'table'\n" + _PERSON),
    "parquet of odd types": Form(
        ".parquet", by_pandas("parquet"), [nested(row) for row in range(N)],
        [nested(7, price=Decimal("1.12345")), nested(7, empty="x"), nested(7, empty=3), nested(7, none={"b": "x"}),
         nested(7, none={"a": 0.5}), nested(7, list=[0.5]), nested(7, list=[None]), nested(7, list=None),
         nested(7, flag=None), nested(7, none={"bytes": b"x"}), nested(8, empty=[1]), nested(9, empty=["x"])],
        "kind = 'table'\n[columns]\ntarget = 'label'\n[features.price]\nlow = 0\nhigh = 50\n[features.flag]\nlow=0\nhigh=1"),
    "parquet of types by one row": Form(
        ".parquet", arrow,
        [{"none": [None] * (row % 3), "list": [Decimal(row) / 4], "in": [timedelta(row)], "word": f"{row}.0", "dose": row,
          "texts": [b"x"], "at": {"day": date(2024, 1, 1 + row % 28)}, "span": timedelta(row), "label": row % 4}
         for row in range(N)],
        [{"none": [1], "label": 1}, {"none": ["x"], "label": 1}, {"list": [Decimal("1.12345")], "label": 2},
         {"word": b"x", "label": 1}, {"texts": [b"\xff"], "label": 2}, {"at": {"bytes": b"x"}, "label": 1},
         {"span": pd.Timedelta(1, "ns"), "label": 2}, {"in": None, "label": 1}, {"at": {"hour": 1}, "label": 3}],
        "kind = 'table'\n[columns]\ntarget = 'label'\n[features.dose]\nlow = 0\nhigh = 50"),
    "csv with days": Form(".csv", dated("csv"), DAYS, _MOMENTS),
    "csv of people by days": Form(".csv", dated("csv"), DAYS, _MOMENTS, "[columns]\ntarget='label'\nperson='day'\n"),
    "csv of months": Form(".csv", dated("csv"), DAYS, _MOMENTS, "[columns]\ntarget='label'\ntime='day'\n"),
    "parquet with days": Form(".parquet", dated("parquet"), DAYS, _MOMENTS, "kind='table'"),
    "parquet of months": Form(
        ".parquet", dated("parquet"), DAYS, _MOMENTS, "kind = 'table'\n[columns]\ntarget = 'label'\ntime = 'day'\n"),
    "parquet with zones": Form(
        ".parquet", arrow, [moment(row, day=moment(row)["day"].replace(tzinfo=UTC)) for row in range(N)],
        [moment(row, day=_NOON.replace(tzinfo=timezone(timedelta(hours=2)))) for row in (7, 8, 9)], "kind='table'"),
    "parquet of embeddings": Form(
        ".parquet", by_pandas("parquet"), [{"embedding": [row, 3, 1], "label": row % 4} for row in range(N)],
        [{"embedding": one, "label": label} for one, label in (([1.5, 2, 3], 1), ([1], 1), (None, 1), ([1, 2, 3], None))],
        "kind = 'embedding'\n[columns]\ntarget = 'label'\n"),
    "parquet of texts": Form(
        ".parquet", by_pandas("parquet"), [{"text": f"number {row}", "label": row % 4} for row in range(N)],
        [{"text": None, "label": 1}, {"text": "x", "label": None}, {"text": "3.0", "label": 77}], ""),
    "npz": Form(
        ".npz", npz, [([row, 3, 1], row % 4) for row in range(N)],
        [([1.5, 2, 3], 1), ([np.nan, 2, 3], 1), ([1, 2, 3], np.nan), ([1, 2, 3], 7.5), ([1, 2, 3], 77)], ""),
    "npz of truth values": Form(
        ".npz", npz, [([row, 3, 1], row % 4 > 1, row) for row in range(N)],
        [([1, 2, 3], np.nan, 7), ([2, 2, 3], 1.0, 2.5), ([5, 2, 3], True, 2**60), ([7, 2, 3], True, np.nan)], ""),
    "parquet of pixels": Form(
        ".parquet", by_pandas("parquet"),
        [{"image": [[row, 30, 7], [255, row, 2]], "label": row % 4} for row in range(N)],
        [{"image": one, "label": 1} for one in (
            [[0.5] * 3] * 2, [[0, 1, 0]] * 2, [[None] * 3] * 2, [[300] * 3] * 2, [[1.5] * 3] * 2, [[1]], None)], ""),
    "parquet of pictures": Form(
        ".parquet", by_pandas("parquet"),
        [{"image": picture(row, (6, 5)), "label": row % 4 if row != 90 else 2**60} for row in range(N)],
        [{"image": None, "label": 1}, {"image": b"broken", "label": None}, {"image": picture(7), "label": 1.5}], ""),
    "parquet of sentences": Form(
        ".parquet", by_pandas("parquet"),
        [{"tokens": [f"Ada{row}", "slept"], "tags": ["B-PER", "O"], "domain": "ab"[row % 2]} for row in range(N)],
        [{"tokens": [], "tags": [], "domain": "a"}, {"tokens": None, "tags": ["O"], "domain": "a"},
         {"tokens": ["x"], "tags": ["B-PLANET"], "domain": None}], ""),
    "parquet of sentences of numbered sources": Form(
        ".parquet", arrow,
        [{"tokens": [b"Ada", f"{row}".encode()], "tags": [b"O", b"O"], "domain": row % 2} for row in range(N)],
        [{"tokens": [b"\xff"], "tags": [b"O"], "domain": 1}, {"tokens": [b"x"], "tags": [b"\xff"], "domain": 1},
         {"tokens": [b"x"], "tags": [b"O"], "domain": 0.5}, {"tokens": [b"x"], "tags": [b"O"], "domain": None}], ""),
    "conll": Form(
        ".conll", conll, [block(row) for row in range(N)],
        [b"too few\n", block(7, "xy"), block(7).replace(b"PER", b"PLANET"), b"\xff\xfe\xe9" + block(7), block(7) * 50], ""),
    "pictures": Form(
        "", folder, [(f"c{row % 4}/{row:03d}.png", picture(row, (6, 5))) for row in range(N)],
        [("c0/a.png", b"broken"), ("nobody/a.png", picture(7)), ("a.png", picture(7)), ("c0/a.txt", b"x"),
         ("c0/a.png", picture(7, (900, 300), "RGB")), ("train/c0/a.png", picture(7))], ""),
}  # fmt: skip


def test_every_form_of_file_is_here() -> None:
    assert {one.ending for one in FORMS.values()} == {*files.TABLES, ""}


def neighbours(rows: Sequence[Row], odd: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """D with a row in each place replaced, added or removed; every odd row comes first, every second one elsewhere."""
    for turn, (where, place) in enumerate({"first": 0, "middle": N // 2, "last": -1}.items()):
        at = place % len(rows)
        yield f"without the {where}", [*rows[:at], *rows[at + 1 :]]
        for number, row in enumerate(odd):
            if not turn or number % 2 == turn - 1:
                yield f"{number} for the {where}", [*rows[:at], row, *rows[at + 1 :]]
            if number % 3 == turn:
                yield f"{number} before the {where}", [*rows[:at], row, *rows[at:]]


def units(split: Split, names: Sequence[str]) -> Counter[Any]:
    """Every example with its label; of sentences each with the labels of its words."""
    labels = [names[label] for label in split.labels.tolist()]
    match split.images:
        case Vectors() as rows:
            return Counter(zip((row.tobytes() for row in rows.values), labels, strict=True))
        case Texts() as texts:
            return Counter(zip(texts.strings, labels, strict=True))
        case Images() as pictures:
            return Counter(zip(pictures.encoded(), labels, strict=True))
        case Sentences() as sentences:
            of = sentences.sentence_of.tolist()
            return Counter(
                (words, tuple(label for place, label in zip(of, labels, strict=True) if place == number))
                for number, words in enumerate(sentences.words)
            )
        case other:
            raise AssertionError(type(other))


class Seen(NamedTuple):
    """What is public, or the sentence that refuses the data; the test part; the training part, whole and thinned."""

    public: str
    test: Counter[Any]
    train: tuple[Counter[Any], ...]


def put(form: Form, rows: Sequence[Row], root: Path, patch: pytest.MonkeyPatch, *, is_split: bool) -> None:
    """Puts data where `own:mine` is looked for."""
    mine = root / "mine"
    mine.mkdir(parents=True)
    patch.setenv("DPCL_DATA", str(root))
    if form.schema:
        (mine / "schema.toml").write_text(form.schema, encoding="utf-8")
    if is_split:
        form.write(mine / f"test{form.ending}", form.rows[:N_TEST])
    name = f"{'train' if is_split else 'all'}{form.ending}"
    form.write(mine / name if form.ending or is_split else mine, rows)


def seen() -> Seen:
    try:
        card = catalog.card("own:mine")
        outlined = outline.outline(card)
        whole = load_dataset(DataSpec(dataset="own:mine"), undeclared=True)
        thin = load_dataset(DataSpec(dataset="own:mine", train_per_class=5), undeclared=True)
    except BadInput as refused:
        return Seen(str(refused), Counter(), ())
    facts = catalog.facts("own:mine"), asdict(understood.understood(outlined)), whole.title, whole.classes
    parts = ((whole.test, whole), (whole.train, whole), (thin.train, thin))
    test, *train = (units(part, [*of.classes, *of.undeclared]) for part, of in parts)
    return Seen(repr((facts, whole.n_people, card.columns, card.separator, card.limits)), test, tuple(train))


def apart(one: Counter[Any], other: Counter[Any]) -> int:
    """How many examples of either are not in the other."""
    return max((one - other).total(), (other - one).total())


def is_public(form: Form, row: Row, root: Path, patch: pytest.MonkeyPatch) -> bool:
    """Whether the row's own coin makes it public: in a file of its own, where no other row can decide."""
    put(form, [row], root, patch, is_split=False)
    card = catalog.card("own:mine")
    return bool(outline.division_of(files.Contents(card, files.find(card).train, ()))[0])


REFUSED = ("csv of which nothing is said", "json lines without a target")


@pytest.mark.parametrize("is_split", [False, True], ids=["divided", "train and test"])
@pytest.mark.parametrize("name", FORMS)
def test_one_row_changes_no_other_and_nothing_that_is_public(name, is_split, tmp_path, monkeypatch):
    """A row that its own coin makes public changes the public part by itself alone."""
    form, wrong, n_compared = FORMS[name], list[str](), 0
    if name in ("parquet of pictures", "parquet of pixels") and not is_split:
        pytest.skip("a table of pictures needs a test part")
    rows = form.rows[N_TEST:] if is_split else form.rows
    put(form, rows, tmp_path / "D", monkeypatch, is_split=is_split)
    before = seen()
    assert bool(before.train) != (name in REFUSED), before.public
    most = 2 if "person" in form.schema else 1  # another row of hers may take the place of the one that is gone
    for number, (what, others) in enumerate(neighbours(rows, form.odd)):
        put(form, others, tmp_path / str(number), monkeypatch, is_split=is_split)
        now = seen()
        changed = [one for one in (*others, *rows) if (one in rows) != (one in others)]
        is_same = len(before.train) == len(now.train) and before.test == now.test
        if is_same:
            moved = [apart(*pair) for pair in zip(before.train, now.train, strict=True)]
        else:  # a public row may bring a column or another share of a label: then the number of examples is compared
            pairs = ((before.test, now.test), *zip(before.train[:1], now.train[:1], strict=False))
            moved = [abs(one.total() - other.total()) for one, other in pairs]
        if max(moved, default=0) > most:
            wrong.append(f"{what}: {moved} examples are others")
        if is_same and now.public != before.public and not is_split:  # of an unusable public row it is said that it is lost
            roots = (tmp_path / f"{number}-{place}" for place in range(len(changed)))
            is_same = not any(is_public(form, one, root, monkeypatch) for one, root in zip(changed, roots, strict=False))
        if (is_same and now.public != before.public) or (before.train and not now.train):
            wrong.append(f"{what}: {now.public}\nis not\n{before.public}")
        n_compared += is_same
    assert "\n".join(wrong) == ""
    assert n_compared > len(form.odd) / 2, "most rows are private, and then all that is public is compared"


def test_of_people_whom_double_precision_takes_for_one_nobody_counts(tmp_path, monkeypatch):
    """Else the row of one would take the place of another's; as text such numbers are told apart."""
    large = [{**cells(row), "who": 2**60 + row} for row in range(20)]
    assert len({float(one["who"]) for one in large}) == 1
    small, schema = PLAIN, "kind = 'table'\n" + _PERSON
    counted = []
    for name, added in (("none", []), ("large", large), ("text", [{**one, "who": str(one["who"])} for one in large])):
        form = Form(".parquet", parquet, small, (), schema)
        put(form, [*small, *added], tmp_path / name, monkeypatch, is_split=True)
        counted.append(seen().train[0].total())
    n_people = (N - N_TEST) // 2  # but for those of the test part
    assert counted == [n_people, n_people, n_people + len(large)]


def test_whose_row_it_is_says_the_same_coin_before_and_after_the_columns_are_known(tmp_path, monkeypatch):
    """A row that only the first of two coins made public would bring a column that is named after her."""
    rows = [{**cells(row), "who": {"b": row, "a": f"{row}.0"}, f"of {row}": 1} for row in range(N)]
    put(Form(".jsonl", json_lines, rows, (), _PERSON), rows, tmp_path, monkeypatch, is_split=False)
    card = catalog.card("own:mine")
    is_public = outline.division_of(files.Contents(card, files.find(card).train, ()))
    assert {name for name in card.columns if name.startswith("of ")} == {f"of {row}" for row in np.flatnonzero(is_public)}


def test_the_same_rows_have_the_same_coins_in_every_form_of_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are known again, with the budget that was declared for them, in whatever form they come back."""
    rows = [{**cells(row), "dose": row / 8, "flag": row % 3 == 0, "day": f"2024-05-{1 + row % 28:02}"} for row in range(N)]
    whole = pd.DataFrame(rows)
    forms: dict[str, Callable[[Path], object]] = {
        "a.csv": lambda path: whole.to_csv(path, index=False),
        "b.csv": lambda path: whole.to_csv(path, index=False, sep=";", decimal=","),
        "c.tsv": lambda path: whole.to_csv(path, index=False, sep="\t"),
        "d.jsonl": lambda path: whole.to_json(path, orient="records", lines=True),
        "e.parquet": lambda path: whole.to_parquet(path),
        "g.parquet": lambda path: whole.set_index(whole.index + 7).sample(frac=1, random_state=0).to_parquet(path),
        "f.parquet": lambda path: whole.assign(day=pd.to_datetime(whole.day), age=whole.age + 0.0).to_parquet(path),
    }
    found = set()
    for name, write in forms.items():
        mine = tmp_path / name / "mine"
        mine.mkdir(parents=True)
        monkeypatch.setenv("DPCL_DATA", str(tmp_path / name))
        (mine / "schema.toml").write_text("kind = 'table'\n[columns]\ntarget = 'label'\n", encoding="utf-8")
        write(mine / f"all{Path(name).suffix}")
        card = catalog.card("own:mine")
        found.add(frozenset(outline.keys_of(files.Contents(card, files.find(card).train, ())).tolist()))
    assert len(found) == 1
