"""Shihab et al., CSLR: the paper's names of our runs, and their differences; the rest is in `assets/papers/cslr.toml`.

Its epsilon is claimed for the replay release and supported by no accountant; of our runs, the repairs keep theirs by
their ledgers. Comparisons "at equal epsilon" repeat what the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

import json
from functools import cache

from dpcl_core import paths, published
from dpcl_core.data import catalog as datasets
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
    """The paper's names of a run's method and variant; methods that are not in the paper are named repairs, or added."""
    return methods.card(spec.method).table_names(spec)


def named(row: Published) -> tuple[str, str]:
    """The same names for a printed number; lists of one entry (L = 1) are DP-Stat-Share, with the same numbers."""
    if row.variant == "L = 1":
        return "DP-Stat-Share", ""
    return row.method, "" if row.variant in _USUAL else row.variant


def printed_scores(spec: RunSpec, epsilon: float) -> dict[str, list[float]]:
    """The values of Tables 2 to 4 for a run's dataset, method and budget, in points, by metric; empty where none.

    Its budgets are claims for the replay release alone: reference lines, never the same promise.
    """
    if spec.data.dataset == _STAND_IN:
        return {}
    names = printed.BENCHMARKS.get(spec.data.dataset), methods.card(spec.method).reference
    by_metric: dict[str, list[float]] = {}
    for row in published.read("cslr"):
        is_same = (row.dataset, row.method, row.epsilon) == (*names, epsilon) and not row.variant
        if is_same and row.table in ("2", "3", "4") and row.percent is not None and row.shared_metric in ("AA", "BWT"):
            values = by_metric.setdefault(row.shared_metric, [])
            if row.percent not in values:
                values.append(row.percent)
    return by_metric


@cache
def proxies(dataset: str, method: str) -> tuple[tuple[str, int], ...]:
    """The public datasets on which `scripts/tune_federated.py` chose a method's settings, each with the trials of a row.

    Raises FileNotFoundError without its record, which is part of the project.
    """
    rows = json.loads((paths.assets_dir() / "tuning" / "federated.json").read_text(encoding="utf-8"))["rows"]
    found = [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
    return tuple(dict.fromkeys((row["proxy"], len(row["trials"])) for row in found))


def departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    spec, sentences = run.spec, differences.of_data(run)
    if isinstance(spec.scenario, Federated):
        protocol = spec.scenario.protocol
        known = "known" if protocol == "one-vs-rest" else "not known"
        paper = "The paper's own does not follow from its text."
        sentences.append(f"Protocol: {protocol}, the task {known} when tested. {paper}")
    if spec.tuned == "public":
        for proxy, n_trials in proxies(spec.data.dataset, spec.method):
            sentences.append(
                f"Head size, rounds, share of clients, axes and radius: the best of {n_trials} settings on public texts "
                f"({datasets.card(proxy).title}), as many for every row that has them."
            )
    return [*sentences, *methods.card(spec.method).differences(spec)]
