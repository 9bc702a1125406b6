"""What no attack on a ledger exceeds: trade-off of false alarms and hits, from the privacy loss distribution.

Epsilon at one delta allows more than most mechanisms reveal. The whole curve delta(epsilon) bounds every test of "took part"
against "did not". Of Gaussian steps it is exact, and some test attains the bound; of a learned list of labels and of local
copies only an (epsilon, delta) is known, and none may. At a false alarm rate a, its hit rate is at most the minimum, over
epsilon, of a e^epsilon + delta(epsilon) and of 1 - e^-epsilon (1 - a - delta(epsilon)) (Dong, Roth and Su 2022,
Proposition 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import deltas
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Adjacency

RARE = 1e-3  # the false alarm rate at which hits are reported
# Beyond ln(1 / RARE) the first of the two bounds is 1. Each point bounds the hits, so a finer grid only lowers the bound:
# it is worth its time only around the lowest point of the coarse grid.
_EPSILONS, _FINER = np.linspace(0.0, np.log(1 / RARE), 41), 50


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Bounds on the best attack: `advantage`, hit rate minus false alarm rate; `hits`, hit rate at false alarms `RARE`."""

    advantage: float
    hits: float


def of_ledger(ledger: Ledger) -> TradeOff | None:
    """Bounds for the people with the largest loss; None where there is no bound, and where a person has several
    rows: only the epsilon of a group is computed. Raises Unaccountable."""
    if ledger.rows_per_unit > 1:
        return None
    groups = {tuple(sorted(events, key=repr)) for events in ledger.events_by_people().values()}
    if any(isinstance(event, dp.NonPrivateDpEvent) for events in groups for event in events):
        return None
    best = [_of(events, ledger.delta, ledger.adjacency) for events in groups]
    return TradeOff(max((one.advantage for one in best), default=0.0), max((one.hits for one in best), default=RARE))


def of_events(events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> TradeOff:
    """Bounds for a person who is in all these events. Raises Unaccountable."""
    return _of(tuple(sorted(events, key=repr)), delta, adjacency)


@lru_cache(maxsize=512)
def _of(events: tuple[dp.DpEvent, ...], delta: float, adjacency: Adjacency) -> TradeOff:
    def hits(at: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = deltas(events, at.tolist(), adjacency, delta=delta)
        bounds: NDArray[np.float64] = np.minimum(RARE * np.exp(at) + excess, 1 - np.exp(-at) * (1 - RARE - excess))
        return bounds

    (advantage,) = deltas(events, [0.0], adjacency, delta=delta)
    coarse = hits(_EPSILONS)
    lowest, step = _EPSILONS[coarse.argmin()], _EPSILONS[1]
    around = np.linspace(max(0.0, lowest - step), lowest + step, 2 * _FINER + 1)
    return TradeOff(float(advantage), float(min(1.0, coarse.min(), hits(around).min())))
