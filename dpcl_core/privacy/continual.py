"""Noise remembered over tasks: the running sums of a stream as one Gaussian mechanism.

Of the sums G_1, ..., G_T that T tasks bring, the running sums S = A G are wanted, A lower triangular with ones (with decay
g: g^(t - j)). Factored as A = B C, both lower triangular, the mechanism releases y_t = (C G)_t + z_t with independent noise
z_t and reads S off as B y, which is post-processing. For tasks chosen in the light of earlier releases that is as private as
for fixed ones (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1). C = identity is fresh noise for every task.

C is a Toeplitz matrix: column j is the first column, moved down by j. Its entries are multiples of 2^-14, none negative,
none above the one before it, the first is 1. All that follows is of this rounded matrix.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy import gaussian
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
        total = np.zeros(self.n_tasks)
        for place in range(0, self.n_tasks, gap)[:n_tasks]:
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
        return np.tensordot(self.decoder[: len(released)][::-1], np.stack(released), axes=1)


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


# What the best test on the sums of a stream tells about one person, task by task.
#
# A person's row x, of length 1, joins in task j and moves the releases y_t by x C_{t,j}, each under independent noise of
# standard deviation std ||C e_0||. The likelihood-ratio test on any of them, or on estimates read off them, compares two
# Gaussians of one covariance S at a distance v: its power is that of N(0, 1) against N(mu, 1), mu^2 = v' S^-1 v.


def all_so_far(of: Factorisation, std: float, joined: int = 0) -> Floats:
    """mu [T] from all releases up to each task, for a person who joins in task `joined` (from 0); 0 before.

    `std`: the noise that one sum would need. After the last task of a person of task 0 it is 1 / std, the whole promise.
    """
    moved = np.concatenate([np.zeros(joined), of.column[: of.n_tasks - joined]])
    found: Floats = np.sqrt(np.cumsum(moved**2)) / (std * of.sensitivity())
    return found


def last_alone(of: Factorisation, std: float, joined: int = 0) -> Floats:
    """mu [T] from the newest running sum alone, as of `all_so_far`: what an audit of the last model sees."""
    after = np.arange(of.n_tasks) - joined
    moved = np.where(after >= 0, of.decay ** np.maximum(after, 0), 0.0)
    found: Floats = moved / (of.prefix_noise * std * of.sensitivity())
    return found


def latecomer(of: Factorisation, std: float, joined: int, first: int) -> float:
    """mu for who sees the running sums from task `first` >= `joined` on, and none before."""
    tasks = np.arange(of.n_tasks)
    decoder = np.stack([np.concatenate([of.decoder[t::-1], np.zeros(of.n_tasks - 1 - t)]) for t in tasks[first:]])
    whitened = np.linalg.solve(np.linalg.cholesky(decoder @ decoder.T), of.decay ** (tasks[first:] - joined))
    return float(np.linalg.norm(whitened)) / (std * of.sensitivity())


LIST_A_TASK = "list per task"
ATTACKS = ("all releases so far", "the last release alone")


def noise_by_tasks(n_tasks: int, people: int) -> list[tuple[str, int, float]]:
    """Rows (way, tasks, noise): the noise in a class's last sum for people of `people` tasks, at equal privacy.

    In standard deviations of the noise that one task and one person's row would need. Ways: the factorisations of
    `choose`, for one list and up to twelve numbers of tasks up to `n_tasks`; and a list per task, which puts
    noise on a class in one task alone.
    """
    counts = sorted({round(n_tasks ** (step / 11)) for step in range(12)})
    rows = [(kind, n, value) for n in counts for kind, value in choose(n, min(people, n)).noise.items()]
    return rows + [(LIST_A_TASK, n, math.sqrt(min(people, n))) for n in counts]


def race(n_tasks: int, std: float, delta: float) -> list[tuple[str, int, float]]:
    """Rows (attack, task from 0, epsilon) in theory: each attack on either noise, for the first task's people.

    `std`: the noise that one sum would need; `delta`: at which the power is told as an epsilon.
    """
    kinds = {"fresh": fresh(n_tasks), "remembered": choose(n_tasks).factorisation}
    powers = [
        (f"{name}: {attack}", seen(of, std)) for name, of in kinds.items()
        for attack, seen in zip(ATTACKS, (all_so_far, last_alone), strict=True)
    ]  # fmt: skip
    return [(attack, task, gaussian.epsilon(1 / float(mu), delta)) for attack, mus in powers for task, mu in enumerate(mus)]


# How to spend an epsilon over tasks whose number nobody knows.
#
# Each release is a Gaussian of power mu_t; those that read the same person compose to the square root of the sum of mu_t^2,
# even where each is chosen in the light of those before, as long as a filter stops before that sum exceeds mu^2 of the whole
# budget (Smith and Thakurta 2022, Koskela, Tobaben and Honkela 2023). A rule asks for a share of mu^2 in each task.


EQUAL, FALLING, DOUBLING, ALONE = "equal, as planned", "falling", "doubling", "people of one task each"
_SUM = math.pi**2 / 6  # of 1 / n^2 over all n


def asked_shares(rule: str, n_tasks: int, planned: int) -> Floats:
    """The shares [tasks] of mu^2 that a rule asks for: at most 1 in all for ever, or under EQUAL for as long as `planned`.

    EQUAL: 1 / planned. FALLING: 1 / n^2 in the n-th task, over the sum of all. DOUBLING: half of what is left over the next
    `planned` tasks, half of the rest over twice as many, and so on.
    """
    n = np.arange(1, n_tasks + 1, dtype=np.float64)
    if rule == EQUAL:
        return np.full(n_tasks, 1 / planned)
    if rule == FALLING:
        return 1 / (_SUM * n**2)
    block = np.floor(np.log2((n - 1) // planned + 1))  # 0 for the first `planned` tasks, 1 for twice as many, ...
    found: Floats = 1 / (2 ** (block + 1) * planned * 2**block)
    return found


def spending(epsilon: float, delta: float, n_tasks: int, planned: int) -> list[tuple[str, int, float]]:
    """Rows (rule, task from 0, epsilon of the task's release): what each rule gives, until the filter stops it.

    For people of every task; under ALONE each is in one task, so that all tasks have the whole budget under any rule, and
    nobody starves. A task that the filter refuses gets 0: it releases nothing.
    """
    power = 1 / gaussian.sigma(epsilon, delta) ** 2
    rows: list[tuple[str, int, float]] = []
    for rule in (EQUAL, FALLING, DOUBLING):
        spent = 0.0
        for task, share in enumerate(asked_shares(rule, n_tasks, planned)):
            granted = share if spent + share <= 1 + 1e-12 else 0.0
            spent += granted
            rows.append((rule, task, gaussian.epsilon(1 / math.sqrt(granted * power), delta) if granted else 0.0))
    return rows + [(ALONE, task, epsilon) for task in range(n_tasks)]
