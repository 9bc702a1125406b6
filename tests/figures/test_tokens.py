"""Figures of scores, memory and secrets: they draw and say the numbers of their tables, and cope with what is missing."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import tokens
from dpcl_core.runs import frames
from tests.support import replay
from tests.support.texts import with_texts

SAID = with_texts(replay.recorded(replay.a_spec(epsilons=(1.0,), seeds=(0, 1)), n_tasks=3))


def detection(score: float) -> pd.DataFrame:
    groups = ("all tokens", "without stop words", "against look-alikes")
    rows = [(group, detector, value) for group in groups for detector, value in (("score", score), ("pattern", 0.6))]
    return pd.DataFrame(rows, columns=["group", "detector", "auroc"])


@pytest.mark.parametrize("dark", [False, True])
def test_detection_draws_and_says_both_detectors(dark: bool) -> None:
    picture = tokens.detection(detection(0.497), dark=dark)
    assert [list(trace.y) for trace in picture.figure.data] == [[0.497] * 3, [0.6] * 3]
    assert "against look-alikes 0.50 (pattern 0.60)" in picture.finding
    assert tokens.detection(detection(math.nan)).finding == "No personal token is marked here."


def test_memory_is_drawn_after_the_last_task_told() -> None:
    table = frames.retained(SAID)
    picture = tokens.retained(table)
    assert [round(value, 6) for value in picture.figure.data[0].y] == [0.5, 0.6, 0.7]
    assert picture.figure.data[1].y[1:] == pytest.approx((2.1, 2.2))
    assert math.isnan(picture.figure.data[1].y[0])
    assert picture.finding == (
        "After task 3 the model holds 0.60 nats an ordinary token on average and 2.15 a personal one."
    )
    early = tokens.retained(table[table["after_task"] == 0])
    assert early.finding.endswith("no personal token is marked.")
    assert tokens.retained(table[:0]).finding == "Nothing to show yet."


def test_exposure_stands_before_and_after_with_controls_and_the_other_end() -> None:
    picture = tokens.exposure(frames.leaks(SAID))
    drawn = {trace.name: list(trace.y) for trace in picture.figure.data}
    assert drawn == {
        "before training": [1.4, 1.5, 1.8], "after task 3": [1.4, 1.5, 11.5], "from the unlikely end": [1.4, 1.4, 0.2],
    }  # fmt: skip
    assert list(picture.figure.data[0].x) == ["never", "1", "16"]
    assert [list(trace.text) for trace in picture.figure.data] == [[""] * 3, ["1.4", "1.5", "11.5"], [""] * 3]
    assert picture.finding == (
        "Codes planted in 16 texts have 11.5 bits of exposure after task 3 (1.8 before training), codes never planted 1.4."
    )
    assert tokens.exposure(frames.leaks([])).finding == "No secrets were planted."


def test_exposure_before_the_first_task_alone() -> None:
    table = frames.leaks(SAID)
    picture = tokens.exposure(table[table["after_task"] < 0])
    assert [trace.name for trace in picture.figure.data] == ["before training"]
    assert picture.finding == "Codes planted in 16 texts have 1.8 bits of exposure before training, codes never planted 1.4."


def test_the_exposure_history_needs_three_measurements() -> None:
    table = frames.leaks(SAID)
    assert tokens.exposure_history(table) == (
        "Codes planted in 16 texts, in bits: 1.8 before training, 11.5 after task 1, 11.5 after task 2, 11.5 after task 3."
    )
    assert tokens.exposure_history(table[table["after_task"] <= 0]) == ""
    assert tokens.exposure_history(table[:0]) == ""


def test_less_than_before_has_a_true_minus() -> None:
    table = frames.retained(SAID).assign(ordinary=-0.061)
    picture = tokens.retained(table)
    assert "holds −0.06 nats" in picture.finding
    assert picture.figure.data[0].text[0] == "−0.06"
