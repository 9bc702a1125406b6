"""Embedding inversion: identifies tokens from noisy embeddings. NumPy only, for pages.

The embedding table is public, so the attacker compares a noisy vector with each of its rows. Fresh noise in every epoch
averages out: n releases of a token equal one release with noise smaller by sqrt(n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.noise import Noise

Floats = NDArray[np.floating]
_BLOCK = 2_000_000  # numbers compared at once


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
