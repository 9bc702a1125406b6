"""Accuracy and forgetting against the budget, and the budget that a wanted accuracy needs."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from dpcl_core.figures import tradeoff
from dpcl_core.figures.curves import Series
from dpcl_core.figures.picture import Picture
from dpcl_core.figures.statistics import interval
from dpcl_core.figures.tradeoff import needed, sentence
from tests.figures.making import accuracy, by_rule


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
