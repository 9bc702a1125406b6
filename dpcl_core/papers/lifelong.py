"""Lai et al. 2022: the paper's names of our runs, and how these depart; the rest is in `assets/papers/lifelong.toml`.

Its epsilon for L2DP-ML is a nominal number (see the claim beside every such run): comparisons "at equal epsilon" repeat what
the paper compares, and say nothing about privacy.
"""

from __future__ import annotations

from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.methods.lifelong.cards.l2dp_ml import L2dpMlParams
from dpcl_core.methods.lifelong.cards.network_params import BatchParams, ReplayParams
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.spec import RunSpec

_METHODS = {"agem": "A-GEM", "l2dp-ml": "L2DP-ML", "dp-coeff-memory": "Repair: coefficients"}
_HARW = "harw_"
_SELECTED = "selected by the paper"


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and variant; of the recordings of activities with the order of the rates."""
    method = _METHODS.get(spec.method, spec.method)
    if isinstance(spec.params, DpAgemParams):
        method = "NaiveGaussian" if spec.params.budget == "per-task" else "Repair: DP-A-GEM"
    return method, ", ".join(part for part in (_variant(spec), _order(spec), _head(spec)) if part)


def _variant(spec: RunSpec) -> str:
    params = spec.params
    if not isinstance(params, BatchParams):
        return ""
    if params.variant != "basic":
        return params.variant
    if spec.method == "agem":
        return "noiseless"
    return f"{params.epochs} epoch{'s' if params.epochs > 1 else ''}"


def _head(spec: RunSpec) -> str:
    """Named where classes differ from task to task and compete all the same: printed numbers fit a head for each task."""
    is_one = isinstance(spec.params, BatchParams) and spec.params.head == "shared" and spec.scenario.kind == "split"
    return "one head" if is_one else ""


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
    params, told = run.spec.params, differences.of_data(run)
    if isinstance(params, ReplayParams):
        heads = {"shared": "one head for all tasks", "per-task": "a head for each task"}
        told.append(
            "Not given in the paper: batch size, learning rate, the head of split tasks, strides, and how often runs were "
            f"repeated. Ours: {heads[params.head]}, the learning rates and batch sizes of the runs below, "
            f"{len(run.spec.seeds)} seeds."
        )
    if isinstance(params, L2dpMlParams):
        told.append(
            "Not given either: how ε is split, which numbers d and |h1| stand for in Δ_R, and whether test inputs carry the "
            f"noise. Ours: Δ_R {params.delta_r}, test noise {params.test_noise}, half of ε for the auto-encoder unless "
            "said otherwise."
        )
    if isinstance(params, DpAgemParams) and params.budget == "per-task":
        told.append(
            "The paper's NaiveGaussian clips averaged gradients layer by layer and states no δ; ours clips every example's "
            "whole gradient, and pays for each replay."
        )
    return told
