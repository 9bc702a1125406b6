"""The heatmap's own markup: it escapes everything, keeps the text as it is, and its numbers never contradict its shades."""

from __future__ import annotations

import math
import re
from html import unescape

import numpy as np
import pytest

from dpcl_core.figures import heatmap


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


def made(tokens: list[str], kinds: list[str] | None = None, shades: list[int] | None = None) -> str:
    n = len(tokens)
    return heatmap.markup(tokens, shades or [0] * n, ["0.5"] * n, kinds or [""] * n, label="a text")


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
def test_the_text_stays_as_it_is_and_nothing_of_it_is_markup(tokens: list[str]) -> None:
    markup = made(tokens, ["NAME", *[""] * (len(tokens) - 1)])
    assert text_of(markup) == "".join(tokens)
    assert set(re.findall(r"</?(\w+)", markup)) <= {"div", "span", "i"}
    assert markup.count('tabindex="0"') == len(tokens)


def test_text_in_labels_and_names_is_escaped_too() -> None:
    markup = heatmap.markup(["x"], [1], ['1"><b>'], [""], label='"><img src=x>')
    assert "<img" not in markup
    assert "<b>" not in markup


def test_a_span_is_outlined_once_and_look_alikes_otherwise() -> None:
    markup = made(["Hi", " Grace", " O", "kafor", " in", " Basel"], ["", "NAME", "NAME", "NAME", "", "D:city"])
    assert markup.count('class="private"') == 1
    assert markup.count('class="lookalike"') == 1
    assert '<span class="private"><i class="t0" tabindex="0" data-n="0.5 · NAME">Grace</i>' in markup
    assert 'data-n="0.5 · city">Basel</i>' in markup
    assert "</i> <span" in markup, "the blank before a span stays outside of it"


def test_what_has_no_number_says_so() -> None:
    assert heatmap.number(math.nan, (1, 2, 3, 4)) == heatmap.NO_NUMBER
    assert 'class="quiet"' in made(["the"], shades=[-1])
    assert "no noise" in heatmap.legend(["a"] * 5, has_spans=False, has_stops=True)


def test_a_number_stays_on_its_side_of_every_edge() -> None:
    edges = (0.2, 0.4, 0.6, 0.8)
    assert heatmap.number(0.5996, edges) == "0.5996"
    for value in [*np.random.default_rng(0).random(500).tolist(), *(edge - 1e-7 for edge in edges), *edges]:
        shown = float(heatmap.number(value, edges))
        assert [shown >= edge for edge in edges] == [value >= edge for edge in edges]
    weights = (4e-7, 0.1, 0.2, 0.3)
    for value in (1.0, 1.0999999, 1.1, 0.9, 0.9000001, 0.6):
        shown = float(heatmap.number(value, weights, 1.0))
        assert [abs(shown - 1) >= edge for edge in weights] == [abs(value - 1) >= edge for edge in weights]


def test_ranges_follow_the_shades() -> None:
    assert heatmap.ranges((1, 2, 3, 4), falling=False) == ["below 1", "1 to 2", "2 to 3", "3 to 4", "4 and more"]
    assert heatmap.ranges((1, 2, 3, 4), falling=True)[0] == "4 and more"
