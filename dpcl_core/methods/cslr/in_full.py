"""Lists told in full: rounded and compressed, so that a page can match public data anew without having them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Coarse, FullLists, PublicPart
from dpcl_core.methods.cslr.known import Public
from dpcl_core.methods.cslr.lists import Lists
from dpcl_core.methods.cslr.views import Maps, round_to

MOST = 1_024  # entries of all tasks together; of more clients only the first are told of
_LARGEST = 63  # of a row, in its own steps: of a unit vector's means that is a tenth of the least noise one can choose


def coarse(rows: NDArray[np.floating]) -> Coarse:
    """Rows [n, d] rounded to 127 values each."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    steps = [round_to(value / _LARGEST, 6) if value > 0 else 1.0 for value in largest.tolist()]
    numbers = np.rint(rows / np.array(steps).reshape(-1, 1)).astype(np.int8)
    return Coarse(rows.shape[1], tuple(steps), base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode("ascii"))


def rows_of(of: Coarse) -> NDArray[np.float64]:
    """The rounded rows [n, d]."""
    size = len(of.steps) * of.width
    numbers = zlib.decompressobj().decompress(base64.b64decode(of.values), size) if size else b""
    rows: NDArray[np.float64] = np.frombuffer(numbers, dtype=np.int8).reshape(-1, of.width) * np.array(of.steps)[:, None]
    return rows


def told(lists: Lists, modes: NDArray[np.int64], n_clients: int) -> FullLists:
    """One task's lists of the first clients; `modes` int64 [N, L] of all."""
    weights, modes = lists.weights[:n_clients], modes[:n_clients]
    exist = weights > 0
    variances = lists.covariances[:n_clients][exist] if lists.covariances.ndim == 3 else None
    return FullLists(
        weight=tuple(tuple(map(round_to, of)) for of in weights.tolist()),
        mode=tuple(map(tuple, modes.tolist())),
        means=coarse(lists.means[:n_clients][exist]),
        log_variances=coarse(np.log(variances)) if variances is not None else None,
    )


def lists_of(tasks: Sequence[FullLists], variance: float) -> tuple[Lists, NDArray[np.int64]]:
    """The lists of these tasks side by side, and their modes int64 [n, L]; `variance` where none are told, or no entry is.

    Targets are one-hot modes.
    """
    modes = np.concatenate([np.array(each.mode, dtype=np.int64) for each in tasks], axis=1)
    kinds = np.arange(int(modes.max(initial=0)) + 1)
    found = []
    for each in tasks:
        weights = np.array(each.weight)
        exist, width = weights > 0, each.means.width
        means, variances = np.zeros((*exist.shape, width)), np.full((*exist.shape, width), variance)
        means[exist] = rows_of(each.means)
        if each.log_variances is not None:
            variances[exist] = np.exp(rows_of(each.log_variances))
        own = np.array(each.mode, dtype=np.int64)
        found.append(Lists(weights, means, variances, (own[..., None] == kinds).astype(np.float64)))
    return Lists.of_tasks(found), modes


def public_part(public: Public, maps: Maps) -> PublicPart:
    """What is public of a run's matching, and the axes of its maps."""
    d = len(public.view.centre)
    return PublicPart(
        anchors=coarse(public.anchors),
        axes=coarse(public.view.axes.T),
        centre=_rounded(public.view.centre),
        variance=round_to(float(np.trace(public.view.covariance)) / d, 6),
        mean_map=(_rounded(maps.mean_centre), *map(_rounded, maps.mean_axes.T)),
        signature_map=(_rounded(maps.signature_centre), *map(_rounded, maps.signature_axes.T)),
    )


def _rounded(row: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(map(round_to, row.tolist()))
