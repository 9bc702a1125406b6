"""Features are computed once, no state of the disk can change or lose them, and what is kept can be deleted."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dpcl_core import cli, paths
from dpcl_core.backbones import catalog, extractor
from dpcl_core.data.dataset import Images
from tests.support.asserting import document_of, printed, refusal_of

RAW = np.random.default_rng(0).integers(0, 256, (6, 2, 2, 1), dtype=np.uint8)
IMAGES = Images(RAW, (2, 2, 1))


class Counting:
    """An extractor that counts how often it computes."""

    feature_dim: int | None = 4

    def __init__(self, identity: str = "counting") -> None:
        self.identity = identity
        self.n_calls = 0

    def batches(self, images: Images) -> Iterator[NDArray[np.float32]]:
        self.n_calls += 1
        for batch in images.batches(None, 1, 4):
            yield batch.reshape(len(batch), 4).astype(np.float32)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    monkeypatch.setattr(extractor, "load", lambda *_: made)
    return made


def only_file() -> Path:
    (path,) = paths.features_dir().iterdir()
    return path


def test_second_call_gives_the_same_array_and_computes_nothing(counting: Counting) -> None:
    first = extractor.features("any", IMAGES)
    second = extractor.features("any", IMAGES)
    assert counting.n_calls == 1
    np.testing.assert_array_equal(first, RAW.reshape(6, 4))
    np.testing.assert_array_equal(first, second)
    assert second.dtype == np.float32


def test_steps_say_how_many_images_are_done(counting: Counting) -> None:
    assert list(extractor.computed("any", IMAGES)) == [4, 6]
    assert list(extractor.computed("any", IMAGES)) == [], "what is kept takes no steps"


def test_images_shape_and_extractor_each_have_part_in_the_address() -> None:
    other = RAW.copy()
    other[3, 1, 0, 0] ^= 1
    keys = {
        extractor.key(Counting(), IMAGES),
        extractor.key(Counting("another"), IMAGES),
        extractor.key(Counting(), Images(other, (2, 2, 1))),
        extractor.key(Counting(), Images(RAW[::-1].copy(), (2, 2, 1))),
        extractor.key(Counting(), Images(RAW, None)),
    }
    assert len(keys) == 5
    assert extractor.key(Counting(), Images(RAW.copy(), (2, 2, 1))) in keys


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"NUMPY") + 140] ^= 0xFF  # within the numbers, behind the array's header
    path.write_bytes(content)


def too_few_rows(path: Path) -> None:
    np.savez(path, features=np.zeros((5, 4), np.float32))


def pickled(path: Path) -> None:
    np.savez(path, features=np.array([object()] * 6, dtype=object))


DAMAGES: list[Callable[[Path], object]] = [
    flip,
    too_few_rows,
    pickled,
    lambda path: path.write_bytes(path.read_bytes()[:-30]),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"no archive"),
    lambda path: np.savez(path, other=np.zeros((6, 4), np.float32)),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_computed_anew_and_replaced(counting: Counting, damage: Callable[[Path], object]) -> None:
    expected = extractor.features("any", IMAGES)
    damage(only_file())
    np.testing.assert_array_equal(extractor.features("any", IMAGES), expected)
    assert counting.n_calls == 2
    np.testing.assert_array_equal(extractor.features("any", IMAGES), expected)
    assert counting.n_calls == 2


def test_cache_that_cannot_be_written_costs_a_warning_only(counting: Counting, home: Path) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept"):
        found = extractor.features("any", IMAGES)
    np.testing.assert_array_equal(found, RAW.reshape(6, 4))


def test_full_disk_leaves_no_half_file(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        found = extractor.features("any", IMAGES)
    np.testing.assert_array_equal(found, RAW.reshape(6, 4))
    assert not list(paths.features_dir().iterdir())


def test_kept_features_are_for_their_owner_alone(counting: Counting) -> None:
    extractor.features("any", IMAGES)
    assert stat.S_IMODE(only_file().stat().st_mode) == 0o600


def test_real_backbone_through_the_cache_equals_itself() -> None:
    first, second = extractor.features("convnext-cifar100", IMAGES), extractor.features("convnext-cifar100", IMAGES)
    assert first.shape == (6, 192)
    np.testing.assert_array_equal(first, second)


# What is kept can be measured and deleted by name, and nothing else is.


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
    sizes = {row["name"]: row["bytes"] for row in document_of(capsys, "cache")}
    assert sizes["features"] == shown


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    refusal = refusal_of(catalog.clean, "feature")
    assert refusal.field == "--delete"
    assert all(kept.name in refusal.allowed for kept in catalog.backbones_by_kind())


def test_command_prints_sizes_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    paths.features_dir().mkdir(parents=True, exist_ok=True)
    (paths.features_dir() / "part.npz").write_bytes(b"x" * 2_000_000)
    assert "2.0 MB" in printed(capsys, "cache")
    assert cli.main(["cache", "--clean", "features"]) == 0
    shown = capsys.readouterr()
    assert "deleted features: 2.0 MB" in shown.err
    assert "2.0 MB" not in shown.out


# The backbone that is no network.


@pytest.mark.parametrize("n_channels", [1, 3])
def test_pixels_are_the_values_over_255_in_order(n_channels: int) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (2003, 4, 5, n_channels), dtype=np.uint8)
    parts = list(extractor.load("pixels").batches(Images(raw, (4, 5, n_channels))))
    found = np.concatenate(parts)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (raw.reshape(2003, -1) / np.float32(255)).astype(np.float32))
    assert [len(part) for part in parts] == [0, 1000, 1000, 3]


def test_pixels_of_no_images_keep_their_width() -> None:
    (none,) = extractor.load("pixels").batches(Images(np.zeros((0, 8, 8, 1), np.uint8), (8, 8, 1)))
    assert none.shape == (0, 64)


def test_pictures_of_several_sizes_become_one_size() -> None:
    files = []
    for side in (8, 50):
        file = io.BytesIO()
        Image.new("RGB", (side, side), (255, 0, 0)).save(file, "PNG")
        files.append(file.getvalue())
    found = np.concatenate(list(extractor.load("pixels").batches(Images(files, None))))
    np.testing.assert_array_equal(found, np.tile(np.array([1, 0, 0], np.float32), (2, 32 * 32)))
