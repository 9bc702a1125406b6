"""Published and ours, trials of a tuning, runs through their settings: every number where it belongs."""

import math

import pandas as pd
import pytest

from dpcl_core.events import References
from dpcl_core.figures import reproduction
from tests.support.asserting import includes

COLUMNS = ["name", "epsilon", "published", "published_std", "ours", "ours_std", "is_comparable", "is_nominal"]
NAN = math.nan


def _frame(*rows: tuple[object, ...]) -> pd.DataFrame:
    """The rows, each with whether its budget is only claimed as a last value, False where it is left out."""
    types = dict.fromkeys(COLUMNS[1:6], "float64") | {"is_comparable": "bool", "is_nominal": "bool"}
    full = [row if len(row) == len(COLUMNS) else (*row, False) for row in rows]
    return pd.DataFrame(full, columns=COLUMNS).astype(types)


def _points(picture: object, name: str) -> list[tuple[float, float]]:
    (trace,) = (trace for trace in picture.figure.data if trace.name == name)  # type: ignore[attr-defined]
    return list(zip(trace.x, trace.y, strict=True))


def test_pairs_are_joined_and_the_finding_counts_them() -> None:
    frame = _frame(
        ("A", 1.0, 70.0, 1.0, 60.0, 2.0, True),
        ("A", math.inf, 80.0, NAN, 84.0, NAN, True),
        ("B", 1.0, NAN, NAN, 33.0, 1.0, True),
    )
    picture = reproduction.published_and_ours(frame, what="accuracy")
    assert [x for x, _ in _points(picture, "published")] == [70.0, 80.0]
    assert [x for x, _ in _points(picture, "ours")] == [60.0, 84.0, 33.0]
    assert [y for _, y in _points(picture, "ours")][:2] == [y for _, y in _points(picture, "published")]
    assert sum(trace.mode == "lines" for trace in picture.figure.data) == 2
    assert picture.finding.startswith("Ours are lower in 1 and higher in 1 of 2 pairs; the difference is −3.0 points")
    assert picture.finding.endswith("at most −10.0 (A, at ε = 1).")
    includes([note.text for note in picture.figure.layout.annotations], "<b>A</b>", "<b>B</b>")


@pytest.mark.parametrize(("rows", "said"), [
    ([("A", 1.0, 70.0, 1.0, NAN, NAN, True)], "none of the runs has been carried out"),
    ([("A", 1.0, NAN, NAN, 20.0, 1.0, True), ("A", 8.0, NAN, NAN, 30.0, 1.0, True)], "between 20.0 and 30.0 %"),
    ([], "nothing has run yet"),
    ([("A", 1.0, 70.0, 1.0, 60.0, 2.0, False)], "on different data: no difference is formed"),
    ([("A", 1.0, 70.0, 1.0, 69.0, 2.0, True), ("L", 1.0, 60.0, 1.0, 40.0, 2.0, True, True)], "(L, at claimed ε = 1)"),
])  # fmt: skip
def test_findings_of_what_is_missing_elsewhere_or_claimed(rows: list[tuple[object, ...]], said: str) -> None:
    picture = reproduction.published_and_ours(_frame(*rows), what="accuracy")
    assert said in picture.finding
    assert picture.is_empty == (not rows)
    assert any(trace.mode == "lines" for trace in picture.figure.data) == ("claimed" in said)
    if "claimed" in said:
        assert list(picture.figure.layout.yaxis.ticktext) == ["ε = 1", "claimed ε = 1"]


def test_negative_forgetting_stays_in_sight() -> None:
    frame = _frame(("A", 1.0, 3.0, 1.0, -4.0, 2.0, True))
    assert reproduction.published_and_ours(frame, what="forgetting").figure.layout.xaxis.range[0] <= -4.0


def test_guessing_and_the_untrained_network_are_lines_at_their_levels_with_a_row_for_each_name() -> None:
    frame = _frame(("A", 1.0, 70.0, 1.0, 60.0, 2.0, True), ("B", 1.0, 70.0, 1.0, 60.0, 2.0, True))
    picture = reproduction.published_and_ours(frame, what="accuracy", references=References(0.2, 0.25, ceiling=0.5))
    drawn = {trace.name: trace for trace in picture.figure.data if trace.line.dash == "dot"}
    assert list(drawn) == ["chance 20 %", "untrained 25 %", "at once, no noise 50 %"]
    notes = {note.text: note.y for note in picture.figure.layout.annotations}
    assert len({notes[name] for name in drawn}) == 3
    assert max(notes[name] for name in drawn) < notes["<b>A</b>"], "heights grow downward"
    for trace, level in zip(drawn.values(), (20.0, 25.0, 50.0), strict=True):
        assert {x for x in trace.x if x is not None} == {level}
    assert picture.finding.endswith("gives 20.0 %, the untrained network 25.0 % and all at once without noise 50.0 %.")


def test_a_network_that_can_only_guess_shares_the_line_of_chance() -> None:
    frame = _frame(("A", 1.0, 70.0, 1.0, 60.0, 2.0, True))
    picture = reproduction.published_and_ours(frame, what="accuracy", references=References(0.01, 0.01))
    assert [trace.name for trace in picture.figure.data if trace.line.dash == "dot"] == ["chance = untrained 1 %"]
    assert picture.finding.endswith("Guessing, which is all that the untrained network can do, gives 1.0 %.")


def a_table(*accuracies: float) -> pd.DataFrame:
    rows = [(k + 1, value, 1e-3, 50, 2.0) for k, value in enumerate(accuracies)]
    columns = ["trial", "accuracy", "learning_rate", "batch_size", "clip_norm"]
    return pd.DataFrame(rows, columns=columns).astype({"accuracy": "float64"})


def drawn(*accuracies: float) -> reproduction.Picture:
    return reproduction.trials(a_table(*accuracies), n_trials=20, n_validation=100)


def test_the_line_is_the_best_so_far_and_failed_trials_are_crosses_at_the_foot() -> None:
    picture = drawn(0.5, math.nan, 0.4, 0.75)
    line, dots, crosses = picture.figure.data
    assert (list(line.x), list(line.y), list(dots.y), list(crosses.x)) == ([1, 3, 4], [50, 50, 75], [50, 40, 75], [2])
    assert crosses.marker.symbol == "x"
    assert picture.figure.layout.xaxis.range[1] > 20  # room for the trials to come


@pytest.mark.parametrize(("accuracies", "said"), [
    ((0.5, math.nan, 0.4, 0.75), "Trial 4 is the best of 4: 75.0 % of 100 held-out examples (standard error 4.3 "),
    ((1, 1, 1), "Trial 1 is the best of 3, as good as 2 later ones: 100.0 % of 100 held-out examples."),
    ((0.5, 0.75, 0.75), "as good as 1 later one:"),
    ((), "The first dot appears when a trial is over."),
    ((math.nan, math.nan), "No trial has ended well yet. 2 of 2 failed."),
])  # fmt: skip
def test_the_finding_names_the_best_trial_and_how_sure_that_is(accuracies: tuple[float, ...], said: str) -> None:
    assert said in drawn(*accuracies).finding
