"""The digits in T tasks under one public list and under a list per task, released and learned for real."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core import engine
from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.events import Guarantee
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.methods.lifelong.dp_coeff_memory import CoeffMemoryParams
from dpcl_core.methods.lifelong.independent_laplace import IndependentLaplaceParams
from dpcl_core.methods.lifelong.l2dp_ml import L2dpMlParams
from dpcl_core.privacy import audit_bounds, gaussian, sums
from dpcl_core.privacy.audit_bounds import Coins, bound_of_counts
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.runs import frames
from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import ClassIncremental, Permuted
from dpcl_core.scenarios.stream import Examples, Table, TaskStream
from dpcl_core.spec import DataSpec, Params, PrivacySpec, RunSpec, ScenarioSpec

DELTA = 1e-5
N_TASKS = 10  # one digit a task
CUTS = (1, 2, 5, 10)  # into how many tasks the ten digits can be dealt
RETURNS = (1, 5, 10, 20, 50, 100)  # numbers of tasks in which every digit comes back
SEEDS = tuple(range(10))

Digits = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]


def stream(n_tasks: int = N_TASKS, seed: int = 0) -> TaskStream:
    """The bundled digits, split into tasks."""
    dataset = load.load_dataset(DataSpec(dataset="digits"))
    train, test = (Examples(pixels.pixel_rows(split.images), split.labels) for split in (dataset.train, dataset.test))
    return central.open_stream(ClassIncremental(tasks=n_tasks), Table(train, test, dataset.classes), seed)


@cache
def unit_digits(n_tasks: int) -> tuple[Digits, ...]:
    """For each task: unit rows [n, K] and labels [n] of its training digits, and of its test digits."""
    return tuple(
        (sums.unit_rows(task.train.inputs), task.train.labels, sums.unit_rows(task.test.inputs), task.test.labels)
        for task in stream(n_tasks).tasks
    )


@cache
def digit_sums() -> NDArray[np.float64]:
    """Sums [classes, K] of the unit rows of all training digits, by digit."""
    ((rows, labels, _, _),) = unit_digits(1)
    return np.stack([rows[labels == label].sum(axis=0) for label in np.unique(labels)])


def share_right(released: NDArray[np.float64]) -> float:
    """The share of all test digits that a classifier by these class sums [classes, K] recognises."""
    ((_, _, tests, truth),) = unit_digits(1)
    chosen = (tests @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T).argmax(axis=1)
    return float((chosen == truth).mean())


# The membership duel: an attacker sees one release and says whether one person took part. How often is he right?
#
# Three numbers are compared, and they must come in this order: what an attack reached, the best that any attack can reach
# against this noise (exact), and the most that (epsilon, delta) allows against any mechanism (the promise).


@dataclass(frozen=True, slots=True, eq=False)
class Duel:
    """An attacker's evidence on releases made with the person and without: [n] each, in the order they were played.

    Evidence is the logarithm of how much likelier the release is with the person than without; infinite where the release
    is possible on one side only. Above 0 he says "took part": the best rule at even odds, fixed before the game.
    """

    took_part: NDArray[np.float64]
    stayed_away: NDArray[np.float64]

    @property
    def hits(self) -> int:
        """Hits: releases with the person that he identified."""
        return int((self.took_part > 0).sum())

    @property
    def false_alarms(self) -> int:
        """False alarms: releases without the person that he took for ones with her."""
        return int((self.stayed_away > 0).sum())

    @property
    def share_right(self) -> float:
        """Share of rounds in which he was right; 0.5 is chance."""
        right = self.hits + len(self.stayed_away) - self.false_alarms
        return right / (len(self.took_part) + len(self.stayed_away))

    def proven(self, delta: float) -> float:
        """Lower bound on epsilon at 95 % confidence."""
        return bound_of_counts(self.hits, len(self.took_part), self.false_alarms, len(self.stayed_away), delta)


def promised_hits(false_alarms: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    """Largest share of hits that (epsilon, delta) allows whatever the mechanism (Kairouz et al. 2015).

    Args: false_alarms [n] in [0, 1].
    """
    if math.isinf(epsilon):
        return np.ones_like(false_alarms)
    by_alarm = math.exp(epsilon) * false_alarms + delta
    return np.minimum(1.0, np.minimum(by_alarm, 1 - math.exp(-epsilon) * (1 - false_alarms - delta)))


# The digits learned in one task by three methods whose noise is never shared: real runs.


# By method: fresh noise on each picture, in every step, once on sums over all pictures. The middle one is plain DP-SGD, as
# DP-A-GEM's is while there is one task and so nothing to replay; DP-A-GEM itself trains whole networks.
METHODS: Mapping[str, Params] = {
    "independent-laplace": IndependentLaplaceParams(project_to=0),
    "naive": PeftParams(epochs=10),
    "dp-coeff-memory": CoeffMemoryParams(solution="exact"),
}
# What the lesson's links offer to train: the method with one noise for all, long enough for the few digits, and a repair.
TO_TRAIN: Mapping[str, Params] = {"l2dp-ml": L2dpMlParams(batch_size=100, epochs=10), "dp-coeff-memory": CoeffMemoryParams()}


def repaired(epsilon: float) -> dict[str, tuple[float, Guarantee]]:
    """By each of `METHODS` at one budget: mean test accuracy over the seeds (in [0, 1]), and the ledger's guarantee."""
    results = {}
    for method in METHODS:
        # The run of one of `METHODS`: all digits in one task, so that nothing can be forgotten and only the noise matters.
        privacy = PrivacySpec(epsilons=(epsilon,), delta=DELTA, adjacency="replace", noise="release")
        run_events = list(engine.run(_on_digits(method, METHODS[method], ClassIncremental(tasks=1), privacy)))
        reached = float(np.mean(frames.accuracy(run_events)["accuracy"]))
        results[method] = reached, frames.guarantees(run_events)[epsilon]
    return results


def to_train(method: str, epsilon: float) -> RunSpec:
    """A run of one of `TO_TRAIN` for the Train page: three tasks of permuted digits, where a memory helps."""
    return _on_digits(method, TO_TRAIN[method], Permuted(tasks=3), PrivacySpec(epsilons=(epsilon,), delta=DELTA))


def _on_digits(method: str, params: Params, scenario: ScenarioSpec, privacy: PrivacySpec) -> RunSpec:
    """A run on the bundled digits, whose labels are public."""
    return RunSpec(
        method=method, params=params, data=DataSpec(dataset="digits", backbone="pixels"), scenario=scenario,
        labels="prior-const", privacy=privacy, seeds=(0, 1, 2),
    )  # fmt: skip


# Auditing one run: planted records, each in the data by a fair coin, and what right guesses of the coins prove.
#
# Each record lies along an axis of its own in the released sum, so that its number there is its coin, 0 or 1, plus noise.
# That is how `attacks.one_run` audits a cosine classifier; bounds and the rule of guessing are the same.


AUDIT_DELTA, CONFIDENCE = 1e-5, 0.95
GUESSED = 0.2  # share of the coins that is guessed: the surest
N_RECORDS = 1000


def played(epsilon: float, n: int, noise: float = 1.0) -> Coins:
    """One run with n planted records and noise for this epsilon, times `noise`; fresh coins and noise.

    The highest numbers are guessed as in the data, equally many of the lowest as left out.
    """
    took_part = ReleaseNoise().words(n) % np.uint64(2) == 1
    released = ReleaseNoise().added(took_part.astype(np.float64), noise * gaussian.sigma(epsilon, AUDIT_DELTA))
    return guessed(released, took_part)


def guessed(released: NDArray[np.float64], took_part: NDArray[np.bool_]) -> Coins:
    """The guesses of an attacker who sees a number [n] for each record; `took_part` [n]: the coins."""
    order, half = np.argsort(released, kind="stable"), int(GUESSED * len(released)) // 2
    right = int((~took_part[order[:half]]).sum() + took_part[order[-half:]].sum())
    return Coins(len(released), 2 * half, right)


@lru_cache(maxsize=4096)
def audit_proven(coins: Coins) -> tuple[float, float]:
    """Lower bounds on epsilon at `CONFIDENCE` each: without assumptions, and where noise is known to be Gaussian."""
    mu = audit_bounds.gaussian_one_run_bound(coins, CONFIDENCE)
    return audit_bounds.counting_bound(coins, AUDIT_DELTA, CONFIDENCE), audit_bounds.epsilon_of(mu, AUDIT_DELTA)


@lru_cache(maxsize=64)
def needed(n: int, claim: float) -> int:
    """The fewest right guesses of n planted records that prove more than the claim, without assumptions."""
    n_guessed = 2 * (int(GUESSED * n) // 2)
    return audit_bounds.least_right(
        n, n_guessed, lambda coins: audit_bounds.counting_bound(coins, AUDIT_DELTA, CONFIDENCE) > claim
    )


def caught(claim: float, n: int, noise: float, audits: int) -> float:
    """Share of so many audits that prove more than the claim, where the noise is `noise` times what the claim needs."""
    return float(np.mean([played(claim, n, noise).right >= needed(n, claim) for _ in range(audits)]))
