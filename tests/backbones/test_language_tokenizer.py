"""Tokens and the characters they were made of, for any text there is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcl_core.backbones import plain_language
from dpcl_core.backbones.plain_language import Tokenizer
from tests.backbones import language_models

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
