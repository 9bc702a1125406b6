"""Files of strangers: read in a process with a memory limit, unpacked within what the visitor may keep."""

import gzip
import io
import resource
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dpcl_core import apart, paths
from dpcl_core.apart import Given
from dpcl_core.data import intake, own, schema
from dpcl_core.data.intake import Asked
from dpcl_core.errors import BadInput
from tests.support.asserting import refusal_of

OWNER = "f" * 64
TARGET = Asked(schema.Columns(target="kind"))


@pytest.fixture(autouse=True)
def nothing_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPCL_DATA", raising=False)


def table(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text("age,kind\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(200)), encoding="utf-8")
    return path


def zipped(folder: Path, pictures: int = 60, tail: int = 0, *, plain: bool = False) -> Path:
    """Pictures of two classes, each with so many bytes after its end."""
    path = folder / "pictures.zip"
    draw = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(pictures):
            file = io.BytesIO()
            pixels = np.zeros((600, 600, 3), np.uint8) if plain else draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file, "BMP" if plain else "PNG")
            archive.writestr(f"{'ab'[number % 2]}/{number}.{'bmp' if plain else 'png'}", file.getvalue() + bytes(tail))
    return path


@pytest.mark.parametrize("make", [table, zipped])
def test_a_file_is_understood_and_kept_as_in_this_process(tmp_path: Path, make) -> None:
    given = Given(make(tmp_path), TARGET if make is table else Asked(), OWNER, apart=OWNER)
    assert apart.answer("look", given) == apart.look(given)
    name = apart.answer("keep", given, is_apart=True)
    assert own.owner(name) == OWNER
    assert apart.keep(given) == name, "the same place, and nothing was written there"


@pytest.mark.parametrize("task", ["columns", "first line"])
def test_what_a_form_needs_of_a_file_is_read_as_in_this_process(tmp_path: Path, task) -> None:
    given = Given(table(tmp_path), Asked(), OWNER)
    assert apart.answer(task, given, is_apart=True) == {"columns": ["age", "kind"], "first line": "unclear"}[task]
    assert apart.answer(task, given, is_apart=False) == apart.answer(task, given, is_apart=True)


def test_a_refusal_is_the_same_sentence(tmp_path: Path) -> None:
    given = Given(table(tmp_path), Asked(schema.Columns(target="weight")), OWNER)
    assert str(refusal_of(apart.answer, "look", given)) == str(refusal_of(apart.look, given))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_file_that_takes_more_memory_than_allowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MEMORY_BYTES", 500_000_000)
    path = tmp_path / "vectors.npz"
    by_column = np.zeros((9_000, 9_000), order="F")  # read whole, and others in pieces
    np.savez_compressed(path, embeddings=by_column, labels=np.arange(9_000) % 3)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(BadInput, match=r"vectors\.npz: needs more memory or time than this server gives to one file"):
        apart.answer("look", Given(path, Asked(), OWNER))


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed table of 600 MB in less than four; one packed part, again and again, is a packed file, too."""
    path, part = tmp_path_factory.mktemp("packed") / "bomb.csv.gz", gzip.compress(b"1,a\n" * 1_000_000, 1)
    path.write_bytes(gzip.compress(b"age,kind\n") + 150 * part)
    assert path.stat().st_size < 4_000_000
    return path


@pytest.mark.parametrize("most", [10_000_000, 4 * 2**30])
def test_a_packed_table_is_bounded_while_it_is_unpacked(bomb: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(apart, "MEMORY_BYTES", 500_000_000)
    given = Given(bomb, TARGET, OWNER, most=most)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    says = "must have at most 10,000,000 bytes when unpacked" if most == 10**7 else "needs more memory or time than"
    assert refusal_of(apart.answer, "look", given).allowed.startswith(says)
    for task in ("columns", "first line"):
        with suppress(BadInput):
            apart.answer(task, given, is_apart=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes of the server"
    assert own.stored_bytes(None) == 0


@pytest.mark.parametrize(("tail", "plain"), [(500_000, False), (0, True)])
def test_a_bomb_is_refused_before_it_is_unpacked_and_leaves_nothing(tmp_path: Path, tail: int, *, plain: bool) -> None:
    path = zipped(tmp_path, 60, tail, plain=plain)
    assert path.stat().st_size < 200_000
    for read in (apart.look, apart.keep):
        refused = refusal_of(read, Given(path, Asked(), OWNER, most=25_000_000))
        assert refused.allowed == "must have at most 200,000 pictures and 25,000,000 bytes in all, unpacked"
    assert own.stored_bytes(None) == 0
    assert not list((paths.home() / "data").iterdir())


def test_many_small_members_count_as_what_they_take_on_a_disk(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    apart.look(Given(path, Asked(), OWNER, most=60 * 4096))
    refusal_of(lambda: apart.look(Given(path, Asked(), OWNER, most=60 * 4096 - 1)))


def test_a_zip_within_a_zip_is_no_picture(tmp_path: Path) -> None:
    inner, path = zipped(tmp_path).read_bytes(), tmp_path / "nested.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/inner.zip", inner)
    refusal_of(lambda: apart.look(Given(path, Asked(), OWNER)))


def test_what_follows_a_picture_is_not_kept(tmp_path: Path) -> None:
    folder, _ = intake.kept_folder(apart.keep(Given(zipped(tmp_path, tail=100_000), Asked(), OWNER)))
    assert max(one.stat().st_size for one in folder.rglob("*.png")) < 1000
    assert own.stored_bytes({OWNER}) < 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there")
@pytest.mark.parametrize("make", [table, zipped])
def test_kept_files_are_for_their_owner_alone(tmp_path: Path, make) -> None:
    name = apart.keep(Given(make(tmp_path), TARGET if make is table else Asked(), OWNER))
    assert {one.stat().st_mode & 0o777 for one in intake.kept_folder(name)[0].rglob("*")} <= {0o600, 0o700}
