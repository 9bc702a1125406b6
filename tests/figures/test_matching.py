"""Maps, margins, matchers and anchors: what is drawn is what the tables say, and the sentence says it too."""

import math

import numpy as np
import pytest

from dpcl_core.figures import curves, matching
from dpcl_core.figures.matching import Space, ellipse, label_sides, margins, on_map
from dpcl_core.runs import frames
from tests.figures.pictures import AGREEMENT, ENTRIES, GROUPS
from tests.support.signatures import TOLD


def test_confusion_counts_entries() -> None:
    picture = matching.confusion(ENTRIES, ("World", "Sports"), ("World", "Sports"))
    assert picture.figure.data[0].z.tolist() == [[2, 0], [1, 1]]
    assert picture.finding == "75 % of entries lie in the group of their mode (chance 50 %); adjusted Rand index 0.00."
    assert "unknown" in matching.confusion(ENTRIES.assign(mode=-1), ("World",), ()).finding


def test_the_matcher_in_use_stands_out_and_the_best_is_named() -> None:
    picture = matching.matcher_bars(AGREEMENT[AGREEMENT["noise"].isna()])
    bar, numbers = picture.figure.data
    assert dict(zip(bar.y, bar.x, strict=True)) == dict(TOLD.agreement)
    assert [text.strip() for text in numbers.text] == ["0.00", "<b> 0.50</b>", "0.80"]
    assert len({bar.marker.color[0], bar.marker.color[2]}) == 1 != len(set(bar.marker.color))
    best = "Public axes agrees best with the truth (0.80)"
    assert picture.finding == f"{best}; anchors, centred, which is used here, has 0.50."
    assert "unknown" in matching.matcher_bars(AGREEMENT.head(0)).finding
    lost = matching.matcher_bars(AGREEMENT.assign(agreement=-0.004))
    assert lost.finding == "No matcher agrees with the truth much better than chance does (the most: 0.00)."


@pytest.mark.parametrize(("local", "place"), [(1.4, "top"), (90.0, "bottom")])
def test_names_of_two_near_lines_stand_one_under_the_other(local: float, place: str) -> None:
    drawn = matching.agreement_by_noise(AGREEMENT, {"central": 0.97, "local": local}).figure.layout.annotations
    assert [one.yanchor for one in drawn if one.text.startswith(("central", "local"))] == ["bottom", place]


def test_noise_curves_stand_at_their_levels_with_what_a_budget_demands() -> None:
    picture = matching.agreement_by_noise(AGREEMENT, TOLD.demanded, chosen=0.1)
    assert [list(line.y) for line in picture.figure.data] == [[1.0, 0.2], [1.0, 0.6]]
    assert [list(line.customdata) for line in picture.figure.data] == [["0", "0.1"]] * 2
    lines = sorted(shape.x0 for shape in picture.figure.layout.shapes if shape.line.dash == "dash")
    assert lines == pytest.approx([math.log10(0.03), math.log10(0.9)])
    assert picture.finding.endswith(" agrees best with the truth: 0.60. The budget requires: central 0.03, local 0.9.")
    without = matching.agreement_by_noise(AGREEMENT, {"local": math.inf})
    assert without.finding == "At noise 0.1 anchors, centred agrees best with the truth: 0.60."
    lost = matching.agreement_by_noise(AGREEMENT.assign(agreement=0.02), {}, chosen=0.1)
    assert lost.finding == "At noise 0.1 no matcher agrees with the truth much better than chance does."
    assert "unknown" in matching.agreement_by_noise(AGREEMENT.head(0), {}).finding


def test_what_more_anchors_buy() -> None:
    picture = curves.diagnostics(frames.anchors([TOLD]))
    drawn = {line.name: list(line.y) for line in picture.figure.data}
    assert (drawn["agreement with the truth"], drawn["least gap"]) == ([0.7, 0.9], [0.9, 1.3])
    assert picture.finding.startswith("From 10 to 50 anchors p̂ stays near 0.60 (it was 0.61)")
    assert picture.finding.endswith("Theorem 2 requires more anchors than there can be.")
    assert "no two modes" in curves.diagnostics(frames.anchors([])).finding


def test_a_statistic_that_drowns_is_stamped() -> None:
    picture = curves.signal_and_noise(frames.statistics([TOLD]))
    signal, noise = picture.figure.data
    assert list(signal.x) == [0.4, 0.8]
    assert list(noise.x) == [0.15, 40.0]
    assert ["noise only" in name for name in signal.y] == [False, True]
    assert picture.finding.startswith("Noise only: second moment. The noise on second moment is 50 times as long")
    clean = frames.statistics([TOLD]).assign(noise=0.0)
    assert curves.signal_and_noise(clean).finding == "Nothing carries noise here."


@pytest.mark.parametrize("space", ["signature", "mean"])
def test_marks_stand_where_their_entries_are(space: Space) -> None:
    picture = on_map(ENTRIES, GROUPS, space=space)
    marks = [trace for trace in picture.figure.data if trace.customdata is not None]
    drawn = sorted((x, y) for trace in marks for x, y in zip(trace.x, trace.y, strict=True))
    assert drawn == sorted(zip(ENTRIES[f"{space}_x"], ENTRIES[f"{space}_y"], strict=True))
    (wrong,) = [trace for trace in picture.figure.data if trace.marker.symbol == "circle-open"]
    assert list(wrong.x) == ENTRIES.loc[[3], f"{space}_x"].tolist()
    assert picture.finding == "3 of 4 entries of 2 clients found their group; 1 is ambiguous."


def test_the_map_keeps_its_part_over_rounds_and_shows_two_deviations_of_noise() -> None:
    within = (-3.0, 3.0, -1.0, 1.0)
    figure = on_map(ENTRIES, GROUPS, space="signature", within=within).figure
    assert (*figure.layout.xaxis.range, *figure.layout.yaxis.range) == within
    assert not figure.layout.xaxis.automargin
    assert not figure.layout.yaxis.automargin
    x, y = ellipse(1.0, 2.0, 0.04, 0.01, 0.02)
    away = np.stack([np.array(x) - 1.0, np.array(y) - 2.0])
    assert (away * np.linalg.solve([[0.04, 0.01], [0.01, 0.02]], away)).sum(axis=0) == pytest.approx(4.0)
    assert len([trace for trace in figure.data if trace.mode == "lines"]) == 1  # the second group carries no noise


def test_margins_stand_in_the_column_of_their_client() -> None:
    picture = margins(ENTRIES)
    drawn = {(int(c), y) for trace in picture.figure.data for c, y in zip(trace.customdata, trace.y, strict=True)}
    assert drawn == {(1, 0.9), (1, 0.8), (2, 0.05), (2, 0.3)}
    assert (list(picture.figure.layout.xaxis.ticktext), picture.finding) == (["2", "1"], "1 of 4 matches was close.")
    regret = margins(ENTRIES, regret=True)
    assert regret.finding.startswith("Client 2 is the closest call: another group costs its list 0 % more; for 1 entry it")


def test_nothing_is_said_in_words() -> None:
    empty = frames.entries([])
    assert on_map(empty, frames.prototypes([]), space="mean").finding == "No list has been matched yet."
    assert margins(empty).finding == "No list has been matched yet."
    assert "one to one" in margins(ENTRIES.assign(regret=math.nan), regret=True).finding
    unknown = ENTRIES.assign(mode=-1, is_right=False)
    assert on_map(unknown, GROUPS, space="mean").finding.startswith("4 entries of 2 clients went into 2 groups")


def test_names_beside_crosses_never_cover_each_other_and_lone_ones_stand_above() -> None:
    within = (0.0, 4.6, 0.0, 3.8)  # a hundredth is a pixel
    random = np.random.default_rng(0)
    points, names = random.uniform(0.8, 3.0, (30, 2)), [f"Sci/Tech {place}" for place in range(30)]
    sides = label_sides(points, names, within)
    # By how much of its width, and how far, a name's lower left corner is from its cross.
    corners = {
        "top center": (-0.5, 0.0, 0.08), "bottom center": (-0.5, 0.0, -0.23), "middle right": (0.0, 0.08, -0.075),
        "middle left": (-1.0, -0.08, -0.075),
    }  # fmt: skip
    shown = [(x - 0.07, x + 0.07, y - 0.07, y + 0.07) for x, y in points.tolist()]
    for (x, y), wide, side in zip(points, (0.08 * len(name) for name in names), sides, strict=True):
        if side is not None:
            share, right, up = corners[side]
            shown.append((left := x + share * wide + right, left + wide, y + up, y + up + 0.15))
    assert 35 < len(shown) < 60
    for place, (a, b, c, d) in list(enumerate(shown))[30:]:  # crosses may lie on crosses
        assert all(b <= e + 1e-9 or f <= a + 1e-9 or d <= g + 1e-9 or h <= c + 1e-9 for e, f, g, h in shown[:place])
    assert corners.keys() <= set(sides)
    assert label_sides(np.array([[0.5, 0.5], [4.0, 3.0]]), ["a", "b"], within) == ["top center", "top center"]
