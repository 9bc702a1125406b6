"""CSLR's theorems evaluated at given sizes, and on given signatures (Shihab et al., sections 4 and appendix).

Theorem 2 bounds the number of anchors: if any two entries of different modes differ by gamma at a random anchor with chance
at least p, m >= ln(N^2 / eta) / p anchors make all such pairs differ at some anchor with chance 1 - eta. It bounds the
separation of different modes, and says nothing about entries of one mode staying together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core import published
from dpcl_core.errors import BadInput


def _table_8() -> Mapping[int, tuple[float, float]]:
    hits, margins = (published.numbers("cslr", "8", metric) for metric in ("p_hat_gamma", "min_pairwise_margin"))
    return {
        int(row.variant.removeprefix("m = ")): (hit, margin) for (row, hit), (_, margin) in zip(hits, margins, strict=True)
    }


TABLE_8 = _table_8()  # by number of anchors: the printed p-hat, and the margin


def anchors_needed(n_elements: int, eta: float, p: float) -> int:
    """Theorem 2: the least number of anchors for `n_elements` list entries over all rounds and clients.

    Raises BadInput unless eta and p are in (0, 1] and there is at least one entry.
    """
    for name, value in (("eta", eta), ("p", p)):
        if not 0 < value <= 1:
            raise BadInput(name, value, "must lie in (0, 1]")
    if n_elements < 1:
        raise BadInput("entries", n_elements, "must be at least 1")
    return math.ceil(math.log(n_elements**2 / eta) / p)


def n_entries(n_rounds: int, clients_per_round: float, list_size: int) -> int:
    """N of Theorem 2: the number of entries in all lists sent during a run."""
    return math.ceil(n_rounds * clients_per_round * list_size)


@dataclass(frozen=True, slots=True)
class Separation:
    """The distances between signatures of different modes at the anchors in use.

    `mean_hit`: share of anchors at which a pair differs by gamma, averaged over pairs (the p-hat of Table 8, by its caption;
    its mean does not depend on the number of anchors). `least_hit`: the same for the worst pair, an estimate of the p of
    Definition 1; with few anchors it is far too low, as the smallest of many noisy shares. `least_margin`: the smallest over
    pairs of a pair's largest difference at any anchor; it grows with the number of anchors. `apart_inside`: share of pairs
    of the same mode that differ by more than gamma / 2 at some anchor; the paper's "consequently" needs it to be 0. NaN
    where there is no such pair.
    """

    mean_hit: float
    least_hit: float
    least_margin: float
    apart_inside: float


def separation(signatures: NDArray[np.floating], modes: NDArray[np.int64], gamma: float) -> Separation:
    """Separation of signatures [n, m] at m anchors, given the entries' true modes [n], which only a simulation has."""
    values, labels = np.asarray(signatures, np.float64), np.asarray(modes)
    first, second = np.triu_indices(len(values), 1)
    differ = labels[first] != labels[second]
    hits, margins, inside = [], [], []
    for start in range(0, len(first), 4096):  # a few megabytes at a time
        block = slice(start, start + 4096)
        apart = np.abs(values[first[block]] - values[second[block]])
        is_between = differ[block]
        hits.append((apart[is_between] >= gamma).mean(axis=1))
        margins.append(apart[is_between].max(axis=1, initial=0.0))
        inside.append((apart[~is_between] > gamma / 2).any(axis=1))
    hit, margin, same = np.concatenate(hits), np.concatenate(margins), np.concatenate(inside)
    apart_inside = float(same.mean()) if len(same) else math.nan
    if not len(hit):
        return Separation(math.nan, math.nan, math.nan, apart_inside)
    return Separation(float(hit.mean()), float(hit.min()), float(margin.min()), apart_inside)


def misaligned(n_modes: int) -> tuple[float, float]:
    """Proposition 3 for slots in random order: chance of any wrong slot, 1 - 1/K!, and expected share of wrong slots.

    The second is 1 - 1/K and is what affects accuracy. Neither applies where the coordinates are shared.
    """
    return 1 - 1 / math.factorial(n_modes), 1 - 1 / n_modes


def forgetting_terms(n_values: int, n_replayed: int, fewest_clients: int) -> tuple[float, float]:
    """Two terms of Theorem 5 up to its unstated constants: sqrt(d / n_r) and C_min^(-1/2), for a loss in [0, 1]."""
    return math.sqrt(n_values / n_replayed), fewest_clients**-0.5
