"""Every unusable file gives one sentence: where, what it says there, what is allowed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcl_core.data import catalog
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import DataMissing
from dpcl_core.spec import DataSpec
from tests.data.making import location, picture, refusal, write, write_both, write_images, write_pair
from tests.support.asserting import refusal_of, refuses

IMAGES = [picture()] * 3
LABELS = [0, 1, 2]
TEST = "own:cats/test.parquet"


@pytest.mark.parametrize(("images", "labels", "said"), [
    ([picture()] * 11, range(11), "row 10, label = 10: must be a whole number from 0 to 9"),
    ([[[1]]] * 10, range(10), "column image = lists of 1x1: must have 28x28x1 pixels"),
])
def test_what_the_card_does_not_allow(images: list[object], labels: range, said: str, data_dir: Path) -> None:
    write_both(data_dir / "mnist", image=images, label=labels)
    assert str(refusal("mnist")) == f"mnist/test.parquet {said}"


BAD_LABELS: list[tuple[object, str]] = [
    ([0, 1, None], f"{TEST} row 2, label = nothing"),
    ([0, -1, 2], f"{TEST} row 1, label = -1"),
    ([0, 1, 3], f"{TEST} row 2, label = 3"),
    ([0, 2, 2], "own:cats test = no label 1"),
    ([0.0, 1.0, 1.5], f"{TEST} row 2, label = nothing"),
    (["a", "b", "c"], f"{TEST} column label = string"),
    ([True, False, True], f"{TEST} column label = bool"),
    (pa.array([0, 1, 2**64 - 1], pa.uint64()), f"{TEST} row 2, label = {2**64 - 1}"),
]
STRUCTS = [{"bytes": b"x", "path": "a"}, {"bytes": b"y", "path": "b"}, {"bytes": None, "path": "c"}]


def pixels(change: Callable[[list[Any]], list[Any]]) -> dict[str, object]:
    """The columns of three pictures of 2 x 2 pixels, changed."""
    return {"image": pa.array(change([[[0.0, 0.5], [1.0, 0.25]]] * 3)), "label": LABELS}


BAD_PIXELS: list[tuple[Callable[[list[Any]], list[Any]], str]] = [
    (lambda p: [p[0], [[0.0, float("nan")], [1.0, 0.0]], p[2]], "row 1, image = pixel nan"),
    (lambda p: [p[0], p[1], [[0.0, 0.5], [float("inf"), 0.0]]], "row 2, image = pixel 0.5"),
    (lambda p: [[[0.0, 0.5], [1.0, -0.01]], *p[1:]], "row 0, image = pixel -0.01"),
    (lambda p: [p[0], p[1], [[1.01, 0.5], [1.0, 0.0]]], "row 2, image = pixel 1.01"),
    (lambda p: [p[0], [[None, 0.5], [1.0, 0.0]], p[2]], "row 1, image = pixel nan"),
    (lambda p: [p[0], [[0.0, 0.5], [1.0]], p[2]], "row 1, image = a list of 1"),
    (lambda p: [p[0], p[1], [[0.0, 0.5]]], "row 2, image = a list of 1"),
    (lambda p: [None, *p[1:]], "row 0, image = a list of 0"),
    (lambda p: [[[0, 1], [2, 256]]] * 3, "row 0, image = pixel 256"),
    (lambda p: [[[0, 1], [2, -1]]] * 3, "row 0, image = pixel -1"),
    (lambda p: [[]] * 3, "row 0, image = an empty list"),
    (lambda p: [[1, 2, 3]] * 3, "column image = lists of 3"),
    (lambda p: [[[[1, 2]]]] * 3, "column image = lists of 1x1x2"),
    (lambda p: [[["a"]]] * 3, "column image = string"),
]


@pytest.mark.parametrize(("columns", "where"), [
    *(({"image": IMAGES, "label": labels}, where) for labels, where in BAD_LABELS),
    *((pixels(change), f"{TEST} {where}") for change, where in BAD_PIXELS),
    ({"picture": IMAGES, "label": LABELS}, f"{TEST} = picture, label"),
    ({"image": IMAGES, "class": LABELS}, f"{TEST} = image, class"),
    ({"image": [], "label": pa.array([], pa.int64())}, f"{TEST} = no rows"),
    ({"image": ["a.png"] * 3, "label": LABELS}, f"{TEST} column image = string"),
    ({"image": [1.5, 2.5, 3.5], "label": LABELS}, f"{TEST} column image = double"),
    ({"image": [b"x", None, b"x"], "label": LABELS}, f"{TEST} row 1, image = nothing"),
    ({"image": STRUCTS, "label": LABELS}, f"{TEST} row 2, image = nothing"),
    ({"image": IMAGES, "label": LABELS, "label_name": ["a", "b", "a"]}, "own:cats class = a"),
    ({"image": IMAGES * 2, "label": LABELS * 2, "label_name": [*"abcacc"]}, f"{TEST} row 4, label_name = c"),
    ({"image": IMAGES, "label": LABELS, "label_name": ["a", None, "c"]}, f"{TEST} row 1, label_name = nothing"),
    ({"image": IMAGES, "label": LABELS, "domain": ["a", "b", "a"]}, "own:cats = domain"),
])
def test_columns_that_cannot_be_used(columns: dict[str, object], where: str, data_dir: Path) -> None:
    write(data_dir / "cats", "train", image=IMAGES, label=LABELS)
    write(data_dir / "cats", "test", **columns)
    assert location(refusal("own:cats")) == where
    if columns.keys() == {"image", "label"} and columns["image"] is IMAGES:  # of labels the facts say it, too
        assert location(refusal_of(catalog.facts, "own:cats")) == where


def test_names_that_contradict_one_another(data_dir: Path) -> None:
    names = ["airplane", "automobile", "cat", "bird", "deer", "dog", "frog", "horse", "ship", "truck"]
    write_pair(data_dir / "cifar10", list(range(10)), list(range(10)), label_name=names)
    assert str(refusal("cifar10")) == "cifar10 label 2 = cat: is bird in CIFAR-10 as published"


def test_what_is_wrong_with_a_training_row_is_not_said(data_dir: Path) -> None:
    """A label, a source or a picture that nobody else has: the row counts as no example, and a damaged picture is black."""
    write(data_dir / "cats", "test", image=IMAGES, label=[0, 1, 2], domain=["a", "b", "a"])
    labels = pa.array([0, 1, None, -1, 7, 2, 2, 0])
    images = [picture(50)] * 6 + [None, b"no picture"]
    domains = ["a", "b", "a", "a", "a", "nowhere", "a", "b"]
    write(data_dir / "cats", "train", image=images, label=labels, domain=domains)
    found = load_dataset(DataSpec(dataset="own:cats"))
    assert found.train.labels.tolist() == [0, 1, 2, 0]
    (seen,) = found.train.images.batches(4, 1, 10)
    assert seen.max(axis=(1, 2, 3)).tolist() == [50, 50, 0, 0]
    assert (found.classes, [source.name for source in found.sources]) == (("0", "1", "2"), ["a", "b"])


def test_train_and_test_in_different_sizes(data_dir: Path) -> None:
    write(data_dir / "cats", "train", image=[[[1, 2], [3, 4]]] * 3, label=[0, 1, 2])
    write(data_dir / "cats", "test", image=[[[1, 2]]] * 3, label=[0, 1, 2])
    assert not len(load_dataset(DataSpec(dataset="own:cats")).train), "of another size than the test part's: no examples"
    write(data_dir / "cats", "test", image=IMAGES, label=[0, 1, 2])
    assert location(refusal("own:cats")) == "own:cats images = pixels of 2x2x1 and image files"


def test_a_damaged_public_image_is_named_by_its_row_in_the_file(data_dir: Path) -> None:
    write_both(data_dir / "cats", image=[picture(), picture()[:30], picture()], label=LABELS)
    for caps in ({}, {"test_per_class": 1}):
        images = load_dataset(DataSpec(dataset="own:cats", **caps)).test.images
        refuses(r"^own:cats/test.parquet row 1 = 30 bytes: must be an image file", list, images.batches(None, 1, 2))


def test_files_that_are_no_parquet(data_dir: Path) -> None:
    """Nothing but that it is none: its size would tell of private rows."""
    write_pair(data_dir / "cats", list(range(3)) * 500, [0, 1, 2])
    path = data_dir / "cats" / "train.parquet"
    good = path.read_bytes()
    meta = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = meta.dictionary_page_offset or meta.data_page_offset
    inside = good[:start] + b"\xff" * meta.total_compressed_size + good[start + meta.total_compressed_size :]
    for content in (b"image,label\n1,2\n", b"", good[:-20], good[200:], b"PAR1" + b"\0" * 100 + b"PAR1", inside):
        path.write_bytes(content)
        assert location(refusal("own:cats")) == "own:cats/train.parquet = unreadable"
    path.unlink()
    path.mkdir()
    assert location(refusal("own:cats")) == "own:cats/train.parquet = unreadable"


def test_what_may_not_be_read(data_dir: Path, tmp_path: Path) -> None:
    write_pair(data_dir / "cats", [0, 1], [0, 1])
    write_pair(data_dir / "dogs", [0, 1], [0, 1])
    write_images(data_dir / "pets" / "train", {"a": [1], "b": [2]})
    write_images(data_dir / "pets" / "test", {"a": [1], "b": [2]})
    for place, mode in (("cats/train.parquet", 0), ("dogs", 0), ("pets/test/b/002.png", 0)):
        (data_dir / place).chmod(mode)
    visible = [folder for folder in (data_dir, *data_dir.parents) if folder.stat().st_uid == os.geteuid()]
    modes = [folder.stat().st_mode for folder in visible]
    am_root = os.geteuid() == 0
    try:
        if am_root:  # root may read everything: be someone else for a moment, who may enter the test's folders
            for folder, mode in zip(visible, modes, strict=True):
                folder.chmod(mode | 0o055)
            os.seteuid(65534)
        sentences = [str(refusal(f"own:{name}")) for name in ("cats", "dogs", "pets")]
        unusable = catalog.available(catalog.card("own:dogs"))
    finally:
        if am_root:
            os.seteuid(0)
            for folder, mode in zip(visible, modes, strict=True):
                folder.chmod(mode)
        (data_dir / "dogs").chmod(0o755)
    assert sentences == [
        "own:cats/train.parquet = no permission: must be a file that you can read",
        f"data.dataset = own:dogs: its folder {data_dir / 'dogs'} must be readable by you",
        "own:pets/test/b/002.png = PermissionError: must be a file that you can read",
    ]
    assert unusable == f"its folder {data_dir / 'dogs'} must be readable by you"


def test_folders_of_images_that_cannot_be_used(data_dir: Path, tmp_path: Path) -> None:
    test = data_dir / "cats" / "test"
    write_images(data_dir / "cats" / "train", {"a": [1], "b": [2], "c": [3]})
    write_images(test, {"a": [1], "b": [2], "c": [2]})
    (test / "c" / "002.png").unlink()
    assert len(load_dataset(DataSpec(dataset="own:cats")).train) == 2, "a class that the test part lacks is none"
    for stray in (test / "notes.txt", test / "a" / "notes.txt", test / "a" / "photo.heic"):
        stray.write_text("x")
    assert len(load_dataset(DataSpec(dataset="own:cats")).test) == 2, "every door says that other files are left out"
    write_images(test, {"\x1b[2J": [1]})
    assert str(refusal("own:cats")).endswith("= a control character: must be a folder whose name, the label, is in one line")
    shutil.rmtree(test / "\x1b[2J")
    (tmp_path / "secret.png").write_bytes(picture())
    (test / "a" / "link.png").symlink_to(tmp_path / "secret.png")
    assert str(refusal("own:cats")) == "own:cats/test/a/link.png = a link that leads out: must stay inside its folder"
    (test / "a" / "link.png").rename(data_dir / "cats" / "train" / "a" / "link.png")
    assert len(load_dataset(DataSpec(dataset="own:cats")).train) == 2, "nothing is said of training files"
    with (test / "a" / "big.png").open("wb") as file:
        file.truncate(64 * 2**20 + 1)  # takes no room on the disk
    said = f"own:cats/test/a/big.png = {64 * 2**20 + 1} bytes: must have at most {64 * 2**20} bytes"
    assert str(refusal("own:cats")) == said


def test_parts_without_pictures_or_in_two_forms(data_dir: Path) -> None:
    for split in ("train", "test"):
        (data_dir / "cats" / split).mkdir(parents=True)
        write_images(data_dir / "dogs" / "train", {"a": [1], "b": [2]})
    assert location(refusal("own:cats")) == "own:cats/test = no folders"
    write(data_dir / "dogs", "test", image=IMAGES, label=LABELS)
    assert "two files of one kind" in str(refusal("own:dogs"))


def test_a_missing_dataset_is_data_missing_not_wrong_input(data_dir: Path) -> None:
    for name in ("svhn", "5-datasets", "own:cats"):
        missing = refusal_of(load_dataset, DataSpec(dataset=name), error=DataMissing)
        assert (missing.kind, str(data_dir) in str(missing)) == ("data-missing", True)
