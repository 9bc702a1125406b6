"""How much a model tells of planted secrets, from the likelihoods that it gives to all values that they could have had.

Exposure is log2 of the number of values, less log2 of the secret's rank among them by likelihood (Carlini, Liu, Erlingsson,
Kos and Song 2019, "The Secret Sharer"). A secret never seen has 1.44 bits on average, the single most likely one of N has
log2 N. Counted from the least likely end it shows a secret that was unlearned too hard, and so is marked again.
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
_SHARES = (1e-4, 1e-3, 1e-2)  # of all values, those that the attacker may name: fixed beforehand, whatever is found
# Codes are drawn without replacement, from those that no text holds elsewhere: the proof takes so many as possible only.
_FREE = 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """Where one secret stands: `rank` from the most likely end among `n_ranked` values, 1 the best, behind its ties.

    `n_values`: how many values it could have had; more than `n_ranked` where others were drawn as references. `place`: rank
    among all of them, in the middle of its ties. `repetitions`: texts it was planted in. `extracted`: the model, always
    continuing with the likeliest token, prints it.
    """

    rank: int
    n_ranked: int
    place: float
    n_values: int
    repetitions: int
    extracted: bool

    @property
    def exposure(self) -> float:
        """Bits by which the model makes the secret easier to find."""
        return float(np.log2(self.n_values) - np.log2(self.place))

    @property
    def below(self) -> float:
        """The same, counted from the least likely end."""
        return float(np.log2(self.n_values) - np.log2(self.n_values + 1 - self.place))


def ranked(likelihood: float, others: NDArray[np.floating], n_values: int, repetitions: int, extracted: bool) -> Ranked:
    """A secret's place among others, from log-likelihoods; `others` [m] are all other values (m = n_values - 1) or a sample.

    With a sample the place is interpolated linearly between references' expected places i n_values / (m + 1); beyond the
    outermost it lies halfway to the end, so that exposure is at most log2(2 (m + 1)). What is not a number counts as
    the least likely of all.
    """
    values = np.nan_to_num(np.asarray(others, np.float64), nan=-np.inf)
    own = -np.inf if np.isnan(likelihood) else likelihood
    n_better, n_equal = int((values > own).sum()), int((values == own).sum())
    is_complete = len(values) + 1 == n_values
    place = 1 + n_better + n_equal / 2 if is_complete else _interpolated(own, values, n_values)
    return Ranked(1 + n_better + n_equal, len(values) + 1, place, n_values, repetitions, extracted)


def leaks(found: Sequence[Ranked], *, cell: Cell, task: int, privacy: PrivacySpec) -> Leaks:
    """Means by level of repetitions, and what they prove about the epsilon of one text.

    The controls of the proof are all values that a secret could have had and had not; codes that are never planted are only
    shown beside. With few codes, or codes in many texts each, it is a weak proof: fifteen codes, in one text each and all of
    them the most likely of 10,000, prove 10.1 under "replace" and half of that under "add-remove"; in 16 texts each, a
    sixteenth of that at most. 0 is no sign that nothing leaks.
    """
    levels = tuple(sorted({one.repetitions for one in found}))
    by_level = [[one for one in found if one.repetitions == level] for level in levels]
    return Leaks(
        cell,
        task,
        levels,
        exposure=tuple(float(np.mean([one.exposure for one in group])) for group in by_level),
        below=tuple(float(np.mean([one.below for one in group])) for group in by_level),
        first=tuple(float(np.mean([one.rank == 1 for one in group])) for group in by_level),
        extracted=tuple(float(np.mean([one.extracted for one in group])) for group in by_level),
        codes=tuple(len(group) for group in by_level),
        epsilon_at_least=epsilon_at_least(found, privacy),
        confidence=CONFIDENCE,
    )


def epsilon_at_least(found: Sequence[Ranked], privacy: PrivacySpec) -> float:
    """Lower bound, at `CONFIDENCE`, on the epsilon of one text: `privacy.guesses` with a few lengths of list per level."""
    games: list[GuessCounts] = []
    for level in sorted({one.repetitions for one in found} - {0}):
        group = [one for one in found if one.repetitions == level]
        size = min(one.n_ranked for one in group)
        if size < 10:  # too few values to tell anything
            continue
        for allowed in sorted({max(1, round(share * size)) for share in _SHARES}):
            right = sum(one.rank <= allowed for one in group)
            games.append(GuessCounts(len(group), right, allowed, int(_FREE * size), level))
    return bound_of_guesses(tuple(games), privacy.delta, privacy.adjacency, CONFIDENCE)


def _interpolated(own: float, values: NDArray[np.float64], n_values: int) -> float:
    if len(values) == 0:
        raise ValueError("a place needs references to compare with")
    m, step = len(values), n_values / (len(values) + 1)
    descending = -np.sort(-values)
    if own > descending[0]:
        return max(1.0, step / 2)
    if own < descending[-1]:
        return min(float(n_values), n_values - step / 2)
    # Equal references share the middle of their places, so that interpolation meets no steps.
    distinct, first = np.unique(-descending, return_index=True)
    last = np.append(first[1:], m)
    places = step * (1 + (first + last - 1) / 2)
    return float(np.interp(-own, distinct, places))
