"""Likelihood test on released parameters: fits the noise under each candidate data set (Lai et al., Algorithm 1).

One step of Algorithm 1 maps d + b noise numbers to d * b parameters, deterministically. The parameters that two neighbouring
data sets can reach therefore hardly ever coincide, and a least-squares fit of the noise shows which set made a release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from dpcl_core.attacks.shared_noise_games import Game
from dpcl_core.privacy.noise import Noise

Floats = NDArray[np.float64]
_LENGTHS = np.concatenate([sign * np.geomspace(1, 600, 40) for sign in (1.0, -1.0)])  # candidate lengths of the noise vector
_STARTS, _EVALUATIONS = 3, 40
_SOLVED = 1e-9


def step(records: Floats, theta: Floats, chi1: Floats, chi2: Floats) -> Floats:
    """Mean gradient of the reconstruction loss [b, d] with hidden units clipped to [-1, 1], as one step releases it.

    mean_r h_r (1/2 - x_r - chi1)^T with h_r = clip(theta^T (x_r + chi1)) + chi2. It follows from the weights before and
    after the step and the learning rate. Args: records [n, d], theta [d, b], chi1 [d], chi2 [b] as added.
    """
    noisy = records + chi1
    gradient: Floats = (np.clip(noisy @ theta, -1, 1) + chi2).T @ (0.5 - noisy) / len(records)
    return gradient


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """A candidate data set [n, d], with the encoder's initial weights [d, b]."""

    records: Floats
    theta: Floats

    def residual(self, released: Floats) -> float:
        """Smallest residual norm of a released step [b, d] that the search over the noise finds.

        0 up to rounding for the true data, if the search finds the noise. Every candidate gets the same search, without
        knowledge of the noise.
        """
        d = self.theta.shape[0]
        best = np.inf
        for start in self._starts(released):
            fit = least_squares(
                lambda p: (step(self.records, self.theta, p[:d], p[d:]) - released).ravel(),
                start, self._jacobian, method="lm", max_nfev=_EVALUATIONS, xtol=1e-12, ftol=1e-12,
            )  # fmt: skip
            best = min(best, float(np.sqrt(2 * fit.cost)))
            if best < _SOLVED:
                break
        return best

    def _starts(self, released: Floats) -> list[Floats]:
        """The best starting points: minus the records' part, the release has rank one, along a noise of unknown length."""
        rest = 0.5 - self.records
        middle, hidden = rest.mean(axis=0), self.records @ self.theta
        centred = rest - middle
        direction = np.linalg.svd(released, full_matrices=False)[2][0]
        candidates: list[tuple[float, Floats]] = []
        for length in _LENGTHS:
            axis = direction
            for _ in range(2):  # the noise determines which units are clipped, and these determine its direction
                clipped = np.clip(hidden + (middle + length * axis) @ self.theta, -1, 1)
                unexplained = released - clipped.T @ centred / len(rest)
                leading = np.linalg.svd(unexplained, full_matrices=False)[2][0]
                axis = leading if leading @ direction >= 0 else -leading
            chi1 = middle + length * axis
            clipped = np.clip(hidden + chi1 @ self.theta, -1, 1)
            unexplained = released - clipped.T @ centred / len(rest)
            means = -(unexplained @ axis) / length
            missed = float(np.square(unexplained + length * np.outer(means, axis)).sum())
            candidates.append((missed, np.concatenate([chi1, means - clipped.mean(axis=0)])))
        candidates.sort(key=lambda one: one[0])
        return [start for _, start in candidates[:_STARTS]]

    def _jacobian(self, noise: Floats) -> Floats:
        """Derivative of the step's b * d parameters with respect to the d + b noise values [b * d, d + b]."""
        d, b = self.theta.shape
        chi1, chi2 = noise[:d], noise[d:]
        before = (self.records + chi1) @ self.theta
        moves = (np.abs(before) < 1).astype(np.float64)
        rest = 0.5 - self.records
        through_units = moves.T @ rest / len(rest) - np.outer(moves.mean(axis=0), chi1)
        jacobian = np.zeros((b, d, d + b))
        jacobian[:, :, :d] = through_units[:, :, None] * self.theta.T[:, None, :]
        jacobian[:, np.arange(d), np.arange(d)] -= (np.clip(before, -1, 1).mean(axis=0) + chi2)[:, None]
        jacobian[np.arange(b), :, d + np.arange(b)] = rest.mean(axis=0) - chi1
        return jacobian.reshape(b * d, d + b)


def likelihood_game(noise: Noise, scale: float, records: Floats, other: Floats, theta: Floats, n: int) -> Game:
    """Decides from one step's released parameters whether the last record or `other` is in the data.

    The attacker knows the other records, the weights before and the learning rate; he fits the noise under both data sets
    and guesses the one with the smaller residual. Args: scale: Laplace scale of the noise on an input value; hidden units
    get twice that, after the clip.
    """
    changed = np.vstack([records[:-1], other])
    first, second = Hypothesis(records, theta), Hypothesis(changed, theta)

    def guesses_first(data: Floats) -> bool:
        chi1, chi2 = (scale * noise.laplace((length,)) for length in theta.shape)
        released = step(data, theta, chi1, 2 * chi2)
        return first.residual(released) < second.residual(released)

    return Game(sum(guesses_first(records) for _ in range(n)), sum(guesses_first(changed) for _ in range(n)), n)
