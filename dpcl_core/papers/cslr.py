"""Shihab et al., CSLR: the paper's names of our runs, and how these depart; the rest is in `assets/papers/cslr.toml`.

Its epsilon is claimed for the replay release and not borne out by any accountant; of our runs the repairs keep theirs, by
their ledgers. Comparisons "at equal epsilon" repeat what the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

from dpcl_core import published
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.cards import printed
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import Federated
from dpcl_core.spec import RunSpec

_STAND_IN = "ner-gum"  # for OntoNotes: other texts, other numbers
_USUAL = ("L = 4", "m = 100")  # what sweeps call the method as it is elsewhere


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; methods that it does not have are called repairs, or added."""
    return methods.card(spec.method).table_names(spec)


def named(row: Published) -> tuple[str, str]:
    """The same of a printed number; lists of one entry are DP-Stat-Share, whose numbers they have."""
    if row.variant == "L = 1":
        return "DP-Stat-Share", ""
    return row.method, "" if row.variant in _USUAL else row.variant


def printed_scores(spec: RunSpec, epsilon: float) -> dict[str, list[float]]:
    """What tables 2 to 4 print for a run's dataset, method and budget, in points, by metric; empty where nothing.

    Its budgets are claims for the replay release alone: reference lines, never the same promise.
    """
    if spec.data.dataset == _STAND_IN:
        return {}
    names = printed.BENCHMARKS.get(spec.data.dataset), methods.card(spec.method).reference
    found: dict[str, list[float]] = {}
    for row in published.read("cslr"):
        is_asked = (row.dataset, row.method, row.epsilon) == (*names, epsilon) and not row.variant
        if is_asked and row.table in ("2", "3", "4") and row.percent is not None and row.shared_metric in ("AA", "BWT"):
            values = found.setdefault(row.shared_metric, [])
            if row.percent not in values:
                values.append(row.percent)
    return found


def departs(run: Measured) -> list[str]:
    """How a run differs from what the paper did, and what it took where the paper says nothing."""
    spec, told = run.spec, differences.of_data(run)
    if isinstance(spec.scenario, Federated):
        told.append(f"Protocol: {spec.scenario.protocol}, the task {_known(spec.scenario)} when tested. {_PROTOCOL}")
    return [*told, *methods.card(spec.method).differences(spec)]


def _known(scenario: Federated) -> str:
    return "known" if scenario.protocol == "one-vs-rest" else "not known"


_PROTOCOL = "The paper's own does not follow from its text."
