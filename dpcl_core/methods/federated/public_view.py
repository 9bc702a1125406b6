"""Centre, axes, covariance and clipping radius, computed from public sentences before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput

AxesOf = Literal["sentences", "topics"]
_ROWS_OF_A_TOPIC, _MOST_TOPICS = 20, 50
_REST = 1e-6  # what sentences count beside topics: they decide about axes on which no topics differ
_SHRINK = 1e-3  # share of a spherical covariance, so that few sentences in many dimensions still give an invertible one


@dataclass(frozen=True, slots=True, eq=False)
class PublicView:
    """Centre m0 [d], axes U [d, d'] (orthonormal columns), covariance S_pub [d, d] of public embeddings, clipping radius B.

    Residual means U^T(mu - m0) longer than `radius` are clipped.
    """

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]
    covariance: NDArray[np.float64]
    radius: float

    @classmethod
    def of(
        cls, features: NDArray[np.floating], n_axes: int, radius: float | None = None, axes_of: AxesOf = "sentences"
    ) -> PublicView:
        """From public features [p, d]; `radius` None: the 0.9 quantile of public topic means' residual lengths.

        Topics are clusters of the public sentences (k-means, about 20 sentences each). Axes are principal axes of the
        sentences, or of the topics' means, each with a positive sign on its largest entry. What tells labels apart is more
        like what tells topics apart: fewer axes then hold it, and each axis takes noise.
        Raises BadInput unless there are more public sentences than axes and at least as many dimensions as axes.
        """
        rows = np.asarray(features, dtype=np.float64)
        most = min(len(rows) - 1, rows.shape[1])
        if not 1 <= n_axes <= most:
            raise BadInput("axes", n_axes, f"must lie between 1 and {most}, with {len(rows)} public sentences")
        centre = rows.mean(axis=0)
        covariance = np.cov(rows, rowvar=False).reshape(rows.shape[1], rows.shape[1])
        topics = rows
        if radius is None or axes_of == "topics":
            topics = public_modes(rows, min(_MOST_TOPICS, max(2, len(rows) // _ROWS_OF_A_TOPIC)))
        spread = covariance if axes_of == "sentences" else np.cov(topics, rowvar=False) + _REST * covariance
        axes = np.linalg.eigh(spread)[1][:, ::-1][:, :n_axes]
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n_axes)])
        if radius is None:
            radius = float(np.quantile(np.linalg.norm((topics - centre) @ axes, axis=1), 0.9))
        spherical = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        return cls(centre, axes, (1 - _SHRINK) * covariance + _SHRINK * spherical, radius)

    def residuals(self, means: NDArray[np.floating]) -> NDArray[np.float64]:
        """U^T(mu - m0), [..., d'] of means [..., d]; not clipped."""
        residuals: NDArray[np.float64] = (means - self.centre) @ self.axes
        return residuals

    def restored(self, residuals: NDArray[np.floating]) -> NDArray[np.float64]:
        """m0 + U r, [..., d] of residuals [..., d']."""
        means: NDArray[np.float64] = self.centre + residuals @ self.axes.T
        return means


def public_modes(features: NDArray[np.floating], n_modes: int) -> NDArray[np.float64]:
    """Initial prototypes: k-means centres [K, d] of public features [p, d], ordered along the first principal axis.

    Deterministic: the starts come from a fixed seed. Raises BadInput where there are fewer public sentences than modes.
    """
    if not 1 <= n_modes <= len(features):
        raise BadInput("modes", n_modes, f"must lie between 1 and the number of public sentences, {len(features)}")
    from sklearn.cluster import KMeans  # takes more than a second: pages that do not cluster should not wait for it

    rows = np.asarray(features, dtype=np.float64)
    centres = KMeans(n_modes, n_init=3, random_state=0).fit(rows).cluster_centers_
    axis = np.linalg.eigh(np.cov(rows, rowvar=False).reshape(rows.shape[1], -1))[1][:, -1]
    ordered: NDArray[np.float64] = centres[np.argsort(centres @ axis * np.sign(axis[np.abs(axis).argmax()]))]
    return ordered
