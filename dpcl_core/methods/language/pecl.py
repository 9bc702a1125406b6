"""Learner of the repaired PeCL: central, by DP-SGD on the adapters, or local, by equal noise on every token."""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.public_text import Scorer
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    assert isinstance(spec.params, PeclParams)
    (cell,) = cells
    scorer = Scorer(spec.params, spec.params.score2_scope, spec.data.backbone, printed=False)
    return LazyLearner(spec, cell, context, scorer)
