"""Compares matchers on the same lists, and numbers of anchors; simulations only, since the true modes are needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import AnchorScores
from dpcl_core.explorers import cslr_theorems
from dpcl_core.explorers.rand_index import adjusted_rand
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.matchers import FeatureMap, Moments, PcaMean, Rule
from dpcl_core.methods.federated.pooling import Pooled, pooled
from dpcl_core.methods.federated.public_view import PublicView
from dpcl_core.methods.federated.signatures import Signature

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # noise std on a coordinate; modes are about 0.4 apart
COUNTS = (2, 5, 10, 25, 50, 100, 200)  # numbers of anchors
GAP = 0.5  # gamma: difference of two signatures at an anchor, in standard deviations of a signature
FAILURE = 0.05  # η of Theorem 2
CENTRED, PROJECTION = "anchors, centred", "public axes"
SWEPT = ("nearest mean", "Hungarian", "anchors, ranked", CENTRED, PROJECTION)  # optimal transport takes 30 times as long
_WORK, _FEWEST_STARTS = 30_000, 3  # a pooling's work: entries of all lists times groups times starts
_FLOOR = 1e-3  # least variance after noise


@dataclass(frozen=True, slots=True)
class Matcher:
    """A matcher's feature map and assignment rule."""

    features: FeatureMap
    rule: Rule


def usual(view: PublicView, anchors: NDArray[np.float64], rule: Rule) -> dict[str, Matcher]:
    """The compared matchers by name. Anchors [m, d]. `rule`: for the matchers that work with any rule."""
    return {
        "random": Matcher(matchers.mean_features, "random"),
        "nearest mean": Matcher(matchers.mean_features, "nearest"),
        "Hungarian": Matcher(matchers.mean_features, "hungarian"),
        "optimal transport": Matcher(Moments(), "ot"),
        "anchors, raw": Matcher(Signature(anchors, "own", "raw"), rule),
        "anchors, ranked": Matcher(Signature(anchors, "own", "ranked"), rule),
        CENTRED: Matcher(Signature(anchors, "shared-spherical", "centred", view.covariance), rule),
        PROJECTION: Matcher(PcaMean(view.centre, view.axes), rule),
    }


def grouped(
    lists: Lists,
    matcher: Matcher,
    n_groups: int,
    view: PublicView,
    generator: np.random.Generator,
    most_starts: int | None = None,
) -> tuple[NDArray[np.float64], Pooled]:
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

    Noise from an ordinary generator, for visualisation: not a release. Raises ValueError for full covariances.
    """
    if lists.covariances.ndim != 3:
        raise ValueError("noised: full covariances")
    shape = lists.means.shape
    means = lists.means + level * generator.standard_normal(shape)
    seconds = lists.second_moments + level * generator.standard_normal(shape)
    return replace(lists, means=means, covariances=np.maximum(seconds - means**2, _FLOOR))


def agreement(
    lists: Lists,
    modes: NDArray[np.int64],
    by_name: Mapping[str, Matcher],
    view: PublicView,
    seed: int,
    most_starts: int | None = None,
) -> dict[str, float]:
    """Adjusted Rand index of every matcher's groups with the true modes int64 [n, L] (-1: left out), on these lists."""
    n_groups, has_mode = int(modes.max()) + 1, modes >= 0
    indices = {}
    for name, matcher in by_name.items():
        _, groups = grouped(lists, matcher, n_groups, view, np.random.default_rng(seed), most_starts)
        indices[name] = adjusted_rand(groups.ids[has_mode], modes[has_mode])
    return indices


def under_noise(
    lists: Lists,
    modes: NDArray[np.int64],
    by_name: Mapping[str, Matcher],
    view: PublicView,
    seeds: Sequence[int],
    names: Sequence[str] = SWEPT,
    most_starts: int | None = None,
) -> dict[str, tuple[float, ...]]:
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
    lists: Lists,
    modes: NDArray[np.int64],
    anchors: NDArray[np.float64],
    view: PublicView,
    rule: Rule,
    seed: int,
    n_lists: int | None = None,
) -> AnchorScores | None:
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
    separations = [cslr_theorems.separation(signatures[:, :m], true_modes, GAP) for m in counts]
    n_groups = int(true_modes.max()) + 1
    agreements = []
    for m in counts:
        matcher = Matcher(Signature(anchors[:m], "shared-spherical", "centred", view.covariance), rule)
        _, groups = grouped(lists, matcher, n_groups, view, np.random.default_rng(seed))
        agreements.append(adjusted_rand(groups.ids.ravel()[truth >= 0], true_modes))
    n = n_lists if n_lists is not None else len(true_modes)
    return AnchorScores(
        gap=GAP,
        m=tuple(counts),
        mean_rate=tuple(separation.mean_hit for separation in separations),
        least_rate=tuple(separation.least_hit for separation in separations),
        least_gap=tuple(separation.least_margin for separation in separations),
        needed=tuple(
            cslr_theorems.anchors_needed(n, FAILURE, separation.least_hit) if separation.least_hit else math.inf
            for separation in separations
        ),
        agreement=tuple(agreements),
    )
