"""Position-based subsample of long lists on which matchers are compared: by position only, so that it favours none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.lists import Lists

LONGEST = 80  # most entries of a list compared in full: an assignment costs their number cubed
SUBSAMPLE_SIZE = 32  # entries kept of a longer list


def is_long(modes: NDArray[np.int64]) -> bool:
    """Whether lists with these modes [n, L] are too long to be compared in full."""
    return bool(modes.shape[1] > LONGEST)


def subsample(lists: Lists, modes: NDArray[np.int64]) -> tuple[Lists, NDArray[np.int64]]:
    """Long lists, of diagonal covariances, cut to at most `SUBSAMPLE_SIZE` entries each, and their modes int64.

    Keeps entries of known mode: the first entry of every mode before the second of any, in their original order. Shorter
    results are padded with entries of weight zero and mode -1. Raises ValueError for full covariances.
    """
    if lists.covariances.ndim != 3:
        raise ValueError("subsample: full covariances")
    places = [_chosen(row) for row in modes]
    length, d = max(map(len, places), default=0), lists.means.shape[2]
    exists = np.arange(length) < np.array([len(row) for row in places])[:, None]
    at = np.zeros(exists.shape, dtype=np.int64)
    at[exists] = np.concatenate(places)
    weights, kept_modes = np.take_along_axis(lists.weights, at, axis=1), np.take_along_axis(modes, at, axis=1)
    means, covariances, targets = (
        np.take_along_axis(values, at[..., None], axis=1) for values in (lists.means, lists.covariances, lists.targets)
    )
    mask = exists[..., None]
    shortened = Lists(weights * exists, means * mask, np.where(mask, covariances, 1 / d), targets * mask)
    return shortened, np.where(exists, kept_modes, -1)


def _chosen(modes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending positions of the entries of one list that are kept, from its modes [L]."""
    candidates = np.flatnonzero(modes >= 0)
    same = modes[candidates][:, None] == modes[candidates]
    nth = np.tril(same, -1).sum(axis=1)
    return np.sort(candidates[np.argsort(nth, kind="stable")[:SUBSAMPLE_SIZE]])
