"""What is kept can be measured and deleted by name, and nothing else is."""

from __future__ import annotations

import json

import pytest

from dpcl_core import cli, paths
from dpcl_core.backbones import catalog
from dpcl_core.errors import BadInput


@pytest.mark.parametrize("name", ["features", "states"])
def test_each_kind_is_measured_and_deleted_alone(name: str) -> None:
    for place in (paths.features_dir(), paths.states_dir()):
        place.mkdir(parents=True, exist_ok=True)
        (place / "part.npz").write_bytes(b"x" * 1000)
    before = {kept.name: kept.size for kept in catalog.backbones_by_kind()}
    assert before[name] == 1000
    assert catalog.clean(name).size == 1000
    after = {kept.name: kept.size for kept in catalog.backbones_by_kind()}
    assert after == before | {name: 0}


@pytest.mark.parametrize(
    ("exact", "shown"), [(0, 0), (1, 1), (3, 5), (1000, 1000), (1001, 2000), (4_998, 5000), (5001, 10_000)]
)
def test_sizes_do_not_tell_how_many_rows_there_are(exact: int, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Features of one row more are 16 bytes more."""
    paths.features_dir().mkdir(parents=True, exist_ok=True)
    (paths.features_dir() / "part.npz").write_bytes(b"x" * exact)
    assert cli.main(["cache", "--json"]) == 0
    sizes = {row["name"]: row["bytes"] for row in json.loads(capsys.readouterr().out)}
    assert sizes["features"] == shown


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput) as caught:
        catalog.clean("feature")
    assert caught.value.field == "--delete"
    assert all(kept.name in caught.value.allowed for kept in catalog.backbones_by_kind())


def test_command_prints_sizes_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    paths.features_dir().mkdir(parents=True, exist_ok=True)
    (paths.features_dir() / "part.npz").write_bytes(b"x" * 2_000_000)
    assert cli.main(["cache"]) == 0
    assert "2.0 MB" in capsys.readouterr().out
    assert cli.main(["cache", "--clean", "features"]) == 0
    shown = capsys.readouterr()
    assert "deleted features: 2.0 MB" in shown.err
    assert "2.0 MB" not in shown.out
