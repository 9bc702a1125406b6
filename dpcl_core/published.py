"""Numbers as printed in papers: `assets/published/PAPER.csv`, one row per number, uncorrected.

All code that needs such a number reads it here: no module holds a copy (`tests/test_published.py`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpcl_core import paths

_PERCENT = {"_percent": 1.0, "_pct": 1.0, "_frac": 100.0, "_fraction": 100.0}  # by the end of a metric's name
_SHARED = {  # our names of printed metrics; PeCL's Last is the mean over all tasks after the last one
    **{name: name for name in ("AA", "AF", "BWT", "FWT", "Avg", *(f"task{k}" for k in range(1, 7)))},
    **{"avg_accuracy": "AA", "avg_forgetting": "AF", "Last": "AA", "accuracy": "pooled"},
}


@dataclass(frozen=True, slots=True)
class Published:
    """One printed number and what it measures; empty texts and None where the paper says nothing.

    `epsilon` is infinite for results without noise. `value` is None if the printed text is not a number. `metric` includes
    the unit: AA_percent (0 to 100), avg_forgetting_frac (0 to 1). `std` is over the paper's `n_seeds` repetitions.
    """

    table: str
    dataset: str
    method: str
    variant: str
    epsilon: float | None
    delta: float | None
    metric: str
    printed: str
    value: float | None
    std: float | None
    n_seeds: int | None
    note: str

    @property
    def shared_metric(self) -> str | None:
        """Our name of the metric (AA, AF, BWT, FWT, Avg, task1 to task6, pooled), None for any other."""
        return _SHARED.get(self.metric.removesuffix(self._unit))

    @property
    def percent(self) -> float | None:
        """The value in percent; None if it is not a share."""
        return None if self.value is None or not self._unit else self.value * _PERCENT[self._unit]

    @property
    def percent_std(self) -> float | None:
        """The standard deviation in percent; None if none is printed."""
        return None if self.std is None or not self._unit else self.std * _PERCENT[self._unit]

    @property
    def _unit(self) -> str:
        return next((unit for unit in _PERCENT if self.metric.endswith(unit)), "")


@cache
def read_numbers(paper: str) -> tuple[Published, ...]:
    """All recorded numbers of a paper, in the order of its tables."""
    with (paths.assets_dir() / "published" / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def rows_with(paper: str, table: str, metric: str) -> tuple[tuple[Published, float], ...]:
    """The rows of a table that print a number for this metric, each with the number."""
    rows = (row for row in read_numbers(paper) if (row.table, row.metric) == (table, metric))
    return tuple((row, row.value) for row in rows if row.value is not None)


def by_budget(paper: str, table: str, metric: str) -> Mapping[float, float]:
    """The printed numbers of a metric by epsilon, for tables with one number per budget."""
    return {row.epsilon: value for row, value in rows_with(paper, table, metric) if row.epsilon is not None}


def _row(line: dict[str, str]) -> Published:
    value = None
    with suppress(ValueError):  # such as "768C+C": kept as printed
        value = float(line["value"])
    kinds = {"epsilon": float, "delta": float, "std": float, "n_seeds": int}
    fields: dict[str, Any] = {name: text for name, text in line.items() if name != "value"}
    fields |= {name: kind(line[name]) if line[name] else None for name, kind in kinds.items()}
    return Published(**fields, printed=line["value"], value=value)
