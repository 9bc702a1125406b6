"""Orthogonal low-rank adapters: a new pair for every task, at right angles to earlier ones.

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
        from dpcl_core.methods.language.olora import Olora

        return Olora(spec, cell, known)

    return OneCell(spec, cell, known, None, make)
