"""What every figure builder returns, and the line that says where its numbers come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
    """Where the numbers of a figure come from; printed under it and inside every export.

    `nominal`: whether the budgets are claims of a publication that no ledger bears out: those of no run, of some, of all.
    `spent`: what was spent of them by which way out, where private data leave in several (`statement.spent`).
    """

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
    nominal: Literal["no", "some", "all"] = "no"
    spent: str = ""

    def line(self) -> str:
        """One line, parts that are unknown left out."""
        people = f"n = {self.n_train:,}" if self.n_train is not None else ""
        parts = [
            "example" if self.is_example else "",
            self.dataset,
            people,
            self.method,
            LABELS.get(self.labels, self.labels),
            self._budgets() if self.epsilons else "",
            self.spent,
            f"δ = {self.delta:g}" if self.delta is not None else "",
            f"{self.n_seeds} seed{'s' if self.n_seeds != 1 else ''}" if self.n_seeds else "",
            "seeded noise: a recorded seed voids the guarantee" if self.is_seeded else "",
            f"run{'s' if len(self.runs) > 1 else ''} {', '.join(run[:4] for run in self.runs)}" if self.runs else "",
        ]
        return " · ".join(part for part in parts if part)

    def _budgets(self) -> str:
        said = f"ε = {epsilons(self.epsilons)}"
        if self.nominal == "no" or all(math.isinf(epsilon) for epsilon in self.epsilons):
            return said
        return f"claimed {said}, not verified" if self.nominal == "all" else f"{said}, for some runs a claim, not verified"


def epsilon_text(epsilon: float) -> str:
    """A budget as a reader writes it: short, and infinity as ∞."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"


def epsilon_label(epsilon: float, *, is_nominal: bool = False) -> str:
    """The name of a line: "ε = 1", "claimed ε = 1" where no ledger bears it out, or "no noise"."""
    return "no noise" if math.isinf(epsilon) else f"{'claimed ' if is_nominal else ''}ε = {epsilon_text(epsilon)}"


def given(epsilon: float, *, is_nominal: bool = False) -> str:
    """The budget as part of a sentence: "at ε = 1", or "without noise"."""
    return "without noise" if math.isinf(epsilon) else f"at {epsilon_label(epsilon, is_nominal=is_nominal)}"


def epsilons(values: Sequence[float]) -> str:
    """Several budgets, smallest first."""
    return ", ".join(epsilon_text(value) for value in sorted(values))
