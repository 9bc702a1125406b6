"""Splits a cell's (epsilon, delta) between its label lists and its weights. Loads no accountant."""

from __future__ import annotations

import math

from dpcl_core.spec import LabelSetting, PrivacySpec

_LIST_DELTA = 0.5  # share of delta that pays for the lists of labels


def list_budget(privacy: PrivacySpec, epsilon: float, n_tasks: int) -> tuple[float, float]:
    """The share of (epsilon, delta) for the label list of one task under "dp-learned".

    Half of delta is divided by the number of tasks. For a person of one task that is less than half; but deltas of lists
    add up exactly, so a person who is in every task has a bound at delta, too.
    """
    return privacy.label_share * epsilon, _LIST_DELTA * privacy.delta / n_tasks


def training_budget(privacy: PrivacySpec, setting: LabelSetting, epsilon: float) -> tuple[float, float]:
    """The share of (epsilon, delta) for the weights of a task, after its label list."""
    if setting != "dp-learned" or math.isinf(epsilon):
        return epsilon, privacy.delta
    return (1 - privacy.label_share) * epsilon, (1 - _LIST_DELTA) * privacy.delta
