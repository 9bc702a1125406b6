"""Learner of PeCL as published (Zhan et al.): per-token noise, memory sculpting, unlearning as printed. No guarantee holds.

Loads torch with the first task, after the first report on its texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.lazy_learner import LazyLearner, Model
from dpcl_core.methods.language.scoring import Scorer
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    assert isinstance(spec.params, PublishedParams)
    (cell,) = cells
    scorer = Scorer(spec.params, spec.params.score2_scope, spec.data.backbone, printed=True)

    def make() -> Model:
        from dpcl_core.methods.language.pecl_published_training import Published

        return Published(spec, cell, known, scorer)

    return LazyLearner(spec, cell, known, scorer, make)
