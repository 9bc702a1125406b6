"""What every figure builder returns, and the line that says where its numbers come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

LABELS = {
    "data": "labels from the data (not DP)",
    "prior": "public list per task",
    "prior-const": "one public list",
    "dp-learned": "list learned under DP",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, its text for those who cannot see it (the finding, not the drawing), and the finding in one sentence.

    The finding is computed from the same numbers that are drawn and claims nothing beyond them.
    """

    figure: go.Figure
    alt: str
    finding: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers of a figure come from; printed under it and inside every export."""

    dataset: str
    n_train: int | None
    method: str
    labels: str
    epsilons: tuple[float, ...]
    delta: float | None
    n_seeds: int
    runs: tuple[str, ...]
    is_example: bool = False
    is_seeded: bool = False

    def line(self) -> str:
        """One line, parts that are unknown left out."""
        people = f"n = {self.n_train:,}".replace(",", " ") if self.n_train is not None else ""
        parts = [
            "example" if self.is_example else "",
            self.dataset,
            people,
            self.method,
            LABELS.get(self.labels, self.labels),
            f"ε = {epsilons(self.epsilons)}" if self.epsilons else "",
            f"δ = {self.delta:g}" if self.delta is not None else "",
            f"{self.n_seeds} seed{'s' if self.n_seeds != 1 else ''}" if self.n_seeds else "",
            "seeded noise: a recorded seed voids the guarantee" if self.is_seeded else "",
            f"run{'s' if len(self.runs) > 1 else ''} {', '.join(run[:4] for run in self.runs)}" if self.runs else "",
        ]
        return " · ".join(part for part in parts if part)


def epsilon_text(epsilon: float) -> str:
    """A budget as a reader writes it: short, and infinity as ∞."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"


def epsilon_label(epsilon: float) -> str:
    """The name of a line: "ε = 1", or "no noise"."""
    return "no noise" if math.isinf(epsilon) else f"ε = {epsilon_text(epsilon)}"


def given(epsilon: float) -> str:
    """The budget as part of a sentence: "at ε = 1", or "without noise"."""
    return "without noise" if math.isinf(epsilon) else f"at ε = {epsilon_text(epsilon)}"


def epsilons(values: Sequence[float]) -> str:
    """Several budgets, smallest first."""
    return ", ".join(epsilon_text(value) for value in sorted(values))
