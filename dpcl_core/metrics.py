"""Metrics of continual learning from an accuracy matrix: a[k][i] = test accuracy on task i after learning task k.

Row k holds at least the tasks 0..k; None is "not evaluated" (a task without test examples, no model released yet) and never
counts as zero: every mean is over the entries that exist, and a mean over none is None. Accuracies lie in [0, 1], metrics
likewise (multiplied by 100 only where they are shown).
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Matrix = Sequence[Sequence[float | None]]
Key = TypeVar("Key")
Value = TypeVar("Value")


def average_accuracy(matrix: Matrix) -> list[float | None]:
    """AA_k: mean accuracy on tasks 0..k after task k, for every k (Tobaben et al., Eq. A38)."""
    return [mean(_entry(matrix, k, i) for i in range(k + 1)) for k in range(len(matrix))]


def forgetting(matrix: Matrix) -> list[list[float | None]]:
    """f[k][i], i < k: best accuracy on task i before task k, minus that after task k. Negative: the task improved later on.

    The best is taken since the task was learned. Eq. A39 of Tobaben et al. and average forgetting in Lai et al. take the
    best since the start, which includes models that had not learned the task. Both are equal if no task is evaluated before
    it is learned, as in every run but those on clients' data; otherwise the printed one is at least as large. Measured with
    all tasks evaluated (A-GEM, five tasks of permuted digits): no difference; with four sampling rates of one accelerometer,
    whose tasks resemble each other, up to 3 points more. Row 0 is empty: there is no earlier task. None where the best or
    the current accuracy is missing.
    """

    def best(k: int, i: int) -> float | None:
        return max((value for j in range(i, k) if (value := _entry(matrix, j, i)) is not None), default=None)

    return [[_minus(best(k, i), _entry(matrix, k, i)) for i in range(k)] for k in range(len(matrix))]


def average_forgetting(matrix: Matrix) -> list[float | None]:
    """AF_k: mean forgetting over tasks 0..k-1; None at k = 0, where it is not defined (Eq. A40)."""
    return [mean(row) for row in forgetting(matrix)]


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT: mean over tasks i < T of final accuracy minus accuracy right after learning it; None for one task."""
    last = len(matrix) - 1
    return mean(_minus(_entry(matrix, last, i), _entry(matrix, i, i)) for i in range(last))


def forward_transfer(matrix: Matrix, baseline: Sequence[float | None] | None = None) -> float | None:
    """FWT: mean over tasks i > 0 of accuracy on task i before learning it, minus an untrained model's (`baseline`).

    None if an entry above the diagonal or of the baseline was not evaluated.
    """
    before = [row[i] if i < len(row) else None for i, row in enumerate(matrix[:-1], start=1)]
    gains = [_minus(value, base) for value, base in zip(before, (baseline or [None] * len(matrix))[1:], strict=True)]
    return None if None in gains else mean(gains)


def trend(curve: Sequence[float | None]) -> float | None:
    """The rise of the least-squares line through a curve, from its first task to its last; None below three known points."""
    points = [(k, value) for k, value in enumerate(curve) if value is not None]
    if len(points) < 3:
        return None
    middle = sum(k for k, _ in points) / len(points)
    slope = sum((k - middle) * value for k, value in points) / sum((k - middle) ** 2 for k, _ in points)
    return slope * (len(curve) - 1)


def summary(matrix: Matrix, baseline: Sequence[float | None] | None = None) -> dict[str, float | None]:
    """The metrics of a finished run: AA, AF, BWT, FWT (None unless evaluated), Last, Avg (mean AA_k).

    Last is what PeCL calls so: AA after the last task. `baseline`: accuracy of the untrained model on each task; None if
    not evaluated.
    """
    averages = average_accuracy(matrix)
    return {
        "AA": averages[-1],
        "AF": average_forgetting(matrix)[-1],
        "BWT": backward_transfer(matrix),
        "FWT": forward_transfer(matrix, baseline),
        "Last": averages[-1],
        "Avg": mean(averages),
    }


def _entry(matrix: Matrix, k: int, i: int) -> float | None:
    if i >= len(matrix[k]):
        raise ValueError(f"accuracy[{k}][{i}] is missing: a task that was not evaluated has the entry None")
    return matrix[k][i]


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that exist; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in the order in which they come."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _minus(first: float | None, second: float | None) -> float | None:
    return first - second if first is not None and second is not None else None
