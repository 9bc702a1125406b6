"""What is to be known about printed numbers: slips, contradictions and gaps, each with the numbers that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpcl_core.published import Published


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know before a printed number is used: a slip, a contradiction, a gap. None matches every row.

    One that names nothing but its table is about the table, and touches no single number. `is_doubtful`: the number is
    very likely not what was meant; it is shown as printed, but neither drawn nor used.
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
        return all(wanted is None or wanted == found for wanted, found in pairs)


def about(row: Published, known: Sequence[Remark]) -> tuple[Remark, ...]:
    """What is to be known about this number."""
    return tuple(remark for remark in known if remark.touches(row))
