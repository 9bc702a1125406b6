"""Four ways to handle noise over tasks under one public list, replayed on public digits: what the browser computes.

The ways: fresh noise as it was added up; each task's release shrunk before adding; noise remembered over tasks (the square
root); and the changes of its running sums shrunk. Digits are dealt out, and noise is drawn, by a hash that both compute: the
same numbers at every budget, which no release may have. For public teaching data only.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpcl_core.explorers import cosine_replay
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.features.cosine import CosineClassifier, CosineParams
from dpcl_core.privacy import continual, gaussian
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Cell, LabelSetting, PrivacySpec, RunSpec

Floats = NDArray[np.float64]
ARMS = ("added", "shrunk", "remembered", "both")
N_SEEDS, N_POINTS = 3, 5
STREAMS = 4  # of the hash, a seed: noise, tasks of rows, order of classes


class Recorded:
    """A noise source that gives the draws of a list, one after another."""

    def __init__(self, draws: np.ndarray) -> None:
        self._draws = iter(draws)

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        draw = next(self._draws)
        assert draw.shape == shape
        return draw

    def added(self, clean: np.ndarray, std: float) -> np.ndarray:
        return clean + std * self.normal(clean.shape)


def learner(
    cell: Cell, draws: np.ndarray, *, n_tasks: int, n_classes: int, labels: LabelSetting = "prior-const",
    params: CosineParams | None = None,
) -> CosineClassifier:  # fmt: skip
    """The cosine classifier that trains for real, its noise replaced by these draws [tasks, classes of a task, K]."""
    spec = RunSpec(
        method="cosine", params=params or CosineParams(), scenario=ClassIncremental(tasks=n_tasks), labels=labels,
        privacy=PrivacySpec(epsilons=(cell.epsilon,), delta=cosine_replay.DELTA), seeds=(cell.seed,),
    )  # fmt: skip
    public = tuple(range(n_classes))
    context = PublicContext(n_inputs=draws.shape[-1], n_classes=n_classes, public=public, n_people=1000, n_tasks=n_tasks)
    made = CosineClassifier(spec, [cell], context)
    made._noises[cell] = Recorded(draws)  # type: ignore[assignment]
    return made


def points(n_tasks: int) -> list[int]:
    """The tasks, from 0, after which accuracy is computed."""
    return [n_tasks * point // N_POINTS - 1 for point in range(1, N_POINTS + 1)]


def accuracies(data: cosine_replay.Digits, n_tasks: int, returns: bool, epsilon: float) -> dict[str, Floats]:
    """By arm, the accuracy [seeds, points] on the test digits whose class has come, each class as often as every other.

    `returns`: every digit comes in every task, instead of each in one of at most ten.
    """
    found = {arm: np.zeros((N_SEEDS, N_POINTS)) for arm in ARMS}
    for seed in range(N_SEEDS):
        for place, (task, came, by_arm) in enumerate(_held(data, n_tasks, returns, epsilon, seed)):
            assert task == points(n_tasks)[place]
            seen = came[data.test_labels]
            for arm, sums in by_arm.items():
                lengths = np.linalg.norm(sums, axis=1)
                scores = data.tests[seen] @ (sums / np.where(lengths > 0, lengths, 1)[:, None]).T
                chosen = np.where(lengths > 0, scores, -np.inf).argmax(axis=1)
                found[arm][seed, place] = (chosen == data.test_labels[seen]).mean()
    return found


def _held(
    data: cosine_replay.Digits, n_tasks: int, returns: bool, epsilon: float, seed: int
) -> Iterator[tuple[int, NDArray[np.bool_], dict[str, Floats]]]:
    """At every point its task, which classes have come, and each arm's sums [classes, K]."""
    rows, sigma, of = unit_rows(data.rows), gaussian.sigma(epsilon, cosine_replay.DELTA), continual.square_root(n_tasks)
    home = homes(data.n_classes, n_tasks, seed)
    tasks = (n_tasks * uniform(STREAMS * seed + 1, len(rows))).astype(np.int64) if returns else home[data.labels]
    noise = normals(STREAMS * seed, n_tasks * data.n_classes * rows.shape[1]).reshape(n_tasks, data.n_classes, -1)
    totals = {arm: np.zeros(noise.shape[1:]) for arm in ARMS}
    before = np.zeros(noise.shape[1:])
    for task in range(n_tasks):
        mine = tasks == task
        clean = np.stack([rows[mine & (data.labels == label)].sum(axis=0) for label in range(data.n_classes)])
        after = np.tensordot(of.decoder[task::-1], noise[: task + 1], axes=1)
        scale = sigma * of.sensitivity()
        fresh, change = clean + sigma * noise[task], clean + scale * (after - before)
        before = after
        totals["added"] += fresh
        totals["shrunk"] += continual.shrunk(fresh, sigma)
        totals["remembered"] += change
        totals["both"] += continual.shrunk(change, scale * of.step_noise(task))
        if task in points(n_tasks):
            yield task, np.full(data.n_classes, True) if returns else home <= task, totals


def forgetting(data: cosine_replay.Digits, decay: float, epsilon: float) -> dict[str, tuple[float, float]]:
    """By way, after ten tasks of one digit each that forget: the share of right among the digits of the first five, and the
    epsilon that who sees the last five running sums can prove of a person of the first task."""
    rows, sigma, last = unit_rows(data.rows), gaussian.sigma(epsilon, cosine_replay.DELTA), 9
    found = {}
    for way, of in (("fresh", continual.fresh(10, decay)), ("remembered", continual.square_root(10, decay))):
        right = []
        for seed in range(N_SEEDS):
            home = homes(data.n_classes, 10, seed)
            noise = normals(STREAMS * seed, 10 * data.n_classes * rows.shape[1]).reshape(10, data.n_classes, -1)
            clean = np.stack([decay ** (last - home[c]) * rows[data.labels == c].sum(axis=0) for c in range(data.n_classes)])
            sums = clean + sigma * of.sensitivity() * np.tensordot(of.decoder[::-1], noise, axes=1)
            old = home[data.test_labels] < 5
            scores = data.tests[old] @ (sums / np.linalg.norm(sums, axis=1)[:, None]).T
            right.append((scores.argmax(axis=1) == data.test_labels[old]).mean())
        told = math.inf if sigma == 0 else gaussian.epsilon(1 / continual.latecomer(of, sigma, 0, 5), cosine_replay.DELTA)
        found[way] = float(np.mean(right)), told
    return found


def homes(n_classes: int, n_tasks: int, seed: int) -> NDArray[np.int64]:
    """The task of every class, where each comes in one."""
    place = np.empty(n_classes, dtype=np.int64)
    place[np.argsort(uniform(STREAMS * seed + 2, n_classes))] = np.arange(n_classes)
    return place * n_tasks // n_classes


def uniform(stream: int, n: int) -> Floats:
    """n numbers in (0, 1): a 32-bit hash of their places in a stream (the constants are Chris Wellons' "lowbias32")."""
    x = (np.arange(n, dtype=np.uint64) + np.uint64(stream * 0x9E3779B9)) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return ((x ^ (x >> np.uint64(15))).astype(np.float64) + 0.5) / 2**32


def normals(stream: int, n: int) -> Floats:
    """n standard normal numbers, each by Box and Muller from two of `uniform`."""
    pairs = uniform(stream, 2 * n).reshape(-1, 2)
    found: Floats = np.sqrt(-2 * np.log(pairs[:, 0])) * np.cos(2 * np.pi * pairs[:, 1])
    return found
