"""Pitfalls of private continual learning: each as a small computation on invented numbers, done wrong and then right."""

import math
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dpcl_core.lessons import adding, text
from dpcl_core.privacy import accounting, continual, gaussian
from dpcl_core.privacy.statement import gaussian_odds_bound, shown_number

DELTA = 1e-5
SIGMA = gaussian.sigma(1.0, DELTA)
BEST = f"{100 * gaussian_odds_bound(SIGMA):.1f} %"  # guesses that are right at most under noise for epsilon 1
Vector = NDArray[np.float64]
Shown = Mapping[str, object]  # what the table of a pitfall and its finding say


def demonstration(edge: text.Edge) -> tuple[tuple[tuple[str, ...], ...], str]:
    """The demonstration of a pitfall by the function of its key's name: the rows under its `head`, and the finding."""
    show: Callable[[], Shown] = globals()[edge.key.replace("-", "_")]
    found = {"best": BEST, **show()}
    return tuple(tuple(cell.format(**found) for cell in row) for row in edge.rows), edge.finding.format(**found)


def fresh_accountant() -> Shown:
    """Ten tasks of epsilon 1 each, and one person in all of them."""
    return {"total": shown_number(adding.total(1.0, 10))}


def labels_from_data() -> Shown:
    """A list of labels read from the data, with and without the only person who has one of them."""
    others = ["flu", "cold", "flu", "fever", "cold"]
    without, hers = (", ".join(sorted({*others, *more})) for more in ([], ["gout"]))
    return {"without": without, "hers": hers, "reveals": "reveals" if without != hers else "does not reveal"}


def memory_reuse() -> Shown:
    """A kept example that nine later tasks replay, each time under the noise that its own task had."""
    total = accounting.in_every_task([1.0] * 10, DELTA)
    return {f"after_{n}": shown_number(total[n]) for n in (1, 4, 9)}


def realised_batch() -> Shown:
    """Ten gradients of 1 and hers of -1, each clipped to length 1, averaged by the expected or by the drawn number."""
    others, expected = np.ones(10), 10
    by_drawn = abs(others.mean() - np.append(others, -1.0).mean())
    by_expected = abs(others.sum() - np.append(others, -1.0).sum()) / expected
    return {"by_drawn": by_drawn, "by_expected": by_expected, "times": by_drawn / by_expected}


def batch_clipping() -> Shown:
    """Thirty-one small gradients and her huge one: the average clipped to length 1, or each gradient."""
    others, hers = np.full(31, 0.05), 1000.0
    batch = abs(float(np.clip(np.append(others, -hers).mean(), -1, 1) - np.clip(np.append(others, 0.0).mean(), -1, 1)))
    by_example = abs(float(np.clip(np.append(others, -hers), -1, 1).sum() - others.sum())) / 32
    return {"batch": batch, "by_example": by_example, "times": batch * 32}


def normalisation() -> Shown:
    """A sum of 200 numbers in [-1, 1] after scaling by mean and spread of the data, or by a public range; hers is huge."""
    others = np.random.default_rng(3).normal(0.4, 0.2, 200)

    def total(values: Vector, is_public: bool) -> float:
        centre, width = (0.0, 1.0) if is_public else (values.mean(), values.std())
        return float(np.clip((values - centre) / width, -1, 1).sum())

    by_data, by_range = (abs(total(np.append(others, 50.0), one) - total(others, one)) for one in (False, True))
    return {"by_data": by_data, "by_range": by_range}


def class_counts() -> Shown:
    """The number of examples of a class, exact and with the noise of epsilon 1."""
    without, hers = 24 + SIGMA * np.random.default_rng().standard_normal(2) - np.array([1, 0])
    return {"without": without, "hers": hers}


def early_stopping() -> Shown:
    """The number of steps until the private loss hardly falls, and a number fixed beforehand."""
    random = np.random.default_rng(5)
    x = random.normal(size=20)
    y = 2 * x + 0.1 * random.normal(size=20)

    def steps(x: Vector, y: Vector) -> int:
        weight, last, step = 0.0, math.inf, 0
        while (loss := float(((weight * x - y) ** 2).mean())) < last - 1e-4:
            weight, last, step = weight - 0.05 * float(((weight * x - y) * x).mean()), loss, step + 1
        return step

    return {"without": steps(x, y), "hers": steps(np.append(x, 3.0), np.append(y, -6.0))}


def recorded_seed() -> Shown:
    """A noisy number whose seed is in the log, and one whose noise was never recorded."""
    truth, of_seed = 1.0, SIGMA * float(np.random.default_rng(2024).standard_normal())
    released = truth + of_seed, truth + SIGMA * float(np.random.default_rng().standard_normal())
    return {"truth": truth, "released": released, "less": [one - of_seed for one in released]}


def last_digits() -> Shown:
    """The attacker of the lesson on last digits, 400 rounds a side."""
    plain, rounded = (adding.play(1.0, 400, way) for way in get_args(adding.Way))
    proven, nothing = (one.proven(DELTA) for one in (plain, rounded))
    caught = {"plain": 400 - plain.false_alarms, "rounded": 400 - rounded.false_alarms}
    return {**caught, "proven": proven, "nothing": nothing}


def by_rank() -> Shown:
    """A thousand rows split by a shuffle of their places or by a coin of their own bytes, and with one row added on top."""
    rows = [f"row {n}" for n in range(1000)]
    more = ["hers", *rows]

    def shuffled(table: list[str]) -> dict[str, bool]:
        order = np.random.default_rng(0).permutation(len(table))
        return {table[place]: rank < 0.8 * len(table) for rank, place in enumerate(order)}

    def by_coin(table: list[str]) -> dict[str, bool]:
        return {row: int.from_bytes(blake2b(row.encode(), digest_size=8).digest()) < 0.8 * 2**64 for row in table}

    splits = [(deal(rows), deal(more)) for deal in (shuffled, by_coin)]
    by_shuffle, by_bytes = (sum(before[row] != after[row] for row in rows) for before, after in splits)
    return {"by_shuffle": by_shuffle, "by_bytes": by_bytes}


def private_tuning() -> Shown:
    """Twenty trainings of epsilon 1 on the same people; the best one is used."""
    return {"total": shown_number(adding.total(1.0, 20))}


def huge_number() -> Shown:
    """One feature of 2e19 in single precision: divided by its length, or counted as zero where that is not finite."""
    row = np.array([2e19, 1.0], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = row @ row
        gradient = np.float32(row[0] * row[0]) * (np.float32(1) / np.sqrt(squared))
    return {"squared": squared, "gradient": gradient, "finite": np.where(np.isfinite(squared), row, 0).sum()}


def stolen_state() -> Shown:
    """Her task's sum after five tasks with remembered noise, for who has the program's memory or its releases alone."""
    stds = {"remembered": SIGMA * continual.square_root(5).sensitivity(), "fresh": SIGMA}
    return {name: np.array([23, 24]) + std * np.random.default_rng().standard_normal(2) for name, std in stds.items()}


def latecomers() -> Shown:
    """Twenty tasks of epsilon 1 in all, she in the fifth: what running sums tell who comes so many tasks later."""
    hers, later = 4, (0, 1, 2, 5, 10, 15)
    kinds = {"remembered": continual.choose(20).factorisation, "fresh": continual.fresh(20)}
    return {
        name: [shown_number(gaussian.epsilon(1 / continual.latecomer(of, SIGMA, hers, hers + n), DELTA)) for n in later]
        for name, of in kinds.items()
    }


def delete_me() -> Shown:
    """Her row taken out of a sum of 500 rows of length 1, seen by who kept the sum of the day before."""
    rows = np.random.default_rng(7).standard_normal((500, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    before, hers = rows.sum(axis=0), rows[0]

    def alike(difference: Vector) -> str:
        return f"{abs(float(difference @ hers)) / float(np.linalg.norm(difference)):.2f}"

    noise = SIGMA * np.random.default_rng().standard_normal((2, 64))
    subtracted, anew = before - (before - hers), before - rows[1:].sum(axis=0)
    return {"subtracted": alike(subtracted), "anew": alike(anew), "noisy": alike(hers + noise[0] - noise[1])}
