"""What is fixed from public sentences before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class PublicView:
    """Centre m0 [d], axes U [d, d'] (orthonormal columns), covariance S_pub [d, d] of public embeddings, and clipping radius B.

    Residual means U^T(mu - m0) longer than `radius` are clipped.
    """

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]
    covariance: NDArray[np.float64]
    radius: float

    @classmethod
    def of(cls, features: NDArray[np.floating], n_axes: int, radius: float | None = None) -> PublicView:
        """From public features [p, d]; `radius` None: the 0.9 quantile of public topic means' residual lengths.

        Raises BadInput where there are fewer public sentences than axes.
        """
        raise NotImplementedError

    def residuals(self, means: NDArray[np.floating]) -> NDArray[np.float64]:
        """U^T(mu - m0), [..., d'] of means [..., d]; not clipped."""
        raise NotImplementedError

    def restored(self, residuals: NDArray[np.floating]) -> NDArray[np.float64]:
        """m0 + U r, [..., d] of residuals [..., d']."""
        raise NotImplementedError


def public_modes(features: NDArray[np.floating], n_modes: int) -> NDArray[np.float64]:
    """Centres [K, d] of k-means on public features [p, d], ordered along the first principal axis: the first prototypes.

    Raises BadInput where there are fewer public sentences than modes.
    """
    raise NotImplementedError
