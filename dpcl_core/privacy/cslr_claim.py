"""The claims of CSLR's paper: the noise printed for an epsilon, and the sizes of its benchmarks. A label, no bound.

Imports no accountant, so that cards and pages can import it; the cost of this noise is in `cslr_accounting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpcl_core import published
from dpcl_core.errors import BadInput

PAPER = "Shihab et al., Table 5"
SOURCE = f"{PAPER}; for the replay release alone"  # a claim never goes about without these words
TABLE_5: Mapping[float, float] = published.by_budget("cslr", "5", "noise_multiplier")  # of one statistic over B


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Sizes of a benchmark of the paper. `alpha`: of its Dirichlet partition, None where clients are dealt by domain."""

    n_clients: int
    n_tasks: int
    alpha: float | None


def _benchmarks() -> Mapping[str, Benchmark]:
    def column(metric: str) -> dict[str, float]:
        return {row.dataset: value for row, value in published.numbers("cslr", "benchmarks", metric)}

    tasks, alphas = column("n_tasks"), column("dirichlet_alpha")
    return {
        name: Benchmark(int(n_clients), int(tasks[name]), alphas.get(name))
        for name, n_clients in column("n_clients").items()
    }


BENCHMARKS = _benchmarks()  # by the paper's names


def printed_multiplier(epsilon: float) -> float:
    """Table 5's noise for a claimed epsilon. Raises BadInput for any that it does not print."""
    if epsilon not in TABLE_5:
        raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", "must be 1, 4 or 8: no noise is printed for any other")
    return TABLE_5[epsilon]
