"""Log-densities of many Gaussians at many points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dpcl_core.errors import BadInput


def log_densities(
    points: NDArray[np.floating], means: NDArray[np.floating], covariances: NDArray[np.floating]
) -> NDArray[np.float64]:
    """log N(point; mean, covariance): [L, m] of points [m, d], means [L, d] and covariances [L, d] or [L, d, d].

    Raises BadInput for a covariance that is not positive definite: project noisy ones first.
    """
    points, means, covariances = (np.asarray(values, dtype=np.float64) for values in (points, means, covariances))
    if covariances.ndim == 2:
        if not (covariances > 0).all():
            raise BadInput("covariance", float(covariances.min()), "must be positive definite")
        return diagonal(points, points**2, means, covariances).astype(np.float64)
    densities = np.empty((len(means), len(points)))
    for place, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        densities[place] = _full(points, mean, covariance)
    return densities


def diagonal(
    points: NDArray[np.floating], squares: NDArray[np.floating], means: NDArray[np.floating], variances: NDArray[np.floating]
) -> NDArray[np.floating]:
    """The same [L, m] for variances [L, d], in the precision of the points [m, d]; `squares`: points**2, computed once."""
    quadratic = (1 / variances) @ squares.T - 2 * (means / variances) @ points.T
    constant = (means**2 / variances + np.log(variances)).sum(axis=1) + means.shape[1] * np.log(2 * np.pi)
    densities: NDArray[np.floating] = -(quadratic + constant[:, None].astype(points.dtype)) / 2
    return densities


def _full(points: NDArray[np.float64], mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(covariance).min())
        raise BadInput("covariance", smallest, "must be positive definite (this is its smallest eigenvalue)") from None
    white = solve_triangular(factor, (points - mean).T, lower=True)
    constant = 2 * np.log(np.diag(factor)).sum() + len(mean) * np.log(2 * np.pi)
    densities: NDArray[np.float64] = -((white**2).sum(axis=0) + constant) / 2
    return densities
