"""Attacks on noise that is drawn once and shared by all records, as L2DP-ML draws it (Lai et al. 2022, Algorithms 1 and 2).

Each is a membership game with a rule fixed beforehand: the attacker is told two data sets that differ in one record (or in
its label), sees what was released from one of them, and says which. He knows everything else, as differential privacy
allows him to. No attack is told the noise or its scale. The fourth, which has to search, is in `likelihood`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.lower_bound import bound_of_counts
from dpcl_core.privacy.noise import Noise

Floats = NDArray[np.float64]
Keep = Callable[[Floats], Floats]
_BLOCK = 100  # games whose singular values are computed at once


@dataclass(frozen=True, slots=True)
class Game:
    """How often an attacker said "the first data set" of `n` releases from the first, and of as many from the second."""

    hits: int
    false_alarms: int
    n: int

    @property
    def share_right(self) -> float:
        """Share of all releases about which he was right; 0.5 is a coin."""
        return (self.hits + self.n - self.false_alarms) / (2 * self.n)

    def lower_bound(self, delta: float, confidence: float = 0.95) -> float:
        """What the game proves about epsilon (Clopper and Pearson, half of the error probability for each rate)."""
        return bound_of_counts(self.hits, self.n, self.false_alarms, self.n, delta, confidence)


def difference(kept: Floats, known_row: int, known: Floats) -> Floats:
    """Every record from one that is known: what lies on the known one is taken off all [n, d].

    Exact, up to rounding, where all records carry the same noise vector; where each has its own, two noises remain.
    """
    found: Floats = kept - (kept[known_row] - known)
    return found


def difference_game(keep: Keep, records: Floats, other: Floats, n: int) -> Game:
    """Differencing the memory: is the last record in the data, or `other` [d] in its place? The attacker knows the first.

    He subtracts, and says the one that lies nearer to what comes out: the best rule for what is left, and no worse where
    nothing is. `keep` is the mechanism, called anew for every release: records [m, d] to what is kept of them [m, d].
    Rows need not be pictures: sums, gradients or coefficients that several releases hold are attacked in the same way.
    """
    first = records[-1]
    changed = np.vstack([records[:-1], other])

    def says_first(data: Floats) -> bool:
        found = difference(keep(data), 0, records[0])[-1]
        return bool(np.square(found - first).sum() < np.square(found - other).sum())

    return Game(sum(says_first(records) for _ in range(n)), sum(says_first(changed) for _ in range(n)), n)


def encoder_gradient(records: Floats, theta: Floats, chi1: Floats, chi2: Floats) -> Floats:
    """The gradient of the reconstruction loss at a linear encoder without a clip (Lai et al., Eq. 13, h held constant).

    sum_r h_r (1/2 - x_r - chi1)^T with h_r = theta^T (x_r + chi1) + 2 chi2. Args: records [n, d], theta [d, b], chi1 [d],
    chi2 [b], noise as it is added (after the division by the batch size). Returns [b, d].
    """
    noisy = records + chi1
    gradient: Floats = (noisy @ theta + 2 * chi2).T @ (0.5 - noisy)
    return gradient


def cross_covariance(records: Floats, theta: Floats) -> Floats:
    """What the records alone put into that gradient [b, d]: all the noise adds to it is a matrix of rank one."""
    hidden, rest = records @ theta, 0.5 - records
    cross: Floats = hidden.T @ rest - np.outer(hidden.sum(axis=0), rest.sum(axis=0)) / len(records)
    return cross


def second_singular_value(gradient: Floats, cross: Floats) -> Floats:
    """Zero, up to rounding, for the data that made the gradient, whatever the noise was. Args: gradient [..., b, d]."""
    values = np.linalg.svd(gradient - cross, compute_uv=False)[..., 1]
    return np.asarray(values, dtype=np.float64)


def rank_one_game(noise: Noise, scale: float, records: Floats, other: Floats, theta: Floats, n: int) -> Game:
    """Rank-one test: the last record or `other` in its place, from one gradient of a linear encoder?

    The attacker knows the other records and the weights; he says the data set whose second singular value is smaller.
    Args: scale: Laplace scale of the noise on an input value; hidden units get twice as much.
    """
    changed = np.vstack([records[:-1], other])
    crosses = [cross_covariance(data, theta) for data in (records, changed)]

    def cries(data: Floats) -> int:
        count = 0
        for start in range(0, n, _BLOCK):
            size = min(_BLOCK, n - start)
            chi1, chi2 = (scale * noise.laplace((size, length)) for length in theta.shape)
            gradients = np.stack([encoder_gradient(data, theta, a, b) for a, b in zip(chi1, chi2, strict=True)])
            first, second = (second_singular_value(gradients, cross) for cross in crosses)
            count += int((first < second).sum())
        return count

    return Game(cries(records), cries(changed), n)


def label_scores(first: Floats, second: Floats, hidden: tuple[Floats, Floats], labels: Floats, row: int) -> Floats:
    """How well each label [K] of one record explains the output layer's coefficients at two steps; noise cancels.

    Args: first, second: sum_r y_r h_r + chi3 at the two steps [K, m]; hidden: last hidden layer at each [n, m]; labels:
    one-hot labels of the others [n, K], with zeros in the record's own row.
    """
    moved = hidden[1] - hidden[0]
    scores: Floats = ((second - first) - labels.T @ moved) @ moved[row]
    return scores


def label_game(noise: Noise, scale: float, hidden: tuple[Floats, Floats], labels: Floats, other: int, n: int) -> Game:
    """Labels from two steps: has the last record its own label, or `other`? Features and all other labels are known.

    The attacker says the one of the two labels that the difference of the two steps speaks for. Args: scale: Laplace scale
    of chi3, one number for each coefficient; labels: one-hot [n, K].
    """
    own, hidden_labels, changed = int(labels[-1].argmax()), labels.copy(), labels.copy()
    hidden_labels[-1] = 0
    changed[-1] = np.eye(labels.shape[1])[other]

    def says_own(given: Floats) -> bool:
        chi3 = scale * noise.laplace((labels.shape[1], hidden[0].shape[1]))
        first, second = (given.T @ values + chi3 for values in hidden)
        scores = label_scores(first, second, hidden, hidden_labels, len(labels) - 1)
        return bool(scores[own] > scores[other])

    return Game(sum(says_own(labels) for _ in range(n)), sum(says_own(changed) for _ in range(n)), n)
