"""Embedding inversion: identifies tokens, and stop words, from noisy embeddings. NumPy only, for pages.

The embedding table is public, so the attacker compares a noisy vector with each of its rows. Fresh noise in every epoch
averages out: n releases of a token equal one release with noise smaller by sqrt(n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpcl_core.privacy.embeddings import clipped
from dpcl_core.privacy.noise import Noise

Floats = NDArray[np.floating]
_BLOCK = 2_000_000  # numbers compared at once
_POINTS = 201  # for the numerical integral


def seen(rows: Floats, noise_std: Floats, n_releases: int, noise: Noise) -> NDArray[np.float64]:
    """The mean of `n_releases` noisy copies of clipped rows [m, d], each with fresh noise of standard deviation [m].

    One draw is enough: the mean's noise is Gaussian, smaller by sqrt(n_releases). A deviation of 0 adds no noise.
    """
    std = np.asarray(noise_std, np.float64)[:, None] / math.sqrt(n_releases)
    return rows + std * noise.normal(rows.shape)


def nearest(table: Floats, vectors: Floats) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index of the nearest table row [N, d] for each vector [m, d], and its distance; the first one of ties.

    The table must be clipped like the rows that the vectors were made from (`privacy.embeddings.clipped`).
    """
    places, distances = [np.zeros(0, np.int64)], [np.zeros(0)]
    rows = np.asarray(table, np.float64)
    squares = (rows**2).sum(axis=1)
    step = max(1, _BLOCK // len(rows))
    for start in range(0, len(vectors), step):
        part = np.asarray(vectors[start : start + step], np.float64)
        place = (squares[None, :] - 2 * part @ rows.T).argmin(axis=1)
        places.append(place)
        distances.append(np.linalg.norm(part - rows[place], axis=1))  # not from squares: an exact row has distance 0
    return np.concatenate(places), np.concatenate(distances)


def share_recovered(
    table: Floats, tokens: NDArray[np.integer], ratios: Floats, clip_norm: float, n_releases: int, noise: Noise
) -> float:
    """Share of tokens [m] that a nearest-row attacker identifies; NaN without tokens.

    Args: table [N, d]: public embeddings, not clipped; ratios [m]: noise sigma / C of each token, 0 for none.
    """
    rows = clipped(table, clip_norm)
    std = np.asarray(ratios, np.float64) * clip_norm
    guesses, _ = nearest(rows, seen(rows[tokens], std, n_releases, noise))
    return float((guesses == tokens).mean()) if len(tokens) else math.nan


def expected_recovery(ratio: float, n_rows: int, n_releases: int = 1) -> float:
    """Expected share for a table of orthogonal rows of length C: E[Phi(z + sqrt(n) C / sigma)^(N - 1)]."""
    if ratio == 0:
        return 1.0
    edge = 9.0
    z, step = np.linspace(-edge, edge, _POINTS, retstep=True)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return float((density * np.exp((n_rows - 1) * log_ndtr(z + math.sqrt(n_releases) / ratio))).sum() * step)


def pairwise_accuracy(ratio: float, n_releases: int = 1) -> float:
    """Accuracy of deciding between two tokens with orthogonal embeddings of length C: Phi(sqrt(n / 2) C / sigma)."""
    return 1.0 if ratio == 0 else float(ndtr(math.sqrt(n_releases / 2) / ratio))


def stop_evidence(table: Floats, vectors: Floats) -> NDArray[np.float64]:
    """Stop-word score of each vector [m, d]: minus its distance to the nearest row of the clipped table.

    As published, stop words get no noise, so their score is 0 and all others are below.
    """
    return -nearest(table, vectors)[1]


def roc(scores: Floats, is_hit: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ROC curve: false-positive and true-positive rates at every threshold, from (0, 0) to (1, 1); ties share one threshold.

    Args: both [m]. Raises ValueError unless there are both positives and negatives.
    """
    n_hits = int(is_hit.sum())
    if n_hits in (0, len(is_hit)):
        raise ValueError("is_hit must contain both True and False: a curve needs hits and others")
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    ranked, hits = np.asarray(scores, np.float64)[order], is_hit[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    right, wrong = np.cumsum(hits)[last], np.cumsum(~hits)[last]
    return np.append(0.0, wrong / (len(is_hit) - n_hits)), np.append(0.0, right / n_hits)
