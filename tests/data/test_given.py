"""Data that a program holds: frames, arrays and datasets become files by their types alone, and run as files do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpcl_core as dpcl
from dpcl_core.data import given, outline
from dpcl_core.data.intake import Asked, taken_in
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput
from dpcl_core.runs.store import Store

pytestmark = pytest.mark.usefixtures("home")
N = 240


def frame(n: int = N) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    kinds = np.arange(n) % 3
    return pd.DataFrame(
        {
            "size": draws.normal(size=n) + 4 * kinds,
            "age": pd.array([1, None] * (n // 2), dtype="Int64"),
            "flag": pd.array([True, None] * (n // 2), dtype="boolean"),
            "when": pd.date_range("2020-01-01", periods=n, tz="Europe/Rome"),
            "kind": pd.Categorical.from_codes(kinds, ["ant", "bee", "cat"]),
            "user": np.arange(n) // 2,
        }
    )


def columns_of(data: object) -> dict[str, list[object]]:
    with given.as_file(data) as path:
        return pq.read_table(path).to_pydict()


def test_a_frame_of_the_field_runs_as_its_file_does(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "data.csv", index=False)
    ours, files = dpcl.check(frame(), target="kind", person="user"), dpcl.check(
        tmp_path / "data.csv", target="kind", person="user"
    )
    assert (ours.classes, ours.n_train, ours.n_test) == (files.classes, files.n_train, files.n_test)
    options = {"epsilons": np.array([1.0]), "seeds": np.arange(1), "settings": {"labels": "prior-const"}}
    result = dpcl.run(data=frame(), target="kind", person="user", name="bees", **options)
    assert result.spec.data.dataset == "own:bees"
    assert result.spec.privacy.epsilons == (1.0,)
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
    by_vision = dpcl.check(SimpleNamespace(data=inputs, targets=labels))
    assert by_vision.n_test == by_arrays.n_test
    texts = [f"a text about {'cats' if one % 2 else 'dogs'}, number {one}" for one in range(N)]
    assert dpcl.check((texts, ["even" if one % 2 else "odd" for one in range(N)])).understood.kind == "text"
    of_hub = SimpleNamespace(
        to_pandas=lambda: pd.DataFrame({"text": texts, "label": labels % 2}),
        features={"text": None, "label": SimpleNamespace(names=["even", "odd"])},
    )
    assert dpcl.check(of_hub).classes == ("even", "odd")


@pytest.mark.parametrize(
    ("odd", "kind"),
    [("\ud800", "object"), (b"\xff", "object"), (float("nan"), "object"), (object(), "object"), ([1, 2], "object")],
)
def test_an_odd_cell_changes_no_other_and_refuses_nothing(odd: object, kind: str) -> None:
    cells: list[object] = ["one", "two", "three"]
    usual, other = columns_of(pd.DataFrame({"x": pd.Series(cells, dtype=kind)})), columns_of(
        pd.DataFrame({"x": pd.Series([odd, *cells[1:]], dtype=kind)})
    )
    assert usual["x"][1:] == other["x"][1:] == ["two", "three"]


def test_neighbours_are_outlined_alike() -> None:
    """A row with a missing category, an odd text or an infinite number moves none of the other rows."""

    def outlined(data: pd.DataFrame) -> tuple[object, ...]:
        with given.as_file(data, "mine") as path, taken_in(path, Asked(Columns(target="kind"))) as name:
            from dpcl_core.data import catalog, files

            card = catalog.card(name)
            found = outline.outline(card, files.find(card))
            return found.classes, found.n_train, found.test.labels.tolist()

    usual = frame().drop(columns=["user"])
    card = outlined(usual)
    with given.as_file(usual, "mine") as path, taken_in(path, Asked(Columns(target="kind"))) as name:
        from dpcl_core.data import catalog, files

        found = outline.outline(catalog.card(name), files.find(catalog.card(name)))
        private = sorted(set(range(N)) - set(found.test.rows.tolist()))[0]
    odd = usual.copy()
    odd.loc[private, "size"] = np.inf
    odd.loc[private, "kind"] = None
    assert outlined(odd) == card


@pytest.mark.parametrize(
    ("data", "field"),
    [
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
    ],
)
def test_what_types_and_shapes_show_is_refused(data: object, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        dpcl.run(data=data, target=None if isinstance(data, tuple | int) else "kind")
    assert refused.value.field == field
    assert not Store().list_runs()


def test_what_is_said_of_data_needs_data() -> None:
    with pytest.raises(BadInput) as refused:
        dpcl.run("digits-cosine", person="user")
    assert refused.value.field == "person"
    with pytest.raises(BadInput) as refused:
        dpcl.run("digits-cosine", data=frame(), target="kind")
    assert refused.value.field == "data"
    with pytest.raises(BadInput) as refused:
        dpcl.run(data=frame())
    assert refused.value.field == "target"
    with pytest.raises(BadInput) as refused:
        dpcl.run(data=frame(), target="kind", here=True)
    assert refused.value.field == "here"


def test_a_schema_is_a_mapping_or_a_file(tmp_path: Path) -> None:
    said = {"columns": {"target": "kind"}, "classes": ("ant", "bee", "cat", "dog"), "n_train": np.int64(500)}
    assert dpcl.check(frame(), schema=said).classes == ("ant", "bee", "cat", "dog")
    (tmp_path / "mine.toml").write_text('n_train = 500\n[columns]\ntarget = "kind"\n')
    assert dpcl.check(frame(), schema=tmp_path / "mine.toml").n_train == 500
    with pytest.raises(BadInput):
        dpcl.check(frame(), schema={"n_train": -1})
    with pytest.raises(BadInput):
        dpcl.check(frame(), schema=3)
