"""Tables of what a run said, one row a number: the data frames that figures and exports are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from dpcl_core.events import CellFinished, Event, Guarantee, TaskLearned


def accuracy(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, after_task, on_task, accuracy (in [0, 1]), pooled (of all tasks seen, one an after_task)."""
    return _frame(
        {"epsilon": "float64", "seed": "int64", "after_task": "int64", "on_task": "int64", "accuracy": "float64",
         "pooled": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, event.task, on_task, value, event.pooled)
            for event in events
            if isinstance(event, TaskLearned)
            for on_task, value in enumerate(event.accuracy)
        ],
    )  # fmt: skip


def metrics(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, metric (AA, AF, BWT, FWT, Last, Avg), value (NaN: not defined); finished cells only."""
    return _frame(
        {"epsilon": "float64", "seed": "int64", "metric": "str", "value": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, name, value)
            for event in events
            if isinstance(event, CellFinished)
            for name, value in event.metrics.items()
        ],
    )


def spent(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon (asked for), seed, after_task, accounted_epsilon (of the ledger by then; inf: no bound)."""
    return _frame(
        {"epsilon": "float64", "seed": "int64", "after_task": "int64", "accounted_epsilon": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, event.task, event.epsilon)
            for event in events
            if isinstance(event, TaskLearned)
        ],
    )


def guarantees(events: Iterable[Event]) -> dict[float, Guarantee]:
    """By epsilon asked for: the guarantee of its finished cells, the worst one where seeds spend differently."""
    found: dict[float, Guarantee] = {}
    for event in events:
        if isinstance(event, CellFinished):
            known = found.get(event.cell.epsilon)
            if known is None or event.guarantee.epsilon > known.epsilon:
                found[event.cell.epsilon] = event.guarantee
    return found


def _frame(columns: dict[str, str], rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """The rows under their columns' types, which an empty table has as well."""
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)
