"""What the best attack on a ledger can do: the trade-off between false alarms and hits, from its privacy loss distribution.

Epsilon at one delta allows more than most mechanisms do. The whole curve delta(epsilon) says exactly what any test of "took
part" against "did not" reaches: at a false alarm rate a, its share of hits is at most the smallest, over epsilon, of
a e^epsilon + delta(epsilon) and of 1 - e^-epsilon (1 - a - delta(epsilon)) (Dong, Roth and Su 2022, Proposition 6).
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

RARE = 1e-3  # the false alarm rate at which hits are told
# Beyond ln(1 / RARE) the first of the two bounds is 1. Each point bounds the hits, so a finer grid only lowers the bound:
# after a coarse one it is worth its time around the lowest point alone.
_EPSILONS, _FINER = np.linspace(0.0, np.log(1 / RARE), 41), 50


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The best attack: `advantage` is hits less false alarms at most, `hits` are those at a false alarm rate of `RARE`."""

    advantage: float
    hits: float


def of_ledger(ledger: Ledger) -> TradeOff | None:
    """The best attack on the worst-off people; None where there is no bound. Raises Unaccountable."""
    groups = {tuple(sorted(events, key=repr)) for events in ledger.events_by_people().values()}
    if any(isinstance(event, dp.NonPrivateDpEvent) for events in groups for event in events):
        return None
    found = [_of(events, ledger.delta, ledger.adjacency) for events in groups]
    return TradeOff(max((one.advantage for one in found), default=0.0), max((one.hits for one in found), default=RARE))


def of_events(events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> TradeOff:
    """The best attack on one who is in all these events. Raises Unaccountable."""
    return _of(tuple(sorted(events, key=repr)), delta, adjacency)


@lru_cache(maxsize=512)
def _of(events: tuple[dp.DpEvent, ...], delta: float, adjacency: Adjacency) -> TradeOff:
    def hits(at: NDArray[np.float64]) -> NDArray[np.float64]:
        found = deltas(events, at.tolist(), adjacency, delta=delta)
        bounds: NDArray[np.float64] = np.minimum(RARE * np.exp(at) + found, 1 - np.exp(-at) * (1 - RARE - found))
        return bounds

    (advantage,) = deltas(events, [0.0], adjacency, delta=delta)
    coarse = hits(_EPSILONS)
    lowest, step = _EPSILONS[coarse.argmin()], _EPSILONS[1]
    around = np.linspace(max(0.0, lowest - step), lowest + step, 2 * _FINER + 1)
    return TradeOff(float(advantage), float(min(1.0, coarse.min(), hits(around).min())))
