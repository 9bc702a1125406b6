"""Lai et al. 2022: the paper's names of our runs, and their differences; the rest is in `assets/papers/lifelong.toml`.

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
    """The paper's names of a run's method and variant; for activity recordings, with the order of the sampling rates."""
    method, variant = methods.card(spec.method).table_names(spec)
    order = "" if methods.card(spec.method).trains_on == "all" else _order(spec)
    return method, ", ".join(part for part in (variant, order) if part)


def _order(spec: RunSpec) -> str:
    if not isinstance(spec.scenario, SourceIncremental) or spec.scenario.order is None:
        return ""
    return "-".join(name.removesuffix(" Hz") for name in spec.scenario.order) + " Hz"


def named(row: Published) -> tuple[str, str]:
    """The same names for a printed number, without the settings of the paper's baseline that it selected from a grid."""
    variant = "" if row.note == _SELECTED else row.variant
    rates = row.dataset.removeprefix(_HARW)
    order = f"{rates} Hz" if rates != row.dataset and rates[0].isdigit() else ""
    return row.method, ", ".join(part for part in (variant, order) if part)


def departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, and its choices where the paper specifies none; one sentence each."""
    return [*differences.of_data(run), *methods.card(run.spec.method).differences(run.spec)]
