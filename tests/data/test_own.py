"""A person's own datasets are found by what they hold, and nothing else is listed."""

from __future__ import annotations

from pathlib import Path

from dpcl_core.data import own
from tests.data.making import picture, write, write_pair


def test_folders_that_can_be_read_are_listed_and_others_are_not(data_dir: Path, tmp_path: Path) -> None:
    write_pair(data_dir / "mine", [0, 1], [0, 1])
    for split in ("train", "test"):
        write(data_dir / "texts", split, text=["a", "b"], label=[0, 1])
        write(data_dir / "numbers", split, value=[1.0, 2.0], label=[0, 1])
        write(data_dir / "no labels", split, value=[1.0, 2.0])
        folder = tmp_path / "home" / "data" / "photos" / split / "cats"
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(picture())
    write_pair(data_dir / "mnist", [0, 1], [0, 1])  # the catalog's own
    write(data_dir / "half", "train", image=[picture()], label=[0])
    (data_dir / "broken").mkdir()
    (data_dir / "broken" / "train.parquet").write_bytes(b"no parquet")
    (data_dir / "broken" / "test.parquet").write_bytes(b"no parquet")
    (data_dir / "bad name").mkdir()
    assert own.names() == ["own:mine", "own:numbers", "own:texts", "own:photos"]


def test_no_folder_of_data_is_no_trouble(data_dir: Path) -> None:
    data_dir.rmdir()
    assert own.names() == []
