"""Compares matchers on the same lists, and numbers of anchors; simulations only, since the true modes are needed."""

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths, published
from dpcl_core.errors import DataMissing, instead_of
from dpcl_core.events import AnchorScores, FullLists, PublicPart, QuantizedRows
from dpcl_core.explorers.projection_maps import ProjectionMaps, round_to
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.matchers import EntryMatcher, Pooled, PublicEmbeddings, PublicView, Rule, pooled

# CSLR's theorems evaluated at given sizes, and on given signatures (Shihab et al., sections 4 and appendix).
#
# Theorem 2 bounds the number of anchors: if any two entries of different modes differ by gamma at a random anchor with
# chance at least p, m >= ln(N^2 / eta) / p anchors make all such pairs differ at some anchor with chance 1 - eta. It bounds
# the separation of different modes, and says nothing about entries of one mode staying together.


_HITS, _MARGINS = (published.rows_with("cslr", "8", metric) for metric in ("p_hat_gamma", "min_pairwise_margin"))
TABLE_8: Mapping[int, tuple[float, float]] = {  # by number of anchors: the printed p-hat, and the margin
    int(row.variant.removeprefix("m = ")): (hit, margin) for (row, hit), (_, margin) in zip(_HITS, _MARGINS, strict=True)
}


def anchors_needed(n_elements: int, eta: float, p: float) -> int:
    """Theorem 2: the least number of anchors for `n_elements` list entries, at least 1, over all rounds and clients.

    Eta and p are in (0, 1].
    """
    return math.ceil(math.log(n_elements**2 / eta) / p)


def separation(signatures: NDArray[np.floating], modes: NDArray[np.int64], gamma: float) -> tuple[float, float, float]:
    """How far signatures [n, m] of different true modes [n], which only a simulation has, are apart at the m anchors in use.

    The mean rate: share of anchors at which a pair differs by gamma, averaged over pairs (the p-hat of Table 8, by its
    caption; its mean does not depend on the number of anchors). The least rate: the same for the worst pair, an estimate of
    the p of Definition 1; with few anchors it is far too low, as the smallest of many noisy shares. The least gap: the
    smallest over pairs of a pair's largest difference at any anchor; it grows with the number of anchors. NaN where there is
    no such pair.
    """
    values, labels = np.asarray(signatures, np.float64), np.asarray(modes)
    first, second = np.triu_indices(len(values), 1)
    pairs = np.flatnonzero(labels[first] != labels[second])
    if not len(pairs):
        return math.nan, math.nan, math.nan
    rates, gaps = [], []
    for block in np.array_split(pairs, math.ceil(len(pairs) / 4096)):  # a few megabytes at a time
        apart = np.abs(values[first[block]] - values[second[block]])
        rates.append((apart >= gamma).mean(axis=1))
        gaps.append(apart.max(axis=1, initial=0.0))
    rate = np.concatenate(rates)
    return float(rate.mean()), float(rate.min()), float(np.concatenate(gaps).min())


# Agreement of groups of list entries with their true modes, which only a simulation has.


def confusion(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """Counts [n_modes, n_groups] of entries by true mode and matched group; entries with -1 in either are left out."""
    counted = (groups >= 0) & (modes >= 0)
    counts = np.zeros((n_modes, n_groups), dtype=np.int64)
    np.add.at(counts, (modes[counted], groups[counted]), 1)
    return counts


def adjusted_rand(groups: NDArray[np.int64], modes: NDArray[np.int64]) -> float:
    """Adjusted Rand index of two labellings [n] (Hubert and Arabie 1985): 1 for equal partitions, 0 on average by chance.

    Two partitions with a single part, or two with only singletons, are equal: 1. Labels may be any integers.
    """
    _, group = np.unique(groups, return_inverse=True)
    _, mode = np.unique(modes, return_inverse=True)
    counts = np.zeros((group.max(initial=-1) + 1, mode.max(initial=-1) + 1), dtype=np.int64)
    np.add.at(counts, (group, mode), 1)
    in_both, by_group, by_mode = (_pairs(sizes) for sizes in (counts, counts.sum(axis=1), counts.sum(axis=0)))
    expected = by_group * by_mode / max(_pairs(np.array([len(groups)])), 1.0)
    most = (by_group + by_mode) / 2
    return 1.0 if most == expected else float((in_both - expected) / (most - expected))


def group_modes(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """The one-to-one assignment of groups to modes with most entries correct, [n_groups]; -1 for a group without a mode."""
    mode_of_group = np.full(n_groups, -1, dtype=np.int64)
    from scipy.optimize import linear_sum_assignment  # takes long to load, and every run loads this module

    rows, columns = linear_sum_assignment(-confusion(groups, modes, n_groups, n_modes))
    mode_of_group[columns] = rows
    return mode_of_group


def is_correct(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.bool_]:
    """Mask [n] of the entries in the group of their mode. The mean is slot accuracy, about 1/K by chance."""
    mode_of_group = np.append(group_modes(groups, modes, n_groups, n_modes), -1)  # the last: entries without a group
    correct: NDArray[np.bool_] = (modes >= 0) & (mode_of_group[groups] == modes)
    return correct


def _pairs(counts: NDArray[np.int64]) -> float:
    return float((counts.astype(np.float64) * (counts - 1) / 2).sum())


LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # noise std on a coordinate; modes are about 0.4 apart
COUNTS = (2, 5, 10, 25, 50, 100, 200)  # numbers of anchors
GAP = 0.5  # gamma: difference of two signatures at an anchor, in standard deviations of a signature
FAILURE = 0.05  # η of Theorem 2
CENTRED, PROJECTION = "anchors, centred", "public axes"
SWEPT = ("nearest mean", "Hungarian", "anchors, ranked", CENTRED, PROJECTION)  # optimal transport takes 30 times as long
_WORK, _FEWEST_STARTS = 30_000, 3  # a pooling's work: entries of all lists times groups times starts
_FLOOR = 1e-3  # least variance after noise


def usual(view: PublicView, anchors: NDArray[np.float64], rule: Rule) -> dict[str, EntryMatcher]:
    """The compared matchers by name. Anchors [m, d]. `rule`: for the matchers that work with any rule."""
    return {
        "random": EntryMatcher(matchers.mean_features, "random"),
        "nearest mean": EntryMatcher(matchers.mean_features, "nearest"),
        "Hungarian": EntryMatcher(matchers.mean_features, "hungarian"),
        "optimal transport": EntryMatcher(matchers.Moments(), "ot"),
        "anchors, raw": EntryMatcher(Signature(anchors, "own", "raw"), rule),
        "anchors, ranked": EntryMatcher(Signature(anchors, "own", "ranked"), rule),
        CENTRED: EntryMatcher(Signature(anchors, "shared-spherical", "centred", view.covariance), rule),
        PROJECTION: EntryMatcher(matchers.PcaMean(view.centre, view.axes), rule),
    }


def grouped(
    lists: Lists, matcher: EntryMatcher, n_groups: int, view: PublicView, generator: np.random.Generator,
    most_starts: int | None = None,
) -> tuple[NDArray[np.float64], Pooled]:  # fmt: skip
    """The lists' features and their groups by the reference rule, numbered along the first public axis.

    Uses as many starts as a fixed amount of work allows, at most `most_starts`: all of twenty short lists, three of fifty
    long ones.
    """
    compared = matchers.list_features(lists, matcher.features)
    first = view.residuals(lists.means)[..., 0]
    n_starts = min(len(compared), max(_FEWEST_STARTS, _WORK // (compared.shape[0] * compared.shape[1] * n_groups)))
    n_starts = n_starts if most_starts is None else min(n_starts, most_starts)
    groups = pooled(compared, n_groups, matcher.rule, first, weights=lists.weights, generator=generator, n_starts=n_starts)
    return compared, groups


def noised(lists: Lists, level: float, generator: np.random.Generator) -> Lists:
    """The lists with noise of this standard deviation on every coordinate of means and second moments (diagonals only).

    Noise from an ordinary generator, for visualisation: not a release.
    """
    shape = lists.means.shape
    means = lists.means + level * generator.standard_normal(shape)
    seconds = lists.second_moments + level * generator.standard_normal(shape)
    return replace(lists, means=means, covariances=np.maximum(seconds - means**2, _FLOOR))


def moved(lists: Lists, level: float, seed: int = 0) -> Lists:
    """The lists with noise of one draw for all levels, so that entries move along straight lines as noise grows."""
    return noised(lists, level, np.random.default_rng(seed)) if level else lists


def agreement(
    lists: Lists, modes: NDArray[np.int64], by_name: Mapping[str, EntryMatcher], view: PublicView, seed: int,
    most_starts: int | None = None,
) -> dict[str, float]:  # fmt: skip
    """Adjusted Rand index of every matcher's groups with the true modes int64 [n, L] (-1: left out), on these lists."""
    n_groups, has_mode = int(modes.max()) + 1, modes >= 0
    indices = {}
    for name, matcher in by_name.items():
        _, groups = grouped(lists, matcher, n_groups, view, np.random.default_rng(seed), most_starts)
        indices[name] = adjusted_rand(groups.ids[has_mode], modes[has_mode])
    return indices


def under_noise(
    lists: Lists, modes: NDArray[np.int64], by_name: Mapping[str, EntryMatcher], view: PublicView, seeds: Sequence[int],
    names: Sequence[str] = SWEPT, most_starts: int | None = None,
) -> dict[str, tuple[float, ...]]:  # fmt: skip
    """`agreement` of these matchers with noise of each of `LEVELS` on the lists, averaged over draws of the noise.

    One draw per seed, which all levels share.
    """
    swept = {name: by_name[name] for name in names}
    means = np.zeros((len(LEVELS), len(swept)))
    for seed in seeds:
        for place, level in enumerate(LEVELS):
            indices = agreement(noised(lists, level, np.random.default_rng(seed)), modes, swept, view, seed, most_starts)
            means[place] += [indices[name] / len(seeds) for name in swept]
    return {name: tuple(column) for name, column in zip(swept, means.T.tolist(), strict=True)}


def anchor_scores(
    lists: Lists, modes: NDArray[np.int64], anchors: NDArray[np.float64], view: PublicView, rule: Rule, seed: int,
    n_lists: int | None = None,
) -> AnchorScores | None:  # fmt: skip
    """Separation and agreement by the first m anchors, for every m of `COUNTS` up to their number; None without two modes.

    Signatures have the shared spherical covariance and are z-scored once, over all anchors, so that sets are nested and the
    rates estimate one number. `n_lists`: number of entries for which Theorem 2 should hold (None: these).
    """
    truth = modes.ravel()
    true_modes = truth[truth >= 0]
    if len(set(true_modes.tolist())) < 2:
        return None
    z_scored = Signature(anchors, "shared-spherical", "z-scored", view.covariance).of(lists.means)
    signatures = z_scored.reshape(len(truth), -1)[truth >= 0]
    counts = [m for m in COUNTS if m <= len(anchors)] or [len(anchors)]
    mean_rates, least_rates, least_gaps = zip(*(separation(signatures[:, :m], true_modes, GAP) for m in counts), strict=True)
    centred = {str(m): Signature(anchors[:m], "shared-spherical", "centred", view.covariance) for m in counts}
    by_count = {name: EntryMatcher(features, rule) for name, features in centred.items()}
    n = n_lists if n_lists is not None else len(true_modes)
    return AnchorScores(
        gap=GAP,
        m=tuple(counts),
        mean_rate=mean_rates,
        least_rate=least_rates,
        least_gap=least_gaps,
        needed=tuple(anchors_needed(n, FAILURE, rate) if rate else math.inf for rate in least_rates),
        agreement=tuple(agreement(lists, modes, by_count, view, seed).values()),
    )


# 8-bit encoding of client lists in the event log, so that a page can match them again without the data.


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
    return PublicPart(
        anchors=quantized(public.anchors),
        axes=quantized(public.view.axes.T),
        centre=_rounded(public.view.centre),
        variance=round_to(float(np.trace(public.view.covariance)) / len(public.view.centre), 6),
        mean_map=(_rounded(maps.mean_centre), *map(_rounded, maps.mean_axes.T)),
        signature_map=(_rounded(maps.signature_centre), *map(_rounded, maps.signature_axes.T)),
    )


def _rounded(row: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(map(round_to, row.tolist()))


# Reads the lists that the browser moves and matches on the page Anchors; `scripts/make_anchors.py` makes them.


DRAW = 1  # seeds clients, anchors and noise


@lru_cache(maxsize=2)
def read_vectors(length: int) -> dict[str, Any]:
    """The document of vectors of this length, as the script makes it. Raises DataMissing."""
    with instead_of(OSError, say=DataMissing("lists", path(length).name, "missing: run python scripts/make_anchors.py")):
        return cast("dict[str, Any]", json.loads(path(length).read_text(encoding="utf-8")))


def path(length: int) -> Path:
    """The document's file."""
    return paths.assets_dir() / "anchors" / f"lists-{length}.json"
