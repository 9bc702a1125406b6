"""Remarks on printed numbers: slips, contradictions and gaps, each with the numbers it concerns."""

from __future__ import annotations

from dataclasses import dataclass

from dpcl_core.published import Published

_FIELDS = ("dataset", "method", "variant", "epsilon", "metric")


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
        return all(getattr(self, name) is None for name in _FIELDS)

    def touches(self, row: Published) -> bool:
        """Whether the remark is about this number."""
        if self.is_about_the_table or self.table != row.table:
            return False
        return all(getattr(self, name) in (None, getattr(row, name)) for name in _FIELDS)
