"""Experience replay: texts kept of earlier tasks join every batch.

Loads torch with the first task, after the first words about its texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.lazy_learner import LazyLearner, Model
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    (cell,) = cells

    def make() -> Model:
        from dpcl_core.methods.language.er import Er

        return Er(spec, cell, known)

    return LazyLearner(spec, cell, known, None, make)
