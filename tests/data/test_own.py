"""A person's own datasets are found by what they hold, and nothing else is listed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from dpcl_core import paths
from dpcl_core.data import intake, own
from dpcl_core.data.intake import Asked
from dpcl_core.errors import BadInput
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
    assert own.names_of_own_data() == ["own:mine", "own:numbers", "own:texts", "own:photos"]


def test_no_folder_of_data_is_no_trouble(data_dir: Path) -> None:
    data_dir.rmdir()
    assert own.names_of_own_data() == []


@pytest.fixture
def hers(data_dir: Path, tmp_path: Path) -> Path:
    """The folder of data that a visitor has taken in."""
    table = tmp_path / "visits.csv"
    table.write_text("x,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(80)), encoding="utf-8")
    with intake.taken_in(table, Asked(), "anna") as name:
        pass
    assert (name, own.owner(name)) == ("own:visits", "anna")
    return paths.home() / "data" / "visits"


@pytest.mark.parametrize("trouble", ["unlinked", "a folder", "no text"])
def test_data_whose_owner_cannot_be_told_are_nobodys(trouble: str, hers: Path) -> None:
    (hers / own.OWNER).unlink()
    if trouble == "a folder":  # what cannot be read, whoever asks
        (hers / own.OWNER).mkdir()
    elif trouble == "no text":
        (hers / own.OWNER).write_bytes(b"\xff")
    assert own.owner("own:visits") is None
    assert own.stored_bytes({""}) == 0, "nor the computer's"


def test_data_put_there_by_hand_or_taken_in_from_a_terminal_are_everybodys(hers: Path, data_dir: Path) -> None:
    write_pair(data_dir / "mine", [0, 1], [0, 1])
    with intake.taken_in(hers.parents[2] / "visits.csv", Asked()) as name:
        pass
    assert (own.owner("own:mine"), own.owner(name), own.owner("own:none")) == ("", "", None)


def test_the_disk_has_the_owner_before_the_data_have_their_name(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut could otherwise leave an empty file, which gives the data to everybody."""
    waited, wait = list[str](), paths.keep_names

    def keep_names(folder: Path) -> None:
        assert not (paths.home() / "data" / "visits").exists()
        waited.append((folder / own.OWNER).read_text(encoding="ascii"))
        wait(folder)

    monkeypatch.setattr(paths, "keep_names", keep_names)
    (tmp_path / "visits.csv").write_text("x,label\n" + "1,a\n2,b\n" * 40, encoding="utf-8")
    with intake.taken_in(tmp_path / "visits.csv", Asked(), "anna"):
        pass
    assert waited == ["anna"]


def test_data_are_gone_at_once_and_what_is_left_of_them_is_swept_up(hers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies while it deletes leaves nothing under their name: half of them would be everybody's."""

    def killed(folder: Path, **_: bool) -> None:
        (folder / own.OWNER).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            intake.forget("own:visits")
    assert (own.names_of_own_data(), own.owner("own:visits"), intake.was_taken_in("own:visits")) == ([], None, False)
    (left,) = hers.parent.iterdir()
    assert (left / "visits.csv").exists()
    own.sweep()
    assert list(hers.parent.iterdir()) == []


def test_a_deletion_that_fails_says_so(hers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        with pytest.raises(BadInput, match=r"^data = own:visits: could not be deleted: Permission denied$"):
            intake.forget("own:visits")
    assert own.owner("own:visits") == "anna"
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(BadInput, match="own:visits: is out of reach, but some of its files could not be deleted"):
        intake.forget("own:visits")
    assert own.names_of_own_data() == []


@pytest.mark.parametrize("name", [own.OWNER, own.ORIGIN])
def test_what_an_earlier_version_half_deleted_can_be_deleted(name: str, hers: Path) -> None:
    (hers / name).unlink()
    intake.forget("own:visits")
    assert not hers.exists()


def test_an_upload_that_nobody_keeps_goes_after_a_day(home: Path) -> None:
    for name, age in (("old", own.UPLOAD_SECONDS + 1), ("new", own.UPLOAD_SECONDS - 3600)):
        folder = paths.make_folder(paths.uploads(name))
        (folder / "x.csv").write_bytes(b"x")
        os.utime(folder, (time.time() - age,) * 2)
    own.sweep()
    assert own.uploaders() == ["new"]
