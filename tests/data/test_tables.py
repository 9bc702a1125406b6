"""Tables and embeddings: numbers by a public map, of each row alone, read in pieces into memory that was foreseen."""

import json
import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcl_core import checks, machine, paths
from dpcl_core.backbones import extractor
from dpcl_core.data import catalog, coins, load, outline, sheets, table_features, understood
from dpcl_core.data.card import Feature
from dpcl_core.data.columns import Column, Table
from dpcl_core.data.dataset import Dataset, Vectors
from dpcl_core.data.load import load_dataset
from dpcl_core.spec import DataSpec
from tests.data.making import location, put, refusal, write
from tests.support.asserting import refuses
from tests.support.waiting import python

SCHEMA = """
[columns]
target = "died"
[features.age]
low = 0
high = 100
[features.sex]
categories = ["f", "m"]
"""


def read(name: str = "own:mine") -> tuple[Dataset, NDArray[np.float32]]:
    found = load_dataset(DataSpec(dataset=name))
    return found, found.train.images.values


@pytest.fixture
def mine(data_dir: Path) -> Path:
    """An empty folder of own:mine."""
    (data_dir / "mine").mkdir()
    return data_dir / "mine"


def test_declared_bounds_and_categories_and_nothing_else_decide_values(mine: Path) -> None:
    put(mine / "schema.toml", SCHEMA)
    put(mine / "test.csv", "age,sex,died\n50,f,no\n50,m,yes\n")
    put(mine / "train.csv", "age,sex,died\n25,f,no\n300,m,yes\n-5,x,yes\n,,no\nold,f,no\ninf,m,no\n")
    found, values = read()
    expected = [[-0.5, 1, 0, 0], [1, 0, 1, 0], [-1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0]]
    assert (values.tolist(), found.classes) == (expected, ("no", "yes"))
    assert catalog.card("own:mine").kind == "table"


@pytest.mark.parametrize("frames", [0, 600])
def test_which_lines_of_json_count_does_not_depend_on_who_reads_them(frames: int, data_dir: Path) -> None:
    """Nested to 50 is a row, deeper is none; brackets in a text are text."""
    nested = [f'{{"note": {"[" * depth}{"]" * depth}, "label": "a"}}' for depth in (49, 50, 300, 900, 964, 100_000)]
    texts = [json.dumps({"note": note, "label": "a"}) for note in ("[" * 1000, '\\"' + "{[" * 500, "[1] " * 400)]
    put(data_dir / "mine" / "test.jsonl", '{"note": "x", "label": "a"}\n{"note": "y", "label": "b"}\n')
    lines = ['{"note": "x", "label": "b"}', *nested, *texts, '{"note": ' + "[" * 80]
    put(data_dir / "mine" / "train.jsonl", "\n".join(lines))

    def deeper(frames: int) -> int:
        return deeper(frames - 1) if frames else len(read()[0].train)

    assert deeper(frames) == 1 + 1 + len(texts)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_squashing_is_bounded_and_of_each_number_alone(numbers: Sequence[float]) -> None:
    column = np.array(numbers)
    together = table_features.squashed(column)
    assert together.shape == (len(numbers), 5)
    assert np.abs(together).max() <= 1
    alone = np.concatenate([table_features.squashed(column[place : place + 1]) for place in range(len(numbers))])
    assert np.array_equal(together, alone)
    assert not together[~np.isfinite(column)].any()


def test_squashing_tells_numbers_apart_at_every_size() -> None:
    """A factor of two is 0.69 of arsinh: 1.09 radians on the first circle, 2.18 on the second."""
    for size in (1e-1, 1.0, 1e3, 1e6, 1e12):
        near, twice = table_features.squashed(np.array([size, 2 * size]))
        assert np.linalg.norm(near - twice) > 0.15, size
    circle = table_features.squashed(np.array([1e3, 2e3]))[:, 1:3]
    assert float(circle[0] @ circle[1]) == pytest.approx(math.cos(math.log(2) * math.pi / 2), abs=1e-5)


@settings(max_examples=50)
@given(st.lists(st.one_of(st.none(), st.text()), min_size=1, max_size=8))
def test_whatever_a_cell_holds_has_values_that_depend_on_it_alone(cells: list[str | None]) -> None:
    cells = [cell if cell is None else cell.encode("utf-8", "ignore").decode() for cell in cells]
    column = Column("text", cells)
    for feature in (Feature("x"), Feature("x", -1, 1), Feature("x", categories=("a",)), Feature("x", is_text=True)):
        encoding = table_features.RowEncoding((feature,), (table_features.width(feature, column),))
        table = Table({"x": column}, len(cells))
        together = encoding.values(table, "x")
        alone = [encoding.values(table.take(np.array([place])), "x") for place in range(len(cells))]
        assert np.isfinite(together).all()
        assert np.abs(together).max() <= 1
        assert np.array_equal(together, np.concatenate(alone))


def test_embeddings_of_any_width_have_length_one(data_dir: Path, mine: Path) -> None:
    rows = np.array([[3, 4, 0], [1e30, 0, 0], [0, 0, 0], [np.nan, 1, 1], [np.inf, 0, 0]])
    for split in ("train", "test"):
        np.savez(mine / f"{split}.npz", x=rows, y=np.array([5, 5, 7, 7, 5]))
    found, values = read()
    assert np.allclose(values, [[0.6, 0.8, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert found.classes == ("5", "7")
    lists = [[3.0, 4.0, 0.0], [1.0, 0.0], None]
    write(data_dir / "lists", "test", embedding=lists, label=["a", "b", "a"])
    write(data_dir / "lists", "train", embedding=lists, label=["a", "b", "a"])
    _, values = read("own:lists")
    assert np.allclose(values, [[0.6, 0.8, 0], [0, 0, 0], [0, 0, 0]])


def test_every_array_of_one_value_a_row_is_a_column_that_can_have_a_role(mine: Path) -> None:
    rng = np.random.default_rng(0)
    wards, labels = np.array(["north", "south"])[np.arange(40) % 2], np.arange(40) % 4
    arrays = {"features": rng.normal(size=(40, 3)), "y": labels, "ward": wards, "means": np.zeros(3), "twice": np.eye(40)}
    np.savez(mine / "all.npz", **arrays)
    assert sheets.header(mine / "all.npz", catalog.card("own:mine")) == ["embedding", "label", "ward"]
    for target, classes in (("y", ("0", "1", "2", "3")), ("ward", ("north", "south"))):
        (found,) = catalog.outlines(replace(catalog.card("own:mine"), roles=(("target", target),)))
        assert found.classes == classes


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "npz"])
def test_a_column_is_not_called_by_what_commands_a_terminal(suffix: str, mine: Path) -> None:
    columns = {"x": np.zeros((4, 2)), "b\x1b[2J": np.arange(4), "label": np.arange(4) % 2}
    plain = {name: of.tolist() for name, of in columns.items() if of.ndim == 1}
    path = mine / f"all.{suffix}"
    if suffix == "npz":
        np.savez(path, **columns)
    elif suffix == "parquet":
        pq.write_table(pa.table(plain), path)
    else:
        rows = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
        lines = [",".join(plain), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines if suffix == "csv" else map(json.dumps, rows)) + "\n", encoding="utf-8")
    said = r"column \d = a control character: must have a name in one line|features = no columns"
    refuses(said, load_dataset, DataSpec(dataset="own:mine"))


def test_pickled_objects_and_bombs_are_no_embeddings(mine: Path) -> None:
    np.savez(mine / "a.npz", x=np.array([{"a": 1}], dtype=object), y=np.array(["a"]))
    assert refusal().value == "objects"
    np.savez(mine / "a.npz", x=np.zeros((3, 2)))
    assert "label" in str(refusal())


def test_equal_rows_are_not_all_on_one_side_and_one_more_moves_no_other(data_dir: Path) -> None:
    sizes = []
    for n in (400, 401):
        put(data_dir / f"n{n}" / "all.csv", "x,label\n" + "1,a\n" * n + "2,b\n" * 400)
        (found,) = catalog.outlines(catalog.card(f"own:n{n}"))
        sizes.append((np.bincount(found.train.labels), np.bincount(found.test.labels)))
    # 80 of 400 in expectation, with a standard deviation of 8.
    assert all(40 < count < 120 for count in sizes[0][1])
    assert sum(abs(np.concatenate(sizes[0]) - np.concatenate(sizes[1]))) == 1


def test_the_rows_of_a_person_are_bounded_and_on_one_side(data_dir: Path) -> None:
    """Of each person at most two rows count, in training and test; another person's rows change none of them."""
    draw = np.random.default_rng(3)
    rows = [(f"p{person}", draw.integers(1000), "ab"[person % 2]) for person in range(150) for _ in range(person % 6)]
    head = '[columns]\ntarget = "y"\nperson = "who"\n'
    kept = []
    for place, left in enumerate((rows, [row for row in rows if row[0] != "p59"])):
        folder = data_dir / f"d{place}"
        put(folder / "schema.toml", f"per_person = 2\n{head}")
        put(folder / "all.csv", "who,x,y\n" + "".join(f"{who},{x},{y}\n" for who, x, y in left))
        (found,) = catalog.outlines(catalog.card(f"own:d{place}"))
        parts = [[left[row] for row in part.rows.tolist()] for part in (found.train, found.test)]
        people = [[who for who, _, _ in part] for part in parts]
        assert max(part.count(who) for part in people for who in part) == 2
        assert not set(people[0]) & set(people[1])
        kept.append(parts)
    for whole, without in zip(*kept, strict=True):
        assert [row for row in whole if row[0] != "p59"] == without
    assert sum(row[0] == "p59" for part in kept[0] for row in part) == 2


def test_the_kept_rows_of_a_person_depend_on_that_persons_usable_rows_alone(data_dir: Path) -> None:
    """An unusable row takes no place of a usable one."""
    put(data_dir / "mine" / "schema.toml", 'classes = ["a", "b"]\n[columns]\ntarget = "y"\nperson = "who"\n')
    put(data_dir / "mine" / "test.csv", "who,x,y\nt1,1,a\nt2,2,b\n")
    put(data_dir / "mine" / "train.csv", "who,x,y\n" + "p,1,nobody has it\n" * 20 + "p,5,a\n,6,a\n,7,b\n")
    card = catalog.card("own:mine")
    (found,) = catalog.outlines(card)
    assert found.train.rows.tolist() == [20, 21, 22], "rows without a person are a person each"
    assert outline.outline(card).train.labels.tolist() == [0, 0, 1]


def test_months_and_sites_are_sources(data_dir: Path) -> None:
    rows = [(f"2024-0{1 + row % 3}-1{row % 9}", row % 7, "ab"[row % 2]) for row in range(60)]
    content = "day,x,y\n" + "".join(f"{day},{x},{y}\n" for day, x, y in rows)
    put(data_dir / "mine" / "schema.toml", '[columns]\ntarget = "y"\ntime = "day"\n')
    put(data_dir / "mine" / "test.csv", content)
    put(data_dir / "mine" / "train.csv", content + "2031-01-01,5,a\nyesterday,5,a\n")
    found, values = read()
    assert [source.name for source in found.sources] == ["2024-01", "2024-02", "2024-03"]
    assert len(values) == 60, "another month and no date at all are no examples"


# A schema says what is public about a person's own data; every wrong field is one sentence.


TEXTS = "text,label\n" + "".join(f"text {row},{'good' if row % 2 else 'bad'}\n" for row in range(40))


def with_schema(data_dir: Path, schema: str, train: str = TEXTS) -> None:
    for name, content in (("train.csv", train), ("test.csv", TEXTS), ("schema.toml", schema)):
        put(data_dir / "mine" / name, content)


def test_a_schema_comes_before_the_test_part(data_dir: Path) -> None:
    fields = 'title = "Reviews"\nclasses = ["good", "bad", "mixed"]\nn_train = 500\n'
    with_schema(data_dir, fields, TEXTS + "new,mixed\nnew,odd\n")
    found = load_dataset(DataSpec(dataset="own:mine"))
    assert (found.classes, found.n_people, found.title) == (("good", "bad", "mixed"), 500, "Reviews (own data)")
    assert found.train.labels.tolist() == [1, 0] * 20 + [2], "a declared class counts, another one does not"
    facts = catalog.facts("own:mine")
    assert (facts.classes, facts.n_train, facts.title) == (found.classes, 500, found.title)


@pytest.mark.parametrize(("schema", "sentence"), [
    ("[features.age]\nlow = 5", "must have both low and high"),
    ("[features.age]\nlow = 5\nhigh = 5", "must have a low below its high"),
    ('[features.age]\nlow = 0\nhigh = 5\ncategories = ["a"]', "only one of them"),
    ("[features.height]\nlow = 0\nhigh = 5", "features.height = no such column: must be one of the columns"),
    ('[columns]\ntarget = "dead"', "target = dead: must be a column of own:mine/train.csv: text, label"),
    ("per_person = 0", "greater than or equal to 1"),
    ("n_train = 0\n", "own:mine/schema.toml.n_train = 0"),
    ("classes = 3\n", "own:mine/schema.toml.classes = 3"),
    ('classes = ["a", "a"]\n', "own:mine/schema.toml.classes = a, a"),
    ('sources = ["a"]\n', "own:mine/schema.toml.classes = nothing"),
    ("people = 3\n", "own:mine/schema.toml.people"),
    (r'classes = ["good", "\u001b[2J"]', "own:mine/schema.toml.classes = \x1b[2J"),
    (r'title = "a\nb"', "own:mine/schema.toml.title = a\nb"),
    (r'[features."a\u0007"]', "own:mine/schema.toml.features"),
    ("classes = [\n", "own:mine/schema.toml = TOMLDecodeError"),
    ('classes = ["good"]\n', "own:mine/test.csv row 0, label = bad"),
])
def test_what_is_wrong_with_a_schema_is_said(schema: str, sentence: str, data_dir: Path) -> None:
    with_schema(data_dir, schema)
    assert sentence in f"{location(refusal())}: {refusal().allowed}"


N, WIDTH, CLASSES = 3000, 128, 7
Write = Callable[[Path, NDArray[np.generic], NDArray[np.int64]], None]


def rows(n: int = N, width: int = WIDTH) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return np.random.default_rng(0).standard_normal((n, width)).astype(np.float32), np.arange(n) % CLASSES


def npz(folder: Path, values: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    np.savez(folder / "all.npz", embeddings=values, labels=labels)


def packed_npz(folder: Path, values: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    np.savez_compressed(folder / "all.npz", labels=labels, x=values.astype(np.float64))


def lists(folder: Path, values: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    table = {"embedding": pa.array(list(values), pa.list_(pa.float32())), "label": labels, "note": [f"a{n}" for n in labels]}
    pq.write_table(pa.table(table), folder / "all.parquet")


def fixed_lists(folder: Path, values: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    of_rows = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    pq.write_table(pa.table({"embedding": of_rows, "label": labels}), folder / "all.parquet", row_group_size=700)


def columns(folder: Path, values: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    table = {f"f{place}": column for place, column in enumerate(values[:, :8].T)} | {"label": labels}
    pq.write_table(pa.table(table), folder / "all.parquet")


FORMS: dict[str, Write] = {
    "npz": npz, "packed npz": packed_npz, "lists": lists, "fixed lists": fixed_lists, "columns": columns,
    "npz by columns": lambda folder, of, labels: np.savez(folder / "all.npz", x=np.asfortranarray(of), y=labels),
}  # fmt: skip


def loaded(name: str) -> tuple[NDArray[np.generic], ...]:
    """Keys, labels and values of all rows, loaded anew."""
    for cached in (outline.keys_of, outline._outline):
        cached.cache_clear()
    outlined = outline.outline(catalog.card(name))
    found = load.load_dataset(DataSpec(dataset=name))
    parts = [part.images.values for part in (found.train, found.test) if isinstance(part.images, Vectors)]
    return outline.keys_of(outlined.train.contents), found.train.labels, found.test.labels, *parts


@pytest.mark.parametrize("form", FORMS)
def test_a_file_read_in_pieces_of_any_size_is_the_same(mine: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    FORMS[form](mine, *rows())
    whole = loaded("own:mine")
    path = next(mine.iterdir())
    card = catalog.card("own:mine")
    for size in (9_000, 300_000):
        monkeypatch.setattr(sheets, "_PIECE", size)
        pieces = [len(piece) for piece in sheets.pieces_of(path, card, (), None, is_private=True)]
        assert sum(pieces) == N
        assert len(pieces) > 1 or (form == "columns" and size == 300_000)
        for now, before in zip(loaded("own:mine"), whole, strict=True):
            np.testing.assert_array_equal(now, before)


def test_keys_are_digests_of_the_whole_row_and_equal_rows_are_told_apart(mine: Path) -> None:
    """The canonical text is that of double precision, by name, whatever the file; long equal rows have numbers, too."""
    values, labels = rows(40, 16)
    values[1::2], labels[1::2] = values[::2], labels[::2]
    npz(mine, values, labels)
    texts = [
        b"embedding\x1f" + row.astype(np.float64).tobytes() + b"\x1elabel\x1f" + str(label).encode()
        for row, label in zip(values, labels, strict=True)
    ]
    expected = coins.keys(text + (place % 2).to_bytes(8, "little") for place, text in enumerate(texts))
    np.testing.assert_array_equal(loaded("own:mine")[0], expected)


@pytest.mark.parametrize("form", ["npz", "lists", "fixed lists"])
def test_reading_takes_little_more_than_the_values(mine: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """What numpy, Python and Arrow hold at once, with pieces as small beside this file as beside a real one."""
    for module, name, size in ((sheets, "_PIECE", 2**17), (table_features, "_BLOCK", 2**14)):
        monkeypatch.setattr(module, name, size)
    values, labels = rows(12_000, 256)
    FORMS[form](mine, values, labels)
    n_bytes = values.nbytes
    del values
    loaded("own:mine")  # modules are loaded
    before = pa.total_allocated_bytes()
    peak_of_arrow = 0
    pieces_of = sheets.pieces_of

    def watched(*args, **kwargs):  # type: ignore[no-untyped-def]
        nonlocal peak_of_arrow
        for piece in pieces_of(*args, **kwargs):
            peak_of_arrow = max(peak_of_arrow, pa.total_allocated_bytes() - before)
            yield piece

    monkeypatch.setattr(sheets, "pieces_of", watched)
    tracemalloc.start()
    try:
        loaded("own:mine")
        peak = tracemalloc.get_traced_memory()[1] + peak_of_arrow
    finally:
        tracemalloc.stop()
    assert n_bytes < peak < 1.8 * n_bytes


def test_values_are_their_own_features_and_no_file_keeps_a_second_copy(home: Path) -> None:
    values = rows()[0]
    assert np.shares_memory(extractor.features("pixels", Vectors(values)), values)
    assert not paths.features_dir().exists() or not list(paths.features_dir().iterdir())


def run_of(name: str, **more: object) -> checks.RunSpec:
    data = {"dataset": name, "backbone": "pixels", **more}
    return checks.parse({"data": data, "scenario": {"tasks": CLASSES}, "privacy": {"epsilons": [1.0, 8.0], "delta": 1e-7}})


def test_what_a_run_needs_follows_from_public_sizes_and_is_refused_where_there_is_less(mine, monkeypatch):
    values, labels = rows()
    npz(mine, values, labels)
    facts = catalog.facts("own:mine")
    needed = catalog.needed_bytes(DataSpec(dataset="own:mine"))
    assert needed == 5e8 + 2.2 * 4 * (facts.n_train + facts.n_test) * WIDTH
    monkeypatch.setattr(checks, "memory_bytes", lambda: needed)
    checks.check_run(run_of("own:mine"))
    monkeypatch.setattr(checks, "memory_bytes", lambda: needed - 1)
    few = "needs about 0.5 GB of memory, and this computer has 0.5 GB: bring fewer rows, or take some by data.train_per"
    refuses(few, lambda: checks.check_run(run_of("own:mine")))
    checks.check_run(run_of("own:mine", train_per_class=10))
    private = outline.outline(catalog.card("own:mine")).train.rows
    npz(mine, np.delete(values, private[:1], axis=0), np.delete(labels, private[:1]))
    assert catalog.needed_bytes(DataSpec(dataset="own:mine")) == needed, "a private row moved what is said of memory"


def test_what_a_run_needs_is_said_with_what_was_understood(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npz(mine, *rows())
    assert not [one for one in understood.understand("own:mine").assumed if "memory" in one]
    monkeypatch.setattr(catalog, "needed_bytes", lambda data: 11.6e9)
    assert "A run needs about 12 GB of memory." in understood.understand("own:mine").assumed
    assert machine.memory_bytes() > 1e8


LARGE = """
import json, resource, sys, time
import numpy as np
from dpcl_core import checks, engine
started, cpu = time.perf_counter(), time.process_time()
data = {"dataset": "own:large", "backbone": "pixels"}
raw = {"data": data, "scenario": {"tasks": 10}, "privacy": {"epsilons": [1.0, 8.0], "delta": 1e-8}}
events = list(engine.run(checks.parse(raw)))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([peak, type(events[-1]).__name__, time.perf_counter() - started, time.process_time() - cpu]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "width", "n_classes", "most"), [(640_000, 256, 100, 1.45e9), (1_280_000, 768, 1000, 12e9)])
def test_large_embeddings_run_in_little_memory(data_dir, monkeypatch, n_rows, width, n_classes, most):
    """ImageNet's size with 1,000 classes in 12 GB; 640,000 x 256 in 2.2 times its file."""
    (data_dir / "large").mkdir()
    rng = np.random.default_rng(0)
    places = np.lib.format.open_memmap(data_dir / "x.npy", "w+", np.float32, (n_rows, width))
    for start in range(0, n_rows, 20_000):
        places[start : start + 20_000] = rng.standard_normal((min(20_000, n_rows - start), width), np.float32)
    np.savez(data_dir / "large" / "all.npz", embeddings=places, labels=np.arange(n_rows) % n_classes)
    (data_dir / "x.npy").unlink()
    peak, last, *seconds = json.loads(python("-c", LARGE))
    assert last == "CellFinished", seconds
    assert peak < most, seconds
