"""Lai et al. 2022: the paper's names of our runs, and how these depart; the rest is in `assets/papers/lifelong.toml`.

Its epsilon for L2DP-ML is a nominal number (see the claim beside every such run): comparisons "at equal epsilon" repeat what
the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

from dpcl_core.methods import catalog as methods
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.spec import RunSpec

_HARW = "harw_"
_SELECTED = "selected by the paper"


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; of the recordings of activities with the order of the rates."""
    method, variant = methods.card(spec.method).table_names(spec)
    return method, ", ".join(part for part in (variant, _order(spec)) if part)


def _order(spec: RunSpec) -> str:
    if not isinstance(spec.scenario, SourceIncremental) or spec.scenario.order is None:
        return ""
    return "-".join(name.removesuffix(" Hz") for name in spec.scenario.order) + " Hz"


def named(row: Published) -> tuple[str, str]:
    """The same of a printed number, without the settings that the paper chose for its baseline from a grid."""
    variant = "" if row.note == _SELECTED else row.variant
    order = f"{row.dataset.removeprefix(_HARW)} Hz" if row.dataset.startswith(_HARW) else ""
    return row.method, ", ".join(part for part in (variant, order) if part)


def departs(run: Measured) -> list[str]:
    """How a run differs from what the paper did, and what it took where the paper says nothing."""
    return [*differences.of_data(run), *methods.card(run.spec.method).differences(run.spec)]
