"""Learner of the repaired PeCL: central, by DP-SGD on a language model's adapters, or local, by equal noise on every token.

Loads torch with the first task, after the first report on its texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.lazy_learner import LazyLearner, Model
from dpcl_core.methods.language.scoring import Scorer
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    assert isinstance(spec.params, PeclParams)
    (cell,) = cells
    scorer = Scorer(spec.params, spec.params.score2_scope, spec.data.backbone, printed=False)

    def make() -> Model:
        from dpcl_core.methods.language.pecl_training import Repaired

        return Repaired(spec, cell, known, scorer)

    return LazyLearner(spec, cell, known, scorer, make)
