"""Exposure of planted secrets, and the lower bound on epsilon that follows, from the likelihoods of all possible values.

Exposure is log2 of the number of values minus log2 of the secret's rank among them by likelihood (Carlini, Liu, Erlingsson,
Kos and Song 2019, "The Secret Sharer"). A secret that was never seen has 1.44 bits on average, the most likely one of N has
log2 N. Counted from the least likely end, exposure reveals a secret that was unlearned too hard and so stands out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Leaks
from dpcl_core.privacy.rank_audit_bound import GuessCounts, bound_of_guesses
from dpcl_core.spec import Cell, PrivacySpec

CONFIDENCE = 0.95
_SHARES = (1e-4, 1e-3, 1e-2)  # shares of all values that the attacker may name: fixed in advance, not chosen by the result
# Codes are drawn without replacement, and never a string that a text holds elsewhere: the proof counts only this share of
# all values as possible.
_FREE = 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """One secret's rank: `rank` counts from the most likely (1) among `n_ranked` values, after its ties.

    `n_values`: number of possible values; more than `n_ranked` where the others are a sample of references. `place`: rank
    among all of them, at the middle of its ties. `repetitions`: number of texts it was planted in. `extracted`: whether
    greedy decoding prints it.
    """

    rank: int
    n_ranked: int
    place: float
    n_values: int
    repetitions: int
    extracted: bool

    @property
    def exposure(self) -> float:
        """Exposure in bits: how much easier the model makes the secret to guess."""
        return float(np.log2(self.n_values) - np.log2(self.place))

    @property
    def below(self) -> float:
        """Exposure in bits, counted from the least likely end."""
        return float(np.log2(self.n_values) - np.log2(self.n_values + 1 - self.place))


def ranked(likelihood: float, others: NDArray[np.floating], n_values: int, repetitions: int, extracted: bool) -> Ranked:
    """A secret's rank by log-likelihood; `others` [m] are all other values (m = n_values - 1) or a sample of them.

    With a sample the place is interpolated linearly between the references' expected places i n_values / (m + 1); beyond
    the outermost reference it is halfway to the end, so exposure is at most log2(2 (m + 1)). NaN counts as least likely.
    """
    values = np.nan_to_num(np.asarray(others, np.float64), nan=-np.inf)
    secret = -np.inf if np.isnan(likelihood) else likelihood
    n_better, n_equal = int((values > secret).sum()), int((values == secret).sum())
    is_complete = len(values) + 1 == n_values
    place = 1 + n_better + n_equal / 2 if is_complete else _interpolated(secret, values, n_values)
    return Ranked(1 + n_better + n_equal, len(values) + 1, place, n_values, repetitions, extracted)


def leaks(rankings: Sequence[Ranked], *, cell: Cell, task: int, privacy: PrivacySpec) -> Leaks:
    """Mean exposure for each number of repetitions, and the lower bound on the epsilon of one text.

    The proof's controls are all values that a secret could have had but did not; codes that were never planted are only
    shown for comparison. With few codes, or codes in many texts each, the bound is weak: fifteen codes, in one text each and
    all of them the most likely of 10,000, prove 10.1 under "replace" and half of that under "add-remove"; in 16 texts each,
    at most a sixteenth of that. A bound of 0 does not mean that nothing leaks.
    """
    levels = tuple(sorted({one.repetitions for one in rankings}))
    by_level = [[one for one in rankings if one.repetitions == level] for level in levels]
    return Leaks(
        cell,
        task,
        levels,
        exposure=tuple(float(np.mean([one.exposure for one in group])) for group in by_level),
        below=tuple(float(np.mean([one.below for one in group])) for group in by_level),
        first=tuple(float(np.mean([one.rank == 1 for one in group])) for group in by_level),
        extracted=tuple(float(np.mean([one.extracted for one in group])) for group in by_level),
        codes=tuple(len(group) for group in by_level),
        epsilon_at_least=epsilon_at_least(rankings, privacy),
        confidence=CONFIDENCE,
    )


def epsilon_at_least(rankings: Sequence[Ranked], privacy: PrivacySpec) -> float:
    """Lower bound at `CONFIDENCE` on the epsilon of one text: `privacy.rank_audit_bound` for several list lengths."""
    games: list[GuessCounts] = []
    for level in sorted({one.repetitions for one in rankings} - {0}):
        group = [one for one in rankings if one.repetitions == level]
        size = min(one.n_ranked for one in group)
        if size < 10:  # too few values to prove anything
            continue
        for allowed in sorted({max(1, round(share * size)) for share in _SHARES}):
            right = sum(one.rank <= allowed for one in group)
            games.append(GuessCounts(len(group), right, allowed, int(_FREE * size), level))
    return bound_of_guesses(tuple(games), privacy.delta, privacy.adjacency, CONFIDENCE)


def _interpolated(likelihood: float, values: NDArray[np.float64], n_values: int) -> float:
    if len(values) == 0:
        raise ValueError("others is empty: ranking a secret needs references")
    m, step = len(values), n_values / (len(values) + 1)
    descending = -np.sort(-values)
    if likelihood > descending[0]:
        return max(1.0, step / 2)
    if likelihood < descending[-1]:
        return min(float(n_values), n_values - step / 2)
    # Equal references share their mean place, so that the interpolated function has no jumps.
    distinct, first = np.unique(-descending, return_index=True)
    last = np.append(first[1:], m)
    places = step * (1 + (first + last - 1) / 2)
    return float(np.interp(-likelihood, distinct, places))
