"""True cost against nominal budget: every point in its place, the chosen one told, none without "no guarantee"."""

from __future__ import annotations

import pytest

from dpcl_core.figures import tokens

NOMINAL = (1.0, 5.0, 10.0)
TRUE = {"one token": (1.657, 10.254, 24.42), "a text of 64 tokens": (18.31, 184.9, 1598.5)}


@pytest.mark.parametrize("dark", [False, True])
def test_lines_hold_the_numbers_and_the_sentence_is_of_the_chosen_budget(dark: bool) -> None:
    picture = tokens.true_costs(NOMINAL, TRUE, chosen=10.0, dark=dark)
    equal, token, text = picture.figure.data
    assert (list(equal.x), list(equal.y)) == ([1, 10], [1, 10])
    assert list(token.y) == list(TRUE["one token"])
    assert list(text.y) == list(TRUE["a text of 64 tokens"])
    assert token.line.dash != text.line.dash
    assert picture.finding == (
        "What a nominal ε of 10 (no guarantee) really costs: one token 24.42; a text of 64 tokens 1,598."
    )
    assert next(shape.x0 for shape in picture.figure.layout.shapes) == 10
    assert "no guarantee" in picture.figure.layout.xaxis.title.text


def test_all_points_lie_inside_the_axes() -> None:
    layout = tokens.true_costs(NOMINAL, TRUE, chosen=1.0).figure.layout
    for low, high, axis in ((1.0, 10.0, layout.xaxis), (1.0, 1598.5, layout.yaxis)):
        assert 10 ** axis.range[0] < low < high < 10 ** axis.range[1]
        assert any(low <= tick <= high for tick in axis.tickvals)
