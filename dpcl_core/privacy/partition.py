"""A list of labels released under differential privacy: optimal partition selection (Desfontaines et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import LABELS_CHANGED, LabelListDpEvent
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.spec import Adjacency

ONE = 1 << 64  # probability 1: probabilities are multiples of 2^-64, the resolution of one random word
_EXACT = 60  # binary places of e^epsilon in the recursion
_SHRUNK = 1 - 2.0**-50  # covers the last bits of the library's exponential


def released(
    labels: NDArray[np.int64],
    epsilon: float,
    delta: float,
    noise: Noise,
    ledger: Ledger,
    *,
    task: int,
    people_of: Sequence[int],
) -> tuple[int, ...]:
    """The released labels among `labels` [n], ascending: (epsilon, delta)-DP under the ledger's adjacency.

    Every label that occurs is released with a probability that depends only on its own count (see `chances`), so the list is
    a vector of independent decisions, one per label. A person is one record with one label. Adding or removing it changes
    one count by one: the decisions of all other labels keep their distribution, that label's is (epsilon, delta)-close, and
    so is the list. Replacing it changes at most two counts; each decision then gets half of epsilon and of delta, and basic
    composition makes the list (epsilon, delta)-DP. A label without records is never released, so the set of possible labels
    need not be known.

    `people_of`: the tasks whose people the records may come from.
    """
    names, counts = np.unique(labels.astype(np.int64, copy=False), return_counts=True)
    ledger.spend(
        event(epsilon, delta, ledger.adjacency),
        task=task,
        what=f"list of labels, each named where enough people have it, epsilon {epsilon:.3g}, delta {delta:.2g}",
        people_of=tuple(people_of),
    )
    changed = LABELS_CHANGED[ledger.adjacency]
    chance = chances(epsilon / changed, delta / changed, int(counts.max(initial=0)))
    drawn = noise.words(int(names.max(initial=-1)) + 1)[names]  # one per label, whichever others occur
    named = zip(names.tolist(), counts.tolist(), drawn.tolist(), strict=True)
    return tuple(name for name, count, word in named if word < chance[count])


def event(epsilon: float, delta: float, adjacency: Adjacency) -> LabelListDpEvent:
    """What the release of such a list costs."""
    changed = LABELS_CHANGED[adjacency]
    return LabelListDpEvent(epsilon / changed, delta / changed)


def chances(epsilon: float, delta: float, largest: int) -> list[int]:
    """Probability, in units of 2^-64, that a label of n people is released, for n = 0 ... `largest`: as large as DP allows.

    p(0) = 0;  p(n) = min(e^eps p(n-1) + delta,  1 - e^-eps (1 - p(n-1) - delta),  1).

    Two counts n-1 and n are (epsilon, delta)-close when, for "released" and for "not released", either probability is at
    most e^eps times the other plus delta. p grows with n, so two of the four inequalities always hold. The others are
    p(n) <= e^eps p(n-1) + delta, the first term above, and 1 - p(n-1) <= e^eps (1 - p(n)) + delta, the second solved for
    p(n). Larger probabilities would break one of them: no mechanism that decides by counts releases more. A label of one
    person is released with probability delta.

    The recursion runs in integers rounded towards fewer labels, so the inequalities hold exactly for the probabilities
    used, not only for the formula.
    """
    growth = int(math.exp(min(epsilon, 700.0)) * _SHRUNK * 2**_EXACT)
    small = int(delta * ONE)
    probabilities = [0]
    for _ in range(largest):
        last = probabilities[-1]
        up = (growth * last >> _EXACT) + small
        down = ONE + (-((ONE - last - small) << _EXACT) // growth)  # floor of 1 - (1 - p - delta) / e^eps
        probabilities.append(max(last, min(up, down, ONE)))
    return probabilities


def people_needed(epsilon: float, delta: float, at_most: int) -> int | None:
    """Least number of people for a label's release with probability 1/2 or more; None where `at_most` are too few."""
    return next((n for n, chance in enumerate(chances(epsilon, delta, at_most)) if 2 * chance >= ONE), None)
