"""Encoded texts: tokens, stop words and marked spans side by side."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpcl_core.backbones import plain_language
from dpcl_core.backbones.plain_language import STOP_WORDS
from dpcl_core.data.texts import KIND, KINDS, PADDING, STOP, TOKEN, Span, Texts

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
