"""Remarks on printed numbers: slips, contradictions and gaps, each with the numbers it concerns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpcl_core.published import Published


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on printed numbers: a slip, a contradiction or a gap. A field that is None matches every row.

    A remark with no field but its table is about the table as a whole, not about single numbers. `is_doubtful`: the number
    is very likely a misprint; it is shown as printed, but neither drawn nor used.
    """

    text: str
    table: str
    method: str | None = None
    variant: str | None = None
    epsilon: float | None = None
    metric: str | None = None
    is_doubtful: bool = False
    dataset: str | None = None

    @property
    def is_about_the_table(self) -> bool:
        return (self.method, self.variant, self.epsilon, self.metric, self.dataset) == (None,) * 5

    def touches(self, row: Published) -> bool:
        """Whether the remark is about this number."""
        if self.is_about_the_table:
            return False
        pairs = (
            (self.table, row.table),
            (self.dataset, row.dataset),
            (self.method, row.method),
            (self.variant, row.variant),
            (self.epsilon, row.epsilon),
            (self.metric, row.metric),
        )
        return all(wanted is None or wanted == value for wanted, value in pairs)


def about(row: Published, remarks: Sequence[Remark]) -> tuple[Remark, ...]:
    """The remarks on this number."""
    return tuple(remark for remark in remarks if remark.touches(row))
