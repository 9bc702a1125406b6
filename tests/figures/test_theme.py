"""Colours that stay apart, labels that do not overlap, lines that keep their extremes, and a presenter's larger letters."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.events import References
from dpcl_core.figures import theme
from dpcl_core.methods import catalog
from tests.figures.making import SIGHTS, apart, contrast, luminance


def marks(dark: bool) -> list[str]:
    """Colours of lines and points, of series and of budgets."""
    budgets = (0.01, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 1000, math.inf)
    return [*(theme.colour_of_series(i, dark) for i in range(8)), *(theme.colour_of_epsilon(e, dark) for e in budgets)]


@pytest.mark.parametrize("dark", [False, True])
def test_every_mark_has_contrast_three_to_one_on_its_ground(dark: bool) -> None:
    ground = theme.ink(dark).ground
    for colour in marks(dark):
        assert contrast(colour, ground) >= 3, colour


@pytest.mark.parametrize("dark", [False, True])
def test_names_in_a_marks_colour_have_contrast_of_text_and_stay_near_it(dark: bool) -> None:
    ground = theme.ink(dark).ground
    for colour in marks(dark):
        text = theme.readable(colour, dark)
        assert contrast(text, ground) >= 4.8, colour
        assert text == colour or contrast(colour, ground) < 4.8
        assert contrast(text, colour) < 1.6, "no other colour"
    assert theme.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert theme.contrast("#d55e00", "#ffffff") == pytest.approx(contrast("#d55e00", "#ffffff"))


def test_light_budgets_are_ordered_in_lightness() -> None:
    steps = [luminance(theme.colour_of_epsilon(e, False)) for e in (0.1, 0.5, 1, 2, 4, 8, 16, math.inf)]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("dark", [False, True])
def test_every_reader_can_tell_any_two_of_eight_series_apart(dark: bool, sight: str) -> None:
    for one, other in itertools.combinations([theme.colour_of_series(i, dark) for i in range(8)], 2):
        assert apart(one, other, SIGHTS[sight]) > (25 if sight == "usual" else 9), (one, other)


@pytest.mark.parametrize("dark", [False, True])
def test_any_two_methods_in_one_figure_have_two_colours(dark: bool) -> None:
    for pair in itertools.combinations(catalog.CARDS, 2):
        assert len(set(theme.colours_of_runs(pair, dark))) == 2, pair
    assert theme.colours_of_runs(["pecl"], dark) == [theme.colour_of_method("pecl", dark)]
    assert len(set(theme.colours_of_runs(["cosine", "cosine", "agem", "dp-agem", "pecl", "naive"], dark))) == 6


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12))
def test_labels_keep_their_distance_and_their_order(wanted: list[float]) -> None:
    placed = theme.spread_labels(wanted, 6.5, 3, 100)
    for low, high in itertools.pairwise(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        assert placed[high] - placed[low] >= 6.5 - 1e-9
    assert max(placed) <= 100


def test_labels_that_do_not_collide_stay_where_they_are() -> None:
    assert theme.spread_labels([90, 50, 20], 6.5, 0, 100) == [90, 50, 20]


def test_decimation_keeps_ends_and_extremes_within_a_thousand_points() -> None:
    x = np.arange(50_000, dtype=np.float64)
    y = np.random.default_rng(0).normal(size=50_000)
    y[31_234], y[777] = 99.0, -99.0
    few_x, few_y = theme.decimated(x, y)
    assert len(few_x) <= 1000
    assert (few_y.max(), few_y.min()) == (99.0, -99.0)
    assert (few_x[0], few_x[-1]) == (0, 49_999)
    assert (np.diff(few_x) > 0).all()
    short_x, _ = theme.decimated(x[:1000], y[:1000])
    assert len(short_x) == 1000


@pytest.mark.parametrize("is_rising", [False, True])
def test_levels_differ_by_dash_and_name_and_not_by_colour(is_rising: bool) -> None:
    chart = theme.Chart(False, 300)
    chart.references(References(0.1, 0.4, n_tested=450.0, ceiling=0.9), is_rising=is_rising)
    drawn = chart.picture("").figure
    assert [(line.y0, line.y1) for line in drawn.layout.shapes] == [(10, 10), (40, 40), (90, 90)]
    assert len({line.line.dash for line in drawn.layout.shapes}) == 3
    assert len({line.line.color for line in drawn.layout.shapes}) == 1
    assert [note.text for note in drawn.layout.annotations] == ["chance 10 %", "untrained 40 %", "at once, no noise 90 %"]
    chance, untrained, ceiling = drawn.layout.annotations
    assert (chance.x, untrained.x, ceiling.x) == ((1, 1, 0) if is_rising else (0, 0, 1))


def test_levels_that_print_alike_are_one_line_and_near_ones_have_their_names_apart() -> None:
    same, near, none = (theme.Chart(False, 300) for _ in range(3))
    same.references(References(0.1, 0.1))
    assert [note["text"] for note in same.texts] == ["chance = untrained 10 %"]
    near.references(References(0.25, 0.28))
    assert [note["yanchor"] for note in near.texts] == ["top", "bottom"]
    none.references(References(0.0))
    assert [note["yanchor"] for note in none.texts] == ["bottom"], "below 0 there is no room"


@pytest.mark.parametrize(("points", "side", "anchor"), [
    ([42.0, 80.0, 80.0], 0.5, "bottom"),  # the first point lies where the name would
    ([42.0, 42.0, 80.0], 1.0, "bottom"),
    ([42.0, 42.0, 42.0], 0.0, "top"),  # above, all is taken
    ([30.0, 80.0, 80.0], 0.5, "bottom"),  # no point, but the line between two
    ([None, 42.0, 42.0], 0.0, "bottom"),
    ([80.0, 80.0, 80.0], 0.0, "bottom"),
])  # fmt: skip
def test_a_level_s_name_covers_no_curve(points: list[float | None], side: float, anchor: str) -> None:
    chart = theme.Chart(False, 300)
    chart.line([1, 2, 3], points, "curve", "#000", "%{y}")
    chart.references(References(0.1, 0.4))
    assert [(note["x"], note["yanchor"]) for note in chart.texts] == [(0.0, "top"), (side, anchor)]
