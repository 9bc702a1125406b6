"""8-bit encoding of client lists in the event log, so that a page can match them again without the data."""

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

MOST = 1_024  # entries of all tasks together; beyond it only the first clients' lists are encoded
_LARGEST = 63  # largest number of steps in a row: rounding is then a tenth of the smallest noise on offer


def quantized(rows: NDArray[np.floating]) -> QuantizedRows:
    """Rows [n, d] rounded to 127 levels each."""
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


def encoded_clients(lists: Lists, n_tasks: int, *, has_homes: bool) -> NDArray[np.int64]:
    """Clients whose lists of a task are encoded, int64 [n]: the first ones, at least two, so that all tasks fit in `MOST`.

    `has_homes`: each client belongs to one task; then the first clients of this task, counting only entries with rows.
    """
    if not has_homes:
        return np.arange(min(len(lists), max(2, MOST // (lists.weights.shape[1] * n_tasks))))
    n_entries = (lists.weights > 0).sum(axis=1)
    with_rows = np.flatnonzero(n_entries)
    n_fitting = np.searchsorted(n_entries[with_rows].cumsum(), MOST // n_tasks, side="right")
    return with_rows[: max(2, int(n_fitting))]


def encoded_clients_of_all(tasks: Sequence[Lists], n_tasks: int, *, has_homes: bool) -> NDArray[np.int64]:
    """Clients whose lists are encoded in all these tasks, or in the one that a client belongs to."""
    of_task = [encoded_clients(lists, n_tasks, has_homes=has_homes) for lists in tasks]
    return np.concatenate(of_task) if has_homes else min(of_task, key=len)


def full_lists(lists: Lists, modes: NDArray[np.int64], clients: NDArray[np.int64], *, has_homes: bool = False) -> FullLists:
    """Encodes one task's lists of these clients; `modes` int64 [N, L] of all clients."""
    lists, modes = lists.take(clients), modes[clients]
    exist = lists.weights > 0
    variances = lists.covariances[exist] if lists.covariances.ndim == 3 else None
    return FullLists(
        weight=tuple(tuple(map(round_to, weights)) for weights in lists.weights.tolist()),
        mode=tuple(map(tuple, modes.tolist())),
        means=quantized(lists.means[exist]),
        log_variances=quantized(np.log(variances)) if variances is not None else None,
        client=tuple(clients.tolist()) if has_homes else (),
    )


def lists_of(tasks: Sequence[FullLists], variance: float) -> tuple[Lists, NDArray[np.int64], NDArray[np.int64]]:
    """Decodes the lists of these tasks, their modes int64 [n, L] and their clients int64 [n].

    Concatenated per client, for the clients encoded in every task; stacked by client where each belongs to one task. Targets
    are one-hot modes; entries without an encoded variance, or without rows, get `variance`.
    """
    tasks = [task for task in tasks if task.weight]
    modes = [np.array(task.mode, dtype=np.int64) for task in tasks]
    n_kinds = 1 + max(int(of_task.max(initial=0)) for of_task in modes)
    decoded = [_lists(task, of_task, n_kinds, variance) for task, of_task in zip(tasks, modes, strict=True)]
    if not any(task.client for task in tasks):
        clients = np.arange(min(map(len, decoded)))
        joined = Lists.of_tasks([lists.take(clients) for lists in decoded])
        return joined, np.concatenate([of_task[clients] for of_task in modes], axis=1), clients
    clients = np.concatenate([task.client for task in tasks])
    order = np.argsort(clients)
    length = max(of_task.shape[1] for of_task in modes)
    padded = [np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=-1) for rows in modes]
    return Lists.stacked(decoded).take(order), np.concatenate(padded)[order], clients[order]


def _lists(of: FullLists, modes: NDArray[np.int64], n_kinds: int, variance: float) -> Lists:
    weights = np.array(of.weight)
    exist, width = weights > 0, of.means.width
    means, variances = np.zeros((*exist.shape, width)), np.full((*exist.shape, width), variance)
    means[exist] = rows_of(of.means)
    if of.log_variances is not None:
        variances[exist] = np.exp(rows_of(of.log_variances))
    return Lists(weights, means, variances, (modes[..., None] == np.arange(n_kinds)).astype(np.float64))


def public_part(public: PublicEmbeddings, maps: ProjectionMaps) -> PublicPart:
    """The public inputs of a run's matching, and the axes of its maps."""
    d = len(public.view.centre)
    return PublicPart(
        anchors=quantized(public.anchors),
        axes=quantized(public.view.axes.T),
        centre=_rounded(public.view.centre),
        variance=round_to(float(np.trace(public.view.covariance)) / d, 6),
        mean_map=(_rounded(maps.mean_centre), *map(_rounded, maps.mean_axes.T)),
        signature_map=(_rounded(maps.signature_centre), *map(_rounded, maps.signature_axes.T)),
    )


def _rounded(row: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(map(round_to, row.tolist()))
