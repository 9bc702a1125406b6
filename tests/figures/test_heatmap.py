"""What the heatmap is drawn from: the text as it is, in spans and shades, and numbers that never contradict their shades."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from dpcl_core.figures.tokens import NO_NUMBER, document, legend, number, ranges


def made(tokens: list[str], kinds: list[str] | None = None, shades: list[int] | None = None) -> Any:
    n = len(tokens)
    told = document(tokens, shades or [0] * n, ["0.5"] * n, kinds or [""] * n, legend=[], label="a text")
    return json.loads(json.dumps(told))  # as the browser gets it


@pytest.mark.parametrize(
    "tokens",
    [
        ["Dear", " team", ","],
        ["<script>", " alert('1')", "</script>"],
        ['" onmouseover="', "x&amp;", "&lt;"],
        ["שלום", " עולם"],
        [" a", " 😀", "", "", " b"],
        ["\n", "\n", " ", "  x"],
        [" "],
    ],
)
def test_the_text_stays_as_it_is_with_one_shade_a_token(tokens: list[str]) -> None:
    told = made(tokens, ["NAME", *[""] * (len(tokens) - 1)])
    parts = told["text"]["tokens"]
    assert ["".join(part) for part in parts] == tokens
    assert all(not blank.strip(" ") for blank, _ in parts)
    assert all(word == word.lstrip(" ") or not word.strip(" ") for _, word in parts), "blanks belong to no shade"
    assert len(told["layer"]["names"]) == len(told["layer"]["numbers"]) == len(tokens)


def test_another_layer_is_the_same_text() -> None:
    one, other = made(["Hi", " Grace"], ["", "NAME"], [0, 4]), made(["Hi", " Grace"], ["", "NAME"], [2, -1])
    assert one["text"] == other["text"]
    assert one["layer"]["names"] == ["t0", "t4"]
    assert other["layer"]["names"] == ["t2", "quiet"]


def test_a_span_is_outlined_once_and_look_alikes_otherwise() -> None:
    told = made(["Hi", " Grace", " O", "kafor", " in", " Basel"], ["", "NAME", "NAME", "NAME", "", "D:city"])
    assert told["text"]["spans"] == [[1, 4, "private"], [5, 6, "lookalike"]]
    assert told["layer"]["numbers"] == ["0.5", *["0.5 · NAME"] * 3, "0.5", "0.5 · city"]


def test_spans_beside_each_other_stay_apart() -> None:
    told = made(["Grace", " Basel", " 4711"], ["NAME", "D:city", "ID"])
    assert told["text"]["spans"] == [[0, 1, "private"], [1, 2, "lookalike"], [2, 3, "private"]]


def test_what_has_no_number_says_so() -> None:
    assert number(math.nan, (1, 2, 3, 4)) == NO_NUMBER
    assert made(["the"], shades=[-1])["layer"]["names"] == ["quiet"]
    assert ["i", "quiet", "stop word: no noise"] in legend(["a"] * 5, has_spans=False, has_stops=True)
    assert made(["é", ""], shades=[1, 2])["layer"]["names"] == ["t1", "t2 part"], "the rest of a character has no letters"


def test_a_number_stays_on_its_side_of_every_edge() -> None:
    edges = (0.2, 0.4, 0.6, 0.8)
    assert number(0.5996, edges) == "0.5996"
    for value in [*np.random.default_rng(0).random(500).tolist(), *(edge - 1e-7 for edge in edges), *edges]:
        shown = float(number(value, edges))
        assert [shown >= edge for edge in edges] == [value >= edge for edge in edges]
    weights = (4e-7, 0.1, 0.2, 0.3)
    for value in (1.0, 1.0999999, 1.1, 0.9, 0.9000001, 0.6):
        shown = float(number(value, weights, 1.0))
        assert [abs(shown - 1) >= edge for edge in weights] == [abs(value - 1) >= edge for edge in weights]


def test_ranges_follow_the_shades() -> None:
    assert ranges((1, 2, 3, 4), falling=False) == ["below 1", "1 to 2", "2 to 3", "3 to 4", "4 and more"]
    assert ranges((1, 2, 3, 4), falling=True)[0] == "4 and more"
