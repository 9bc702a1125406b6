"""Learners of PeCL's baselines."""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    (cell,) = cells
    return LazyLearner(spec, cell, context)
