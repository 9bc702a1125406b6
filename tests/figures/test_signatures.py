"""Maps and margins: every entry where it is said to be, wrong and ambiguous ones marked by more than colour."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpcl_core.figures.matching import Space, ellipse, label_sides, margins, on_map
from dpcl_core.runs import frames
from tests.support.signatures import TOLD

ENTRIES, GROUPS = frames.entries([TOLD]), frames.prototypes([TOLD])


@pytest.mark.parametrize("space", ["signature", "mean"])
def test_marks_stand_where_their_entries_are(space: Space) -> None:
    picture = on_map(ENTRIES, GROUPS, space=space)
    marks = [trace for trace in picture.figure.data if trace.customdata is not None]
    drawn = sorted((x, y) for trace in marks for x, y in zip(trace.x, trace.y, strict=True))
    assert drawn == sorted(zip(ENTRIES[f"{space}_x"], ENTRIES[f"{space}_y"], strict=True))
    (wrong,) = [trace for trace in picture.figure.data if trace.marker.symbol == "circle-open"]
    assert list(wrong.x) == ENTRIES.loc[[3], f"{space}_x"].tolist()
    assert picture.finding == "3 of 4 entries of 2 clients found their group; 1 is ambiguous."


def test_clients_have_shapes_and_an_ambiguous_entry_is_hollow() -> None:
    drawn = on_map(ENTRIES, GROUPS, space="mean").figure.data
    first, second = (trace for trace in drawn if trace.customdata is not None)
    assert list(first.marker.symbol) == ["circle", "square-open", "square"]
    assert list(second.marker.symbol) == ["circle"]
    assert first.marker.size[0] > first.marker.size[1]
    by_mode = on_map(ENTRIES, GROUPS, space="mean", by="mode")
    assert [len(trace.x) for trace in by_mode.figure.data if trace.customdata is not None] == [2, 2]


def test_the_map_keeps_its_part_over_rounds_and_shows_two_deviations_of_noise() -> None:
    within = (-3.0, 3.0, -1.0, 1.0)
    figure = on_map(ENTRIES, GROUPS, space="signature", within=within).figure
    assert (*figure.layout.xaxis.range, *figure.layout.yaxis.range) == within
    assert not figure.layout.xaxis.automargin
    assert not figure.layout.yaxis.automargin
    x, y = ellipse(1.0, 2.0, 0.04, 0.01, 0.02)
    away = np.stack([np.array(x) - 1.0, np.array(y) - 2.0])
    assert (away * np.linalg.solve([[0.04, 0.01], [0.01, 0.02]], away)).sum(axis=0) == pytest.approx(4.0)
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(lines) == 1  # the second group carries no noise


def test_margins_stand_in_the_column_of_their_client() -> None:
    picture = margins(ENTRIES)
    drawn = {(int(c), y) for trace in picture.figure.data for c, y in zip(trace.customdata, trace.y, strict=True)}
    assert drawn == {(1, 0.9), (1, 0.8), (2, 0.05), (2, 0.3)}
    assert list(picture.figure.layout.xaxis.ticktext) == ["2", "1"]
    assert picture.finding == "1 of 4 entries have a margin below 0.1; the median is 0.55."
    regret = margins(ENTRIES, regret=True)
    assert "of client 2, makes its list cost 0 % more; barring 1 would cost nothing." in regret.finding


def test_nothing_is_said_in_words() -> None:
    empty = frames.entries([])
    assert on_map(empty, frames.prototypes([]), space="mean").finding == "No list has been matched yet."
    assert margins(empty).finding == "No list has been matched yet."
    loose = ENTRIES.assign(regret=math.nan)
    assert "one to one" in margins(loose, regret=True).finding
    unknown = ENTRIES.assign(mode=-1, is_right=False)
    assert on_map(unknown, GROUPS, space="mean").finding.startswith("4 entries of 2 clients went into 2 groups")


def test_many_prototypes_do_not_hide_the_entries() -> None:
    """Forty-one crosses are small and named on hovering; a few are large and have their names beside them."""
    many = pd.concat([GROUPS] * 41, ignore_index=True).head(41)
    few, crowd = (on_map(ENTRIES, of, space="mean").figure.data[-1] for of in (GROUPS, many))
    assert any(few.text)
    assert not any(crowd.text)
    assert crowd.marker.size < few.marker.size
    assert len(crowd.hovertext) == 41


def test_names_beside_crosses_never_cover_each_other_and_lone_ones_stand_above() -> None:
    within = (0.0, 4.6, 0.0, 3.8)  # a hundredth is a pixel
    random = np.random.default_rng(0)
    points, names = random.uniform(0.8, 3.0, (30, 2)), [f"Sci/Tech {place}" for place in range(30)]
    sides = label_sides(points, names, within)
    boxes = []
    for (x, y), name, side in zip(points, names, sides, strict=True):
        wide = 0.08 * len(name)
        left, low = {
            "top center": (x - wide / 2, y + 0.08),
            "bottom center": (x - wide / 2, y - 0.23),
            "middle right": (x + 0.08, y - 0.075),
            "middle left": (x - 0.08 - wide, y - 0.075),
            None: (math.nan, math.nan),
        }[side]
        boxes.append((left, left + wide, low, low + 0.15))
    shown = [box for box in boxes if not math.isnan(box[0])]
    assert 5 < len(shown) < 30
    shown = [(x - 0.07, x + 0.07, y - 0.07, y + 0.07) for x, y in points.tolist()] + shown
    for place, (a, b, c, d) in enumerate(shown):
        if place < len(points):  # crosses may lie on crosses
            continue
        for e, f, g, h in shown[:place]:
            assert b <= e + 1e-9 or f <= a + 1e-9 or d <= g + 1e-9 or h <= c + 1e-9
    assert {"top center", "bottom center", "middle right", "middle left"} <= set(sides)
    alone = label_sides(np.array([[0.5, 0.5], [4.0, 3.0]]), ["a", "b"], within)
    assert alone == ["top center", "top center"]
