"""Learners of PeCL's baselines, by method name. Torch is loaded at the first task, after its tokens are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.lazy_learner import LazyLearner, Model
from dpcl_core.spec import Cell, RunSpec

# By method name: the module in this folder, and the class of the model, made from a spec, a cell and public facts.
MODELS: Mapping[str, tuple[str, str]] = {
    "lm-seqft": ("seqft", "SeqFt"),
    "lm-er": ("er", "Er"),
    "lm-ewc": ("ewc", "Ewc"),
    "lm-gem": ("gem", "Gem"),
    "lm-olora": ("olora", "Olora"),
    "lm-mtl": ("mtl", "Mtl"),
}


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    (cell,) = cells
    module, model = MODELS[spec.method]

    def make() -> Model:
        return cast(Model, getattr(import_module(f"dpcl_core.methods.language.{module}"), model)(spec, cell, known))

    return LazyLearner(spec, cell, known, None, make, once=spec.method == "lm-mtl")
