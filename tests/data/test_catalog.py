"""The catalog: cards that add up, sentences that say what to put where, names that reach nothing outside, downloads."""

import errno
import http.client
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import huggingface_hub
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import paths
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import card, catalog, files
from dpcl_core.data.card import CARDS, Caps, DatasetCard
from dpcl_core.data.catalog import Sizes, members, truthful_title
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import DataMissing
from dpcl_core.spec import DataSpec
from tests.data.making import picture, write, write_images, write_pair
from tests.support.asserting import raising, refuses
from tests.support.waiting import NEVER_SECONDS

FIVE = ("mnist", "svhn", "notmnist", "fashion-mnist", "cifar10")


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.name)
def test_every_card_adds_up(card: DatasetCard) -> None:
    assert card.summary.endswith(".")
    assert card.n_train > card.n_test > card.n_classes > 1
    assert not card.classes or len(set(card.classes)) == card.n_classes
    assert not card.is_balanced or card.n_train % card.n_classes == card.n_test % card.n_classes == 0
    assert card.hub or card.members or card.kind != "image" or card.name == catalog.BUNDLED
    assert "-" not in card.folder
    sizes = Sizes.published(card)
    assert sizes.totals == (card.n_train, card.n_test)
    assert np.ptp(sizes.train) <= 1


def test_an_unknown_dataset_is_refused_naming_the_known(data_dir: Path) -> None:
    refuses(r"^data.dataset = cifar11: did you mean cifar10\? It must be one of .*or own:NAME", catalog.card, "cifar11")


@pytest.mark.parametrize("name", ["../secret", "..", "a/b", "/etc", "", ".hidden", "a\0b", "~root", "a\\b", "x" * 200, "é"])
def test_no_name_reaches_outside(name: str, data_dir: Path) -> None:
    refuses(r"^data\.dataset = ", catalog.card, f"own:{name}")


def test_a_link_that_leads_out_is_refused(data_dir: Path, tmp_path: Path) -> None:
    write_pair(tmp_path / "elsewhere", [0, 1], [0, 1])
    (data_dir / "linked").symlink_to(tmp_path / "elsewhere")
    (data_dir / "half").mkdir()
    (data_dir / "half" / "train.parquet").symlink_to(tmp_path / "elsewhere" / "train.parquet")
    write(data_dir / "half", "test", image=[b"x"], label=[0])
    write_images(data_dir / "images" / "test", {"a": [1], "b": [2]})
    (data_dir / "images" / "train").symlink_to(tmp_path / "elsewhere")
    for name in ("linked", "half", "images"):
        refuses("must stay inside its folder", catalog.facts, f"own:{name}")


def test_a_dataset_that_is_not_here_says_what_to_put_where(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog.available(catalog.card("svhn")) == (
        f"put train.parquet and test.parquet (columns image and label), or folders train/CLASS and test/CLASS of images, "
        f"into {data_dir / 'svhn'}; it is not on this computer, and the Hugging Face hub cannot be reached"
    )
    of_mnist = str(catalog.available(catalog.card("mnist")))
    assert catalog.available(catalog.card("5-datasets")) == of_mnist.replace("put train", "for MNIST, put train")
    assert catalog.available(catalog.card("digits")) is None
    own = catalog.available(catalog.card("own:cats"))
    assert str(data_dir / "cats") in own
    assert "hub" not in own.lower()
    refuses(r"^data\.dataset = own:cats: put train.parquet", catalog.facts, "own:cats", error=DataMissing)
    monkeypatch.delenv("DPCL_DATA")
    assert f"{data_dir.parent / 'home' / 'hub' / 'svhn'};" in (catalog.available(catalog.card("svhn")) or "")
    assert f"{data_dir.parent / 'home' / 'data' / 'cats'};" in (catalog.available(catalog.card("own:cats")) or "")


def test_a_dataset_of_the_hub_is_usable_while_the_hub_answers(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "is_reachable", lambda: True)
    missing = [name for name in ("svhn", "5-datasets", "own:cats") if catalog.available(catalog.card(name)) is not None]
    assert missing == ["own:cats"]


def test_half_a_dataset_is_not_available(data_dir: Path) -> None:
    half = {"image": [b"x"], "label": [0]}
    for name, part in (("mnist", "train"), ("svhn", "test"), ("cifar10", "test"), ("cifar10", "train-00000-of-00003"),
                       ("cifar10", "train-00002-of-00003")):  # fmt: skip
        write(data_dir / name, part, **half)
    said = {name: catalog.available(catalog.card(name)) or "" for name in ("mnist", "svhn", "cifar10")}
    assert said["mnist"].count("that folder has no test part") == said["svhn"].count("that folder has no training part") == 1
    assert said["cifar10"].startswith("put all 3 pieces into")


def test_the_local_folder_comes_before_the_cache(data_dir: Path, tmp_path: Path) -> None:
    write_pair(tmp_path / "home" / "hub" / "mnist", list(range(10)), list(range(10)))
    assert catalog.facts("mnist").n_train == 10
    write_pair(data_dir / "mnist", list(range(10)) * 2, list(range(10)))
    assert catalog.facts("mnist").n_train == 20


def test_facts_follow_the_files_when_they_change(data_dir: Path) -> None:
    write_pair(data_dir / "cats", [0, 1], [0, 1])
    assert catalog.facts("own:cats").n_train == 8, "four for each test example: no training row is counted"
    write_pair(data_dir / "cats", [0, 1, 2, 2, 2], [0, 1, 2])
    assert (catalog.facts("own:cats").n_train, catalog.facts("own:cats").n_classes) == (12, 3)
    write_images(data_dir / "dogs" / "train", {"a": [1, 2], "b": [3]})
    write_images(data_dir / "dogs" / "test", {"a": [1], "b": [3]})
    assert catalog.facts("own:dogs").n_train == 8
    write_images(data_dir / "dogs" / "train", {"b": [4]})
    assert catalog.facts("own:dogs").n_train == 8


def test_facts_of_what_is_not_here_come_from_the_card(data_dir: Path) -> None:
    facts = catalog.facts("imagenet-r")
    assert (facts.n_train, facts.n_test, facts.n_classes, facts.classes, facts.is_here) == (24_000, 6_000, 200, None, False)
    facts = catalog.facts("cifar100", catalog.Caps(50, 1000))
    titled = "CIFAR-100 (subset: 50 of 500 training and all 100 test images a class)"
    assert (facts.n_train, facts.n_test, facts.title) == (5_000, 10_000, titled)
    facts = catalog.facts("5-datasets")
    assert (facts.n_classes, facts.sources, facts.title) == (50, FIVE, "5-Datasets")


def test_nominal_sizes_of_sources_come_from_cards_alone(data_dir: Path) -> None:
    """No file is there: FOMC's 1,984 texts are 661 or 662 of a class, of which at most 440 are kept."""
    sizes = catalog.source_sizes(DataSpec(dataset="pecl-six", train_per_class=440))
    n_classes = {"fomc": 3, "yelp": 5, "ag_news": 4, "amazon-stars": 5, "dbpedia14": 14}
    assert sizes == {**{name: 440 * n for name, n in n_classes.items()}, "dreaddit": 2838}
    capped = catalog.source_sizes(DataSpec(dataset="pecl-six", train_per_source=3000))
    assert capped == {**dict.fromkeys(sizes, 3000), "fomc": 1984, "dreaddit": 2838}, "as many as there are, 3,000 at most"
    made = DataSpec(dataset="pii-synthetic")
    assert set(catalog.source_sizes(made).values()) == {480}
    assert catalog.source_sizes(replace(made, train_per_class=10))["policy"] == 30
    assert set(catalog.source_sizes(replace(made, train_per_source=90)).values()) == {90}
    assert catalog.source_sizes(DataSpec()) == {}


# Titles: never more than what was read.


def even(n_train: int, n_test: int, n_classes: int) -> Sizes:
    return Sizes(np.full(n_classes, n_train), np.full(n_classes, n_test))


_TITLES = [
    ("cifar100", even(500, 100, 100), "CIFAR-100"),
    ("cifar100", even(300, 40, 100), "subset: 300 of 500 training and 40 of 100 test images a class"),
    ("cifar100", even(500, 99, 100), "subset: all 500 training and 99 of 100 test images a class"),
    ("mnist", even(2, 1, 10), "subset: 20 of 60,000 training and 10 of 10,000 test images"),
    ("mnist-m", Sizes.published(CARDS["mnist-m"]), "MNIST-M (stands in for SVHN)"),
    ("mnist-m", even(600, 150, 10), "SVHN; subset: 6,000 of 59,001 training and 1,500 of 9,001 test images"),
    ("mnist-m", even(6_000, 1_000, 10), "60,000 training and 10,000 test images instead of 59,001 and 9,001"),
    ("pacs", even(100, 10, 7), "PACS (stands in for ImageNet-R; subset: 700 training and 70 test images of 9,991)"),
    ("imagenet-r", even(119, 31, 200), "ImageNet-R"),  # divided by us: 30,000 in all, whatever the two counts
    ("own:cats", even(5, 2, 3), "cats (own data)"),
    # An uneven subset of a balanced set is told in totals.
    ("cifar100", Sizes(np.repeat([500, 499], [99, 1]), np.full(100, 100)),
     "CIFAR-100 (subset: 49,999 of 50,000 training and all 10,000 test images)"),
]


@pytest.mark.parametrize(("name", "sizes", "expected"), _TITLES)
def test_titles(name: str, sizes: Sizes, expected: str) -> None:
    card = catalog.card(name)
    found = truthful_title(card, [card], [sizes], [sizes])
    assert found.startswith(card.title)
    assert found.removesuffix(")").endswith(expected.removesuffix(")"))
    assert ("(" in found) == (expected != card.title)


def test_a_combined_set_says_so_when_one_member_is_short() -> None:
    dataset = catalog.card("5-datasets-mnist-m")
    of = members(dataset)
    full = [Sizes.published(member) for member in of]
    assert truthful_title(dataset, of, full, full) == "5-Datasets with MNIST-M (stands in for 5-Datasets with SVHN)"
    short = [*full[:4], even(4_999, 1_000, 10)]
    said = "subset: 243,970 of 243,980 training and all 42,746 test images"
    assert said in truthful_title(dataset, of, short, short)


@given(st.sampled_from(sorted(CARDS)), st.integers(1, 38), st.integers(1, 9))  # fewer than the smallest set has
def test_a_subset_never_has_the_full_sets_name(name: str, n_train: int, n_test: int) -> None:
    dataset: DatasetCard = catalog.card(name)
    of = members(dataset)
    full = [Sizes.published(member) for member in of]
    for caps in (Caps(n_train, n_test), Caps(train_per_source=n_train)):
        found = truthful_title(dataset, of, [Sizes.published(member, caps) for member in of], full)
        assert "subset: " in found
        assert not dataset.stands_in_for or f"stands in for {dataset.stands_in_for}" in found


def test_tagged_words_have_entity_f1_and_everything_else_accuracy() -> None:
    scores = {name: catalog.score(name) for name in CARDS}
    assert {name for name, score in scores.items() if score == "entity F1"} == {
        name for name, card in CARDS.items() if card.kind == "tagged"
    } != set()
    assert {catalog.score("own:gone"), catalog.score("nobody knows this one")} == {"accuracy"} < set(scores.values())


# Downloads: whole or not at all, found again without asking, and one sentence where there is none.


SVHN = DataSpec(dataset="svhn")


@pytest.fixture
def online(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub that is reachable and has SVHN in two training pieces, beside other files."""

    def download(repository: str, *, repo_type: str, allow_patterns: list[str], local_dir: Path) -> None:
        assert (repository, repo_type) == ("ufldl-stanford/svhn", "dataset")
        assert allow_patterns == ["cropped_digits/train-*.parquet", "cropped_digits/test-*.parquet"]
        folder = Path(local_dir) / "cropped_digits"
        for piece in (0, 1):
            images = [{"bytes": picture(10 * piece + i), "path": None} for i in range(10)]
            write(folder, f"train-0000{piece}-of-00002-abc", image=images, label=range(10))
        write(folder, "test-00000-of-00001", image=[picture()] * 10, label=range(10))
        write(Path(local_dir) / "full_numbers", "train-00000-of-00001", image=[b"no"], label=[0])

    monkeypatch.setattr(files, "is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return data_dir.parent / "home" / "hub"


def test_a_download_is_put_into_the_cache_and_found_again(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_dataset(SVHN)
    assert found.train.labels.tolist() == [*range(10), *range(10)]
    assert found.title == "SVHN (subset: 20 of 73,257 training and 10 of 26,032 test images)"
    assert [int(batch[0, 0, 0, 0]) for batch in found.train.images.batches(4, 1, 1)] == list(range(20))
    names = ["test-00000-of-00001.parquet", "train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    assert sorted(path.name for path in (online / "svhn").iterdir()) == names
    assert [path.name for path in online.iterdir()] == ["svhn"]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    monkeypatch.setattr(files, "is_reachable", lambda: False)
    assert len(load_dataset(SVHN).train) == 20
    assert catalog.available(catalog.card("svhn")) is None


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_download_without_the_files_leaves_nothing(is_lost: bool, online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, local_dir: Path, **__: object) -> None:
        write(Path(local_dir) / "cropped_digits", "other", image=[b"x"], label=[0])
        if is_lost:
            raise ConnectionError("lost")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(DataMissing, match=rf"did not give it \({'ConnectionError' if is_lost else 'FileNotFoundError'}\)$"):
        load_dataset(SVHN)
    assert list(online.iterdir()) == []


def test_a_full_disk_stays_a_full_disk(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", raising(OSError(errno.ENOSPC, "No space left on device")))
    refuses("No space left", load_dataset, SVHN, error=OSError)


def test_two_downloads_at_once_both_succeed(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = huggingface_hub.snapshot_download

    def slower(*args: object, **settings: object) -> None:
        ours(*args, **settings)  # type: ignore[arg-type]
        write(online / "svhn", "train", image=[picture()] * 10, label=range(10))
        write(online / "svhn", "test", image=[picture()] * 10, label=range(10))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", slower)
    assert len(load_dataset(SVHN).train) == 10
    assert [path.name for path in online.iterdir()] == ["svhn"]


def test_offline_nothing_is_asked(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_answers", lambda _: pytest.fail("asked the network although HF_HUB_OFFLINE is set"))
    refuses("it is not on this computer, and the Hugging Face hub cannot be reached", load_dataset, SVHN, error=DataMissing)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    files._answers.cache_clear()
    yield  # type: ignore[misc]
    files._answers.cache_clear()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("answer", "expected"), [
    (urllib.error.HTTPError("", 405, "", {}, None), True),  # type: ignore[arg-type]
    (urllib.error.URLError("no such host"), False),
    (TimeoutError(), False),
    (http.client.BadStatusLine("SSH-2.0-nothing"), False),
])
def test_what_counts_as_an_answer(answer: Exception, expected: bool, asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", raising(answer))
    assert files.is_reachable() is expected


def test_a_silent_network_costs_one_second_once(asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asks, never = list[int](), threading.Event()

    def slow(*_: object, **__: object) -> NoReturn:
        asks.append(1)
        never.wait(NEVER_SECONDS)
        raise OSError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", slow)
    monkeypatch.setattr(time, "monotonic", lambda: 1e6)
    assert not files.is_reachable()  # though no answer has come
    assert not files.is_reachable()
    never.set()
    assert asks == [1]


# Cards in TOML files: what they say of themselves where something in them is wrong, and that what they name is there.


SET = """
[letters]
title = "Letters"
summary = "Letters."
source = "made up"
licence = "none"
n_train = 10
n_test = 4
classes = ["a", "b"]
"""


@pytest.fixture
def cards_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the cards are read from instead."""
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    (tmp_path / "cards").mkdir()
    return tmp_path / "cards"


def test_what_follows_from_a_table(cards_folder: Path) -> None:
    more = """
[more-letters]
like = "letters"
title = "More letters"
n_train = 20
domains = ["upper", "lower"]

[all]
title = "All"
summary = "All."
source = "both"
licence = "none"
members = ["letters", "more-letters"]
titled_classes = true

[names]
like = "letters"
kind = "tagged"
classes = []
tags = ["person"]
limits = ["who is named"]
"""
    (cards_folder / "datasets.toml").write_text(SET + more, encoding="utf-8")
    found = card._catalogue()
    assert list(found) == ["letters", "more-letters", "all", "names"]
    assert (found["letters"].n_classes, found["letters"].limits) == (2, ())
    assert found["more-letters"].summary == "Letters."
    assert found["more-letters"].sources == (("upper", ("a", "b")), ("lower", ("a", "b")))
    assert (found["all"].n_train, found["all"].n_test, found["all"].n_classes) == (30, 8, 4)
    assert found["all"].classes == ("Letters: a", "Letters: b", "More letters: a", "More letters: b")
    assert found["all"].source == "both; Letters; More letters"
    assert found["names"].classes == ("O", "B-person", "I-person")
    assert found["names"].limits == (*card.LIMITS["tagged"], "who is named")


@pytest.mark.parametrize(("written", "said"), [
    (SET + "colour = 1", r"^datasets\.toml: letters\.colour = 1: no such setting"),
    (SET.replace("n_test = 4", ""), r"^datasets\.toml: letters\.n_test = None: must be given"),
    (SET.replace("n_test = 4", 'n_test = "four"'), r"^datasets\.toml: letters\.n_test = four: must be a valid integer"),
    (SET + "hub = { repository = 'a/b' }", r"^datasets\.toml: letters\.hub\.train = None: must be given"),
    (SET + "[more]\nlike = 'numbers'", r"^datasets\.toml: more\.like = numbers: must be the name of a table above"),
    (SET + "members = ['numbers']", r"^datasets\.toml: letters\.members = numbers: must be names of tables above"),
    ("letters = 3", r"^datasets\.toml: letters = 3: must be a table, such as \[letters\]"),
    ("[letters", r"^datasets\.toml = TOMLDecodeError: must be a TOML file: "),
    ('["timm:some.model"]\ntitle = "Some"', r"^backbones\.toml: timm:some\.model\.summary = None: must be given"),
])
def test_an_error_names_file_and_key(cards_folder: Path, written: str, said: str) -> None:
    for name in ("datasets", "backbones"):
        (cards_folder / f"{name}.toml").write_text(written, encoding="utf-8")
    refuses(said, backbones.read if "backbones" in said else card._catalogue)


@pytest.mark.parametrize("card", backbones.CARDS.values(), ids=lambda card: card.name)
def test_the_module_that_makes_a_backbone_is_there(card: backbones.BackboneCard) -> None:
    assert find_spec(card.module)
