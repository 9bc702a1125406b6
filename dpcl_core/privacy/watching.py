"""What the best test on the sums of a stream tells about one person, task by task.

A person's row x, of length 1, joins in task j and moves the releases y_t by x C_{t,j}, each under independent noise of
standard deviation std ||C e_0||. The likelihood-ratio test on any of them, or on estimates read off them, compares two
Gaussians of one covariance S at a distance v: its power is that of N(0, 1) against N(mu, 1), mu^2 = v' S^-1 v.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy import continual, gaussian
from dpcl_core.privacy.continual import Factorisation

Floats = NDArray[np.float64]


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
    moved = of.decay ** (tasks[first:] - joined)
    whitened = np.linalg.solve(np.linalg.cholesky(decoder @ decoder.T), moved)
    return float(np.linalg.norm(whitened)) / (std * of.sensitivity())


LIST_A_TASK = "list per task"
ATTACKS = ("all releases so far", "the last release alone")


def noise_by_tasks(n_tasks: int, people: int) -> list[tuple[str, int, float]]:
    """Rows (way, tasks, noise): the noise in a class's last sum for people of `people` tasks, at equal privacy.

    In standard deviations of the noise that one task and one person's row would need. Ways: the factorisations of
    `continual.choose`, for one list and up to twelve numbers of tasks up to `n_tasks`; and a list per task, which puts
    noise on a class in one task alone.
    """
    counts = sorted({round(n_tasks ** (step / 11)) for step in range(12)})
    rows = [(kind, n, value) for n in counts for kind, value in continual.choose(n, min(people, n)).noise.items()]
    return rows + [(LIST_A_TASK, n, math.sqrt(min(people, n))) for n in counts]


def race(n_tasks: int, std: float, delta: float) -> list[tuple[str, int, float]]:
    """Rows (attack, task from 0, epsilon) in theory: each attack on either noise, for the first task's people.

    `std`: the noise that one sum would need; `delta`: at which the power is told as an epsilon.
    """
    kinds = {"fresh": continual.fresh(n_tasks), "remembered": continual.choose(n_tasks).factorisation}
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
