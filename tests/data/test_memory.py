"""Memory of own data: a file is read in pieces, of any size the same, into one array; a run says before what it needs."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpcl_core import checks, machine, paths
from dpcl_core.backbones import extractor
from dpcl_core.data import catalog, coins, load, outline, sheets, table_features, understood
from dpcl_core.data.dataset import Vectors
from dpcl_core.spec import DataSpec
from tests.support.asserting import refuses
from tests.support.waiting import python

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


def read(name: str) -> tuple[NDArray[np.generic], ...]:
    """Keys, labels and values of all rows, read anew."""
    for cached in (outline.keys_of, outline._outline):
        cached.cache_clear()
    outlined = outline.outline(catalog.card(name))
    found = load.load_dataset(DataSpec(dataset=name))
    parts = [part.images.values for part in (found.train, found.test) if isinstance(part.images, Vectors)]
    return outline.keys_of(outlined.train.contents), found.train.labels, found.test.labels, *parts


@pytest.mark.parametrize("form", FORMS)
def test_a_file_read_in_pieces_of_any_size_is_the_same(data_dir: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    (data_dir / "mine").mkdir()
    FORMS[form](data_dir / "mine", *rows())
    whole = read("own:mine")
    path = next((data_dir / "mine").iterdir())
    card = catalog.card("own:mine")
    for size in (9_000, 300_000):
        monkeypatch.setattr(sheets, "_PIECE", size)
        pieces = [len(piece) for piece in sheets.pieces_of(path, card, (), None, is_private=True)]
        assert sum(pieces) == N
        assert len(pieces) > 1 or (form == "columns" and size == 300_000)
        for now, before in zip(read("own:mine"), whole, strict=True):
            np.testing.assert_array_equal(now, before)


def test_keys_are_digests_of_the_whole_row_and_equal_rows_are_told_apart(data_dir: Path) -> None:
    """The canonical text is that of double precision, by name, whatever the file; long equal rows have numbers, too."""
    values, labels = rows(40, 16)
    values[1::2], labels[1::2] = values[::2], labels[::2]
    (data_dir / "mine").mkdir()
    npz(data_dir / "mine", values, labels)
    texts = [
        b"embedding\x1f" + row.astype(np.float64).tobytes() + b"\x1elabel\x1f" + str(label).encode()
        for row, label in zip(values, labels, strict=True)
    ]
    expected = coins.keys(text + (place % 2).to_bytes(8, "little") for place, text in enumerate(texts))
    np.testing.assert_array_equal(read("own:mine")[0], expected)


@pytest.mark.parametrize("form", ["npz", "lists", "fixed lists"])
def test_reading_takes_little_more_than_the_values(data_dir: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """What numpy, Python and Arrow hold at once, with pieces as small beside this file as beside a real one."""
    for module, name, size in ((sheets, "_PIECE", 2**17), (table_features, "_BLOCK", 2**14)):
        monkeypatch.setattr(module, name, size)
    (data_dir / "mine").mkdir()
    values, labels = rows(12_000, 256)
    FORMS[form](data_dir / "mine", values, labels)
    n_bytes = values.nbytes
    del values
    read("own:mine")  # modules are loaded
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
        read("own:mine")
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


def test_what_a_run_needs_follows_from_public_sizes_and_is_refused_where_there_is_less(data_dir, monkeypatch):
    (data_dir / "mine").mkdir()
    values, labels = rows()
    npz(data_dir / "mine", values, labels)
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
    npz(data_dir / "mine", np.delete(values, private[:1], axis=0), np.delete(labels, private[:1]))
    assert catalog.needed_bytes(DataSpec(dataset="own:mine")) == needed, "a private row moved what is said of memory"


def test_what_a_run_needs_is_said_with_what_was_understood(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data_dir / "mine").mkdir()
    npz(data_dir / "mine", *rows())
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
