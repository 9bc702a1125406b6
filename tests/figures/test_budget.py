"""Ledger steps and noise growth."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import tokens


def _spent(epsilon: list[float], step: list[float]) -> pd.DataFrame:
    n = len(epsilon)
    return pd.DataFrame({"people": ["in every task"] * n, "after_task": range(n), "epsilon": epsilon, "step": step})


def test_accounted_steps_and_their_plain_sum() -> None:
    picture = tokens.ledger(_spent([1.0, 1.5, 1.9], [1.0, 1.0, 1.0]))
    accounted, naive = picture.figure.data
    assert list(accounted.x) == [1, 2, 3]
    assert list(accounted.y) == [1.0, 1.5, 1.9]
    assert accounted.line.shape == "hvh"  # a step lies around its task
    assert list(naive.y) == [1.0, 2.0, 3.0]
    assert picture.finding == "In every task: ε = 1.9 after 3 tasks."


def test_no_bound_is_said_and_not_drawn() -> None:
    picture = tokens.ledger(_spent([math.inf, math.inf], [math.inf, math.inf]))
    assert "no bound" in picture.finding
    assert all(len(trace.x) == 0 for trace in picture.figure.data)


def test_empty_ledger_has_words() -> None:
    assert "nothing has touched" in tokens.ledger(_spent([], [])).finding


def test_noise_growth_says_by_how_much() -> None:
    picture = tokens.noise_growth({"prior": [2.0] * 4, "prior-const": [2.0 * math.sqrt(k) for k in range(1, 5)]})
    assert "public list per task: the noise stays the same after 4 tasks" in picture.finding.lower()
    assert "one public list: the noise is 2 times the first task's" in picture.finding
    assert [trace.line.dash for trace in picture.figure.data] == ["dash", "solid"]
    assert list(picture.figure.data[1].y) == pytest.approx([2.0, 2 * 2**0.5, 2 * 3**0.5, 4.0])
