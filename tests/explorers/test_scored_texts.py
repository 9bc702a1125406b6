"""Scored texts are the texts: tokens joined give them back, whatever the script; spans and stop words by the character."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import KIND, KINDS, STOP, TOKEN, Span, Texts
from dpcl_core.explorers import tokens
from dpcl_core.methods.language import sensitivity

STRINGS = (
    "Dear team, this is Grace Okafor from Tartu.",
    "x",
    "",
    "שלום עולם, مرحبا",
    "a 😀 and 👩‍👩‍👧 end",
    "two\n\nlines \t and   blanks ",
)


@pytest.mark.parametrize("string", STRINGS)
def test_tokens_joined_are_the_text(string: str) -> None:
    (found,) = tokens.scored(Texts([string]))
    assert "".join(found.tokens) == string
    n = len(found.tokens)
    assert n == len(found.probability) == len(found.commonness) == len(found.is_stop) == len(found.kinds)
    assert all(0 < p <= 1 for p in found.probability)


def test_a_text_is_scored_as_the_methods_read_it() -> None:
    """The reader's planes and the model itself, asked one text at a time, give the same."""
    span = Span(19, 31, "NAME")
    texts = Texts(list(STRINGS[:2]), [(span,), ()])
    planes = plain_language.read(texts, "lm-tiny", 40)
    score2 = np.linspace(-0.1, 0.3, plain_language.load_tokenizer("lm-tiny").size)
    for row, one in zip(planes, tokens.scored(texts, score2, ["calm", "other"]), strict=True):
        n = len(one.tokens)
        ids = row[:n, TOKEN]
        assert one.commonness == tuple(score2[ids].tolist())
        assert one.is_stop == tuple((row[:n, STOP] != 0).tolist())
        assert one.kinds == tuple(KINDS[kind - 1] if kind else "" for kind in row[:n, KIND].tolist())
        alone = plain_language.load().log_probabilities(ids[None, :])[0]
        assert np.log(one.probability) == pytest.approx(alone, abs=1e-4)
    assert tokens.scored(texts, score2, ["calm", "other"])[0].label == "calm"


def test_no_text_and_no_tokens() -> None:
    assert tokens.scored(Texts([])) == []
    (empty,) = tokens.scored(Texts([""]))
    assert empty.tokens == ()


def test_counts_are_those_of_each_task() -> None:
    ready = plain_language.load_tokenizer("lm-tiny")
    found = tokens.counted([Texts(["one two", "two"]), Texts(["three"])])
    for row, strings in zip(found, (("one two", "two"), ("three",)), strict=True):
        ids = [token for string in strings for token in ready.encode(string)[0]]
        assert np.array_equal(row, sensitivity.counts(np.array(ids), ready.size))
