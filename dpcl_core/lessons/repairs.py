"""The digits learned in one task by three methods whose noise is never shared: real runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpcl_core import engine
from dpcl_core.events import Guarantee
from dpcl_core.methods import catalog
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.lifelong.cards.coefficient_params import CoeffMemoryParams, IndependentLaplaceParams
from dpcl_core.methods.lifelong.cards.l2dp_ml import L2dpMlParams
from dpcl_core.runs import frames
from dpcl_core.scenarios.catalog import ClassIncremental, Permuted
from dpcl_core.spec import DataSpec, Params, PrivacySpec, RunSpec, ScenarioSpec

DELTA = 1e-5
SEEDS = (0, 1, 2)
# By method: fresh noise on each picture, in every step, once on sums over all pictures. The middle one is plain DP-SGD, as
# DP-A-GEM's is while there is one task and so nothing to replay; DP-A-GEM itself trains whole networks.
METHODS: Mapping[str, Params] = {
    "independent-laplace": IndependentLaplaceParams(project_to=0),
    "naive": PeftParams(epochs=10),
    "dp-coeff-memory": CoeffMemoryParams(solution="exact"),
}
# What the lesson's links offer to train: the method with one noise for all, long enough for the few digits, and a repair.
TO_TRAIN: Mapping[str, Params] = {
    "l2dp-ml": L2dpMlParams(batch_size=100, epochs=10),
    "dp-coeff-memory": CoeffMemoryParams(),
}


@dataclass(frozen=True, slots=True)
class Repaired:
    """A method's result: mean test accuracy over the seeds (in [0, 1]), and its guarantee from the ledger."""

    title: str
    accuracy: float
    guarantee: Guarantee


def spec(method: str, epsilon: float) -> RunSpec:
    """The run of one of `METHODS`: all digits in one task, so that nothing can be forgotten and only the noise matters."""
    privacy = PrivacySpec(epsilons=(epsilon,), delta=DELTA, adjacency="replace", noise="release")
    return _on_digits(method, METHODS[method], ClassIncremental(tasks=1), privacy)


def repaired(epsilon: float) -> dict[str, Repaired]:
    """The result of each of `METHODS` at one budget."""
    results = {}
    for method in METHODS:
        run_events = list(engine.run(spec(method, epsilon)))
        reached = float(np.mean(frames.accuracy(run_events)["accuracy"]))
        results[method] = Repaired(catalog.card(method).title, reached, frames.guarantees(run_events)[epsilon])
    return results


def to_train(method: str, epsilon: float) -> RunSpec:
    """A run of one of `TO_TRAIN` for the Train page: three tasks of permuted digits, where a memory helps."""
    return _on_digits(method, TO_TRAIN[method], Permuted(tasks=3), PrivacySpec(epsilons=(epsilon,), delta=DELTA))


def _on_digits(method: str, params: Params, scenario: ScenarioSpec, privacy: PrivacySpec) -> RunSpec:
    """A run on the bundled digits, whose labels are public."""
    data = DataSpec(dataset="digits", backbone="pixels")
    return RunSpec(
        method=method, params=params, data=data, scenario=scenario, labels="prior-const", privacy=privacy, seeds=SEEDS
    )
