"""The bundled model in NumPy against the same weights in transformers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import causal, plain_language
from dpcl_core.data.texts import PADDING

TOLERANCE, RELATIVE = 1e-5, 1e-6  # random tokens are down at -27 nats, where single precision ends


@pytest.fixture(scope="module")
def model() -> plain_language.PlainModel:
    return plain_language.load()


def drawn(n: int, length: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(2, plain_language.load().shape.size, (n, length))


@torch.no_grad()
def by_transformers(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """log P of every token of texts without padding, in double precision."""
    exact = copy.deepcopy(causal.load("lm-tiny")).double()
    marks = np.full((len(tokens), 1), plain_language.load_tokenizer("lm-tiny").bos)
    inputs = torch.from_numpy(np.concatenate([marks, tokens[:, :-1]], axis=1))
    scores = exact(input_ids=inputs).logits.log_softmax(-1)
    found: NDArray[np.float64] = scores.gather(2, torch.from_numpy(tokens)[:, :, None])[:, :, 0].numpy()
    return found


@pytest.mark.parametrize(("n", "length"), [(3, 1), (40, 17), (2, 256)])
def test_log_probabilities_are_those_of_transformers(model: plain_language.PlainModel, n: int, length: int) -> None:
    tokens = drawn(n, length)
    np.testing.assert_allclose(model.log_probabilities(tokens), by_transformers(tokens), atol=TOLERANCE, rtol=RELATIVE)


def test_probabilities_of_all_tokens_add_up_to_one(model: plain_language.PlainModel) -> None:
    tokens = np.concatenate([np.tile(drawn(1, 5), (model.shape.size, 1)), np.arange(model.shape.size)[:, None]], axis=1)
    assert np.exp(model.log_probabilities(tokens)[:, -1].astype(float)).sum() == pytest.approx(1, abs=1e-5)


def test_padding_changes_nothing_and_counts_zero(model: plain_language.PlainModel) -> None:
    tokens = drawn(6, 40)
    alone = [model.log_probabilities(row[None, : 5 * (place + 1)])[0] for place, row in enumerate(tokens)]
    for place in range(6):
        tokens[place, 5 * (place + 1) :] = PADDING
    together = model.log_probabilities(tokens)
    for place, row in enumerate(together):
        np.testing.assert_allclose(row[: 5 * (place + 1)], alone[place], atol=TOLERANCE, rtol=RELATIVE)
        assert not row[5 * (place + 1) :].any()


def test_a_texts_scores_have_the_same_bits_whoever_is_beside_it(model: plain_language.PlainModel) -> None:
    """They enter what a private text adds to a clipped sum; a neighbour with a longer or a shorter text changes nothing."""
    draw = np.random.default_rng(0)
    tokens = drawn(150, 300)
    for row, length in zip(tokens, draw.integers(1, 300, len(tokens)), strict=True):
        row[length:] = PADDING
    together = model.log_probabilities(tokens)
    for n in (1, 2, 50, 149):
        some = draw.permutation(len(tokens))[:n]
        np.testing.assert_array_equal(model.log_probabilities(tokens[some]), together[some])


def test_later_tokens_change_nothing_before_them(model: plain_language.PlainModel) -> None:
    one, other = drawn(1, 30), drawn(1, 30)
    other[0, 20:] = drawn(1, 10, seed=1)
    np.testing.assert_array_equal(model.log_probabilities(one)[0, :20], model.log_probabilities(other)[0, :20])


def test_long_texts_are_read_in_windows_half_of_which_is_new(model: plain_language.PlainModel) -> None:
    context = model.shape.context
    tokens = drawn(1, 3 * context + 17)
    found = model.log_probabilities(tokens)[0]
    np.testing.assert_allclose(found[:context], by_transformers(tokens[:, :context])[0], atol=TOLERANCE, rtol=RELATIVE)
    for end in range(context + context // 2, tokens.shape[1], context // 2):
        window = by_transformers(tokens[:, end - context : end])[0]
        np.testing.assert_allclose(found[end - context // 2 : end], window[-(context // 2) :], atol=TOLERANCE, rtol=RELATIVE)
    last = by_transformers(tokens[:, -context:])[0]
    np.testing.assert_allclose(found[-17:], last[-17:], atol=TOLERANCE, rtol=RELATIVE)
    assert (found < 0).all()


def test_no_text_and_empty_texts(model: plain_language.PlainModel) -> None:
    assert model.log_probabilities(np.zeros((0, 8), np.int64)).shape == (0, 8)
    assert not model.log_probabilities(np.full((3, 4), PADDING)).any()


def test_of_a_text_ten_times_as_long_about_ten_times_as_many_places_are_computed(
    model: plain_language.PlainModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In windows of the context at most; windows that grew with the text would have a hundred times as many places."""
    shapes: list[tuple[int, ...]] = []
    scored = plain_language.PlainModel._scored

    def noted(self: plain_language.PlainModel, targets: np.ndarray) -> np.ndarray:
        shapes.append(targets.shape)
        return scored(self, targets)

    monkeypatch.setattr(plain_language.PlainModel, "_scored", noted)
    places = []
    for length in (3_000, 30_000):
        shapes.clear()
        model.log_probabilities(drawn(1, length))
        places.append(sum(n * width for n, width in shapes))
        assert max(width for _, width in shapes) <= model.shape.context
    assert 5 * places[0] < places[1] < 15 * places[0]


def test_it_predicts_english_better_than_noise(model: plain_language.PlainModel) -> None:
    ready = plain_language.load_tokenizer("lm-tiny")
    text = np.array([ready.encode("He was born in the city and went to school there.")[0]])
    shuffled = np.random.default_rng(0).permutation(text[0])[None]
    assert model.log_probabilities(text).mean() > model.log_probabilities(shuffled).mean() + 1
    assert -model.log_probabilities(text).mean() < np.log(model.shape.size) - 1


def test_embeddings_are_the_models_own(model: plain_language.PlainModel) -> None:
    own = causal.load("lm-tiny").get_input_embeddings().weight.numpy()  # type: ignore[union-attr]
    np.testing.assert_array_equal(model.embeddings, own)
    assert model.embeddings.dtype == np.float32
