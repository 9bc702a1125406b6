"""Auditing by rank: a lower bound on epsilon from an attacker who finds randomly drawn secrets.

One trained model is enough, because every secret is a separate trial (after Steinke, Nasr and Jagielski 2023, "Privacy
auditing with one (1) training run", whose secrets are coins; ours have many values).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy.stats import binom

_STEPS = 60  # halvings of an interval: the bound is exact to 1e-15 of it


@dataclass(frozen=True, slots=True)
class GuessCounts:
    """Result of an attack: `right` of `n` secrets were among the `allowed` values guessed for each.

    Every secret is one of `candidates` values, drawn uniformly and independently, and is in `group` examples.
    """

    n: int
    right: int
    allowed: int
    candidates: int
    group: int = 1


def bound_of_guesses(
    counts: tuple[GuessCounts, ...], delta: float, adjacency: Literal["add-remove", "replace"], confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon of one example; each of `counts` gets an equal share of the error probability.

    Let epsilon' and delta' hold for replacing all examples of one secret. Whatever the outcome on other secrets, the
    attacker guesses the right value with probability at most p = e^epsilon' r / (e^epsilon' r + N - r), r = allowed,
    N = candidates, up to delta': summing P_c[E] <= e^epsilon' P_c'[E] + delta' for E = "c is guessed, c' is not" over all
    pairs c, c' gives (N - r) P[right] <= e^epsilon' r (1 - P[right]) + (N - 1) delta', given any outcome of the other
    secrets. So v are right with probability at most P[Binomial(n, p) >= v] + n delta'. A secret in g examples takes g
    replacements, each two steps under add/remove: epsilon' = s epsilon and delta' = delta (e^(s epsilon) - 1) /
    (e^epsilon - 1), s = g or 2 g. Never below 0, and never inf.

    Raises ValueError where the numbers are inconsistent.
    """
    if not counts:
        return 0.0
    return max(_bound(one, delta, adjacency, (1 - confidence) / len(counts)) for one in counts)


def _bound(one: GuessCounts, delta: float, adjacency: str, error: float) -> float:
    if not (0 <= one.right <= one.n and 0 < one.allowed < one.candidates and one.group > 0):
        raise ValueError(f"no such game: {one}")
    steps = one.group * (2 if adjacency == "add-remove" else 1)
    low, high = 0.0, 64.0
    if one.right == 0 or _chance(one, low, steps, delta) > error:
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _chance(one, middle, steps, delta) > error:
            high = middle
        else:
            low = middle
    return low


def _chance(one: GuessCounts, epsilon: float, steps: int, delta: float) -> float:
    """Upper bound on the probability of this many right guesses under this epsilon of one example; increasing in it."""
    against = (one.candidates - one.allowed) / one.allowed
    rate = 1 / (1 + against * math.exp(-steps * epsilon))
    delta_sum = delta * sum(math.exp(min(700.0, step * epsilon)) for step in range(steps))
    return min(1.0, float(binom.sf(one.right - 1, one.n, rate)) + one.n * delta_sum)
