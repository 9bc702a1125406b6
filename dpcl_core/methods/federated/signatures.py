"""Anchor signatures: a Gaussian's log-density at public sentences (CSLR, Eq 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import rankdata

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.cards.federated_params import SignatureCovariance, SignatureNorm
from dpcl_core.methods.federated.gaussians import log_densities
from dpcl_core.methods.federated.lists import Element
from dpcl_core.methods.federated.projections import psd


def normalised(signatures: NDArray[np.float64], norm: SignatureNorm) -> NDArray[np.float64]:
    """Every row [m] raw, centred, centred and divided by its standard deviation, or as ranks 1..m (ties averaged)."""
    if norm == "raw":
        return signatures
    if norm == "ranked":
        ranks: NDArray[np.float64] = rankdata(signatures, axis=-1)
        return ranks
    centred: NDArray[np.float64] = signatures - signatures.mean(axis=-1, keepdims=True)
    if norm == "z-scored":
        spread = centred.std(axis=-1, keepdims=True)
        centred = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return centred


@dataclass(frozen=True, eq=False)
class Signature:
    """The feature map "signature": anchors [m, d], the densities' covariance, and the rows' normalisation.

    "shared-spherical": variance tr(`public`)/d for every element; "shared-full": `public` [d, d], the covariance of public
    embeddings; "own": each element's, `public` unused; "own-shrunk": the average of each element's and `public`, no variance
    below tr(`public`)/d, since small noisy variances are mostly noise. With the shared spherical covariance the centred
    signature is linear in the mean, (a_j - mean a)ᵀ mu / s², up to a constant row.
    Raises BadInput for fewer than two anchors: with one the centred signature is constant.
    """

    anchors: NDArray[np.float64]
    covariance: SignatureCovariance = "shared-spherical"
    norm: SignatureNorm = "centred"
    public: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if len(self.anchors) < 2:
            raise BadInput("anchors", len(self.anchors), "must be at least 2: a signature compares anchors with each other")
        if self.covariance != "own" and self.public is None:
            raise BadInput("signature covariance", self.covariance, "needs the covariance of public embeddings")

    @property
    def is_linear(self) -> bool:
        """Whether signatures are an affine function of the means."""
        return self.covariance in ("shared-spherical", "shared-full") and self.norm == "centred"

    def __call__(self, elements: Sequence[Element]) -> NDArray[np.float64]:
        """Signatures [L, m] of a list's elements."""
        return self.of(np.array([entry.mean for entry in elements]), np.array([entry.covariance for entry in elements]))

    def of(self, means: NDArray[np.float64], covariances: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Signatures [..., m] of means [..., d]; covariances [..., d] or [..., d, d] serve only "own" and "own-shrunk"."""
        flat = means.reshape(-1, means.shape[-1])
        if self.covariance in ("own", "own-shrunk"):
            assert covariances is not None
            by_element = covariances.reshape(len(flat), *covariances.shape[means.ndim - 1 :])
            raw = log_densities(self.anchors, flat, by_element if self.covariance == "own" else self._shrunk(by_element))
        else:
            factor, white, constant = self._shared
            inside = flat / factor if np.ndim(factor) == 0 else solve_triangular(factor, flat.T, lower=True).T
            squares = (inside**2).sum(axis=1)[:, None] - 2 * inside @ white.T + (white**2).sum(axis=1)
            raw = -(squares + constant) / 2
        return normalised(raw, self.norm).reshape(*means.shape[:-1], -1)

    def _shrunk(self, covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covariances [n, d] or [n, d, d] averaged with the public one, with variances raised to its mean variance."""
        assert self.public is not None
        least = float(np.trace(self.public)) / len(self.public)
        if covariances.ndim == 2:
            return np.maximum((covariances + np.diag(self.public)) / 2, least)
        return psd((covariances + self.public) / 2, least)

    @cached_property
    def _shared(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Cholesky factor of the shared covariance (its root if spherical), whitened anchors, the densities' constant."""
        assert self.public is not None
        d = self.anchors.shape[1]
        if self.covariance == "shared-spherical":
            root = np.sqrt(np.trace(self.public) / d)
            return np.asarray(root), self.anchors / root, d * float(np.log(2 * np.pi * root**2))
        factor = np.asarray(np.linalg.cholesky(self.public), dtype=np.float64)
        white: NDArray[np.float64] = solve_triangular(factor, self.anchors.T, lower=True).T
        return factor, white, 2 * float(np.log(np.diag(factor)).sum()) + d * float(np.log(2 * np.pi))
