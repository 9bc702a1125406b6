"""What the lessons in the browser compute, in Python by the mechanisms that runs use: a reference for their arithmetic."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcl_core import engine
from dpcl_core.events import Guarantee
from dpcl_core.lessons import label, noise
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.runs import frames
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Cell, DataSpec, LabelSetting, PrivacySpec, RunSpec

_BATCH = 500
PUBLIC: tuple[LabelSetting, LabelSetting] = ("prior-const", "prior")
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Releases:
    """Releases of one dataset, all with the same list of labels; `ledger` is that of the first, the others are like it."""

    labels: tuple[int, ...]
    sums: NDArray[np.float64]
    ledger: Ledger


def release(pair: label.Neighbours, has_person: bool, listing: label.Listing, epsilon: float, n: int = 1) -> Releases:
    """n independent releases of one dataset: the list of labels, and noisy class sums for every label on it."""
    labels, sums, ledgers = label._released(pair, has_person, listing, epsilon, [ReleaseNoise() for _ in range(n)])
    return Releases(labels, sums, ledgers[0])


def evidence(pair: label.Neighbours, releases: Releases, listing: label.Listing, epsilon: float) -> NDArray[np.float64]:
    """Log-likelihood ratio [n] of each release, with the person against without, given all pictures.

    If the list depends on the data, it decides alone: each list is possible on one side only. If it is the same on both
    sides, only the sum of the person's label differs, and its projection on her picture is the best test.
    """
    if pair.label not in releases.labels:
        return np.full(len(releases.sums), -np.inf)
    if listing == "data":
        return np.full(len(releases.sums), np.inf)
    std = class_sums_std(epsilon, label.DELTA, label._ADJACENCY)
    person = unit_rows(pair.person)[0]
    others = unit_rows(pair.known[pair.labels == pair.label]).sum(axis=0)
    sums = releases.sums[:, pair.label]
    return np.asarray(((sums - others) @ person - 0.5 * person @ person) / std**2, np.float64)


def play(pair: label.Neighbours, listing: label.Listing, epsilon: float, n: int) -> noise.Duel:
    """n rounds with the person and n without, a fresh release each; made in batches, so that memory stays small."""
    sides = []
    for is_in in (True, False):
        batches = [min(_BATCH, n - start) for start in range(0, n, _BATCH)]
        released = (release(pair, is_in, listing, epsilon, size) for size in batches)
        sides.append(np.concatenate([evidence(pair, releases, listing, epsilon) for releases in released]))
    return noise.Duel(*sides)


def asked(setting: LabelSetting, n_tasks: int, epsilons: Sequence[float], seeds: Sequence[int]) -> RunSpec:
    """A run of the cosine classifier with fresh noise on the digits."""
    privacy = PrivacySpec(epsilons=tuple(epsilons), delta=label.DELTA, noise="release")
    return RunSpec(
        method="cosine", params=CosineParams(), data=DataSpec(dataset="digits"), scenario=ClassIncremental(tasks=n_tasks),
        labels=setting, privacy=privacy, seeds=tuple(seeds),
    )  # fmt: skip


def promise(pair: label.Neighbours, listing: label.Listing, epsilon: float, ledger: Ledger) -> Guarantee:
    """The guarantee of one release's ledger, as the app states it everywhere."""
    spec = asked(listing, 1, (epsilon,), (0,))
    return guarantee(ledger, spec, Cell(epsilon, 0), unit="example", n_people=len(pair.labels) + 1, n_tasks=1)


def learned(
    setting: LabelSetting, n_tasks: int, epsilons: Sequence[float], seeds: Sequence[int] = noise.SEEDS
) -> tuple[dict[float, list[float]], Mapping[float, Guarantee]]:
    """Real runs of the cosine classifier with fresh noise: by epsilon, mean accuracy over the tasks after the last one for
    each seed, and their guarantees."""
    run_events = list(engine.run(asked(setting, n_tasks, epsilons, seeds)))
    accuracy = frames.accuracy(run_events)
    last = accuracy[accuracy["after_task"] == accuracy["after_task"].max()]
    means = last.groupby(["epsilon", "seed"])["accuracy"].mean()
    finals = {float(epsilon): [float(v) for v in rows] for epsilon, rows in means.groupby(level="epsilon")}
    return finals, frames.guarantees(run_events)


def exact_hits(false_alarms: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Largest share of hits that any test reaches against Gaussian noise `sigma` on a change of length 1 (Neyman-Pearson).

    Args: false_alarms [n] in [0, 1].
    """
    return np.asarray(ndtr(ndtri(false_alarms) + 1 / sigma), np.float64)


def allowance(n: int, false_alarm: float = FALSE_ALARM) -> float:
    """How far chance may raise a share measured in n rounds, over all cuts (Dvoretzky, Kiefer, Wolfowitz, Massart)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * n))


def is_held(duel: noise.Duel, sigma: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the attack stays under the exact curve at every cut, up to what chance does.

    An attack under the true curve fails this with probability at most 2 `false_alarm`.
    """
    alarms, hits = curve(duel)
    slack = [allowance(len(side), false_alarm) for side in (duel.stayed_away, duel.took_part)]
    return bool((hits <= exact_hits(np.minimum(1.0, alarms + slack[0]), sigma) + slack[1]).all())


def curve(duel: noise.Duel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of false alarms and of hits [cuts] of the rule "in above the cut", for every cut."""
    cuts = np.unique(np.concatenate([duel.took_part, duel.stayed_away]))
    alarms, hits = (
        1 - np.searchsorted(np.sort(side), cuts, side="right") / len(side) for side in (duel.stayed_away, duel.took_part)
    )
    return np.append(alarms[::-1], 1.0), np.append(hits[::-1], 1.0)
