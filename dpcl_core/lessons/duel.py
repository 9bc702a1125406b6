"""The membership duel: an attacker sees one release and says whether one person took part. How often is he right?

Three numbers are compared, and they must come in this order: what an attack reached, the best that any attack can reach
against this noise (exact), and the most that (epsilon, delta) allows against any mechanism (the promise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcl_core.privacy.lower_bound import bound_of_counts

# How rarely chance alone may lift an honest attack over the exact curve by more than `allowance`.
FALSE_ALARM = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Duel:
    """An attacker's evidence on releases made with the person and without: [n] each, in the order they were played.

    Evidence is the logarithm of how much likelier the release is with the person than without; infinite where the release
    is possible on one side only. Above 0 he says "took part": the best rule at even odds, fixed before the game.
    """

    took_part: NDArray[np.float64]
    stayed_away: NDArray[np.float64]

    @property
    def hits(self) -> int:
        """Hits: releases with the person that he identified."""
        return int((self.took_part > 0).sum())

    @property
    def false_alarms(self) -> int:
        """False alarms: releases without the person that he took for ones with her."""
        return int((self.stayed_away > 0).sum())

    @property
    def n_right(self) -> int:
        return self.hits + len(self.stayed_away) - self.false_alarms

    @property
    def n_rounds(self) -> int:
        return len(self.took_part) + len(self.stayed_away)

    @property
    def share_right(self) -> float:
        """Share of rounds in which he was right; 0.5 is chance."""
        return self.n_right / self.n_rounds

    def joined(self, more: Duel) -> Duel:
        """This game followed by the rounds of another."""
        return Duel(np.concatenate([self.took_part, more.took_part]), np.concatenate([self.stayed_away, more.stayed_away]))

    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares of false alarms and of hits [cuts] of the rule "in above the cut", for every cut."""
        cuts = np.unique(np.concatenate([self.took_part, self.stayed_away]))
        alarms, hits = (
            1 - np.searchsorted(np.sort(side), cuts, side="right") / len(side) for side in (self.stayed_away, self.took_part)
        )
        return np.append(alarms[::-1], 1.0), np.append(hits[::-1], 1.0)


def exact_hits(false_alarms: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Largest share of hits that any test reaches against Gaussian noise `sigma` on a change of length 1 (Neyman-Pearson).

    Args: false_alarms [n] in [0, 1].
    """
    hits: NDArray[np.float64] = ndtr(ndtri(false_alarms) + 1 / sigma)
    return hits


def promised_hits(false_alarms: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    """Largest share of hits that (epsilon, delta) allows whatever the mechanism (Kairouz et al. 2015).

    Args: false_alarms [n] in [0, 1].
    """
    if math.isinf(epsilon):
        return np.ones_like(false_alarms)
    by_alarm = math.exp(epsilon) * false_alarms + delta
    by_quiet = 1 - math.exp(-epsilon) * (1 - false_alarms - delta)
    return np.minimum(1.0, np.minimum(by_alarm, by_quiet))


def allowance(n: int, false_alarm: float = FALSE_ALARM) -> float:
    """How far chance may raise a share measured in n rounds, over all cuts (Dvoretzky, Kiefer, Wolfowitz, Massart)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * n))


def is_held(duel: Duel, sigma: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the attack stays under the exact curve at every cut, up to what chance does.

    An attack under the true curve fails this with probability at most 2 `false_alarm`.
    """
    alarms, hits = duel.curve()
    slack = [allowance(len(side), false_alarm) for side in (duel.stayed_away, duel.took_part)]
    return bool((hits <= exact_hits(np.minimum(1.0, alarms + slack[0]), sigma) + slack[1]).all())


def proven(duel: Duel, rounds: Sequence[int], delta: float, confidence: float = 0.95) -> list[float]:
    """Lower bound on epsilon from the first `rounds` releases of each side, at the confidence for each number."""
    return [
        bound_of_counts(int((duel.took_part[:n] > 0).sum()), n, int((duel.stayed_away[:n] > 0).sum()), n, delta, confidence)
        for n in rounds
    ]
