"""The part of long lists that matchers are held against each other on: chosen by place alone, so that it favours none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.lists import Lists

LONGEST = 80  # entries of a list that is compared whole: an assignment costs the cube of it
KEPT = 32  # entries of a longer one


def is_long(modes: NDArray[np.int64]) -> bool:
    """Whether lists with these modes [n, L] are too long to be compared whole."""
    return bool(modes.shape[1] > LONGEST)


def of_long(lists: Lists, modes: NDArray[np.int64]) -> tuple[Lists, NDArray[np.int64]]:
    """Lists [n, at most `KEPT`] and modes int64 of long ones with diagonal covariances: entries of known mode, the first of
    every mode before the second of any, in the order they had; shorter lists end in entries of weight zero, mode -1.

    Raises ValueError for full covariances.
    """
    if lists.covariances.ndim != 3:
        raise ValueError("of_long: full covariances")
    places = [_chosen(own) for own in modes]
    length, d = max(map(len, places), default=0), lists.means.shape[2]
    exists = np.arange(length) < np.array([len(own) for own in places])[:, None]
    at = np.zeros(exists.shape, dtype=np.int64)
    at[exists] = np.concatenate(places)
    weights, found = np.take_along_axis(lists.weights, at, axis=1), np.take_along_axis(modes, at, axis=1)
    means, covariances, targets = (
        np.take_along_axis(each, at[..., None], axis=1) for each in (lists.means, lists.covariances, lists.targets)
    )
    there = exists[..., None]
    kept = Lists(weights * exists, means * there, np.where(there, covariances, 1 / d), targets * there)
    return kept, np.where(exists, found, -1)


def _chosen(modes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the entries of one list [L] that are kept, ascending."""
    known = np.flatnonzero(modes >= 0)
    same = modes[known][:, None] == modes[known]
    nth = np.tril(same, -1).sum(axis=1)
    return np.sort(known[np.argsort(nth, kind="stable")[:KEPT]])
