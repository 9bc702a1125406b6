"""Data that a program holds: frames, arrays and datasets become files by their types alone, and run as files do."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

import dpcl_core as dpcl
from dpcl_core.data import catalog, handed, outline, understood
from dpcl_core.data.intake import Asked, Given, taken_in
from dpcl_core.data.schema import Columns
from dpcl_core.events import TaskLearned
from dpcl_core.runs import administration
from dpcl_core.runs.store import Store
from tests.support.asserting import refusal_of, refuses

pytestmark = pytest.mark.usefixtures("home")
N = 240


def frame(n: int = N) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    kinds = np.arange(n) % 3
    return pd.DataFrame({
        "size": draws.normal(size=n) + 4 * kinds, "age": pd.array([1, None] * (n // 2), dtype="Int64"),
        "flag": pd.array([True, None] * (n // 2), dtype="boolean"),
        "when": pd.date_range("2020-01-01", periods=n, tz="Europe/Rome"),
        "kind": pd.Categorical.from_codes(kinds, ["ant", "bee", "cat"]), "user": np.arange(n) // 2,
    })  # fmt: skip


def columns_of(data: object) -> dict[str, list[object]]:
    with handed.as_file(data) as path:
        return pq.read_table(path).to_pydict()


def test_a_frame_of_the_field_runs_as_its_file_does(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "data.csv", index=False)
    ours, files = dpcl.check(frame(), target="kind", person="user"), dpcl.check(
        tmp_path / "data.csv", target="kind", person="user"
    )
    assert (ours.classes, ours.n_train, ours.n_test) == (files.classes, files.n_train, files.n_test)
    options = {"epsilons": np.array([1.0]), "seeds": np.arange(1), "settings": {"labels": "prior-const"}}
    result = dpcl.run(data=frame(), target="kind", person="user", name="bees", **options)
    assert (result.spec.data.dataset, result.spec.privacy.epsilons) == ("own:bees", (1.0,))
    assert "one person" in result.guarantee(1.0).unit
    assert Store().list_runs()[0].id == result.run_id


def test_vectors_texts_and_datasets() -> None:
    draws = np.random.default_rng(1)
    inputs, labels = draws.normal(size=(N, 8)) + 3 * np.eye(8)[np.arange(N) % 4], np.arange(N) % 4
    by_arrays = dpcl.check((inputs, labels))
    assert (by_arrays.understood.kind, by_arrays.classes) == ("embedding", ("0", "1", "2", "3"))
    import torch

    by_torch = dpcl.check(torch.utils.data.TensorDataset(torch.tensor(inputs), torch.tensor(labels)))
    assert (by_torch.classes, by_torch.n_test) == (by_arrays.classes, by_arrays.n_test), "the same bytes, the same coins"
    assert dpcl.check(SimpleNamespace(data=inputs, targets=labels)).n_test == by_arrays.n_test
    texts = [f"a text about {'cats' if one % 2 else 'dogs'}, number {one}" for one in range(N)]
    assert dpcl.check((texts, ["even" if one % 2 else "odd" for one in range(N)])).understood.kind == "text"

def hub(columns: dict[str, object], kinds: dict[str, object]) -> datasets.Dataset:
    known = {name: kinds.get(name) for name in columns}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(known))


def test_a_dataset_of_the_hub_has_its_names_and_its_odd_cells() -> None:
    texts = [f"a text about {'cats' if one % 2 else 'dogs'}, number {one}" for one in range(N)]
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["even", "odd"])}
    labels: list[int | None] = [one % 2 for one in range(N)]
    found = dpcl.check(hub({"text": texts, "label": labels}, kinds))
    assert (found.understood.kind, found.classes) == ("text", ("even", "odd"))
    shuffled = hub({"text": texts, "label": labels}, kinds).shuffle(seed=0).select(range(N - 1))
    assert dpcl.check(shuffled).classes == ("even", "odd")
    with_none = columns_of(hub({"text": texts, "label": [None, *labels[1:]]}, kinds))
    assert with_none["label"] == [None, *("odd" if one % 2 else "even" for one in range(1, N))]
    vectors = datasets.List(datasets.Value("float32"))
    rows = np.random.default_rng(0).normal(size=(N, 8)).tolist()
    embedded = hub({"embedding": rows, "label": labels}, {"embedding": vectors, "label": kinds["label"]})
    assert dpcl.check(embedded).understood.kind == "embedding"


def test_frames_of_polars_and_tables_of_arrow_are_those_of_pandas() -> None:
    ours = frame()
    n_test = dpcl.check(ours, target="kind", person="user").n_test
    of_polars = polars.from_pandas(ours).with_columns(polars.col("kind").cast(polars.Categorical))
    for other in (of_polars, of_polars.to_arrow()):
        assert columns_of(other) == columns_of(ours)
        found = dpcl.check(other, target="kind", person="user")
        assert (found.classes, found.n_test) == (("ant", "bee", "cat"), n_test)
    assert dpcl.run(data=of_polars, target="kind", epsilons=[1.0], seeds=[0]).spec.data.dataset == "own:data"
    odd = polars.DataFrame({"x": [None, None], "kind": ["a", "b"], "rate": [1, 2]}).with_columns(
        polars.col("rate").cast(polars.Decimal(10, 2))
    )
    assert columns_of(odd) == {"x": [None, None], "kind": ["a", "b"], "rate": [1.0, 2.0]}


@dataclass(frozen=True)
class MapStyle:
    """A dataset of torch without tensors: a length, and (x, y) for a number."""

    rows: list[tuple[object, object]]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[object, object]:
        return self.rows[place]


def item(kind: str, place: int) -> tuple[object, object]:
    import torch

    label = place % 3
    picture = np.full((6, 6 + place % 2), 80 * label + place % 40, np.uint8)
    picture[0, 0] = place % 256
    vector = torch.full((8,), float(label)) + place / N
    of_kind = {"vectors": vector, "pictures": picture, "pillow": Image.fromarray(picture), "texts": f"{label} {place}"}
    return of_kind[kind], torch.tensor(label) if kind == "vectors" else label


def test_a_map_style_dataset_is_read_item_by_item() -> None:
    kinds = ("vectors", "pictures", "pillow", "texts")
    found = {kind: dpcl.check(MapStyle([item(kind, place) for place in range(N)])) for kind in kinds}
    assert [one.understood.kind for one in found.values()] == ["embedding", "image", "image", "text"]
    assert all(one.classes == ("0", "1", "2") for one in found.values())
    assert found["pictures"].n_test == found["pillow"].n_test
    for wrong, field in ((MapStyle([]), "data"), ([1, 2], "data"), (np.zeros((3, 2)), "data"), ({"x": 1}, "data")):
        assert refusal_of(dpcl.check, wrong).field == field


def pictures(n: int = N) -> tuple[NDArray[np.uint8], list[object]]:
    drawn = np.random.default_rng(2).integers(0, 256, size=(n, 6, 6), dtype=np.uint8)
    drawn[np.arange(n), 0, 0] = 120 * (np.arange(n) % 2)
    return drawn, ["cat" if one % 2 else "dog" for one in range(n)]


def test_pictures_are_read_as_their_folder_is(tmp_path: Path) -> None:
    drawn, labels = pictures()
    for place, (picture, label) in enumerate(zip(drawn, labels, strict=True)):
        file = tmp_path / "pets" / str(label) / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(file)
    of_folder = dpcl.check(tmp_path / "pets")
    of_hub = hub({"image": [*drawn], "label": labels}, {"image": datasets.Image(), "label": datasets.Value("string")})
    for data in ((drawn, labels), (drawn[..., None], labels), (np.stack([drawn] * 3, axis=-1), labels), of_hub):
        found = dpcl.check(data)
        assert (found.understood.kind, found.classes) == ("image", ("cat", "dog"))
        if data is not of_hub and np.ndim(data[0]) == 3:
            assert found.n_test == of_folder.n_test
    result = dpcl.run(data=(drawn, labels), name="pets", epsilons=[1.0], seeds=[0], settings={"data.backbone": "pixels"})
    assert result.guarantee(1.0).epsilon <= 1.0
    refuses(r"data X = float32 \[3, 6, 6\]", lambda: dpcl.check((drawn[:3].astype(np.float32), labels[:3])))


@pytest.mark.parametrize("odd", ["", "../up", "a/b", "test", "train", ".hidden", None, "x" * 300, "\ud800", float("nan")])
def test_a_label_that_is_no_folder_moves_no_other_row(odd: object) -> None:
    drawn, labels = pictures(40)

    def members(drawn: NDArray[np.uint8], labels: list[object]) -> set[str]:
        with handed.as_file((drawn, labels)) as path, zipfile.ZipFile(path) as archive:
            return {*archive.namelist()}

    with_odd, without = members(drawn, [odd, *labels[1:]]), members(drawn[1:], labels[1:])
    assert without < with_odd or without == with_odd
    assert len(with_odd) <= len(without) + 1
    usual, found = dpcl.check((drawn, labels)), dpcl.check((drawn, [odd, *labels[1:]]))
    assert (found.classes, found.understood) == (("cat", "dog"), usual.understood)
    assert abs(found.n_test - usual.n_test) <= 1  # the others' coins fall as before


@pytest.mark.parametrize("odd", ["\ud800", b"\xff", float("nan"), object(), [1, 2]])
def test_an_odd_cell_changes_no_other_and_refuses_nothing(odd: object) -> None:
    usual, other = (
        columns_of(pd.DataFrame({"x": pd.Series([first, "two", "three"], dtype="object")})) for first in ("one", odd)
    )
    assert usual["x"][1:] == other["x"][1:] == ["two", "three"]


def outlined(data: object, target: str | None) -> tuple[tuple[str, ...], int, list[int], list[int], understood.Understood]:
    """All that is public of data: classes, sizes, test rows and their labels, and what is understood of the columns."""
    with handed.as_file(data, "mine") as path, taken_in(Given(path, Asked(Columns(target=target)))) as name:
        found = outline.outline(catalog.card(name))
        tested, said = found.test, understood.understood(found)
        return found.classes, found.n_train, tested.rows.tolist(), tested.labels.tolist(), said


def test_neighbours_are_outlined_alike() -> None:
    """A row with a missing category, an odd text or an infinite number moves none of the other rows."""
    usual = frame().drop(columns=["user"])
    card = outlined(usual, "kind")
    private = sorted(set(range(N)) - set(card[2]))[0]
    odd = usual.copy()
    odd.loc[private, "size"] = np.inf
    odd.loc[private, "kind"] = None
    assert outlined(odd, "kind") == card


def table(numbers: NDArray[np.float64], labels: Any) -> pd.DataFrame:
    return pd.DataFrame({f"x{place}": column for place, column in enumerate(numbers.T)} | {"label": labels})


def of_the_hub(numbers: NDArray[np.float64], labels: list[object]) -> datasets.Dataset:
    kinds = {"embedding": datasets.List(datasets.Value("float64")), "label": datasets.ClassLabel(names=["a", "b"])}
    known: dict[object, int | None] = {"a": 0, "b": 1, None: None}
    return hub({"embedding": numbers.tolist(), "label": [known.get(one, -1) for one in labels]}, kinds)


DOORS: dict[str, Callable[[NDArray[np.float64], list[object]], object]] = {
    "pandas": table,
    "categories": lambda numbers, labels: table(
        numbers, pd.Categorical([one if one in ("a", "b") else None for one in labels], ["a", "b"])
    ),
    "nullable": lambda numbers, labels: table(numbers, labels).astype({"x0": "Float64", "label": "string"}),
    "polars": lambda numbers, labels: polars.from_pandas(table(numbers, labels)),
    "arrow": lambda numbers, labels: polars.from_pandas(table(numbers, labels)).to_arrow(),
    "arrays": lambda numbers, labels: (numbers, np.array(labels, object)),
    "lists": lambda numbers, labels: (numbers.tolist(), labels),
    "numbers in a list": lambda numbers, labels: (numbers, [{"a": 0, "b": 1}.get(str(one), one) for one in labels]),
    "hub": of_the_hub,
    "map-style": lambda numbers, labels: MapStyle([*zip(numbers, labels, strict=True)]),
}


FRAMES = ("pandas", "categories", "nullable", "polars", "arrow")


@pytest.mark.parametrize("odd", ["nothing", "a long label", "no number"])
@pytest.mark.parametrize("door", DOORS)
def test_a_private_row_changes_nothing_but_itself_through_any_door(door: str, odd: str) -> None:
    """Its own coin may fall on the public side then, as a fifth do: of eight rows most do not."""
    numbers, labels = np.random.default_rng(5).normal(size=(120, 4)), [*map(str, "ab" * 60)]

    target = "label" if door in FRAMES else None
    usual = outlined(DOORS[door](numbers, [*labels]), target)
    alike = []
    for private in sorted(set(range(120)) - set(usual[2]))[:8]:  # type: ignore[call-overload]
        changed, said = numbers.copy(), [*labels]
        said[private] = {"nothing": None, "a long label": "z" * 150}.get(odd, said[private])
        changed[private] = np.nan if odd == "no number" else changed[private]
        alike.append(outlined(DOORS[door](changed, said), target) == usual)
    assert sum(alike) >= 5


@pytest.mark.parametrize(("data", "field"), [
    (3, "data"),
    (pd.concat([frame(), frame()], axis=1), "data columns"),
    (frame().rename(columns={"size": 7}), "data columns"),
    (frame()[:0], "data"),
    (frame().assign(rate=pd.arrays.SparseArray(np.zeros(N))), "data column rate"),
    (frame().assign(rate=np.zeros(N, complex)), "data column rate"),
    ((np.zeros((3, 2)), np.zeros(4)), "data"),
    ((np.zeros((3, 2)),), "data"),
    ((np.zeros((3, 2), object), np.zeros(3)), "data X"),
    (([[1], [1, 2]], [0, 1]), "data X"),
    ((np.zeros((3, 2)), np.zeros((3, 1))), "data y"),
])
def test_what_types_and_shapes_show_is_refused(data: object, field: str) -> None:
    assert refusal_of(dpcl.run, data=data, target=None if isinstance(data, tuple | int) else "kind").field == field
    assert not Store().list_runs()


def test_what_is_said_of_data_needs_data() -> None:
    kept = dpcl.run(data=frame(), target="kind", epsilons=[1.0], seeds=[0])
    for field, ask in (
        ("person", lambda: dpcl.run("digits-cosine", person="user")),
        ("data", lambda: dpcl.run("digits-cosine", data=frame(), target="kind")),
        ("target", lambda: dpcl.run(data=frame())),
        ("here", lambda: dpcl.run(kept.spec, here=True)),
    ):
        assert refusal_of(ask).field == field


def test_of_a_run_here_stays_what_it_spent_and_nothing_else(home: Path) -> None:
    given = frame(40), "mine"
    options = {"target": "kind", "epsilons": [1.0], "seeds": [0], "here": True}
    heard: list[object] = []
    first = dpcl.run(data=given[0], name=given[1], on_event=heard.append, **options)
    assert (first.events, first.run_id) == (tuple(heard), None)
    assert first.guarantee(1.0).epsilon <= 1.0
    assert not Store().list_runs()
    assert not Store().trash()
    assert not [one for one in (home / "data").iterdir() if one.is_dir()]

    def interrupt(event: object) -> None:
        if isinstance(event, TaskLearned):
            raise KeyboardInterrupt

    stopped = dpcl.run(data=given[0], name="another name", on_event=interrupt, **options)  # it began: it counts
    assert not stopped.finals
    kept = dpcl.run(data=given[0], name="kept", target="kind", epsilons=[1.0], seeds=[0])
    looks = administration.looks_at(Store(), kept.spec.data.dataset)
    assert (looks.runs, looks.epsilon) == (3, pytest.approx(3.0, rel=1e-3))


def test_a_budget_for_rows_refuses_a_run_here() -> None:
    kept = dpcl.run(data=frame(40), target="kind", epsilons=[1.0], seeds=[0])
    administration.declare_budget(Store(), kept.spec.data.dataset, 1.5)
    refuses("budget", lambda: dpcl.run(data=frame(40), name="again", target="kind", epsilons=[1.0], seeds=[0], here=True))


def test_a_schema_is_a_mapping_or_a_file(tmp_path: Path) -> None:
    said = {"columns": {"target": "kind"}, "classes": ("ant", "bee", "cat", "dog"), "n_train": np.int64(500)}
    assert dpcl.check(frame(), schema=said).classes == ("ant", "bee", "cat", "dog")
    (tmp_path / "mine.toml").write_text('n_train = 500\n[columns]\ntarget = "kind"\n')
    assert dpcl.check(frame(), schema=tmp_path / "mine.toml").n_train == 500
    refusal_of(lambda: dpcl.check(frame(), schema={"n_train": -1}))
    refusal_of(lambda: dpcl.check(frame(), schema=3))
