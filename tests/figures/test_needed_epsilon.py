"""Which ε a wanted accuracy needs: monotone curves, crossings in closed form, open ends said so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from dpcl_core.figures import tradeoff
from dpcl_core.figures.statistics import interval
from dpcl_core.figures.tradeoff import needed, sentence

RISING = {0.5: [0.2, 0.3, 0.4], 1.0: [0.4, 0.5, 0.6], 2.0: [0.6, 0.7, 0.8], 8.0: [0.8, 0.85, 0.9]}


def test_the_crossing_is_linear_in_log_epsilon_between_measured_budgets() -> None:
    answer = needed({**RISING, math.inf: [0.95]}, 0.6)
    assert answer is not None
    assert answer.budgets == (0.5, 1.0, 2.0, 8.0)
    assert (answer.reached, answer.crossing) == (2.0, pytest.approx(math.sqrt(2)))  # half of the way from 0.5 to 0.7


def test_a_measured_budget_that_just_reaches_it_needs_no_interpolation() -> None:
    answer = needed(RISING, 0.5)
    assert answer is not None
    assert (answer.reached, answer.crossing) == (1.0, pytest.approx(1.0))


def test_its_range_is_where_the_ends_of_the_intervals_cross() -> None:
    answer = needed(RISING, 0.6)
    assert answer is not None
    ends = [interval(values) for values in RISING.values()]
    assert answer.low is not None
    assert answer.high is not None
    for found, values in ((answer.low, [one.high for one in ends]), (answer.high, [one.low for one in ends])):
        rising = IsotonicRegression().fit_transform(np.arange(len(values)), values)
        assert float(np.interp(math.log(found), np.log(list(RISING)), rising)) == pytest.approx(0.6)
    assert answer.low <= answer.crossing <= answer.high


def test_a_budget_that_fell_by_luck_shares_its_mean_with_its_neighbour() -> None:
    answer = needed({1.0: [0.6], 2.0: [0.8], 4.0: [0.7], 8.0: [0.9]}, 0.76)
    assert answer is not None
    assert answer.means == pytest.approx((0.6, 0.75, 0.75, 0.9))
    assert answer.reached == 8.0, "0.8 at ε = 2 was luck: ε = 4 did not reach it"


def test_nothing_is_extrapolated_and_the_sentence_says_where_it_is_open() -> None:
    below, above = needed(RISING, 0.25), needed(RISING, 0.99)
    assert below is not None
    assert above is not None
    assert (below.crossing, below.reached, above.crossing, above.reached) == (0.0, 0.5, math.inf, None)
    assert sentence(below) == (
        "The smallest budget measured, ε = 0.5 (30.0 %), already reaches 25 % accuracy; whether less would do is open. The "
        f"95 % intervals of 3 seeds allow ε from less than 0.5 to {below.high:.2g} (not bracketed below)."
    )
    assert sentence(above) == (
        "No budget measured reaches 99 % accuracy: ε = 8 gives 85.0 %. "
        "Nor does the upper end of the 95 % interval of 3 seeds."
    )
    assert needed({math.inf: [0.9]}, 0.5) is None


def test_the_sentence_names_the_interpolation_and_the_seeds() -> None:
    answer = needed(RISING, 0.6)
    assert answer is not None
    said = sentence(answer, score="entity F1", standing="claimed")
    assert said.startswith(
        "The smallest budget measured that reaches 60 % entity F1 is claimed ε = 2 (70.0 %); interpolated on log ε between "
        "1 and 2, about 1.4 would do. The 95 % intervals of 3 seeds allow ε from "
    )
    alone = needed({epsilon: values[:1] for epsilon, values in RISING.items()}, 0.6)
    assert alone is not None
    assert sentence(alone).endswith("With 1 seed there is no interval: at least 3 are needed.")
    assert sentence(answer, is_exact=True).startswith("60 % accuracy needs about ε = 1.4, computed for ")


def test_a_mean_that_only_rounding_keeps_from_the_wanted_score_reaches_it() -> None:
    for percent in range(1, 100):
        for apart in range(min(percent, 100 - percent) + 1):
            seeds = [(percent - apart) / 100, percent / 100, (percent + apart) / 100]
            answer = needed({1.0: [0.0, 0.0, 0.0], 8.0: seeds}, percent / 100)
            assert answer is not None
            assert (answer.reached, answer.crossing) == (8.0, pytest.approx(8.0))


@pytest.mark.parametrize(("mean", "shown"), [(0.2896, "28.96"), (0.28996, "28.996"), (0.2894, "28.9"), (0.2904, "29.04")])
def test_a_near_miss_never_prints_as_the_wanted_score(mean: float, shown: str) -> None:
    answer = needed({1.0: [0.1], 8.0: [mean]}, 0.29)
    assert answer is not None
    said = sentence(answer)
    assert f"{shown} %" in said
    assert said.startswith("No budget measured reaches 29 %") == (mean < 0.29)


def test_the_sentence_tells_a_curve_made_to_rise_from_what_was_measured() -> None:
    fell = {0.5: [0.2, 0.2, 0.21], 1.0: [0.45, 0.45, 0.46], 8.0: [0.35, 0.35, 0.36]}
    missed, reached = needed(fell, 0.42), needed(fell, 0.39)
    assert missed is not None
    assert reached is not None
    assert sentence(missed) == (
        "On a curve made to rise with ε, no budget measured reaches 42 % accuracy: ε = 8 gives 40.3 %, measured: 35.3 %. "
        "Nor does the upper end of the 95 % interval of 3 seeds. "
        "Taken alone, ε = 1 (45.3 %) reaches it, but a larger ε came out worse."
    )
    assert sentence(reached).startswith(
        "On a curve made to rise with ε, the smallest budget measured that reaches 39 % accuracy is ε = 1 (40.3 %, "
        "measured: 45.3 %); interpolated on log ε between 0.5 and 1, about 0.95 would do. "
    )
    assert "Taken alone" not in sentence(reached)


def test_the_sentence_says_what_was_accounted_where_that_is_not_what_was_asked_for() -> None:
    reached, missed, least = (needed(RISING, wanted) for wanted in (0.6, 0.99, 0.25))
    assert reached is not None
    assert missed is not None
    assert least is not None
    accounted = {0.5: 1.19, 1.0: 0.9999999, 2.0: 4.8123, 8.0: 19.8276}
    assert sentence(reached, accounted=accounted).startswith(
        "The smallest budget measured that reaches 60 % accuracy is ε = 2 (accounted ε = 4.82; 70.0 %); interpolated on "
        "log ε between 1 and 2, asking for about 1.4 would do. "
    )
    assert "ε = 8 (accounted ε = 19.9) gives 85.0 %" in sentence(missed, accounted=accounted)
    assert "measured, ε = 0.5 (accounted ε = 1.19; 30.0 %), already" in sentence(least, accounted=accounted)
    as_asked = {epsilon: epsilon * (1 - 1e-9) for epsilon in RISING}
    assert sentence(reached, accounted=as_asked) == sentence(reached)


def test_the_figure_marks_each_crossing_and_its_range() -> None:
    answers = {"A": needed(RISING, 0.6), "B": needed({epsilon: values[:1] for epsilon, values in RISING.items()}, 0.6)}
    known = {name: answer for name, answer in answers.items() if answer is not None}
    drawn = tradeoff.figure(known, ["first.", "second."], colours=["#000000", "#ff0000"])
    marks = [trace for trace in drawn.figure.data if trace.marker.symbol == "diamond"]
    assert [10 ** mark.x[0] for mark in marks] == pytest.approx([math.sqrt(2), 2.0])
    assert marks[0].error_x.array[0] > 0
    assert marks[1].error_x.array[0] == 0
    assert drawn.finding == "A: first. B: second."
    assert "wanted 60 %" in [note.text for note in drawn.figure.layout.annotations]
