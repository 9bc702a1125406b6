"""Zhan et al., PeCL: the paper's names of our runs, and their differences; the rest is in `assets/papers/pecl.toml`.

The budgets of its tokens, 1 to 10, are nominal numbers without a bound (see the claim beside every such run). Its rows
are listed at 10, the budget of the least noised token; the baselines' 1 is for a text, or for a token, never for both.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.spec import RunSpec

_ORDERS: Mapping[tuple[int, ...], str] = {(5, 4, 3, 2, 1, 0): "order 2", (3, 4, 0, 2, 5, 1): "order 3"}  # places in order 1
_BASE = "meta-llama/Llama-2-7b-hf"
_UNLEARNING = "w/o Unlearning"
_FULL = ("alpha 0.5", "lambda 1", "theta 0.6")  # what sweeps call the method as it is elsewhere


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant, with the order of the tasks where it is not the first one."""
    method, variant = methods.card(spec.method).table_names(spec)
    return method, ", ".join(part for part in (variant, _order(spec)) if part)


def _order(spec: RunSpec) -> str:
    scenario, sources = spec.scenario, _sources(spec)
    if not isinstance(scenario, SourceIncremental) or scenario.order is None or len(scenario.order) != len(sources):
        return ""
    return _ORDERS.get(tuple(sources.index(name) for name in scenario.order), "")


def _sources(spec: RunSpec) -> tuple[str, ...]:
    """The parts of a dataset, in the order of the paper's task numbers."""
    card = datasets.CARDS.get(spec.data.dataset)
    return () if card is None else card.members or tuple(name for name, _ in card.sources)


def named(row: Published) -> tuple[str, str]:
    """The same names for a printed number."""
    variant = row.variant if row.variant not in _FULL else ""
    if variant == "lambda 0":
        variant = _UNLEARNING
    order = {"order2": "order 2", "order3": "order 3"}.get(row.dataset, "")
    return row.method, ", ".join(part for part in (variant, order) if part)


def departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    spec, lines = run.spec, differences.of_data(run)
    if (n_texts := spec.data.train_per_class or spec.data.train_per_source) is not None:
        of_what = "task" if spec.data.train_per_class is None else "class"
        lines.append(f"Sizes: about {n_texts:,} texts of a {of_what}. The paper draws 3,000 of every task; FOMC has fewer.")
    if spec.data.backbone != f"hf:{_BASE}":
        lines.append(f"Model: {differences.backbone_title(spec.data.backbone)}, instead of LLaMA-2 with 7 billion weights.")
    return [*lines, *methods.card(spec.method).differences(spec)]
