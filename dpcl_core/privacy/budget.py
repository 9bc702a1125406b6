"""Splits a cell's (epsilon, delta) between its label lists and its weights. Loads no accountant."""

from __future__ import annotations

import math

from dpcl_core.spec import LabelSetting, PrivacySpec

_LIST_DELTA = 0.5  # share of delta that pays for the lists of labels
_LARGEST = 700.0  # whose exponential is a number


def list_budget(privacy: PrivacySpec, epsilon: float, n_tasks: int, rows: int = 1) -> tuple[float, float]:
    """The share of (epsilon, delta) for the label list of one task under "dp-learned".

    Half of delta is divided by the number of tasks. For a person of one task that is less than half; but deltas of lists
    add up exactly, so a person who is in every task has a bound at delta, too. `rows`: how many rows of one person the list
    may be read from. For `rows` of them the delta of one grows by (exp(rows epsilon) - 1) / (exp(epsilon) - 1), so that much
    less is spent on one; where that is no number of a computer there is no bound, whatever is spent.
    """
    spent = privacy.label_share * epsilon
    grows = math.expm1(rows * spent) / math.expm1(spent) if rows > 1 and rows * spent < _LARGEST else 1.0
    return spent, _LIST_DELTA * privacy.delta / n_tasks / grows


def training_budget(privacy: PrivacySpec, setting: LabelSetting, epsilon: float) -> tuple[float, float]:
    """The share of (epsilon, delta) for the weights of a task, after its label list."""
    if setting != "dp-learned" or math.isinf(epsilon):
        return epsilon, privacy.delta
    return (1 - privacy.label_share) * epsilon, (1 - _LIST_DELTA) * privacy.delta
