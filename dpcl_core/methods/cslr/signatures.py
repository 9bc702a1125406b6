"""Anchor signatures: a Gaussian's log-density at public sentences (CSLR, Eq 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cslr.lists import Element

SignatureCovariance = Literal["own", "shared-spherical", "shared-full"]
SignatureNorm = Literal["raw", "centred", "z-scored", "ranked"]


def log_densities(
    points: NDArray[np.floating], means: NDArray[np.floating], covariances: NDArray[np.floating]
) -> NDArray[np.float64]:
    """log N(point; mean, covariance): [L, m] of points [m, d], means [L, d] and covariances [L, d] or [L, d, d]."""
    raise NotImplementedError


def normalised(signatures: NDArray[np.float64], norm: SignatureNorm) -> NDArray[np.float64]:
    """Every row [m] as it is, less its average, over its standard deviation besides, or as ranks 0..m-1 (ties averaged)."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The feature map "signature": anchors [m, d], whose covariance the densities have, and how rows are normalised.

    "shared-spherical": tr(`public`)/d for every element; "shared-full": `public` [d, d] itself, the covariance of public
    embeddings; "own": each element's, `public` unused. With a shared spherical one the centred signature is the mean seen
    through the anchors' Gram matrix, (a_j - mean a)ᵀ mu / s², up to a constant row.
    Raises BadInput for fewer than two anchors, whose centred signature says nothing.
    """

    anchors: NDArray[np.float64]
    covariance: SignatureCovariance = "shared-spherical"
    norm: SignatureNorm = "centred"
    public: NDArray[np.float64] | None = None

    def __call__(self, elements: Sequence[Element]) -> NDArray[np.float64]:
        """[L, m]."""
        raise NotImplementedError

    def of(self, means: NDArray[np.float64], covariances: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """[..., m] of means [..., d]; covariances [..., d] or [..., d, d] are read by "own" alone."""
        raise NotImplementedError
