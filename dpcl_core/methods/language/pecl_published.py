"""Learner of PeCL as published (Zhan et al.): per-token noise, memory sculpting, printed unlearning. No guarantee holds."""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.public_text import Scorer
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    assert isinstance(spec.params, PublishedParams)
    (cell,) = cells
    scorer = Scorer(spec.params, spec.params.score2_scope, spec.data.backbone, printed=True)
    return LazyLearner(spec, cell, context, scorer)
