"""Accuracy tables made up by rule, so that every number in a figure can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

Rule = Callable[[float, int, int, int], float]


def by_rule(epsilon: float, seed: int, after_task: int, on_task: int) -> float:
    """Accuracy that rises with epsilon, falls by 4 points a task, and differs by 2 points between seeds."""
    best = 0.9 if math.isinf(epsilon) else 0.9 * epsilon / (epsilon + 1)
    return best - 0.04 * (after_task - on_task) + 0.02 * (seed - 1)


def accuracy(
    *,
    n_tasks: int = 4,
    epsilons: Sequence[float] = (0.5, 8.0, math.inf),
    seeds: Sequence[int] = (0, 1, 2),
    rule: Rule = by_rule,
) -> pd.DataFrame:
    """A table as `runs.frames.accuracy` gives it."""
    rows = [
        (epsilon, seed, k, i, rule(epsilon, seed, k, i))
        for epsilon in epsilons
        for seed in seeds
        for k in range(n_tasks)
        for i in range(k + 1)
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio as WCAG defines it."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
