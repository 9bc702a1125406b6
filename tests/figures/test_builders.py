"""Pictures of streams, lessons, matchers, scores and secrets draw and say the numbers of their tables."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpcl_core.figures import curves, matching, stream, tokens
from dpcl_core.lessons.text import Scale
from dpcl_core.runs import frames
from tests.support import replay
from tests.support.signatures import TOLD
from tests.support.texts import with_texts

ENTRIES, GROUPS, AGREEMENT = frames.entries([TOLD]), frames.prototypes([TOLD]), frames.agreement([TOLD])

CLASSES = ("ant", "bee", "cat", "dog")
COUNTS = np.array([[0, 36, 10, 4], [50, 4, 0, 96]])  # bee at home in task 1 with cat; ant and dog in task 2
HOMES = ((1, 2), (0, 3))


def test_cells_hold_the_counts_in_the_order_of_homes_and_zero_is_empty() -> None:
    picture = stream.stream(COUNTS, homes=HOMES, classes=CLASSES)
    grid, bars = picture.figure.data
    assert list(grid.y) == ["cat", "bee", "ant", "dog"], "within a home those that stay come first"
    assert grid.customdata.tolist() == [[10, 0], [36, 4], [0, 50], [4, 96]]
    np.testing.assert_allclose(grid.z, np.sqrt([[10, np.nan], [36, 4], [np.nan, 50], [4, 96]]))
    assert (bars.y.tolist(), list(bars.text)) == ([50, 150], ["50", "150"])
    frames = [(s.x0, s.x1, s.y0, s.y1) for s in picture.figure.layout.shapes if s.line.width]
    assert frames == [(0.5, 1.5, -0.5, 1.5), (1.5, 2.5, 1.5, 3.5)]


def test_what_is_not_read_yet_is_veiled() -> None:
    whole, half = (stream.stream(COUNTS, homes=HOMES, classes=CLASSES, filled=filled) for filled in (1.0, 0.25))
    (veil,) = half.figure.layout.shapes[len(whole.figure.layout.shapes) :]
    assert (veil.x0, veil.x1) == (1.0, 2.5)
    assert half.finding == whole.finding


@pytest.mark.parametrize(("counts", "homes", "said"), [
    (COUNTS, HOMES, "2 tasks of 50 to 150 training examples. 2 of 4 classes occur in several tasks, with 93 % of their"),
    ([[5, 5, 0, 0], [0, 0, 5, 5]], ((0, 1), (2, 3)), "10 training examples each. Every class occurs in one task only."),
    ([[5, 0, 0, 0], [0, 0, 0, 0], [0, 7, 0, 0]], ((0,), (), (1,)), "Task 2 is empty. 2 of 4 classes are in no task."),
    (None, HOMES, "2 tasks with 2 classes at home in each."),
    (np.full((20, 4), 5), [(0, 1, 2, 3)] * 20, "20 training examples each. All classes occur in every task."),
])  # fmt: skip
def test_the_sentence_says_sizes_who_comes_back_and_what_is_empty(counts: Any, homes: Any, said: str) -> None:
    picture = stream.stream(None if counts is None else np.array(counts), homes=homes, classes=CLASSES)
    assert said in picture.finding
    if counts is None:  # a plan has no number of examples in it
        (grid,) = picture.figure.data
        assert np.nan_to_num(grid.z).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert "examples" not in grid.hovertemplate


def test_many_tasks_in_an_order_of_their_own_keep_their_numbers() -> None:
    names = [f"task {number}" for number in range(20, 0, -1)]
    figure = stream.stream(np.full((20, 4), 5), homes=[(0, 1, 2, 3)] * 20, classes=CLASSES, tasks=names).figure
    assert list(figure.layout.xaxis.ticktext) == [str(number) for number in range(19, 0, -2)]
    assert list(figure.data[0].text[0]) == list(figure.data[1].hovertext) == names


def test_pictures_lie_side_by_side_square_and_upright() -> None:
    first, second = np.arange(9.0), np.arange(9.0) * 2
    picture = stream.strips({"a": [first, second], "b": [second, first]}, ["0", "1"], finding="They are swapped.")
    (above, below), layout = picture.figure.data, picture.figure.layout
    assert np.array_equal(above.z[:, :3], first.reshape(3, 3))
    assert np.isnan(above.z[:, 3]).all()
    assert np.array_equal(above.z[:, 4:7], second.reshape(3, 3))
    assert np.array_equal(below.z[:, 4:7], first.reshape(3, 3))
    assert [note.text for note in layout.annotations] == ["a", "b"]
    assert (list(layout.xaxis2.ticktext), list(layout.xaxis2.tickvals)) == (["0", "1"], [1, 5])
    assert (layout.yaxis.scaleanchor, layout.yaxis2.scaleanchor) == ("x", "x2")
    assert layout.yaxis.range[0] > layout.yaxis.range[1]
    assert picture.finding == "They are swapped."


FOUND = {
    "one noise": {0.0: 0.97, 1.4: 0.95, 8000.0: 0.931},
    "one noise, clipped": {0.0: 0.96, 1.4: 0.96, 8000.0: 0.11},
    "fresh noise": {0.0: 0.97, 8000.0: 0.098, 1.4: 0.155},
}


def test_points_stand_at_their_scales_whatever_their_order_and_the_chosen_one_is_marked() -> None:
    picture = stream.accuracy_by_scale(FOUND, chosen=8000.0, chance=0.1)
    assert [list(line.x) for line in picture.figure.data] == [["none", "1.4", "8000"]] * 3
    assert np.array([line.y for line in picture.figure.data]) == pytest.approx(
        np.array([[97, 95, 93.1], [96, 96, 11], [97, 15.5, 9.8]])
    )
    assert "With b = 8000: one noise: 93.1 %; one noise, clipped: 11.0 %; fresh noise: 9.8 %." in picture.finding
    assert len({line.line.dash for line in picture.figure.data}) == 3
    shapes = {shape.type: shape for shape in stream.accuracy_by_scale(FOUND, chosen=1.4, chance=0.1).figure.layout.shapes}
    assert shapes["rect"].x0 < 1 < shapes["rect"].x1
    assert shapes["line"].y0 == 10
    assert stream.accuracy_by_scale(FOUND, chosen=0.0, chance=0.1).finding.startswith("Without noise: one noise: 97.0 %;")


CURVES = pd.DataFrame({"series": ["a", "a", "b", "b"], "x": [1, 10, 1, 10], "y": [0.1, 0.9, 0.3, 0.4]})
SHARE = Scale(title="share", is_share=True)
BARS = pd.DataFrame({"name": ["one", "two"], "value": [0.25, 0.75], "half": [0.1, 0.05]})


@pytest.mark.parametrize("dark", [False, True])
def test_each_series_is_a_line_of_its_numbers(dark: bool) -> None:
    picture = stream.curves(CURVES.assign(half=0.05), Scale(title="n", is_log=True), SHARE, "Found.", chosen=3.0, dark=dark)
    assert [(line.name, list(line.y)) for line in picture.figure.data] == [("a", [10, 90]), ("b", [30, 40])]
    assert (list(picture.figure.data[0].error_y.array), picture.finding) == ([5, 5], "Found.")


def test_each_bar_has_its_name_and_value() -> None:
    picture = stream.bars(BARS, SHARE, "Found.")
    assert list(picture.figure.data[0].x) == [25, 75]
    assert [note.text for note in picture.figure.layout.annotations] == ["one: <b>25.0 %</b>", "two: <b>75.0 %</b>"]


@pytest.mark.parametrize(("axis", "values", "ticks"), [
    (Scale(title="n", is_log=True), [1.0, 1000.0], ["1", "10", "100", "1,000"]),
    (Scale(title="n", is_log=True, ticks=(1.0, 5.0)), [1.0, 5.0], ["1", "5"]),
    (Scale(title="n", is_log=True), [2.0, 5.0], ["2", "5"]),
    (Scale(title="n"), [1.0, 2.0, 3.0], ["1", "2", "3"]),
    (Scale(title="q", is_log=True, is_share=True), [0.001, 1.0], ["0.1 %", "1.0 %", "10.0 %", "100.0 %"]),
])  # fmt: skip
def test_ticks_are_round_and_readable(axis: Scale, values: list[float], ticks: list[str]) -> None:
    table = pd.DataFrame({"series": "a", "x": values, "y": values})
    assert list(stream.curves(table, axis, Scale(title="y"), "").figure.layout.xaxis.ticktext) == ticks


PULLS = {"none": np.ones(3), "turned": np.array([1.0, 1.0, -3.0])}
NATS = {"kept": np.array([2.3, 1.0, 0.5]), "turned": np.array([2.3, 40.0, 143.0])}
EXPOSURES = {"none": [[1.0, 2.0, 3.0], [8.0, 9.0, 13.0]], "hinge": [[1.0, 1.5, 2.0], [1.0, 2.0, 3.0]]}


def test_pulls_are_told_where_they_are_chosen_and_zero_has_no_sign() -> None:
    picture = stream.token_weights(np.array([0.4, 0.6, 1.0]), PULLS, chosen=0.8)
    assert [list(line.y) for line in picture.figure.data] == [[1, 1, 1], [1, 1, -3]]
    assert picture.finding == "At a Score of 0.8 the token counts: none 1.00; turned −1.00."
    assert len({line.line.dash for line in picture.figure.data}) == 2
    zero = stream.token_weights(np.array([0.0, 1.0]), {"left out": np.array([0.0, -0.001])}, chosen=1.0)
    assert zero.finding.endswith("left out 0.")


def test_secret_nats_are_cut_by_the_axis_and_not_in_the_sentence() -> None:
    picture = stream.secret_nats(NATS, most=10.0, public=2.3)
    assert (tuple(picture.figure.layout.yaxis.range), list(picture.figure.data[1].y)) == ((0, 10), [2.3, 40, 143])
    assert picture.finding == "Nats per digit of the secret after 2 steps, from 2.3: kept 0.5; turned 143.0."


def test_code_exposure_lines_run_through_the_means_and_show_every_seed() -> None:
    picture = stream.code_exposure([1, 16], EXPOSURES, controls=1.4, most=13.3)
    lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    marks = [trace for trace in picture.figure.data if trace.mode == "markers"]
    assert [list(line.y) for line in lines] == [pytest.approx([2, 10]), pytest.approx([1.5, 2])]
    assert [list(line.x) for line in lines] == [["once", "16 times"]] * 2
    assert [sorted(mark.y) for mark in marks] == [[1, 2, 3, 8, 9, 13], [1, 1, 1.5, 2, 2, 3]]
    assert not any(mark.showlegend for mark in marks)
    assert picture.finding == "Exposure of codes planted 16 times, in bits: none 10.0; hinge 2.0; never planted 1.4."
    assert {shape.y0 for shape in picture.figure.layout.shapes} == {1.4, 13.3}


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
    assert (list(signal.x), list(noise.x)) == ([0.4, 0.8], [0.15, 40.0])
    assert ["noise only" in name for name in signal.y] == [False, True]
    assert picture.finding.startswith("Noise only: second moment. The noise on second moment is 50 times as long")
    clean = frames.statistics([TOLD]).assign(noise=0.0)
    assert curves.signal_and_noise(clean).finding == "Nothing carries noise here."


@pytest.mark.parametrize("space", ["signature", "mean"])
def test_marks_stand_where_their_entries_are(space: matching.Space) -> None:
    picture = matching.on_map(ENTRIES, GROUPS, space=space)
    marks = [trace for trace in picture.figure.data if trace.customdata is not None]
    drawn = sorted((x, y) for trace in marks for x, y in zip(trace.x, trace.y, strict=True))
    assert drawn == sorted(zip(ENTRIES[f"{space}_x"], ENTRIES[f"{space}_y"], strict=True))
    (wrong,) = [trace for trace in picture.figure.data if trace.marker.symbol == "circle-open"]
    assert list(wrong.x) == ENTRIES.loc[[3], f"{space}_x"].tolist()
    assert picture.finding == "3 of 4 entries of 2 clients found their group; 1 is ambiguous."


def test_the_map_keeps_its_part_over_rounds_and_shows_two_deviations_of_noise() -> None:
    within = (-3.0, 3.0, -1.0, 1.0)
    figure = matching.on_map(ENTRIES, GROUPS, space="signature", within=within).figure
    assert (*figure.layout.xaxis.range, *figure.layout.yaxis.range) == within
    assert not figure.layout.xaxis.automargin
    assert not figure.layout.yaxis.automargin
    x, y = matching.ellipse(1.0, 2.0, 0.04, 0.01, 0.02)
    away = np.stack([np.array(x) - 1.0, np.array(y) - 2.0])
    assert (away * np.linalg.solve([[0.04, 0.01], [0.01, 0.02]], away)).sum(axis=0) == pytest.approx(4.0)
    assert len([trace for trace in figure.data if trace.mode == "lines"]) == 1  # the second group carries no noise


def test_margins_stand_in_the_column_of_their_client() -> None:
    picture = matching.margins(ENTRIES)
    drawn = {(int(c), y) for trace in picture.figure.data for c, y in zip(trace.customdata, trace.y, strict=True)}
    assert drawn == {(1, 0.9), (1, 0.8), (2, 0.05), (2, 0.3)}
    assert (list(picture.figure.layout.xaxis.ticktext), picture.finding) == (["2", "1"], "1 of 4 matches was close.")
    regret = matching.margins(ENTRIES, regret=True)
    assert regret.finding.startswith("Client 2 is the closest call: another group costs its list 0 % more; for 1 entry it")


def test_nothing_is_said_in_words() -> None:
    empty = frames.entries([])
    assert matching.on_map(empty, frames.prototypes([]), space="mean").finding == "No list has been matched yet."
    assert matching.margins(empty).finding == "No list has been matched yet."
    assert "one to one" in matching.margins(ENTRIES.assign(regret=math.nan), regret=True).finding
    unknown = ENTRIES.assign(mode=-1, is_right=False)
    assert matching.on_map(unknown, GROUPS, space="mean").finding.startswith("4 entries of 2 clients went into 2 groups")


def test_names_beside_crosses_never_cover_each_other_and_lone_ones_stand_above() -> None:
    within = (0.0, 4.6, 0.0, 3.8)  # a hundredth is a pixel
    random = np.random.default_rng(0)
    points, names = random.uniform(0.8, 3.0, (30, 2)), [f"Sci/Tech {place}" for place in range(30)]
    sides = matching.label_sides(points, names, within)
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
    assert matching.label_sides(np.array([[0.5, 0.5], [4.0, 3.0]]), ["a", "b"], within) == ["top center", "top center"]


SAID = with_texts(replay.recorded(replay.a_spec(epsilons=(1.0,), seeds=(0, 1)), n_tasks=3))


def detection(score: float) -> pd.DataFrame:
    groups = ("all tokens", "without stop words", "against look-alikes")
    rows = [(group, detector, value) for group in groups for detector, value in (("score", score), ("pattern", 0.6))]
    return pd.DataFrame(rows, columns=["group", "detector", "auroc"])


def test_detection_draws_and_says_both_detectors() -> None:
    picture = tokens.detection(detection(0.497))
    assert [list(trace.y) for trace in picture.figure.data] == [[0.497] * 3, [0.6] * 3]
    assert "against look-alikes 0.50 (pattern 0.60)" in picture.finding
    assert tokens.detection(detection(math.nan)).finding == "No personal token is marked here."


def test_memory_is_drawn_after_the_last_task_told() -> None:
    table = frames.retained(SAID)
    picture = tokens.retained(table)
    assert [round(value, 6) for value in picture.figure.data[0].y] == [0.5, 0.6, 0.7]
    assert list(picture.figure.data[1].y) == pytest.approx([math.nan, 2.1, 2.2], nan_ok=True)
    better = "better than the public model on ordinary words (0.60 nats), better than it on personal ones (2.15)."
    assert picture.finding == f"After task 3: {better}"
    assert tokens.retained(table[table["after_task"] == 0]).finding.endswith("no personal word is marked.")
    assert "worse than the public model on" in tokens.retained(table.assign(ordinary=-0.5)).finding
    assert tokens.retained(table[:0]).is_empty
    less = tokens.retained(table.assign(ordinary=-0.061))
    assert less.figure.data[0].text[0] == "−0.06", "a true minus"
    assert "as good as the public model on ordinary words (−0.06 nats)" in less.finding


def test_exposure_stands_before_and_after_with_controls_and_the_other_end() -> None:
    table = frames.leaks(SAID)
    picture = tokens.exposure(table)
    assert {trace.name: list(trace.y) for trace in picture.figure.data} == {
        "before training": [1.4, 1.5, 1.8], "after task 3": [1.4, 1.5, 11.5], "from the unlikely end": [1.4, 1.4, 0.2],
    }  # fmt: skip
    assert list(picture.figure.data[0].x) == ["never", "1", "16"]
    assert [list(trace.text) for trace in picture.figure.data] == [[""] * 3, ["1.4", "1.5", "11.5"], [""] * 3]
    assert "11.5 bits of exposure after task 3 (1.8 before training), codes never planted 1.4." in picture.finding
    assert tokens.exposure(frames.leaks([])).is_empty
    before = tokens.exposure(table[table["after_task"] < 0])
    assert [trace.name for trace in before.figure.data] == ["before training"]
    assert "1.8 bits of exposure before training, codes never planted 1.4." in before.finding


def test_the_exposure_history_needs_three_measurements() -> None:
    table = frames.leaks(SAID)
    steps = "1.8 before training, 11.5 after task 1, 11.5 after task 2, 11.5 after task 3."
    assert tokens.exposure_history(table).endswith(steps)
    assert tokens.exposure_history(table[table["after_task"] <= 0]) == tokens.exposure_history(table[:0]) == ""


def _spent(epsilon: list[float], step: list[float]) -> pd.DataFrame:
    n = len(epsilon)
    return pd.DataFrame({"people": ["in every task"] * n, "after_task": range(n), "epsilon": epsilon, "step": step})


def test_accounted_steps_and_their_plain_sum_and_no_bound_is_said_and_not_drawn() -> None:
    picture = tokens.ledger(_spent([1.0, 1.5, 1.9], [1.0, 1.0, 1.0]))
    accounted, naive = picture.figure.data
    assert (list(accounted.x), list(accounted.y), list(naive.y)) == ([1, 2, 3], [1.0, 1.5, 1.9], [1.0, 2.0, 3.0])
    assert accounted.line.shape == "hvh"  # a step lies around its task
    assert picture.finding == "In every task: ε = 1.9 after 3 tasks."
    endless = tokens.ledger(_spent([math.inf, math.inf], [math.inf, math.inf]))
    assert "no bound" in endless.finding
    assert all(len(trace.x) == 0 for trace in endless.figure.data)
    assert tokens.ledger(_spent([], [])).is_empty


NOMINAL = (1.0, 5.0, 10.0)
TRUE = {"one token": (1.657, 10.254, 24.42), "a text of 64 tokens": (18.31, 184.9, 1598.5)}


def test_lines_hold_the_numbers_inside_the_axes_and_the_sentence_is_of_the_chosen_budget() -> None:
    picture = tokens.true_costs(NOMINAL, TRUE, chosen=10.0)
    equal, token, text = picture.figure.data
    assert (list(equal.x), list(equal.y)) == ([1, 10], [1, 10])
    assert (list(token.y), list(text.y)) == (list(TRUE["one token"]), list(TRUE["a text of 64 tokens"]))
    assert token.line.dash != text.line.dash
    assert "10 (no guarantee) really costs: one token 24.42; a text of 64 tokens 1,598." in picture.finding
    layout = picture.figure.layout
    assert (layout.shapes[0].x0, "no guarantee" in layout.xaxis.title.text) == (10, True)
    for low, high, axis in ((1.0, 10.0, layout.xaxis), (1.0, 1598.5, layout.yaxis)):
        assert 10 ** axis.range[0] < low < high < 10 ** axis.range[1]
        assert any(low <= tick <= high for tick in axis.tickvals)


def test_ranges_follow_the_shades() -> None:
    assert tokens.ranges((1, 2, 3, 4), falling=False) == ["< 1", "1–2", "2–3", "3–4", "≥ 4"]
    assert tokens.ranges((1, 2, 3, 4), falling=True)[0] == "≥ 4"


# Sums released after every task: marks are the table's numbers, the sentence the last ones.


NOISE = pd.DataFrame([
    ("fresh", 1, 1.0), ("square root", 1, 1.0), ("fresh", 4, 2.0), ("square root", 4, 1.48)
], columns=["factorisation", "n_tasks", "noise"])  # fmt: skip
RACED = pd.DataFrame([
    ("all", 0, 1.0, False), ("all", 1, 1.5, False), ("last", 0, 1.0, False), ("last", 1, 0.5, False), ("all", 1, 1.3, True)
], columns=["attack", "after_task", "epsilon", "is_measured"])  # fmt: skip
SPENT = pd.DataFrame([
    ("equal", 0, 0.7), ("equal", 1, 0.0), ("equal", 2, 0.0), ("alone", 0, 1.0), ("alone", 1, 1.0), ("alone", 2, 1.0)
], columns=["rule", "after_task", "epsilon"])  # fmt: skip


def test_who_starves_is_crossed_out_and_counted() -> None:
    picture = tokens.spending(SPENT)
    equal, alone, crosses = picture.figure.data
    assert (list(equal.x), list(equal.y), list(alone.y)) == ([1, 2, 3], [0.7, 0.0, 0.0], [1.0] * 3)
    assert (list(crosses.x), crosses.marker.symbol, crosses.marker.color) == ([2, 3], "x", equal.line.color)
    assert picture.finding == "Equal: 2 of 3 tasks starve; alone: ε = 1 for the last task."


def test_the_noise_is_drawn_as_it_stands_in_the_table() -> None:
    picture = tokens.noise_against_tasks(NOISE)
    drawn = {trace.name: (list(trace.x), list(trace.y)) for trace in picture.figure.data}
    assert drawn == {"fresh": ([1, 4], [1.0, 2.0]), "square root": ([1, 4], [1.0, 1.48])}
    assert picture.finding == "After 4 tasks the noise, in σ of a single task: fresh 2, square root 1.48."


def test_theory_is_a_line_and_what_was_measured_dots_of_its_colour() -> None:
    picture = tokens.race(RACED)
    every, last, dots = picture.figure.data
    assert (list(every.x), list(every.y), list(last.y)) == ([1, 2], [1.0, 1.5], [1.0, 0.5])
    assert (dots.mode, list(dots.x), list(dots.y), dots.marker.color) == ("markers", [2], [1.3], every.line.color)
    assert picture.finding == "All: ε = 1.5; last: ε = 0.5, after 2 tasks."
