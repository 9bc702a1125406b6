"""The corpus on disk: made once, made anew where it is damaged or old, and never half there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcl_core.data import catalog, files, load, synthetic
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec

TINY = "pii-synthetic-tiny"


@pytest.fixture
def folder(data_dir: Path) -> Path:
    """Where the corpus lies once it is made."""
    found = files.find(catalog.card(TINY))
    return found.train[0].parent


def stamps(folder: Path) -> list[int]:
    return [(folder / name).stat().st_mtime_ns for name in ("train.parquet", "test.parquet", "made.json")]


def test_it_is_made_once(folder: Path) -> None:
    before = stamps(folder)
    assert files.find(catalog.card(TINY)).train == (folder / "train.parquet",)
    assert stamps(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["made.json", "test.parquet", "train.parquet"]


@pytest.mark.parametrize("name", ["train.parquet", "test.parquet"])
@pytest.mark.parametrize("harm", ["cut", "bit", "gone"])
def test_a_damaged_file_is_made_anew(folder: Path, name: str, harm: str) -> None:
    path = folder / name
    content = path.read_bytes()
    if harm == "gone":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    files.find(catalog.card(TINY))
    assert path.read_bytes() == content


@pytest.mark.parametrize("record", [b"", b"no json", b"[]", b'{"identity": 3}', b"\xff"])
def test_a_damaged_record_is_made_anew(folder: Path, record: bytes) -> None:
    content = (folder / "made.json").read_bytes()
    (folder / "made.json").write_bytes(record)
    files.find(catalog.card(TINY))
    assert (folder / "made.json").read_bytes() == content


def test_another_version_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads((folder / "made.json").read_bytes())
    monkeypatch.setattr(synthetic, "_VERSION", -1)
    files.find(catalog.card(TINY))
    after = json.loads((folder / "made.json").read_bytes())
    assert after["identity"] != before["identity"]
    assert after["train"] == before["train"]


def test_what_is_read_is_what_was_made(data_dir: Path) -> None:
    found = load.load(DataSpec(dataset=TINY))
    train, test = synthetic.corpus(200)
    assert isinstance(found.test.images, Texts)
    assert isinstance(test.images, Texts)
    assert found.test.images.strings == test.images.strings
    assert found.test.images.spans == test.images.spans
    assert found.test.labels.tolist() == test.labels.tolist()
    assert found.train.labels.tolist() == train.labels.tolist()
    assert found.test.images.people is not None
    assert test.images.people is not None
    assert found.test.images.people.tolist() == test.images.people.tolist()
    assert [source.name for source in found.sources] == [name for name, _ in synthetic.classes()]
    assert found.classes == tuple(label for _, labels in synthetic.classes() for label in labels)


def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.raises(BadInput, match=r"^data.dataset = pii-synthetic-tiny: .* must be a folder that you can write: "):
        load.load(DataSpec(dataset=TINY))


def test_listing_the_datasets_makes_none(data_dir: Path, tmp_path: Path) -> None:
    assert catalog.available(catalog.card("pii-synthetic-full")) is None
    assert not (tmp_path / "home").exists()


def test_a_folder_of_that_name_among_the_data_is_not_taken_for_it(data_dir: Path) -> None:
    (data_dir / "pii_synthetic_tiny").mkdir()
    assert files.find(catalog.card(TINY)).train[0].parent.parent == files.cache_dir()
