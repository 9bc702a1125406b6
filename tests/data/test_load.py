"""Loading: one door for every form a dataset comes in, and the same rows for everyone, by coins of their own bytes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcl_core.data import catalog, coins
from dpcl_core.data.card import Caps
from dpcl_core.data.dataset import Dataset, Images, Source, Split
from dpcl_core.data.load import load_dataset
from dpcl_core.data.outline import Outline, outline
from dpcl_core.data.rows import PublicFacts, Rows, usable_rows
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.data.making import picture, put, write, write_both, write_images, write_pair
from tests.support.asserting import refuses
from tests.support.waiting import python


def own(name: str = "cats", **settings: int) -> Dataset:
    return load_dataset(DataSpec(dataset=f"own:{name}", **settings))  # type: ignore[arg-type]


def greys(split: Split) -> list[int]:
    """The grey value of each image: which file row it was."""
    return [int(value) for batch in split.images.batches(4, 1, 100) for value in batch[:, 0, 0, 0]]


def test_digits_are_scikit_learns_in_proportion() -> None:
    from sklearn.datasets import load_digits

    digits, ours = load_digits(), load_dataset(DataSpec(dataset="digits"))
    assert (len(ours.train), len(ours.test), ours.title) == (1347, 450, "Handwritten digits")
    pixels = np.concatenate([ours.train.images.content, ours.test.images.content])
    labels = np.concatenate([ours.train.labels, ours.test.labels])
    assert pixels.shape == (1797, 8, 8, 1)
    as_rows = np.concatenate([pixels.reshape(1797, 64), labels[:, None]], axis=1)
    theirs = np.concatenate([digits.data * 15, digits.target[:, None]], axis=1).astype(int)
    np.testing.assert_array_equal(as_rows[np.lexsort(as_rows.T)], theirs[np.lexsort(theirs.T)])
    for split, share in ((ours.train, 0.75), (ours.test, 0.25)):
        np.testing.assert_allclose(np.bincount(split.labels), np.bincount(digits.target) * share, atol=6)


@pytest.mark.parametrize("form", ["bytes", "struct", "img", "large"])
def test_every_way_to_hold_image_files_reads_the_same(form: str, data_dir: Path) -> None:
    for split, labels in (("train", [1, 0, 2, 1]), ("test", [2, 1, 0])):
        files = [picture(10 * i) for i in range(len(labels))]
        column: object = files
        if form == "struct":
            column = [{"bytes": file, "path": f"{i}.png"} for i, file in enumerate(files)]
        elif form == "large":
            column = pa.array(files, pa.large_binary())
        names = ("img", "fine_label") if form == "img" else ("image", "label")
        write(data_dir / "cats", split, **dict(zip(names, (column, labels), strict=True)))
    found = own()
    assert (found.title, found.classes) == ("cats (own data)", ("0", "1", "2"))
    assert (found.train.labels.tolist(), found.test.labels.tolist()) == ([1, 0, 2, 1], [2, 1, 0])
    assert (greys(found.train), greys(found.test)) == ([0, 10, 20, 30], [0, 10, 20])
    assert found.train.labels.dtype == np.int64


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64()])
def test_labels_may_be_whole_numbers_of_any_width(kind: pa.DataType, data_dir: Path) -> None:
    write_both(data_dir / "cats", image=[picture()] * 2, label=pa.array([1, 0], kind))
    assert own().train.labels.tolist() == [1, 0]


def test_shards_are_read_in_order(data_dir: Path) -> None:
    for shard, labels in ((1, [1]), (0, [0, 1]), (2, [0])):
        images = [picture(50 * shard + i) for i in range(len(labels))]
        write(data_dir / "cats", f"train-0000{shard}-of-00003", image=images, label=labels)
    write(data_dir / "cats", "test", image=[picture()] * 2, label=[0, 1])
    found = own()
    assert (greys(found.train), found.train.labels.tolist()) == ([0, 1, 50, 100], [0, 1, 1, 0])
    rows = [(0, 0), (0, 1), (1, 0), (2, 0)]
    assert found.train.images.origins == [f"own:cats/train-0000{shard}-of-00003.parquet row {row}" for shard, row in rows]


def test_a_folder_of_images_has_its_folders_as_classes(data_dir: Path) -> None:
    write_images(data_dir / "cats" / "train", {"tabby": [7, 5], "siamese cat": [3], "Ünal": [9]})
    write_images(data_dir / "cats" / "test", {"tabby": [2], "siamese cat": [4], "Ünal": [8]})
    (data_dir / "cats" / "train" / ".DS_Store").write_bytes(b"x")
    (data_dir / "cats" / "train" / "tabby" / ".DS_Store").write_bytes(b"x")
    found = own()
    assert found.classes == ("siamese cat", "tabby", "Ünal")
    assert (greys(found.train), found.train.labels.tolist()) == ([3, 5, 7, 9], [0, 1, 1, 2])
    assert (greys(found.test), found.test.labels.tolist()) == ([4, 2, 8], [0, 1, 2])
    assert found.train.images.origins[1] == "own:cats/train/tabby/005.png"


def test_class_names_come_from_the_name_column_or_the_hubs_header(data_dir: Path) -> None:
    write_pair(data_dir / "cats", [1, 0, 1], [0, 1], label_name=["manx", "tabby"])
    assert own().classes == ("manx", "tabby")
    for split in ("train", "test"):
        table = pa.table({"image": [picture()] * 2, "label": [0, 1]})
        header = {"info": {"features": {"label": {"names": ["pug", "boxer"], "_type": "ClassLabel"}}}}
        (data_dir / "dogs").mkdir(exist_ok=True)
        metadata = {"huggingface": json.dumps(header)}
        pq.write_table(table.replace_schema_metadata(metadata), data_dir / "dogs" / f"{split}.parquet")
    assert own("dogs").classes == ("pug", "boxer")


def test_styles_become_sources_that_can_hold_every_class(data_dir: Path) -> None:
    for split, styles in (("train", ["sketch", "art", "sketch"]), ("test", ["art", "sketch", "art"])):
        write(data_dir / "cats", split, image=[picture(i) for i in range(3)], label=[0, 1, 1], domain=styles)
    found = own()
    assert found.sources == (Source("art", (0, 1)), Source("sketch", (0, 1)))
    assert found.train.sources.tolist() == [1, 0, 1]
    assert catalog.facts("own:cats").sources == ("art", "sketch")


def test_rows_are_found_across_row_groups_and_pieces(data_dir: Path) -> None:
    """70 rows in two pieces, in row groups of 9: a subset's images are those of the very rows that were kept."""
    labels = np.random.default_rng(2).integers(0, 3, 70).tolist()
    files = [picture(row) for row in range(70)]
    for piece, (start, end) in enumerate([(0, 40), (40, 70)]):
        rows = pa.table({"image": files[start:end], "label": labels[start:end]})
        (data_dir / "cats").mkdir(exist_ok=True)
        pq.write_table(rows, data_dir / "cats" / f"train-0000{piece}-of-00002.parquet", row_group_size=9)
    write(data_dir / "cats", "test", image=files[:3], label=[0, 1, 2])
    assert greys(own().train) == list(range(70))
    some = own(train_per_class=2).train  # nominally of four
    assert 0 < len(some) < 70
    assert [labels[row] for row in greys(some)] == some.labels.tolist()
    shown = [f"own:cats/train-0000{row // 40}-of-00002.parquet row {row % 40}" for row in greys(some)]
    assert some.images.origins == shown


def test_a_missing_public_image_is_named_by_its_row_in_the_file(data_dir: Path) -> None:
    write(data_dir / "cats", "train", image=[picture()], label=[0])
    rows = pa.table({"image": [*[picture()] * 15, None], "label": [0] * 16})
    pq.write_table(rows, data_dir / "cats" / "test.parquet", row_group_size=5)
    refuses(r"^own:cats/test\.parquet row 15, image = nothing: ", own)


def test_pixel_lists_are_read_as_the_pixels_they_say(data_dir: Path) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (3, 2, 4, 3))
    for split in ("train", "test"):
        write(data_dir / "whole", split, image=whole.tolist(), label=[0, 1, 2])
        write(data_dir / "parts", split, image=(whole / 255).tolist(), label=[0, 1, 2])
        write(data_dir / "grey", split, image=whole[..., 0].tolist(), label=[0, 1, 2])
    np.testing.assert_array_equal(own("whole").train.images.content, whole)
    np.testing.assert_array_equal(own("parts").train.images.content, whole)
    np.testing.assert_array_equal(own("grey").train.images.content, whole[..., :1])
    assert own("whole").train.images.shape == (2, 4, 3)


def test_flat_pixel_lists_take_the_shape_of_the_card(data_dir: Path) -> None:
    flat = np.random.default_rng(0).integers(0, 256, (10, 784), dtype=np.uint8)
    write_both(data_dir / "mnist", image=pa.FixedSizeListArray.from_arrays(flat.ravel(), 784), label=range(10))
    found = load_dataset(DataSpec(dataset="mnist"))
    np.testing.assert_array_equal(found.train.images.content, flat.reshape(10, 28, 28, 1))
    assert found.title == "MNIST (subset: 10 of 60,000 training and 10 of 10,000 test images)"


def test_a_combined_set_keeps_each_members_labels_and_rows(data_dir: Path) -> None:
    members = catalog.card("5-datasets").members
    for place, name in enumerate(members):
        labels = [*range(10), *range(10)]
        side = (4 + place, 4)
        images = [picture(20 * place + i, side) for i in range(20)]
        write(data_dir / catalog.card(name).folder, "train", image=images, label=labels)
        write(data_dir / catalog.card(name).folder, "test", image=images[:10], label=labels[:10])
    found = load_dataset(DataSpec(dataset="5-datasets"))
    assert (len(found.train), len(found.test), found.n_people) == (100, 50, 100)
    assert [source.name for source in found.sources] == list(members)
    assert [source.classes for source in found.sources] == [tuple(range(10 * k, 10 * k + 10)) for k in range(5)]
    assert found.train.sources.tolist() == [k for k in range(5) for _ in range(20)]
    assert found.train.labels.tolist() == [10 * k + label for k in range(5) for _ in range(2) for label in range(10)]
    assert (greys(found.train), found.classes[13]) == (list(range(100)), "SVHN: 3")
    assert found.title == "5-Datasets (subset: 100 of 258,236 training and 50 of 59,777 test images)"
    thin = load_dataset(DataSpec(dataset="5-datasets", train_per_class=1))
    assert thin.n_people == 50
    alone = load_dataset(DataSpec(dataset="svhn", train_per_class=1))
    own_rows = np.flatnonzero(thin.train.sources == 1)
    assert greys(alone.train) == greys(thin.train.take(own_rows))  # a member's subset is the same within and without


def test_raw_and_encoded_members_join_without_loss(data_dir: Path) -> None:
    for name in catalog.card("5-datasets").members:
        images: object = [picture(i, (28, 28)) for i in range(10)]
        if name == "mnist":
            images = [[i] * 784 for i in range(100, 110)]
        write_both(data_dir / catalog.card(name).folder, image=images, label=range(10))
    assert greys(load_dataset(DataSpec(dataset="5-datasets")).train) == [*range(100, 110), *(list(range(10)) * 4)]


def test_an_undivided_set_is_divided_row_by_row_the_same_for_everyone(data_dir: Path) -> None:
    """ImageNet-R as the hub has it: one part, text codes for classes, names beside them."""
    codes = [f"n{label:05d}" for label in range(200)]
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(200), 40))
    columns = {
        "wnid": [codes[label] for label in labels],
        "class_name": [f"thing {199 - label}" for label in labels],
        "image": [{"bytes": picture(row % 256, (1 + row // 256, 4)), "path": None} for row in range(8000)],
    }
    write(data_dir / "imagenet_r", "train", **columns)
    found = load_dataset(DataSpec(dataset="imagenet-r"))
    assert abs(len(found.test) - 1600) < 215, "six standard deviations of a binomial of 8,000 at 0.2"
    assert found.classes[3] == "thing 196"
    said = f"{len(found.train):,} training and {len(found.test):,} test images of 30,000"
    assert found.title == f"ImageNet-R (subset: {said})"
    rows = [int(origin.rpartition(" ")[2]) for split in (found.train, found.test) for origin in split.images.origins or ()]
    assert sorted(rows) == list(range(8000))
    np.testing.assert_array_equal(labels[rows], np.concatenate([found.train.labels, found.test.labels]))
    again = load_dataset(DataSpec(dataset="imagenet-r", train_per_class=3))
    assert set(again.train.images.origins or ()) < set(found.train.images.origins or ())


def test_a_subset_is_nested_and_in_the_files_order(data_dir: Path) -> None:
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [30, 20, 5])).tolist()
    write_pair(data_dir / "cats", labels, labels)
    some, more = own(train_per_class=8, test_per_class=2), own(train_per_class=12)
    assert np.bincount(some.test.labels).tolist() == [2, 2, 2]
    assert (some.n_people, more.n_people) == (24, 36), "nominal: four for each test example, by class"
    assert set(greys(some.train)) < set(greys(more.train))
    assert greys(some.train) == sorted(greys(some.train))
    assert [labels[row] for row in greys(some.train)] == some.train.labels.tolist()
    assert some.title == "cats (own data; subset: 24 of 220 training and 6 of 55 test images)"


def test_facts_and_load_agree(data_dir: Path) -> None:
    write_pair(data_dir / "cats", [0, 1, 1, 2, 2, 2], [2, 1, 0, 0], label_name=["a", "b", "c"])
    for name in ("own:cats", "digits"):
        for caps in ((None, None, None), (1, None, None), (2, 1, None), (100, 100, None), (None, 1, 5), (None, None, 900)):
            asked = DataSpec(dataset=name, train_per_class=caps[0], test_per_class=caps[1], train_per_source=caps[2])
            facts, found = catalog.facts_of(asked), load_dataset(asked)
            assert facts == catalog.facts(name, catalog.Caps(*caps))
            assert (facts.title, facts.n_train, facts.n_test) == (found.title, found.n_people, len(found.test))
            assert (facts.classes, facts.sources, facts.n_classes) == (found.classes, (), len(found.classes))


# Which rows are usable: each is judged alone, whatever its reader raises.


class Reader:
    """Raises for row 3 what no reader should, and for row 5 what it may."""

    has_sources = False

    def __len__(self) -> int:
        return 8

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        if 3 in rows:
            raise OverflowError("it quotes the row")
        if 5 in rows:
            raise BadInput("row 5", "x", "must be y")
        return Rows(rows, {}, None)


def test_an_unforeseen_error_of_one_row_leaves_out_that_row_alone() -> None:
    refused: dict[int, BadInput] = {}
    assert usable_rows(Reader(), np.arange(8), None, refused).tolist() == [0, 1, 2, 4, 6, 7]
    said = [str(one) for one in refused.values()]
    assert said == ["row 3 = OverflowError: must be a row that can be read", "row 5 = x: must be y"]


def test_an_unforeseen_error_of_one_private_picture_makes_it_black(monkeypatch: pytest.MonkeyPatch) -> None:
    content, whole = [picture(9), picture(7), picture(8)], Images._decoded

    def decoded(self: Images, row: int, *rest: object) -> NDArray[np.uint8]:
        if row == 1:
            raise ZeroDivisionError
        return whole(self, row, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Images, "_decoded", decoded)
    (seen,) = Images(content, (4, 4, 1), is_private=True).batches(None, 1, 3)
    assert seen.max(axis=(1, 2, 3)).tolist() == [9, 0, 8]
    with pytest.raises(ZeroDivisionError):
        list(Images(content, (4, 4, 1)).batches(None, 1, 3))


NO_ARROW = """
import sys
sys.modules["pyarrow"] = None
from dpcl_core.data.load import load_dataset
from dpcl_core.spec import DataSpec
for name in sys.argv[1:]:
    found = load_dataset(DataSpec(dataset=name), undeclared=True)
    print(name, found.classes, *((part.images.digest(), part.labels.tolist()) for part in (found.train, found.test)))
    print(found.train.keys.tolist())
"""
CELLS = ["3", "3.0", "1,5", "true", "", "2024-01-02 00:00:00", "a: b", "7.25", "no", "x"]


def test_csv_and_json_lines_need_no_arrow(data_dir: Path) -> None:
    """With it and without it they have the same cells and coins."""
    names = ("x", "label", "who", "note")
    values = [(CELLS[row % 10], "ab"[row % 2], f"p{row % 30}", f"text {row}") for row in range(90)]
    rows = [dict(zip(names, one, strict=True)) for one in values]
    lines = [";".join(rows[0]), *(";".join(row.values()) for row in rows), 'broken;"']
    contents = {"all.csv": "\n".join(lines), "all.jsonl": "\n".join(map(json.dumps, rows)) + "\n[]"}
    schemas = {"plain": "", "people": 'person = "who"\n', "texts": 'text = "note"\n'}
    made = []
    for file, content in contents.items():
        for of, more in schemas.items():
            made.append(f"own:{of}-{file[4:]}")
            folder = data_dir / made[-1].removeprefix("own:")
            put(folder / file, content)
            put(folder / "schema.toml", f'[columns]\ntarget = "label"\n{more}')
    told = python("-c", NO_ARROW, *made)
    assert told == python("-c", NO_ARROW.replace('sys.modules["pyarrow"] = None', "import pyarrow"), *made)
    assert told.count("own:") == len(made)


# The real datasets: as many rows and classes as their makers wrote down, balanced subsets, titles that say subset.


COUNTS = {
    "mnist": (20_000, 4_000, 10, (28, 28, 1)), "fashion-mnist": (10_000, 2_500, 10, (28, 28, 1)),
    "notmnist": (6_800, 1_700, 10, (28, 28, 1)), "mnist-m": (6_000, 1_500, 10, (32, 32, 3)),
    "cifar10": (20_000, 2_000, 10, (32, 32, 3)), "cifar100": (30_000, 4_000, 100, (32, 32, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_rows_classes_and_shapes(name: str, real_data: Path) -> None:
    n_train, n_test, n_classes, shape = COUNTS[name]
    found = load_dataset(DataSpec(dataset=name))
    assert (len(found.train), len(found.test), found.n_people) == (n_train, n_test, n_train)
    assert np.bincount(found.train.labels).tolist() == [n_train // n_classes] * n_classes
    assert np.bincount(found.test.labels).tolist() == [n_test // n_classes] * n_classes
    (batch,) = found.test.images.take(np.arange(20)).batches(None, shape[2], 20)  # type: ignore[arg-type]
    assert batch.shape == (20, *shape)
    assert batch.std() > 30
    assert "subset: " in found.title
    facts = catalog.facts(name)
    assert (facts.n_train, facts.n_test, facts.n_classes, facts.title) == (n_train, n_test, n_classes, found.title)
    assert facts.is_here


def test_pacs_has_seven_classes_in_three_styles(real_data: Path) -> None:
    found = load_dataset(DataSpec(dataset="pacs"))
    assert np.bincount(found.train.labels).tolist() == [432, 432, 432, 396, 432, 352, 416]
    assert np.bincount(found.test.labels).tolist() == [108, 108, 108, 98, 107, 88, 104]
    assert [source.name for source in found.sources] == ["art_painting", "cartoon", "sketch"]
    assert np.bincount(found.train.sources).tolist() == [1008, 972, 912]
    assert found.title == "PACS (stands in for ImageNet-R; subset: 2,892 training and 721 test images of 9,991)"


def test_five_datasets_with_the_stand_in(real_data: Path) -> None:
    found = load_dataset(DataSpec(dataset="5-datasets-mnist-m", train_per_class=300, test_per_class=20))
    assert found.n_people == 15_000
    assert np.abs(np.bincount(found.train.labels) - 300).max() < 6 * 17.4, "six standard deviations"
    assert np.bincount(found.test.labels).tolist() == [20] * 50
    np.testing.assert_array_equal(found.train.sources, found.train.labels // 10)
    assert found.title == (
        "5-Datasets with MNIST-M (stands in for 5-Datasets with SVHN; "
        "subset: 15,000 of 243,980 training and 1,000 of 42,746 test images)"
    )
    assert next(found.train.images.batches(32, 3, 64)).shape == (64, 32, 32, 3)


def test_train_and_test_share_no_picture(real_data: Path) -> None:
    for name in ("digits", "cifar10"):
        found = load_dataset(DataSpec(dataset=name))
        train, test = ({bytes(image) for image in split.images.content} for split in (found.train, found.test))
        assert not train & test


def test_svhn_and_imagenet_r_are_not_passed_off(real_data: Path) -> None:
    for name, needs in (("svhn", "svhn"), ("imagenet-r", "imagenet_r"), ("5-datasets", "svhn")):
        assert (catalog.available(catalog.card(name)) is None) == (real_data / needs).exists()


# Divisions and subsets: a public coin of each row's own bytes, so that one record moves no other.


def tossed(texts: list[str], purpose: int = 0) -> list[float]:
    return coins.tossed(coins.keys(text.encode() for text in texts), np.random.default_rng(purpose)).tolist()


@given(st.lists(st.text(max_size=8)), st.text(max_size=8), st.integers(0, 20), st.integers(0, 2**32))
def test_a_coin_is_a_function_of_its_own_bytes(texts: list[str], new: str, place: int, purpose: int) -> None:
    before, after = tossed(texts, purpose), tossed([*texts[:place], new, *texts[place:]], purpose)
    del after[min(place, len(texts))]
    assert before == after
    assert all(0 <= coin < 1 for coin in before)


def test_coins_are_a_public_constant() -> None:
    assert coins.keys([b"", b"a", b"b"]).tolist() == [5637654507939693775, 9020665960377648738, 8002805881223405046]
    assert [round(coin, 6) for coin in tossed(["", "a", "b"], 7)] == [0.599577, 0.096515, 0.245412]


def test_coins_are_uniform_and_purposes_share_none() -> None:
    """20,000 coins in 50 cells, and pairs of two purposes in 7 x 7: chi-square of 49 and 48 degrees of freedom exceeds 117
    with probability 2e-7."""
    numbers = [str(i) for i in range(20_000)]
    one, two = np.array(tossed(numbers, 1)), np.array(tossed(numbers, 2))
    assert ((np.bincount((one * 50).astype(int), minlength=50) - 400) ** 2 / 400).sum() < 117
    pairs = np.histogram2d(one, two, bins=7, range=[[0, 1], [0, 1]])[0]
    assert ((pairs - 20_000 / 49) ** 2 / (20_000 / 49)).sum() < 117


ROWS = [(f"review number {i} of {'many' * (i % 3)}", ("bad", "good")[i % 2]) for i in range(400)]


def parts(folder: Path, rows: list[tuple[str, str]], train_per_class: int | None = None) -> tuple[set[str], set[str]]:
    """The texts of both parts of one CSV file."""
    lines = [f"{text},{label}" for text, label in rows]
    put(folder / "mine" / "all.csv", "\n".join(["text,label", *lines]) + "\n")
    found = load_dataset(DataSpec(dataset="own:mine", train_per_class=train_per_class))
    train, test = found.train.images, found.test.images
    return set(train.strings), set(test.strings)


@pytest.mark.parametrize("place", [0, 7, 200, 400])
@pytest.mark.parametrize("label", ["bad", "good"])
def test_one_row_more_in_a_file_moves_no_other_row(data_dir: Path, place: int, label: str) -> None:
    """The attack: under a division by rank another row went to the test part, so that two training rows changed."""
    before = parts(data_dir, ROWS)
    assert before[0] | before[1] == {text for text, _ in ROWS}
    for new in ("brand new", "another one", "and one more"):
        after = parts(data_dir, [*ROWS[:place], (new, label), *ROWS[place:]])
        assert (after[0] - {new}, after[1] - {new}) == before


def test_one_training_row_more_moves_no_other_in_or_out_of_a_subset(data_dir: Path) -> None:
    whole = parts(data_dir, ROWS)
    before = parts(data_dir, ROWS, 40)
    assert before[0] < whole[0]
    new = next(text for text in ("new", "newer", "newest", "still newer") if tossed([text], coins._DIVISION)[0] >= 0.2)
    assert parts(data_dir, [(new, "bad"), *ROWS], 40)[0] - {new} == before[0]


def digits() -> Outline:
    return outline(catalog.card("digits"))


def test_a_subset_keeps_about_so_many_of_each_class() -> None:
    """Each class's count is binomial: six standard deviations are passed once in 5 x 10^8."""
    for cap in (20, 60, 100):
        whole, kept = digits(), digits().thinned(Caps(cap, 10))
        sizes, found = (np.bincount(part.train.labels.astype(np.intp)) for part in (whole, kept))
        chances = np.minimum(1, cap / (1347 * np.bincount(whole.test.labels.astype(np.intp)) / 450))
        spread = np.sqrt(sizes * chances * (1 - chances))
        assert (np.abs(found - sizes * chances) <= 6 * spread).all()
        assert kept.n_train == whole.n_kept(Caps(cap)) == 10 * cap, "the nominal number is exact, and public"
        assert np.bincount(kept.test.labels.astype(np.intp)).tolist() == [10] * 10, "the test part is public"


def test_a_cap_of_sources_keeps_about_so_many_of_each_whatever_their_classes() -> None:
    """Counts are binomial (six standard deviations); the nominal number says nothing of the coins."""
    card = catalog.card("har-wisdm")
    if catalog.available(card):
        pytest.skip("har-wisdm is not here")
    whole = outline(card)
    kept = whole.thinned(Caps(train_per_source=300))
    assert kept.n_train == whole.n_kept(Caps(train_per_source=300)) == 300 * len(whole.sources)
    sizes, found = (np.bincount(part) for part in (whole.train.sources, kept.train.sources))
    nominal = whole.n_train * np.bincount(whole.test.sources) / len(whole.test.sources)
    chances = 300 / nominal
    assert (np.abs(found - sizes * chances) <= 6 * np.sqrt(sizes * chances * (1 - chances))).all()
    assert digits().n_kept(Caps(train_per_source=100)) == 100, "without sources the dataset is one"
    assert digits().n_kept(Caps(train_per_source=10_000)) == 1347


def test_a_subset_is_no_beginning_of_the_file() -> None:
    """Kept rows lie all over the file: their mean place has a standard error of sqrt(1/12 / n) of the file's length."""
    rows = digits().thinned(Caps(50)).train.rows
    assert abs(rows.mean() / 1797 - 0.5) < 5 / math.sqrt(12 * len(rows))


@pytest.mark.parametrize("name", ["mnist", "har-wisdm", "ag_news", "ner-gum"])
def test_keys_tell_rows_apart_in_every_kind_of_file(name: str) -> None:
    """Of real files, where they are here: hardly two rows are the same, and a row's key is that of its bytes."""
    card = catalog.card(name)
    if catalog.available(card):
        pytest.skip(f"{name} is not here")
    keys = outline(card).train.keys()
    assert len(np.unique(keys)) > (2_000 if card.kind == "tagged" else 0.9 * len(keys))
