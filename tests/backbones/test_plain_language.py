"""The bundled language model without torch: its tokens, its texts, and its scores against transformers."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcl_core.backbones import causal, plain_language
from dpcl_core.backbones.plain_language import STOP_WORDS, Tokenizer
from dpcl_core.data.texts import KIND, KINDS, PADDING, STOP, TOKEN, Span, Texts
from tests.backbones import language_models

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


# Encoded texts: tokens, stop words and marked spans side by side.


STRING = "The card of Anna Lee is 4000 0012, in The Weeknd's city."
SPANS = (Span(12, 20, "NAME"), Span(24, 33, "CARD"), Span(38, 50, "D:public figure"))


def by_hand(string: str, spans: tuple[Span, ...], length: int) -> np.ndarray:
    """Character by character, token by token."""
    ready = plain_language.load_tokenizer("lm-tiny")
    ids, offsets = ready.encode(string)
    found = np.zeros((length, 3), np.int32)
    found[:, TOKEN] = PADDING
    for place, (token, (start, end)) in enumerate(list(zip(ids, offsets, strict=True))[:length]):
        left, right = end - 1, end
        while left > 0 and not string[left].isspace() and not string[left - 1].isspace():
            left -= 1
        while right < len(string) and not string[end - 1].isspace() and not string[right].isspace():
            right += 1
        kinds = [1 + KINDS.index(span.kind) for span in spans for spot in range(start, end) if span.start <= spot < span.end]
        found[place] = token, string[left:right].lower() in STOP_WORDS, kinds[-1] if kinds else 0
    return found


@pytest.mark.parametrize("length", [4, 16, 64])
def test_planes_are_those_of_a_walk_through_the_characters(length: int) -> None:
    strings = [STRING, "to be or not, to be", "12 of \U0001f600 שלום the", "it's", ""]
    spans = [SPANS, (), (Span(0, 2, "CODE"), Span(6, 7, "ADDRESS")), (), ()]
    found = plain_language.read(Texts(strings, spans), "lm-tiny", length)
    assert found.dtype == np.int32
    assert found.shape == (5, length, 3)
    for row, (string, marked) in enumerate(zip(strings, spans, strict=True)):
        np.testing.assert_array_equal(found[row], by_hand(string, marked, length))


def test_a_stop_word_inside_a_span_is_both() -> None:
    found = plain_language.read(Texts([STRING], [SPANS]), "lm-tiny", 64)[0]
    both = (found[:, STOP] == 1) & (found[:, KIND] > 0)
    assert both.sum() == len(plain_language.load_tokenizer("lm-tiny").encode(" The")[0])


def test_only_whole_words_are_stop_words() -> None:
    found = plain_language.read(Texts(["to them, Theodor and, and ANd"]), "lm-tiny", 64)[0]
    shown = [plain_language.load_tokenizer("lm-tiny").shown(token) for token in found[found[:, TOKEN] != PADDING, TOKEN]]
    stopped = "".join(text for text, stop in zip(shown, found[:, STOP], strict=False) if stop)
    assert stopped == "to and ANd"


def test_texts_without_marks_have_no_kinds_and_none_are_read_too() -> None:
    assert not plain_language.read(Texts([STRING]), "lm-tiny", 64)[:, :, KIND].any()
    assert plain_language.read(Texts([]), "lm-tiny", 64).shape == (0, 64, 3)


def test_ten_times_as_many_texts_take_about_ten_times_as_many_steps() -> None:
    """Steps are calls of functions: their number is the same on any machine, however busy it is."""
    plain_language.load_tokenizer("lm-tiny")
    steps = []
    for count in (150, 1500):
        texts = Texts([f"{STRING} Number {row}. " * 3 for row in range(count)], [SPANS] * count)
        calls: list[str] = []
        sys.setprofile(lambda _, event, __, calls=calls: calls.append(event) if event in ("call", "c_call") else None)
        try:
            plain_language.read(texts, "lm-tiny", 64)
        finally:
            sys.setprofile(None)
        steps.append(len(calls))
    assert 5 * steps[0] < steps[1] < 15 * steps[0]


def test_stop_words_are_lower_case_and_no_surnames() -> None:
    assert all(word == word.lower() for word in STOP_WORDS)
    assert not {"will", "may", "grace", "young", "long", "price", "hope"} & STOP_WORDS
    assert {"the", "of", "and", "is", "not"} <= STOP_WORDS


# Tokens and the characters they were made of, for any text there is.


ODD = ["", " ", "a", "\U0001f600 smile \U0001f469\u200d\U0001f680", "שלום עולם 12", "مرحبا", "x\ud83dy", "\x00\n\t", "Ω≈ç√"]


@pytest.fixture(scope="module")
def bundled() -> Tokenizer:
    return plain_language.load_tokenizer("lm-tiny")


@pytest.mark.parametrize("string", ODD)
def test_every_character_of_any_text_is_in_a_token(bundled: Tokenizer, string: str) -> None:
    ids, offsets = bundled.encode(string)
    covered = {place for start, end in offsets for place in range(start, end)}
    assert covered == set(range(len(string)))
    assert all(0 <= token < bundled.size for token in ids)
    assert not {bundled.bos, bundled.eos} & set(ids)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_offsets_run_through_the_text_in_order(string: str) -> None:
    _, offsets = plain_language.load_tokenizer("lm-tiny").encode(string)
    assert all(start < end for start, end in offsets)
    assert offsets == sorted(offsets)
    assert (offsets[0][0], offsets[-1][1]) == (0, len(string)) if string else offsets == []


def test_tokens_are_shown_as_they_stand_in_the_text(bundled: Tokenizer) -> None:
    string = "Your code is 4711, says Anna O'Neil of 12 Elm St."
    ids, offsets = bundled.encode(string)
    assert [bundled.shown(token) for token in ids] == [string[start:end] for start, end in offsets]
    assert bundled.shown(bundled.encode("\U0001f600")[0][0]) == "�"


def test_every_digit_is_a_token_of_its_own(bundled: Tokenizer) -> None:
    ids, _ = bundled.encode("card 4000001234567890, born 1987-11-02, flat 7b")
    digits = [bundled.shown(token) for token in ids if any(letter.isdigit() for letter in bundled.shown(token))]
    assert "".join(digits) == "4000001234567890198711027"
    assert all(len(shown) == 1 for shown in digits)
    assert len({bundled.encode(str(digit))[0][0] for digit in range(10)}) == 10


def test_a_text_that_spells_a_mark_does_not_make_one(bundled: Tokenizer) -> None:
    for mark in (plain_language.START, plain_language.END):
        ids, _ = bundled.encode(f"before {mark} after")
        assert not {bundled.bos, bundled.eos} & set(ids)
    assert bundled.bos != bundled.eos


def test_a_mark_of_a_model_of_the_hub_is_read_as_letters_too() -> None:
    inner = language_models.tokenizer()
    end = inner.token_to_id("<|endoftext|>")
    assert end == language_models.SIZE - 1
    assert end in inner.encode("a <|endoftext|>").ids
    assert end not in Tokenizer(inner, end, end).encode("a <|endoftext|>")[0]


def test_all_at_once_is_one_by_one(bundled: Tokenizer) -> None:
    assert bundled.encode_all(ODD) == [bundled.encode(string) for string in ODD]


def test_a_hundred_thousand_characters_are_encoded(bundled: Tokenizer) -> None:
    ids, offsets = bundled.encode("A word or two, 12 of them. " * 3704)
    assert offsets[-1][1] == 3704 * 27 > 100_000
    assert len(ids) > 10_000
