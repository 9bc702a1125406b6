"""The DP cosine classifier (Tobaben et al., Algorithm 1) and its ledger as one file to read, in plain NumPy.

    python examples/cosine_in_80_lines.py

Privacy unit: one row. Neighbours differ by one row that is added or removed. The engine's version of each part also holds
against a computer's rounding and draws its noise from the operating system; a test compares sums and epsilon of the two.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GRID = 2.0**-30  # rows lie on it, so that sums are exact and neighbours' sums differ by exactly one row


def smallest_delta(epsilon: float, std: float) -> float:
    """The delta of Gaussian noise on a sum that one row moves by at most 1 (Balle and Wang 2018, Theorem 8)."""

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return normal(0.5 / std - epsilon * std) - math.exp(epsilon) * normal(-0.5 / std - epsilon * std)


def noise_std(epsilon: float, delta: float) -> float:
    """The least standard deviation that is (epsilon, delta)-DP, by bisection, rounded up by a millionth."""
    low, high = 1e-3, 1e6
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if smallest_delta(epsilon, middle) > delta else (low, middle)
    return high * (1 + 1e-6)


def unit_rows(features: Floats) -> Floats:
    """Each row at length 1, less 2^-32, cut off to the grid: no row is longer than 1. A row of zeros stays one."""
    width = features.shape[1]
    rows = features / np.maximum(np.abs(features).max(axis=1, keepdims=True), np.finfo(float).tiny)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True) / (1 - 2.0**-32 - width * 2.0**-52)
    units: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.trunc(units / GRID) * GRID


class Ledger:
    """Every release: the task whose people's rows it read, and its noise for a row that moves the sum by at most 1."""

    def __init__(self, delta: float, *, same_people_in_all_tasks: bool) -> None:
        self.delta, self.in_all, self.entries = delta, same_people_in_all_tasks, list[tuple[int, float]]()

    def epsilon(self) -> float:
        """Of one person over all tasks. The releases that read her rows are one Gaussian release of joint noise."""
        groups = [[std for _, std in self.entries]]
        if not self.in_all:  # each person is in one task: the worst task counts
            groups = [[std for of, std in self.entries if of == task] for task in {of for of, _ in self.entries}]
        joint = min(1 / math.hypot(*(1 / std for std in stds)) for stds in groups)
        low, high = 0.0, 0.5 / joint**2 + math.sqrt(-2 * math.log(self.delta)) / joint  # the tail of the privacy loss
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if smallest_delta(middle, joint) > self.delta else (low, middle)
        return high


class CosineClassifier:
    """Noisy sums of unit-length features, one per class: `sums` [classes, K]. Keeps nothing else of the data."""

    def __init__(self, n_classes: int, width: int, epsilon: float, ledger: Ledger) -> None:
        self.sums, self.ledger, self.std = np.zeros((n_classes, width)), ledger, noise_std(epsilon, ledger.delta)

    def learn(self, task: int, features: Floats, labels: NDArray[np.int64], classes: list[int], noise: Floats) -> None:
        """Adds a task's class sums, after recording them. `classes` is public; `noise`: standard normal, [classes, K].

        A row is in one sum, so adding or removing it moves all sums together by at most 1. Sum and noise are rounded
        together, so that no last digit tells the sum without noise (Mironov 2012).
        """
        self.ledger.entries.append((task, self.std))
        step = 2.0 ** (math.frexp(self.std)[1] - 25)
        rows = unit_rows(features)
        sums = np.stack([rows[labels == one].sum(axis=0) for one in classes])
        self.sums[classes] += np.rint(sums / step + self.std / step * noise) * step

    def predict(self, features: Floats) -> NDArray[np.int64]:
        """The class whose sum has the largest cosine with the row."""
        directions = self.sums / np.maximum(np.linalg.norm(self.sums, axis=1, keepdims=True), 1e-300)
        nearest: NDArray[np.int64] = np.argmax(unit_rows(features) @ directions.T, axis=1)
        return nearest


def main() -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    features, labels, draws = digits.data - 8, digits.target, np.random.default_rng(0)  # pixels are 0 to 16
    is_test = np.arange(len(labels)) % 5 == 0
    ledger = Ledger(1e-5, same_people_in_all_tasks=False)
    model = CosineClassifier(10, features.shape[1], 1.0, ledger)
    for task in range(5):
        classes = [2 * task, 2 * task + 1]
        mine = ~is_test & np.isin(labels, classes)
        model.learn(task, features[mine], labels[mine], classes, draws.standard_normal((2, features.shape[1])))
        seen = is_test & (labels < 2 * task + 2)
        accuracy = (model.predict(features[seen]) == labels[seen]).mean()
        print(f"after task {task + 1}: accuracy {accuracy:.1%} on the classes so far, epsilon {ledger.epsilon():.4f}")


if __name__ == "__main__":
    main()
