"""Attacks on noise that is drawn once and shared by all records, as in L2DP-ML (Lai et al. 2022, Algorithms 1 and 2).

Each is a membership game with a rule fixed beforehand: the attacker knows two data sets that differ in one record (or in its
label), sees a release from one of them and guesses which. He knows everything else, as differential privacy allows, but
neither the noise nor its scale. The fourth attack, which needs a search, is in `l2dp_games`.
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
    """How often an attacker guessed "the first data set" for `n` releases from the first, and for `n` from the second."""

    hits: int
    false_alarms: int
    n: int

    @property
    def share_right(self) -> float:
        """Share of correct guesses; 0.5 is chance."""
        return (self.hits + self.n - self.false_alarms) / (2 * self.n)

    def lower_bound(self, delta: float, confidence: float = 0.95) -> float:
        """Lower bound on epsilon (Clopper and Pearson, half of the error probability for each rate)."""
        return bound_of_counts(self.hits, self.n, self.false_alarms, self.n, delta, confidence)


def difference(kept: Floats, known_row: int, known: Floats) -> Floats:
    """Estimates of all records [n, d] from one known record: subtracts that record's noise from all.

    Exact up to rounding if all records have the same noise vector; if each has its own, two noises remain.
    """
    estimates: Floats = kept - (kept[known_row] - known)
    return estimates


def difference_game(keep: Keep, records: Floats, other: Floats, n: int) -> Game:
    """Differencing the memory: decides whether the last record or `other` [d] is in the data. The attacker knows the first.

    He subtracts its noise and guesses the nearer candidate: the best rule if noise remains, and exact if none does. `keep`
    is the mechanism, called once per release; it maps records [m, d] to their stored form [m, d]. Rows can be pictures, or
    sums, gradients or coefficients that occur in several releases.
    """
    first = records[-1]
    changed = np.vstack([records[:-1], other])

    def guesses_first(data: Floats) -> bool:
        estimate = difference(keep(data), 0, records[0])[-1]
        return bool(np.square(estimate - first).sum() < np.square(estimate - other).sum())

    return Game(sum(guesses_first(records) for _ in range(n)), sum(guesses_first(changed) for _ in range(n)), n)


def encoder_gradient(records: Floats, theta: Floats, chi1: Floats, chi2: Floats) -> Floats:
    """Gradient of the reconstruction loss for a linear encoder without a clip (Lai et al., Eq. 13, h held constant).

    sum_r h_r (1/2 - x_r - chi1)^T with h_r = theta^T (x_r + chi1) + 2 chi2. Args: records [n, d], theta [d, b], chi1 [d],
    chi2 [b], noise as it is added (after the division by the batch size). Returns [b, d].
    """
    noisy = records + chi1
    gradient: Floats = (noisy @ theta + 2 * chi2).T @ (0.5 - noisy)
    return gradient


def cross_covariance(records: Floats, theta: Floats) -> Floats:
    """The records' own part of that gradient [b, d]: the noise adds only a matrix of rank one."""
    hidden, rest = records @ theta, 0.5 - records
    cross: Floats = hidden.T @ rest - np.outer(hidden.sum(axis=0), rest.sum(axis=0)) / len(records)
    return cross


def second_singular_value(gradient: Floats, cross: Floats) -> Floats:
    """Second singular value of gradient minus cross: 0 up to rounding for the true data, whatever the noise.

    Args: gradient [..., b, d].
    """
    values = np.linalg.svd(gradient - cross, compute_uv=False)[..., 1]
    return np.asarray(values, dtype=np.float64)


def rank_one_game(noise: Noise, scale: float, records: Floats, other: Floats, theta: Floats, n: int) -> Game:
    """Rank-one test: decides from one gradient of a linear encoder whether the last record or `other` is in the data.

    The attacker knows the other records and the weights; he guesses the data set with the smaller second singular value.
    Args: scale: Laplace scale of the noise on an input value; hidden units get twice that.
    """
    changed = np.vstack([records[:-1], other])
    crosses = [cross_covariance(data, theta) for data in (records, changed)]

    def guesses(data: Floats) -> int:
        count = 0
        for start in range(0, n, _BLOCK):
            size = min(_BLOCK, n - start)
            chi1, chi2 = (scale * noise.laplace((size, length)) for length in theta.shape)
            gradients = np.stack([encoder_gradient(data, theta, a, b) for a, b in zip(chi1, chi2, strict=True)])
            first, second = (second_singular_value(gradients, cross) for cross in crosses)
            count += int((first < second).sum())
        return count

    return Game(guesses(records), guesses(changed), n)


def label_scores(first: Floats, second: Floats, hidden: tuple[Floats, Floats], labels: Floats, row: int) -> Floats:
    """Evidence for each label [K] of one record from the output layer's coefficients at two steps; the noise cancels.

    Args: first, second: sum_r y_r h_r + chi3 at the two steps [K, m]; hidden: last hidden layer at each step [n, m];
    labels: one-hot labels of the other records [n, K], with zeros in the target's row.
    """
    change = hidden[1] - hidden[0]
    scores: Floats = ((second - first) - labels.T @ change) @ change[row]
    return scores


def label_game(noise: Noise, scale: float, hidden: tuple[Floats, Floats], labels: Floats, other: int, n: int) -> Game:
    """Labels from two steps: decides whether the last record has its true label or `other`; all else is known.

    The attacker guesses the label with more evidence in the difference of the two steps. Args: scale: Laplace scale of chi3,
    one number for each coefficient; labels: one-hot [n, K].
    """
    true_label, hidden_labels, changed = int(labels[-1].argmax()), labels.copy(), labels.copy()
    hidden_labels[-1] = 0
    changed[-1] = np.eye(labels.shape[1])[other]

    def guesses_true(data_labels: Floats) -> bool:
        chi3 = scale * noise.laplace((labels.shape[1], hidden[0].shape[1]))
        first, second = (data_labels.T @ values + chi3 for values in hidden)
        scores = label_scores(first, second, hidden, hidden_labels, len(labels) - 1)
        return bool(scores[true_label] > scores[other])

    return Game(sum(guesses_true(labels) for _ in range(n)), sum(guesses_true(changed) for _ in range(n)), n)
