"""Experience replay: texts kept of earlier tasks join every batch.

Loads torch with the first task, after the first words about its texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcl_core.methods.base import Known
from dpcl_core.methods.language.one_cell import Model, OneCell
from dpcl_core.spec import Cell, RunSpec


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: Known) -> OneCell:
    """The learner of one cell."""
    (cell,) = cells

    def make() -> Model:
        from dpcl_core.methods.language.er import Er

        return Er(spec, cell, known)

    return OneCell(spec, cell, known, None, make)
