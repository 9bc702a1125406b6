"""Accuracy and forgetting over tasks, by class and against the budget: what is drawn, said and left undrawn."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from dpcl_core import metrics
from dpcl_core.figures import curves, svg, tradeoff
from dpcl_core.figures.curves import Series, class_bars, compared_over_tasks
from dpcl_core.figures.picture import Picture
from dpcl_core.figures.statistics import interval
from dpcl_core.figures.tradeoff import needed, sentence
from tests.figures.making import accuracy, by_rule, contrast


def _trace(figure: object, name: str) -> object:
    return next(trace for trace in figure.data if trace.name == name)  # type: ignore[attr-defined]


def _dashes(picture: Picture) -> dict[str, str]:
    """The dash of every line by its name."""
    return {trace.name: trace.line.dash for trace in picture.figure.data if "lines" in trace.mode and not trace.fill}


def test_line_is_the_mean_over_seen_tasks_and_seeds_on_a_fixed_axis() -> None:
    figure = curves.accuracy_over_tasks(accuracy(), n_tasks=4).figure
    line = _trace(figure, "ε = 8")
    expected = [100 * sum(by_rule(8.0, 1, k, i) for i in range(k + 1)) / (k + 1) for k in range(4)]
    assert (list(line.x), list(line.y)) == ([1, 2, 3, 4], pytest.approx(expected))  # type: ignore[attr-defined]
    assert (tuple(figure.layout.yaxis.range), figure.layout.uirevision) == ((0, 101), "keep")
    assert {trace.type for trace in figure.data} == {"scatter"}, "SVG alone is used"
    forgetting = _trace(curves.forgetting_over_tasks(accuracy(), n_tasks=4).figure, "no noise")
    assert (list(forgetting.x), list(forgetting.y)) == ([2, 3, 4], pytest.approx([4, 6, 8]))  # type: ignore[attr-defined]


def test_band_needs_three_seeds_and_says_what_it_is() -> None:
    bands = [trace for trace in curves.accuracy_over_tasks(accuracy(), n_tasks=4).figure.data if trace.fill == "toself"]
    assert len(bands) == 3
    assert all("95 % interval" in band.name for band in bands)
    two = curves.accuracy_over_tasks(accuracy(seeds=(0, 1)), n_tasks=4).figure
    assert not [trace for trace in two.data if trace.fill == "toself"]
    assert [len(trace.x) for trace in two.data if trace.mode == "markers"] == [2 * 4] * 3


MEAN = {e: 100 * sum(by_rule(e, 1, 3, i) for i in range(4)) / 4 for e in (0.5, 8.0, math.inf)}
RAGGED = accuracy()[lambda table: (table["epsilon"] != 8.0) | (table["after_task"] < 3)]


@pytest.mark.parametrize(("table", "said"), [
    (accuracy(), f"After 4 tasks: {MEAN[math.inf]:.1f} % without noise, {MEAN[8.0]:.1f} % at ε = 8, {MEAN[0.5]:.1f} %"),
    (accuracy().query("after_task < 2"), "After 2 tasks of 4"),
    (accuracy(seeds=(0,)), "single draw"),
    (RAGGED, "After 3 tasks of 4"),  # budgets at different points are compared where all have been
])  # fmt: skip
def test_finding_reads_off_the_numbers(table: pd.DataFrame, said: str) -> None:
    assert said in curves.accuracy_over_tasks(table, n_tasks=4).finding


def test_losses_and_gains_that_cancel_are_no_forgetting_and_can_be_drawn() -> None:
    """0.05 - 0.1 + 0.15 - 0.1 leaves 5e-18, which would get an axis of its own, with numbers that no prefix names."""
    best, last = (0.05, 0.05, 0.15), (0.05, 0.1, 0.1)
    rows = [(2, task, best[task]) for task in range(3)] + [(3, task, last[task]) for task in range(3)] + [(3, 3, 0.5)]
    frame = pd.DataFrame([(1.0, 0, *row) for row in rows], columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    assert metrics.mean(a - b for a, b in zip(best, last, strict=True)) != 0
    assert curves.forgetting_so_far(frame)["value"].tolist()[-1] == 0
    assert svg.draw_svg(curves.forgetting_over_tasks(frame, n_tasks=4))


def test_what_is_undefined_is_words_not_zero() -> None:
    first = accuracy().query("after_task == 0")
    assert "second task" in curves.forgetting_grid(first, epsilon=8.0, n_tasks=4).finding
    for picture in (
        curves.forgetting_over_tasks(first, n_tasks=4),
        curves.accuracy_over_tasks(accuracy().query("seed > 9"), n_tasks=4),
        compared_over_tasks([Series("now", first, "#0072b2")], n_tasks=2, of="forgetting"),
    ):
        assert picture.is_empty
        assert picture.finding


def test_compared_runs_are_named_at_their_ends_and_ranked() -> None:
    worse = accuracy(rule=lambda *at: by_rule(*at) - 0.1, epsilons=(8.0,))
    picture = curves.compared_over_tasks(
        [Series("B", worse, "#000000", "prior"), Series("A", accuracy(epsilons=(8.0,)), "#111111")], n_tasks=4
    )
    assert [note.text for note in picture.figure.layout.annotations] == ["B", "A"]
    assert picture.finding.index("A:") < picture.finding.index("B:")
    assert _trace(picture.figure, "B").line.dash != _trace(picture.figure, "A").line.dash  # type: ignore[attr-defined]


def test_a_task_before_the_first_model_leaves_a_gap_and_no_zero() -> None:
    """One model alone, released at the end: its accuracy is one point, and forgetting is not defined."""
    rows = [(1.0, seed, 3, task, 0.5) for seed in range(3) for task in range(4) if task != 1]
    frame = pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    picture = curves.accuracy_over_tasks(frame, n_tasks=4)
    for trace in picture.figure.data:
        if "lines" in trace.mode and trace.name == "ε = 1":
            assert (list(trace.x), list(trace.y)) == ([4], pytest.approx([50.0]))
    assert picture.finding == "After 4 tasks, accuracy at ε = 1 is 50.0 % (50.0 to 50.0)."
    assert curves.forgetting_over_tasks(frame, n_tasks=4).finding == "Forgetting is defined from the second task on."


@pytest.mark.parametrize(("make", "epsilons", "options", "dashes", "said"), [
    *((make, (0.5, 8.0, math.inf), {"standing": "claimed"},
       {"claimed ε = 0.5": "longdashdot", "claimed ε = 8": "longdashdot", "no noise": "solid"}, "claimed ε = ")
      for make in (curves.accuracy_over_tasks, curves.forgetting_over_tasks)),
    (curves.accuracy_over_tasks, (0.5,), {"labels": "data", "standing": "none"},
     {"asked ε = 0.5, total ∞": "dot"}, "at asked ε = 0.5, total ∞ is"),
    (curves.accuracy_over_tasks, (0.5,), {"score": "entity F1", "standing": "replay"},
     {"replay ε = 0.5, total ∞": "longdashdot"}, "entity F1 at replay ε = 0.5, total ∞ is"),
])  # fmt: skip
def test_budgets_that_are_no_bounds_are_named_so_and_dashed_like_no_other_line(
    make: Callable[..., Picture], epsilons: tuple[float, ...], options: dict[str, str], dashes: dict[str, str], said: str
) -> None:
    picture = make(accuracy(epsilons=epsilons), n_tasks=4, **options)
    assert _dashes(picture) == dashes
    assert said in picture.finding
    assert "score" not in options or "accuracy" not in picture.finding + picture.figure.layout.yaxis.title.text
    assert "claimed" not in make(accuracy(), n_tasks=4).finding


def test_a_compared_or_listed_budget_that_is_no_bound_is_set_apart() -> None:
    table = accuracy(epsilons=(0.5,))
    for standing, called in (("claimed", "B (claimed)"), ("replay", "B (replay alone)")):
        runs = [Series("A", table, "#0072b2", "prior"), Series("B", table, "#d55e00", "prior", standing)]
        for of in ("accuracy", "forgetting"):
            picture = curves.compared_over_tasks(runs, n_tasks=4, of=of)
            assert _dashes(picture) == {"A": "dash", called: "longdashdot"}
            assert f"{called}: " in picture.finding
    for make in (curves.accuracy_matrix, curves.forgetting_grid):
        finding = make(accuracy(), epsilon=0.5, n_tasks=4, standing="claimed").finding
        assert finding.startswith("At claimed ε = 0.5, after 4 tasks")


VALUES = np.array([[0.9, 0.2, 0.5], [0.7, 0.4, 0.5]])


def frame(*final: float) -> pd.DataFrame:
    """Two tasks, one seed a value: task 0 falls from 1.0 to the value."""
    rows = [
        (1.0, seed, k, i, 1.0 if k == i else value) for seed, value in enumerate(final) for k, i in ((0, 0), (1, 0), (1, 1))
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])


def test_bars_are_means_over_seeds_and_whiskers_their_range() -> None:
    picture = class_bars({"now": VALUES}, ("cat", "dog", "ant"), colours=["#0072b2"])
    bar = picture.figure.data[0]
    assert (list(bar.x), list(bar.y)) == (["cat", "dog", "ant"], pytest.approx([80.0, 30.0, 50.0]))
    assert (list(bar.error_y.array), list(bar.error_y.arrayminus)) == (pytest.approx([10.0, 10.0, 0.0]),) * 2
    assert picture.finding == "now: class dog is hardest (30.0 %), class cat easiest (80.0 %)."


def test_compared_forgetting_says_the_points_lost_by_each() -> None:
    runs = [Series("now", frame(0.9, 0.8, 0.7), "#0072b2"), Series("A", frame(0.4, 0.4, 0.4), "#d55e00", "data")]
    picture = compared_over_tasks(runs, n_tasks=2, of="forgetting")
    assert picture.finding == "now: 20.0 points lost after 2 tasks; A: 60.0 points lost after 2 tasks."
    lines = {trace.name: trace for trace in picture.figure.data if trace.mode and "markers" in trace.mode}
    assert list(lines["A"].y) == pytest.approx([60.0])
    assert lines["now"].line.dash != lines["A"].line.dash


def test_no_band_leaves_what_a_share_can_be_and_a_band_of_forgetting_may_be_below_zero() -> None:
    table = accuracy(n_tasks=2, epsilons=(1.0,), rule=lambda epsilon, seed, after, on: min(1.0, 0.98 + 0.02 * seed))
    band = next(trace for trace in curves.accuracy_over_tasks(table, n_tasks=2).figure.data if trace.fill == "toself")
    assert max(band.y) == 100
    assert curves._shares([-0.02, 0.0, 0.02], -1.0).low == pytest.approx(-0.0497, abs=1e-4)
    assert curves._shares([-0.02, 0.0, 0.02]).low == 0


# The accuracy matrix and the forgetting grid: numbers in their cells, nothing where nothing is known.


def test_matrix_is_empty_above_the_diagonal_and_where_not_learned_yet() -> None:
    table = accuracy().query("after_task < 3")
    z = np.array(curves.accuracy_matrix(table, epsilon=8.0, n_tasks=4).figure.data[0].z, dtype=float)
    assert z.shape == (4, 4)
    assert np.isnan(z[np.triu_indices(4, 1)]).all()
    assert np.isnan(z[3]).all()
    assert z[2, 0] == pytest.approx(100 * by_rule(8.0, 1, 2, 0))


def test_a_cell_holds_the_number_of_the_sentence() -> None:
    """A browser rounds 48.25 up where the sentence says 48.2: the cell has one digit from the start."""
    row = {"epsilon": 1.0, "seed": 0, "after_task": 0, "on_task": 0, "accuracy": 0.4825}
    picture = curves.accuracy_matrix(pd.DataFrame([row]), epsilon=1.0, n_tasks=1)
    assert picture.figure.data[0].z[0][0] == 48.2
    assert "48.2 %" in picture.finding


def test_forgetting_counts_from_the_best_of_each_seed() -> None:
    z = np.array(curves.forgetting_grid(accuracy(), epsilon=8.0, n_tasks=4).figure.data[0].z, dtype=float)
    assert z.shape == (3, 3)  # tasks 1 to 3, after tasks 2 to 4
    assert z[0] == pytest.approx([4, 8, 12])
    assert np.isnan(z[2, :2]).all()
    assert z[2, 2] == pytest.approx(4)


def test_nothing_lost_is_said_and_improvement_is_not_called_loss() -> None:
    better = accuracy(rule=lambda e, s, k, i: 0.5 + 0.02 * (k - i))
    assert "no old task is more than 0.5 points below" in curves.forgetting_grid(better, epsilon=8.0, n_tasks=4).finding


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_shade(dark: bool) -> None:
    for build in (curves.accuracy_matrix, curves.forgetting_grid):
        trace = build(accuracy(), epsilon=8.0, n_tasks=4, dark=dark).figure.data[0]
        for _, shade in trace.colorscale:
            assert contrast(shade, trace.textfont.color) >= 4.5, shade


def test_what_was_not_tested_stays_empty_and_out_of_every_sentence() -> None:
    """Task 1 has no test examples; the last task neither."""
    rows = [(1.0, 0, k, i, 0.9 - 0.1 * (k - i)) for k in range(1, 4) for i in range(1, min(k, 2) + 1)]
    frame = pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])
    picture = curves.accuracy_matrix(frame, epsilon=1.0, n_tasks=4)
    values = np.asarray(picture.figure.data[0].z, dtype=np.float64)
    assert np.isnan(values[:, [0, 3]]).all()
    assert values[3, 1] == pytest.approx(70.0)
    assert picture.finding == "At ε = 1, after 4 tasks, task 2 stands at 70.0 % and task 3 at 80.0 %; task 2 is weakest."
    lost = "task 2 lost most: 20.0 points since its best; mean 15.0."
    assert curves.forgetting_grid(frame, epsilon=1.0, n_tasks=4).finding.endswith(lost)
    one = curves.accuracy_matrix(frame[frame["after_task"] == 1], epsilon=1.0, n_tasks=4)
    assert one.finding == "At ε = 1, after 2 tasks, task 2 alone was tested: 90.0 %."


def _picture(**more: object) -> Picture:
    return _pictures(A=accuracy(**more))  # type: ignore[arg-type]


def _pictures(standings: Mapping[str, str] = {}, **tables: pd.DataFrame) -> Picture:
    """Runs by letter, of these standings, each in a colour of its own."""
    colours = {"A": "#0072b2", "B": "#d55e00", "C": "#008c68"}
    return tradeoff.trade_off(
        [Series(name, table, colours[name], standing=standings.get(name, "bound")) for name, table in tables.items()]
    )


def test_no_noise_is_a_column_that_no_line_reaches_and_forgetting_has_a_panel() -> None:
    traces = [trace for trace in _picture().figure.data if trace.yaxis == "y"]
    line = next(trace for trace in traces if "lines" in trace.mode)
    alone = next(trace for trace in traces if trace.mode == "markers")
    assert list(line.x) == pytest.approx([math.log10(0.5), math.log10(8)])
    assert alone.x[0] > math.log10(8)
    assert alone.y[0] == pytest.approx(100 * sum(by_rule(math.inf, 1, 3, i) for i in range(4)) / 4)
    assert list(_picture().figure.layout.xaxis2.ticktext) == ["0.5", "8", "no noise"]
    assert [t for t in _picture().figure.data if t.yaxis == "y2"]
    assert not [t for t in _picture(n_tasks=1).figure.data if t.yaxis == "y2"]


def test_finding_says_rises_only_where_it_rises() -> None:
    low, high = (100 * sum(by_rule(e, 1, 3, i) for i in range(4)) / 4 for e in (0.5, 8.0))
    for picture, said in (
        (_picture(), f"rises from {low:.1f} to {high:.1f} %"),
        (_picture(), "; without noise it is "),
        (_picture(rule=lambda e, s, k, i: 0.5 - 0.01 * min(e, 9.0)), "falls"),
        (_picture(rule=lambda e, s, k, i: 0.5), "stays at 50.0 %"),
        (_picture(epsilons=(math.inf,)), "Without noise final accuracy is "),
        (_picture(epsilons=(2.0,)), "At ε = 2 final accuracy is"),
        (_pictures(A=accuracy(), B=accuracy(epsilons=(math.inf,))), " B: without noise final accuracy is "),
    ):
        assert said in picture.finding


def test_an_unfinished_run_is_left_out_by_name() -> None:
    picture = _pictures(A=accuracy().query("seed > 9"), B=accuracy())
    assert ({trace.name for trace in picture.figure.data}, picture.figure.data[0].line.color) == ({"B"}, "#d55e00")


def test_budgets_that_bound_nothing_are_on_no_line() -> None:
    picture = _pictures({"B": "none"}, A=accuracy(), B=accuracy())
    bars = [trace.name for trace in picture.figure.data if trace.type == "bar" and trace.yaxis == "y"]
    assert bars == ["B (no bound)"]
    joined = [trace.name for trace in picture.figure.data if trace.type == "scatter" and "lines" in trace.mode]
    assert set(joined) == {"A"}
    assert "from asked ε = 0.5 to 8 (total ∞)" in picture.finding
    assert picture.finding.endswith("It is not comparable with one that is a bound.")


def test_claimed_budgets_are_hatched_bars_that_no_line_joins() -> None:
    picture = _pictures({"B": "claimed", "C": "claimed"}, A=accuracy(), B=accuracy(), C=accuracy())
    bars = [trace for trace in picture.figure.data if trace.type == "bar" and trace.yaxis == "y"]
    assert [bar.name for bar in bars] == ["B (claimed)", "C (claimed)"]
    assert all(bar.marker.pattern.shape == "/" and len(bar.x) == 2 for bar in bars)
    assert bars[0].x[0] + bars[0].width <= bars[1].x[0] + 1e-9, "beside one another"
    joined = [trace.name for trace in picture.figure.data if trace.type == "scatter" and "lines" in trace.mode]
    assert set(joined) == {"A"}
    assert "only claimed, not verified" in picture.figure.layout.xaxis2.title.text
    assert "from claimed ε = 0.5 to 8" in picture.finding
    assert picture.finding.endswith("A claimed ε is no bound and is not comparable with one.")
    assert "claimed" not in _picture().finding + str(_picture().figure.layout.xaxis2.title.text)
    alone = [trace for trace in picture.figure.data if trace.type == "scatter" and trace.name == "B"]
    assert [len(trace.x) for trace in alone] == [1, 1], "without noise nothing is claimed: a dot in its column"


RISING = {0.5: [0.2, 0.3, 0.4], 1.0: [0.4, 0.5, 0.6], 2.0: [0.6, 0.7, 0.8], 8.0: [0.8, 0.85, 0.9]}


def test_the_crossing_is_linear_in_log_epsilon_between_measured_budgets() -> None:
    answer = needed({**RISING, math.inf: [0.95]}, 0.6)
    assert answer.budgets == (0.5, 1.0, 2.0, 8.0)
    assert (answer.reached, answer.crossing) == (2.0, pytest.approx(math.sqrt(2)))  # half of the way from 0.5 to 0.7
    at_once = needed(RISING, 0.5)  # a measured budget that just reaches it needs no interpolation
    assert (at_once.reached, at_once.crossing) == (1.0, pytest.approx(1.0))


def test_its_range_is_where_the_ends_of_the_intervals_cross() -> None:
    answer = needed(RISING, 0.6)
    ends = [interval(values) for values in RISING.values()]
    for found, values in ((answer.low, [one.high for one in ends]), (answer.high, [one.low for one in ends])):
        rising = IsotonicRegression().fit_transform(np.arange(len(values)), values)
        assert float(np.interp(math.log(found), np.log(list(RISING)), rising)) == pytest.approx(0.6)
    assert answer.low <= answer.crossing <= answer.high


def test_a_budget_that_fell_by_luck_shares_its_mean_with_its_neighbour() -> None:
    answer = needed({1.0: [0.6], 2.0: [0.8], 4.0: [0.7], 8.0: [0.9]}, 0.76)
    assert answer.means == pytest.approx((0.6, 0.75, 0.75, 0.9))
    assert answer.reached == 8.0, "0.8 at ε = 2 was luck: ε = 4 did not reach it"


def test_nothing_is_extrapolated() -> None:
    below, above = needed(RISING, 0.25), needed(RISING, 0.99)
    assert (below.crossing, below.reached, above.crossing, above.reached) == (0.0, 0.5, math.inf, None)
    assert needed({math.inf: [0.9]}, 0.5) is None


FELL = {0.5: [0.2, 0.2, 0.21], 1.0: [0.45, 0.45, 0.46], 8.0: [0.35, 0.35, 0.36]}
ACCOUNTED = {"accounted": {0.5: 1.19, 1.0: 0.9999999, 2.0: 4.8123, 8.0: 19.8276}}


@pytest.mark.parametrize(("scores", "wanted", "options", "said"), [
    (RISING, 0.25, {}, ["Even ε = 0.5 gives 30.0 %, so 25 % accuracy needs no more (under 0.5 to 0.99)."]),
    (RISING, 0.99, {}, ["No ε tried gives 99 % accuracy: ε = 8 gives 85.0 % (over 8)."]),
    (RISING, 0.6, {}, ["60 % accuracy needs ε of about 1.4 (0.6 to 4.2)."]),
    (RISING, 0.6, {"score": "entity F1", "standing": "claimed"}, ["60 % entity F1 needs claimed ε of about 1.4 ("]),
    ({epsilon: values[:1] for epsilon, values in RISING.items()}, 0.6, {}, ["(no range: 1 seed, and it takes 3)."]),
    # A curve made to rise is told from what was measured.
    (FELL, 0.42, {}, ["No ε tried gives 42 % accuracy: ε = 8 gives 40.3 %, measured 35.3 % ("]),
    (FELL, 0.39, {}, ["39 % accuracy needs ε of about 0.95 ("]),
    # So is what was accounted from what was asked for.
    (RISING, 0.6, ACCOUNTED, ["of about 1.4 (", "Measured: ε = 2 (accounted ε = 4.82) gives 70.0 %."]),
    (RISING, 0.99, ACCOUNTED, ["ε = 8 (accounted ε = 19.9) gives 85.0 %"]),
    (RISING, 0.25, ACCOUNTED, ["Even ε = 0.5 (accounted ε = 1.19) gives 30.0 %"]),
])  # fmt: skip
def test_the_sentence_names_what_was_measured_and_what_was_made_of_it(
    scores: dict[float, list[float]], wanted: float, options: dict[str, object], said: list[str]
) -> None:
    found = sentence(needed(scores, wanted), **options)
    assert all(part in found for part in said), found
    as_asked = {epsilon: epsilon * (1 - 1e-9) for epsilon in scores}
    assert sentence(needed(scores, wanted), accounted=as_asked) == sentence(needed(scores, wanted))


def test_a_mean_that_only_rounding_keeps_from_the_wanted_score_reaches_it() -> None:
    for percent in range(1, 100):
        for apart in range(min(percent, 100 - percent) + 1):
            seeds = [(percent - apart) / 100, percent / 100, (percent + apart) / 100]
            answer = needed({1.0: [0.0, 0.0, 0.0], 8.0: seeds}, percent / 100)
            assert (answer.reached, answer.crossing) == (8.0, pytest.approx(8.0))


@pytest.mark.parametrize(("mean", "shown"), [(0.2896, "28.96"), (0.28996, "28.996"), (0.2894, "28.9"), (0.2904, "29.04")])
def test_a_near_miss_never_prints_as_the_wanted_score(mean: float, shown: str) -> None:
    said = sentence(needed({1.0: [0.1], 8.0: [mean]}, 0.29))
    assert (f"{shown} %" in said) == (mean < 0.29)
    assert said.startswith("No ε tried gives 29 %") == (mean < 0.29)


def test_the_figure_marks_each_crossing_and_its_range() -> None:
    answers = {"A": needed(RISING, 0.6), "B": needed({epsilon: values[:1] for epsilon, values in RISING.items()}, 0.6)}
    drawn = tradeoff.figure(answers, ["first.", "second."], colours=["#000000", "#ff0000"])
    marks = [trace for trace in drawn.figure.data if trace.marker.symbol == "diamond"]
    assert [10 ** mark.x[0] for mark in marks] == pytest.approx([math.sqrt(2), 2.0])
    assert marks[0].error_x.array[0] > 0
    assert marks[1].error_x.array[0] == 0
    assert drawn.finding == "A: first. B: second."
    assert "wanted 60 %" in [note.text for note in drawn.figure.layout.annotations]
