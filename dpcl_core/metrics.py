"""Metrics of continual learning from an accuracy matrix: a[k][i] = test accuracy on task i after learning task k.

Rows hold the tasks evaluated; entries above the diagonal may be absent or None. Accuracies lie in [0, 1], metrics likewise
(multiplied by 100 only where they are shown).
"""

from __future__ import annotations

from collections.abc import Sequence

Matrix = Sequence[Sequence[float | None]]


def average_accuracy(matrix: Matrix) -> list[float]:
    """AA_k: mean accuracy on tasks 0..k after task k, for every k (Tobaben et al., Eq. A38)."""
    return [_mean([_entry(matrix, k, i) for i in range(k + 1)]) for k in range(len(matrix))]


def forgetting(matrix: Matrix) -> list[list[float]]:
    """f[k][i], i < k: best accuracy on task i since it was learned and before task k, minus that after task k (Eq. A39).

    The printed formula also looks at times before task i was learned; those were never evaluated. Negative values mean
    that a task improved later on. Row 0 is empty: nothing can be forgotten yet.
    """
    return [
        [max(_entry(matrix, j, i) for j in range(i, k)) - _entry(matrix, k, i) for i in range(k)] for k in range(len(matrix))
    ]


def average_forgetting(matrix: Matrix) -> list[float | None]:
    """AF_k: mean forgetting over tasks 0..k-1; None at k = 0, where it is not defined (Eq. A40)."""
    return [_mean(row) if row else None for row in forgetting(matrix)]


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT: mean over tasks i < T of final accuracy minus accuracy right after learning it; None for one task."""
    last = len(matrix) - 1
    return _mean([_entry(matrix, last, i) - _entry(matrix, i, i) for i in range(last)]) if last > 0 else None


def forward_transfer(matrix: Matrix, baseline: Sequence[float] | None = None) -> float | None:
    """FWT: mean over tasks i > 0 of accuracy on task i before learning it, minus an untrained model's (`baseline`).

    None where the entries above the diagonal or the baseline were not evaluated.
    """
    before = [_optional(matrix, i - 1, i) for i in range(1, len(matrix))]
    if not before or baseline is None or any(value is None for value in before):
        return None
    return _mean([value - base for value, base in zip(before, baseline[1:], strict=True) if value is not None])


def summary(matrix: Matrix) -> dict[str, float | None]:
    """The metrics of a finished run: AA, AF, BWT, FWT (None unless evaluated), Last (on the last task), Avg (mean AA_k)."""
    averages = average_accuracy(matrix)
    last = len(matrix) - 1
    return {
        "AA": averages[-1],
        "AF": average_forgetting(matrix)[-1],
        "BWT": backward_transfer(matrix),
        "FWT": forward_transfer(matrix),
        "Last": _entry(matrix, last, last),
        "Avg": _mean(averages),
    }


def _entry(matrix: Matrix, k: int, i: int) -> float:
    value = _optional(matrix, k, i)
    if value is None:
        raise ValueError(f"accuracy[{k}][{i}] was not evaluated")
    return value


def _optional(matrix: Matrix, k: int, i: int) -> float | None:
    return matrix[k][i] if i < len(matrix[k]) else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
