"""Lists told in full: rounded and compressed, so that a page can match public data anew without having them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import FullLists, PublicPart, QuantizedRows
from dpcl_core.explorers.projection_maps import ProjectionMaps, round_to
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.public_context import PublicEmbeddings

MOST = 1_024  # entries of all tasks together; of more clients only the first are told of
_LARGEST = 63  # of a row, in its own steps: of a unit vector's means that is a tenth of the least noise one can choose


def coarse(rows: NDArray[np.floating]) -> QuantizedRows:
    """Rows [n, d] rounded to 127 values each."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    steps = [round_to(value / _LARGEST, 6) if value > 0 else 1.0 for value in largest.tolist()]
    numbers = np.rint(rows / np.array(steps).reshape(-1, 1)).astype(np.int8)
    return QuantizedRows(rows.shape[1], tuple(steps), base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode("ascii"))


def rows_of(of: QuantizedRows) -> NDArray[np.float64]:
    """The rounded rows [n, d]."""
    size = len(of.steps) * of.width
    numbers = zlib.decompressobj().decompress(base64.b64decode(of.values), size) if size else b""
    rows: NDArray[np.float64] = np.frombuffer(numbers, dtype=np.int8).reshape(-1, of.width) * np.array(of.steps)[:, None]
    return rows


def first(lists: Lists, n_tasks: int, *, has_homes: bool) -> NDArray[np.int64]:
    """Whose lists of a task are told, int64 [n]: the first clients', two at least, so that all tasks have at most `MOST`.

    Where each client belongs to one task, the first of this one's; there entries without rows do not count.
    """
    if not has_homes:
        return np.arange(min(len(lists), max(2, MOST // (lists.weights.shape[1] * n_tasks))))
    n_entries = (lists.weights > 0).sum(axis=1)
    own = np.flatnonzero(n_entries)
    n_fitting = np.searchsorted(n_entries[own].cumsum(), MOST // n_tasks, side="right")
    return own[: max(2, int(n_fitting))]


def first_of_all(tasks: Sequence[Lists], n_tasks: int, *, has_homes: bool) -> NDArray[np.int64]:
    """Whose lists are told of all these tasks, or of the one that a client belongs to."""
    of_task = [first(each, n_tasks, has_homes=has_homes) for each in tasks]
    return np.concatenate(of_task) if has_homes else min(of_task, key=len)


def told(lists: Lists, modes: NDArray[np.int64], clients: NDArray[np.int64], *, has_homes: bool = False) -> FullLists:
    """One task's lists of these clients; `modes` int64 [N, L] of all."""
    lists, modes = lists.take(clients), modes[clients]
    exist = lists.weights > 0
    variances = lists.covariances[exist] if lists.covariances.ndim == 3 else None
    return FullLists(
        weight=tuple(tuple(map(round_to, of)) for of in lists.weights.tolist()),
        mode=tuple(map(tuple, modes.tolist())),
        means=coarse(lists.means[exist]),
        log_variances=coarse(np.log(variances)) if variances is not None else None,
        client=tuple(clients.tolist()) if has_homes else (),
    )


def lists_of(tasks: Sequence[FullLists], variance: float) -> tuple[Lists, NDArray[np.int64], NDArray[np.int64]]:
    """The lists of these tasks, their modes int64 [n, L], and whose they are, int64 [n].

    Side by side, of the clients told of in every task; under one another, by client, where each belongs to one task. Targets
    are one-hot modes; `variance` where none are told, or no entry is.
    """
    tasks = [each for each in tasks if each.weight]
    modes = [np.array(each.mode, dtype=np.int64) for each in tasks]
    n_kinds = 1 + max(int(each.max(initial=0)) for each in modes)
    found = [_lists(each, own, n_kinds, variance) for each, own in zip(tasks, modes, strict=True)]
    if not any(each.client for each in tasks):
        clients = np.arange(min(map(len, found)))
        every = Lists.of_tasks([each.take(clients) for each in found])
        return every, np.concatenate([each[clients] for each in modes], axis=1), clients
    clients = np.concatenate([each.client for each in tasks])
    order = np.argsort(clients)
    length = max(each.shape[1] for each in modes)
    wide = [np.pad(each, ((0, 0), (0, length - each.shape[1])), constant_values=-1) for each in modes]
    return Lists.stacked(found).take(order), np.concatenate(wide)[order], clients[order]


def _lists(of: FullLists, modes: NDArray[np.int64], n_kinds: int, variance: float) -> Lists:
    weights = np.array(of.weight)
    exist, width = weights > 0, of.means.width
    means, variances = np.zeros((*exist.shape, width)), np.full((*exist.shape, width), variance)
    means[exist] = rows_of(of.means)
    if of.log_variances is not None:
        variances[exist] = np.exp(rows_of(of.log_variances))
    return Lists(weights, means, variances, (modes[..., None] == np.arange(n_kinds)).astype(np.float64))


def public_part(public: PublicEmbeddings, maps: ProjectionMaps) -> PublicPart:
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
