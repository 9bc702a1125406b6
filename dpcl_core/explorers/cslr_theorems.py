"""What CSLR's theorems say at given sizes, and what signatures at hand say of them (Shihab et al., sections 4 and appendix).

Theorem 2 counts anchors: if any two entries that must be told apart differ by gamma at a random anchor with chance p at
least, m >= ln(N^2 / eta) / p anchors make all such pairs differ at some anchor with chance 1 - eta. It says when entries of
different modes come apart, and nothing about entries of one mode staying together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core import published
from dpcl_core.errors import BadInput


def _table_8() -> Mapping[int, tuple[float, float]]:
    hits, margins = (published.numbers("cslr", "8", metric) for metric in ("p_hat_gamma", "min_pairwise_margin"))
    return {
        int(row.variant.removeprefix("m = ")): (hit, margin)
        for (row, hit), (_, margin) in zip(hits, margins, strict=True)
    }


TABLE_8 = _table_8()  # by number of anchors: the printed p-hat, and the margin


def anchors_needed(n_elements: int, eta: float, p: float) -> int:
    """Theorem 2: the least number of anchors, for so many list entries over all rounds and clients together.

    Raises BadInput where eta or p is no chance above 0, or there is no entry.
    """
    for name, value in (("eta", eta), ("p", p)):
        if not 0 < value <= 1:
            raise BadInput(name, value, "must lie in (0, 1]")
    if n_elements < 1:
        raise BadInput("entries", n_elements, "must be at least 1")
    return math.ceil(math.log(n_elements**2 / eta) / p)


def n_entries(n_rounds: int, clients_per_round: float, list_size: int) -> int:
    """N of Theorem 2: entries of all lists that are ever sent."""
    return math.ceil(n_rounds * clients_per_round * list_size)


@dataclass(frozen=True, slots=True)
class Separation:
    """How far signatures of different modes lie apart at the anchors in use.

    `mean_hit`: share of anchors at which a pair differs by gamma, averaged over pairs (the p-hat of Table 8, by its caption;
    its mean does not depend on how many anchors are drawn). `least_hit`: the same of the worst pair, an estimate of the p of
    Definition 1, and with few anchors one far below it: the smallest of many noisy shares. `least_margin`: of
    all pairs' largest difference at any anchor the smallest, which grows with anchors. `apart_inside`: share of
    pairs of the same mode that differ by more than gamma / 2 somewhere; the paper's "consequently" needs it to be 0. NaN
    where there is no such pair.
    """

    mean_hit: float
    least_hit: float
    least_margin: float
    apart_inside: float


def separation(signatures: NDArray[np.floating], modes: NDArray[np.int64], gamma: float) -> Separation:
    """Of signatures [n, m] at m anchors and the true modes [n] of their entries: known in simulations alone."""
    values, labels = np.asarray(signatures, np.float64), np.asarray(modes)
    first, second = np.triu_indices(len(values), 1)
    differ = labels[first] != labels[second]
    hits, margins, inside = [], [], []
    for start in range(0, len(first), 4096):  # a few megabytes at a time
        block = slice(start, start + 4096)
        apart = np.abs(values[first[block]] - values[second[block]])
        own = differ[block]
        hits.append((apart[own] >= gamma).mean(axis=1))
        margins.append(apart[own].max(axis=1, initial=0.0))
        inside.append((apart[~own] > gamma / 2).any(axis=1))
    hit, margin, same = np.concatenate(hits), np.concatenate(margins), np.concatenate(inside)
    if not len(hit):
        return Separation(math.nan, math.nan, math.nan, float(same.mean()) if len(same) else math.nan)
    return Separation(
        float(hit.mean()), float(hit.min()), float(margin.min()), float(same.mean()) if len(same) else math.nan
    )


def by_anchors(
    signatures: NDArray[np.floating],
    modes: NDArray[np.int64],
    gamma: float,
    counts: Sequence[int],
    n_draws: int,
    generator: np.random.Generator,
) -> dict[int, Separation]:
    """Separation with the first m of randomly ordered anchors, averaged over draws; in one draw the sets are nested.

    Args: signatures [n, M] at all anchors there are; counts: numbers of anchors m <= M.
    """
    found: dict[int, list[Separation]] = {m: [] for m in counts}
    for _ in range(n_draws):
        order = generator.permutation(signatures.shape[1])
        for m in counts:
            found[m].append(separation(signatures[:, order[:m]], modes, gamma))
    names = ("mean_hit", "least_hit", "least_margin", "apart_inside")
    return {
        m: Separation(*(float(np.mean([getattr(one, name) for one in drawn])) for name in names))
        for m, drawn in found.items()
    }


def misaligned(n_modes: int) -> tuple[float, float]:
    """Proposition 3, for an order drawn at random: chance that not all slots are right, 1 - 1/K!, and share of wrong slots.

    The second is 1 - 1/K, which is what accuracy feels. Neither applies where the coordinates are shared.
    """
    return 1 - 1 / math.factorial(n_modes), 1 - 1 / n_modes


def forgetting_terms(n_values: int, n_replayed: int, fewest_clients: int) -> tuple[float, float]:
    """Two terms of Theorem 5 up to its hidden constants: sqrt(d / n_r) and C_min^(-1/2), on a loss between 0 and 1."""
    return math.sqrt(n_values / n_replayed), fewest_clients**-0.5
