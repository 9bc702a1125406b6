"""Noise remembered over tasks: the running sums of a stream as one Gaussian mechanism.

Of the sums G_1, ..., G_T that T tasks bring, the running sums S = A G are wanted, A lower triangular with ones (with decay
g: g^(t - j)). Factored as A = B C, both lower triangular, the mechanism releases y_t = (C G)_t + z_t with independent noise
z_t and reads S off as B y, which is post-processing. For tasks chosen in the light of earlier releases that is as private as
for fixed ones (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1). C = identity is fresh noise for every task.

C is a Toeplitz matrix: column j is the first column, moved down by j. Its entries are multiples of 2^-14, none negative,
none above the one before it, the first is 1. All that follows is of this rounded matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import ExactSum, clipped_rows, coarse_unit_rows, on_grid, row_blocks

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
COLUMN_STEP = 2.0**-14
FRESH, SQUARE_ROOT, FITTED = "fresh", "square root", "fitted"
_ROUND_UP = 1 + 1e-9  # of a sensitivity: more than rounding may take off a root of a sum of 10^5 squares


@dataclass(frozen=True, eq=False)
class Factorisation:
    """C by its first column [T], with the decay of A. `kind`: FRESH, SQUARE_ROOT or FITTED."""

    kind: str
    column: Floats
    decay: float = 1.0

    @property
    def n_tasks(self) -> int:
        return len(self.column)

    def encoder(self, task: int) -> Floats:
        """Row `task` of C: the weights [task + 1] of G_0 to G_task in y_task."""
        return self.column[task::-1]

    @cached_property
    def decoder(self) -> Floats:
        """The first column [T] of B = A C^-1, Toeplitz as well: the power series of A divided by that of C."""
        found = np.zeros(self.n_tasks)
        for n in range(self.n_tasks):
            found[n] = self.decay**n - float(self.column[n:0:-1] @ found[:n])
        return found

    @cached_property
    def prefix_noise(self) -> Floats:
        """Standard deviation [T] of the noise in every running sum, for noise z_t of standard deviation 1."""
        return np.sqrt(np.cumsum(self.decoder**2))

    def step_noise(self, task: int) -> float:
        """Standard deviation of the noise in the change of the running sum at this task, as of `prefix_noise`."""
        return float(np.linalg.norm(np.diff(self.decoder[: task + 1], prepend=0.0)))

    def sensitivity(self, n_tasks: int = 1, gap: int = 1) -> float:
        """L2 length of C times a person's rows, of length at most 1 in each of `n_tasks` tasks at least `gap` apart.

        A row x_j in task j moves C G by x_j (C e_j), so rows in the tasks of J move it by at most ||sum over J of C e_j||,
        attained by equal rows: columns have no negative entry. The square is the sum over pairs of J of <C e_i, C e_j>, and
        for i <= j that is the sum over s < T - j of c_(s + j - i) c_s. As c does not increase, a pair has the more the
        closer it is and the earlier it ends. In any J the m-th task is at least m gap, and its distance to the n-th at least
        |m - n| gap: so tasks 0, gap, 2 gap, ... are the worst for all pairs at once.
        """
        places = range(0, self.n_tasks, gap)[:n_tasks]
        total = np.zeros(self.n_tasks)
        for place in places:
            total[place:] += self.column[: self.n_tasks - place]
        return float(np.linalg.norm(total)) * _ROUND_UP

    def releases(self, running_sums: Sequence[Floats]) -> list[Floats]:
        """The releases y_0 to y_t of which these are the estimates: `running_sums` turned round."""
        found: list[Floats] = []
        for total in running_sums:
            rest = sum((weight * one for weight, one in zip(self.decoder[len(found) : 0 : -1], found, strict=True)), 0.0)
            found.append(total - rest)
        return found

    def running_sums(self, released: Sequence[Floats]) -> Floats:
        """The estimate of the last running sum from the releases y_0 to y_t, each of the same shape."""
        weights = self.decoder[: len(released)][::-1]
        return np.tensordot(weights, np.stack(released), axes=1)


def _rounded(kind: str, column: Floats, decay: float) -> Factorisation:
    return Factorisation(kind, np.round(column / COLUMN_STEP) * COLUMN_STEP, decay)


def _power(exponent: float, pole: float, n_tasks: int) -> Floats:
    """The first coefficients of (1 - pole x)^-exponent; none negative and none increasing for both in [0, 1]."""
    steps = np.arange(1, n_tasks)
    return np.concatenate([[1.0], np.cumprod(pole * (steps - 1 + exponent) / steps)])


def fresh(n_tasks: int, decay: float = 1.0) -> Factorisation:
    """Independent noise for every task: C = identity."""
    return _rounded(FRESH, _power(0.0, decay, n_tasks), decay)


def square_root(n_tasks: int, decay: float = 1.0) -> Factorisation:
    """C = B = the square root of A (Fichtenberger, Henzinger and Upadhyay 2023): the coefficients of (1 - g x)^-1/2."""
    return _rounded(SQUARE_ROOT, _power(0.5, decay, n_tasks), decay)


@lru_cache(maxsize=64)
def fitted(n_tasks: int, per_person: int = 1, gap: int = 1, decay: float = 1.0) -> Factorisation:
    """The C of coefficients (1 - p x)^-a with the least noise in the last running sum for people of `per_person` tasks.

    a = 0 is fresh noise, a = 1/2 and p = g the square root, a = 1 and p = g noise on each running sum alone. A grid over
    both numbers is refined around its best point.
    """
    best, width = (math.inf, 0.5, decay), (0.5, 0.5 * decay)
    for _ in range(7):
        _, middle, pole = best
        exponents = np.clip(np.linspace(middle - width[0], middle + width[0], 9), 0, 1)
        poles = np.clip(np.linspace(pole - width[1], pole + width[1], 9), 0, decay)
        tried = [(_last_noise(a, p, n_tasks, per_person, gap, decay), a, p) for a in exponents for p in poles]
        best, width = min(best, *tried), (width[0] / 3, width[1] / 3)
    return _rounded(FITTED, _power(best[1], best[2], n_tasks), decay)


def _last_noise(exponent: float, pole: float, n_tasks: int, per_person: int, gap: int, decay: float) -> float:
    """The noise of the last running sum at equal privacy, before C is rounded; C^-1 has the coefficients of (1 - p x)^a."""
    inverse = np.concatenate([[1.0], np.cumprod(pole * (np.arange(n_tasks - 1) - exponent) / np.arange(1, n_tasks))])
    decoder = np.convolve(inverse, decay ** np.arange(n_tasks))[:n_tasks] if decay < 1 else np.cumsum(inverse)
    column = Factorisation(FITTED, _power(exponent, pole, n_tasks), decay)
    return float(np.linalg.norm(decoder)) * column.sensitivity(per_person, gap)


@dataclass(frozen=True, slots=True)
class Choice:
    """The factorisation with the least noise in the last running sum, and that noise, at equal privacy, of each in question.

    `noise`: by kind, in standard deviations of the noise that one task alone would need.
    """

    factorisation: Factorisation
    noise: dict[str, float]

    @property
    def least(self) -> float:
        """The noise of the chosen one; equal to that of fresh noise where remembering does not pay."""
        return self.noise[self.factorisation.kind]


def choose(n_tasks: int, per_person: int = 1, gap: int = 1, decay: float = 1.0) -> Choice:
    """The best of fresh noise, the square root and the fitted one, from public numbers alone.

    `per_person`: tasks in which one person may have rows, at least `gap` apart. Raises BadInput for impossible numbers.
    """
    for name, value, most in (("tasks", n_tasks, 10_000), ("tasks a person", per_person, n_tasks), ("gap", gap, n_tasks)):
        if not 1 <= value <= most:
            raise BadInput(name, value, f"must be between 1 and {most:,}")
    if not 0 < decay <= 1:
        raise BadInput("decay", decay, "must be above 0 and at most 1")
    each = (fresh(n_tasks, decay), square_root(n_tasks, decay), fitted(n_tasks, per_person, gap, decay))
    noise = {one.kind: float(one.prefix_noise[-1]) * one.sensitivity(per_person, gap) for one in each}
    return Choice(min(each, key=lambda one: noise[one.kind]), noise)  # of equals the simplest


# The mechanism: exact clean sums in memory, each task's release from them, and what a learner keeps of the releases.
#
# Rows lie on a grid of 2^-20 and weights on one of 2^-14, so a release's clean sum is a whole number of steps of 2^-34,
# added in integers: exact in any order. Every sum over the data is below 2^63 steps for 2^29 rows. Clean sums are in no
# file: who goes on after a crash reads the rows of earlier tasks again. Should another processor then give a row x as x',
# both of length at most 1, the row moves the releases before by parts of x (C e_j) and those after by parts of x' (C e_j),
# all together by no more than the length of C e_j: the sensitivity holds.


ROW_STEP = 2.0**-20
WHAT = "sums of unit features of every class, over all tasks with remembered noise"
MOST_BYTES = 1 << 26  # of the releases that a model keeps, and of the clean sums of a seed


def check_size(n_bytes: int) -> None:
    """Raises BadInput where a model would keep more releases than there is room for."""
    if n_bytes > MOST_BYTES:
        kept, room = f"{n_bytes / 1e6:,.0f} MB of releases a model", f"{MOST_BYTES / 1e6:.0f}"
        allowed = f"would keep {kept}, and has room for {room}; choose fresh"
        field = "params.noise_over_tasks"
        raise BadInput(field, "remembered", allowed, {field: "fresh"})


class Stream:
    """The clean sums [classes, K] of the tasks so far, for one seed. Nothing of them leaves but by the mechanisms below.

    `bound`: the largest length by which a person moves a task's sums; `what`: how ledgers name them; `channel`: the release
    that they belong to, as `ledger.REPLAY`, where a method has several kinds.
    """

    def __init__(
        self, factorisation: Factorisation, n_classes: int, n_features: int, *, bound: float = 1.0, what: str = WHAT,
        channel: str = ""
    ) -> None:
        self.factorisation, self.bound, self.what, self.channel = factorisation, bound, what, channel
        self._shape, self._step = (n_classes, n_features), math.ldexp(ROW_STEP, math.frexp(bound)[1] - 1)
        self._sums: list[NDArray[np.int64]] = []

    @property
    def n_tasks(self) -> int:
        """How many tasks are added."""
        return len(self._sums)

    def add(self, features: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
        """Adds a task's rows [n, K], brought to length 1, with labels [n] below the number of classes."""
        sums = ExactSum(self._shape, self._step)
        order = np.argsort(labels, kind="stable")
        for part in row_blocks(*features.shape):
            present, starts = np.unique(labels[order[part]], return_index=True)
            of_class = np.split(coarse_unit_rows(features[order[part]], self._step), starts[1:])
            sums.add(np.stack([rows.sum(axis=0) for rows in of_class]), present)
        self._sums.append(sums.steps)

    def add_vectors(self, vectors: NDArray[np.floating]) -> None:
        """Adds a task's vectors [n, K], one a person, of one class in all; each is clipped to the bound."""
        sums = ExactSum(self._shape, self._step)
        for part in row_blocks(*vectors.shape):
            sums.add(on_grid(clipped_rows(vectors[part], self.bound), self._step).sum(axis=0, keepdims=True))
        self._sums.append(sums.steps)

    def encoded(self, task: int) -> Floats:
        """(C G)_task, clipped to 2^53 steps, which moves no two values farther apart."""
        weights = np.rint(self.factorisation.encoder(task) / COLUMN_STEP).astype(np.int64)
        total = np.zeros(self._shape, dtype=np.int64)
        for weight, sums in zip(weights.tolist(), self._sums[: task + 1], strict=True):
            total += weight * sums
        return np.clip(total, -(2**53), 2**53).astype(np.float64) * (self._step * COLUMN_STEP)


def noisy_stream_sums(
    stream: Stream, stds: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int
) -> Floats:
    """The newest task's releases y_t [releases, classes, K], each with independent Gaussian noise of its own.

    Release e has noise of `stds[e]`, in units of the stream's bound, which one sum of every class would need, times the
    sensitivity of C to a person of one task. All of the stream is one Gaussian mechanism, entered before its first release
    for the people of every task: a stream that stops early stays charged in full. Under "replace" a row moves C G by at most
    twice that, x (C e_i) - x' (C e_j), and the accountant applies the adjacency. Raises ValueError where tasks are not
    released one by one in order.
    """
    _enter(stream, stds, ledgers, task)
    clean = stream.encoded(task)
    return np.stack([_noised(stream, clean, *pair) for pair in zip(stds, noises, strict=True)])


def noisy_named_sums(
    stream: Stream, std: float, noise: Noise, ledger: Ledger, *, task: int, named: Bools, new: Bools
) -> list[Floats]:
    """One model's releases y_0 to y_task [classes, K] where lists name classes [classes] one after another; else zeros.

    Of a class that is named by now y_task is released; of one that is `new` at this task all that would have been released
    before, too, so that its running sum has every row from the first task on. Each possible class conceptually has its noise
    from the first task, as in `noisy_stream_sums`, which is charged for all of them: what is given out here is a part of it,
    chosen by the lists, which are charged apart. No class has an origin of its own, and none is drawn twice, as no class is
    new twice. Raises ValueError as `noisy_stream_sums` does.
    """
    _enter(stream, [std], [ledger], task)
    found = []
    for place in range(task + 1):
        clean, chosen = stream.encoded(place), named if place == task else new
        one = np.zeros_like(clean)
        if chosen.any():
            one[chosen] = _noised(stream, clean[chosen], std, noise)
        found.append(one)
    return found


def _enter(stream: Stream, stds: Sequence[float], ledgers: Sequence[Ledger], task: int) -> None:
    n_tasks = stream.factorisation.n_tasks
    if not task == stream.n_tasks - 1 < n_tasks:
        raise ValueError(f"task {task} of {n_tasks} with {stream.n_tasks} added: tasks are released in order, each once")
    for std, ledger in zip(stds, ledgers, strict=True):
        if task == 0:
            event = dp.GaussianDpEvent(std) if std > 0 else dp.NonPrivateDpEvent()
            channels = {stream.channel: event} if stream.channel else {}
            ledger.spend(event, task=0, what=stream.what, people_of=tuple(range(n_tasks)), channels=channels)


def _noised(stream: Stream, clean: Floats, std: float, noise: Noise) -> Floats:
    return noise.added(clean, std * stream.factorisation.sensitivity() * stream.bound) if std > 0 else clean


# A second way to read releases with fresh noise: what a task released of a class is shrunk before it is added.


def shrunk(released: Floats, std: float) -> Floats:
    """The vectors [..., K], each times max(0, 1 - (K - 2) std^2 / ||r||^2); unchanged without noise and for K <= 2.

    The positive-part estimator of James and Stein (1961) for a mean of K numbers with noise of this standard deviation. It
    reads releases and public numbers alone. A class without people in a task, all of whose release is noise, comes out near
    zero and adds next to nothing to the class's sum.
    """
    size, width = np.square(released).sum(axis=-1, keepdims=True), released.shape[-1]
    excess = np.divide(max(0, width - 2) * std**2, size, out=np.full_like(size, np.inf if std else 0.0), where=size > 0)
    kept: Floats = released * np.maximum(0.0, 1.0 - excess)
    return kept
