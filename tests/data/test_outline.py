"""Divisions and subsets: a public coin of each row's own bytes, so that one record moves no other."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.data import catalog, coins
from dpcl_core.data.card import Caps
from dpcl_core.data.load import load_dataset
from dpcl_core.data.outline import Outline, outline
from dpcl_core.spec import DataSpec


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
    (folder / "mine").mkdir(exist_ok=True)
    lines = [f"{text},{label}" for text, label in rows]
    (folder / "mine" / "all.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
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
