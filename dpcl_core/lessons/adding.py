"""What adds up and what is free: composition, averaging, disjoint people, random batches, and work on what is released."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcl_core.lessons import noise
from dpcl_core.privacy import accounting, calculator, gaussian, statement
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import Recurrence

DELTA = 1e-5
SIGMA, N_STEPS = 1.0, 1000  # of the training with random batches
N_OTHERS = 3  # people in the small count
COUNTS = np.array([40, 25, 18, 12, 8, 6, 4, 3, 2, 2, 1, 1, 1] + [0] * 27, dtype=np.float64)  # of an invented catalogue


def total(epsilon: float, n: int) -> float:
    """Exact epsilon of a person who is in n Gaussian releases, each (epsilon, DELTA)-DP."""
    return accounting.in_every_task([epsilon] * n, DELTA)[-1]


def ledger(epsilon: float, n: int, recurrence: Recurrence) -> Ledger:
    """The ledger of n such releases, one a task, of people who are in one task ("once") or in every one."""
    book = Ledger(DELTA, "add-remove", recurrence)
    for task in range(n):
        book.spend(dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA)), task=task, what="a sum")
    return book


def averaged(epsilon: float, n: int, rounds: int) -> noise.Duel:
    """An attacker who averages n fresh noisy answers to one question and knows all but her; so many rounds a side.

    Noise is drawn once with the spread of the average, sigma / sqrt(n): the sum of n Gaussian draws has that law.
    """
    std = of_average(gaussian.sigma(epsilon, DELTA), n)
    took_part, stayed_away = (ReleaseNoise().added(np.full(rounds, side), std) for side in (1.0, 0.0))
    return noise.Duel((took_part - 0.5) / std**2, (stayed_away - 0.5) / std**2)


def best_of_averages(epsilon: float, n: int) -> float:
    """The largest share of right guesses that any attacker reaches on n such answers."""
    return statement.gaussian_odds_bound(of_average(gaussian.sigma(epsilon, DELTA), n))


def of_average(std: float, n: int) -> float:
    """Standard deviation of the noise on an average of n answers, each with fresh noise of this one."""
    return std / math.sqrt(n)


@lru_cache(maxsize=32)
def sampled(rate: float) -> float:
    """Epsilon of `N_STEPS` noisy steps, each on a secret random batch with every person at this rate."""
    return calculator.solve(epsilon=None, sigma=SIGMA, delta=DELTA, sample_rate=rate, n_steps=N_STEPS).epsilon


def if_known(times: int) -> float:
    """The same for a person who was in so many batches, where it is known in which."""
    return gaussian.epsilon(SIGMA / math.sqrt(times), DELTA) if times else 0.0


def worked_on(epsilon: float, rounds: int = 20_000) -> dict[str, float]:
    """Share of right guesses from a small noisy count, and from what others make of it.

    The attacker takes the best cut of the first half of the rounds, on either side of it, and is measured on the second.
    """
    std = gaussian.sigma(epsilon, DELTA)
    with_her, without = (ReleaseNoise().added(np.full(rounds, N_OTHERS + side), std) for side in (1.0, 0.0))
    return {name: _right(work(with_her), work(without)) for name, work in _WORK.items()}


_WORK: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "as released": lambda released: released,
    "rounded to whole people": np.round,
    "negative counts set to 0": lambda released: np.maximum(released, 0.0),
    "squared": np.square,
    "rounded to tens": lambda released: np.round(released / 10) * 10,
}


def _right(with_her: NDArray[np.float64], without: NDArray[np.float64]) -> float:
    half = len(with_her) // 2
    cuts = np.unique(np.quantile(np.concatenate([with_her[:half], without[:half]]), np.linspace(0, 1, 101)))

    def share(cut: float, part: slice) -> float:
        return float(((with_her[part] >= cut).mean() + (without[part] < cut).mean()) / 2)

    first = [share(float(cut), slice(half)) for cut in cuts]
    best = int(np.argmax(np.abs(np.array(first) - 0.5)))
    found = share(float(cuts[best]), slice(half, None))
    return found if first[best] >= 0.5 else 1 - found


def errors(epsilon: float, draws: int = 300) -> Mapping[str, float]:
    """Root mean square error of the catalogue's noisy counts, and after negative ones are set to 0."""
    clean = np.tile(COUNTS, (draws, 1))
    released = ReleaseNoise().added(clean, gaussian.sigma(epsilon, DELTA))
    pairs = {"as released": released, "negative counts set to 0": np.maximum(released, 0.0)}
    return {name: float(np.sqrt(((values - clean) ** 2).mean())) for name, values in pairs.items()}


def participations(rate: float) -> tuple[int, int]:
    """In how many of the batches 95 of 100 people are: from, to."""
    return int(binom.ppf(0.025, N_STEPS, rate)), int(binom.ppf(0.975, N_STEPS, rate))


# Noise added in floating point reveals by its last digits who took part; noise rounded with its sum does not.
#
# A floating-point number of at least 2^k is a multiple of 2^(k - 52). So fl(x + noise) is a multiple of x's own grid where
# the sum came out smaller than x, while noise alone, drawn finer, need not be (Mironov 2012). All numbers are invented.


Way = Literal["naive", "rounded"]
N_NUMBERS = 512
_ROUNDS_AT_ONCE = 200
# The attacker's evidence for "took part". His only test: a digit that her numbers cannot produce.
_IMPOSSIBLE, _NOTHING_SEEN = -1.0, 1.0


@lru_cache(maxsize=1)
def person() -> NDArray[np.float64]:
    """Her numbers [N_NUMBERS], an invented vector of length 1. The attacker has them and decides only if she took part."""
    random = np.random.default_rng(7)
    numbers = random.choice([-1.0, 1.0], N_NUMBERS) * (1 + 0.1 * random.random(N_NUMBERS))
    return numbers / np.linalg.norm(numbers)


def spacing(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of neighbouring floating-point numbers just below the power of two under each of these [n]."""
    return np.spacing(2.0 ** (np.floor(np.log2(np.abs(numbers))) - 1))


def releases(is_in: bool, epsilon: float, n: int, way: Way) -> NDArray[np.float64]:
    """Releases [n, N_NUMBERS] of her numbers, or of zeros where she is not in, under Gaussian noise of this epsilon.

    "naive": the sum of two floating-point numbers, the noise as NumPy draws it, afresh. "rounded": as this project's
    mechanisms do it, a whole number of steps of a public grid.
    """
    clean, std = np.tile(person() * is_in, (n, 1)), gaussian.sigma(epsilon, DELTA)  # one person's vector has length 1
    if way == "rounded":
        return ReleaseNoise().added(clean, std)
    return clean + std * np.random.default_rng().standard_normal(clean.shape)


def cannot_be_hers(released: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask [n, N_NUMBERS] of the numbers that cannot be sums of hers and noise: small ones off the grid of her own."""
    small = np.abs(released) < np.abs(person()) / 4
    return np.asarray(small & (np.mod(released / spacing(person()), 1.0) != 0), np.bool_)


def play(epsilon: float, n: int, way: Way) -> noise.Duel:
    """The duel over n releases a side; the attacker says "not in" where a digit is impossible, else "in"."""
    sides = []
    for is_in in (True, False):
        parts = [min(_ROUNDS_AT_ONCE, n - start) for start in range(0, n, _ROUNDS_AT_ONCE)]
        is_out = np.concatenate([cannot_be_hers(releases(is_in, epsilon, size, way)).any(axis=1) for size in parts])
        sides.append(np.where(is_out, _IMPOSSIBLE, _NOTHING_SEEN))
    return noise.Duel(*sides)


def smallest(released: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Indices [count] of the smallest numbers of one release [N_NUMBERS], whose digits reveal most."""
    return np.argsort(np.abs(released), kind="stable")[:count]


def steps_of(released: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Released numbers in units of the public grid, which depends on the noise's standard deviation alone."""
    return released / gaussian.grid(gaussian.sigma(epsilon, DELTA))


# Who pays for privacy: the digits with one of them rare, learned from class sums with the same noise on every sum.


RARE, ALIKE = 8, 1  # the rare digit, and the one that it shares a label with in the last step
_DRAWS = 40


@dataclass(frozen=True, slots=True)
class Recognised:
    """Shares of test digits that are recognised: the rare digit, the others, and all in the shares of the training data."""

    rare: float
    others: float
    overall: float


def most() -> int:
    """How many people have the rare digit in the whole data."""
    ((_, labels, _, _),) = noise.unit_digits(1)
    return int((labels == RARE).sum())


@lru_cache(maxsize=256)
def recognised(epsilon: float, n_rare: int, *, weight: float = 1.0, is_merged: bool = False) -> Recognised:
    """Mean over teaching draws of the noise, where only the first `n_rare` people have the rare digit.

    `weight`: each of their pictures counts so often, and the noise on every sum grows with the largest weight.
    `is_merged`: rare digit and `ALIKE` share one label; recognised is who gets that label.
    """
    sums, counts = _sums(n_rare)
    ((_, _, tests, truth),) = noise.unit_digits(1)
    std, random = gaussian.sigma(epsilon, DELTA, max(weight, 1.0)), np.random.default_rng(7)
    sums[RARE] *= weight
    label = np.arange(len(sums))
    if is_merged:
        sums[ALIKE] += sums[RARE]
        label[RARE] = ALIKE
    hits = np.zeros(len(sums))
    for _ in range(_DRAWS if std else 1):
        released = sums + std * random.standard_normal(sums.shape)
        scores = tests @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T
        if is_merged:
            scores[:, RARE] = -np.inf  # no label of its own
        right = scores.argmax(axis=1) == label[truth]
        hits += np.array([right[truth == one].mean() for one in range(len(sums))]) / (_DRAWS if std else 1)
    return Recognised(float(hits[RARE]), float(np.delete(hits, RARE).mean()), float(hits @ counts / counts.sum()))


def likeness(epsilon: float, n_rare: int) -> tuple[float, float]:
    """Cosine of the rare digit's noisy sum with the sum itself: mean over draws, and |s| / sqrt(|s|^2 + K sigma^2)."""
    clean = _sums(n_rare)[0][RARE]
    std, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(7)
    noisy = clean + std * random.standard_normal((500, len(clean)))
    cosines = noisy @ clean / np.linalg.norm(noisy, axis=1) / np.linalg.norm(clean)
    square = float(clean @ clean)
    return float(cosines.mean()), math.sqrt(square / (square + len(clean) * std**2))


def _sums(n_rare: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of unit rows by digit, and how many people each has."""
    ((rows, labels, _, _),) = noise.unit_digits(1)
    sums, counts = noise.digit_sums().copy(), np.bincount(labels).astype(np.float64)
    rare = rows[labels == RARE][:n_rare]
    sums[RARE], counts[RARE] = rare.sum(axis=0), len(rare)
    return sums, counts


# Why models forget: a linear classifier learns the digits two at a time by gradient steps; a classifier of sums only adds.
#
# Public digits, without noise unless it says so: what is shown here is forgetting, not privacy.


N_TASKS = 5
_STEPS, _RATE = 60, 20.0  # full-batch gradient steps a task, of a softmax on rows of length 1
_FORGETTING_DRAWS = 10

Matrix = NDArray[np.float64]  # [tasks, tasks]: accuracy on task j after task i; nan for j > i


def gradient(weights: Matrix, rows: Matrix, labels: NDArray[np.int64], listed: NDArray[np.bool_]) -> Matrix:
    """Gradient [classes, K] of the mean cross-entropy of softmax(rows weights^T) over the listed classes [classes] alone."""
    logits = np.where(listed, rows @ weights.T, -np.inf)
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    pulled: Matrix = chances.T @ rows / len(rows)
    return pulled


@lru_cache(maxsize=16)
def accuracies(way: Literal["plain", "own labels", "replay", "sums"], n_kept: int = 0) -> Matrix:
    """Accuracies while five tasks of two digits are learned.

    "plain": gradient steps on the task's pictures, all ten digits compete. "own labels": only the task's two digits compete
    in training. "replay": the first `n_kept` pictures of each earlier digit are mixed in, as heavy as the task's own digits.
    "sums": each digit's pictures are added up.
    """
    if way == "sums":
        return _by_sums(0.0, np.random.default_rng(7))
    tasks = noise.unit_digits(N_TASKS)
    n_classes, width = 10, tasks[0][0].shape[1]
    weights, found = np.zeros((n_classes, width)), np.full((len(tasks), len(tasks)), np.nan)
    for now, (rows, labels, _, _) in enumerate(tasks):
        listed = np.isin(np.arange(n_classes), labels) if way == "own labels" else np.ones(n_classes, dtype=np.bool_)
        kept = [_first(*tasks[past][:2], n_kept) for past in range(now)] if way == "replay" and n_kept else []
        for _ in range(_STEPS):
            pull = gradient(weights, rows, labels, listed)
            for old_rows, old_labels in kept:
                pull = pull + gradient(weights, old_rows, old_labels, listed)
            weights = weights - _RATE * pull / (1 + len(kept))
        found[now, : now + 1] = _accuracies(weights, now)
    return found


def forgotten(found: Matrix) -> float:
    """Mean over tasks but the last: the best accuracy it ever had, less that after the last task."""
    return float(np.mean([np.nanmax(found[:, task]) - found[-1, task] for task in range(len(found) - 1)]))


@lru_cache(maxsize=16)
def of_noise(epsilon: float) -> tuple[float, float]:
    """Mean accuracy after the last task and forgetting of the classifier of sums with Gaussian noise, teaching draws.

    Noise is added once to each digit's sum, in its own task: a public list of labels for each task.
    """
    std, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(7)
    runs = [_by_sums(std, random) for _ in range(_FORGETTING_DRAWS)]
    return float(np.mean([found[-1].mean() for found in runs])), float(np.mean([forgotten(found) for found in runs]))


def _by_sums(std: float, random: np.random.Generator) -> Matrix:
    """Accuracies of the classifier of sums, whose noise of this standard deviation is drawn here."""
    tasks = noise.unit_digits(N_TASKS)
    weights, found = np.zeros((10, tasks[0][0].shape[1])), np.full((N_TASKS, N_TASKS), np.nan)
    for now, (rows, labels, _, _) in enumerate(tasks):
        for label in np.unique(labels):
            total = rows[labels == label].sum(axis=0) + std * random.standard_normal(rows.shape[1])
            weights[label] = total / np.linalg.norm(total)
        found[now, : now + 1] = _accuracies(weights, now)
    return found


def _first(rows: Matrix, labels: NDArray[np.int64], n: int) -> tuple[Matrix, NDArray[np.int64]]:
    places = np.concatenate([np.flatnonzero(labels == label)[:n] for label in np.unique(labels)])
    return rows[places], labels[places]


def _accuracies(weights: Matrix, now: int) -> list[float]:
    """Accuracy on each task so far among the digits that have been learned; an untouched row of weights is none of them."""
    is_learned, tasks = np.any(weights != 0, axis=1), noise.unit_digits(N_TASKS)[: now + 1]
    hits = (np.where(is_learned, rows @ weights.T, -np.inf).argmax(axis=1) == truth for _, _, rows, truth in tasks)
    return [float(one.mean()) for one in hits]
