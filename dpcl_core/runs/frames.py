"""Data frames of a run's events, one row per number, for figures and exports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpcl_core import metrics as measures
from dpcl_core.events import CellFinished, Event, Guarantee, Leaks, Retained, TaskLearned, TokensScored, of_kind
from dpcl_core.spec import Cell

if TYPE_CHECKING:
    import pandas as pd

_CELL = {"epsilon": "float64", "seed": "int64"}  # the first columns of every table


def rules(events: Iterable[Event]) -> tuple[str, ...]:
    """The prediction rules that a run reports accuracies for, its own first; empty where its method has only one rule."""
    return next((tuple(event.by_rule) for event in of_kind(events, TaskLearned) if event.by_rule), ())


def accuracy(events: Iterable[Event], rule: str | None = None) -> pd.DataFrame:
    """Columns epsilon, seed, after_task, on_task, accuracy (in [0, 1]), pooled (over all tasks seen, one per after_task).

    Without an evaluation there is no row. With `rule`: as if the run had predicted by that rule (pooled NaN: it is counted
    for the run's own rule only). Raises KeyError where the run has no accuracies under the rule.
    """
    return table(
        _CELL | {"after_task": "int64", "on_task": "int64", "accuracy": "float64", "pooled": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, event.task, on_task, value, event.pooled if rule is None else None)
            for event in of_kind(events, TaskLearned)
            for on_task, value in enumerate(_row(event, rule))
            if value is not None
        ],
    )


def metrics(events: Sequence[Event], rule: str | None = None) -> pd.DataFrame:
    """Columns epsilon, seed, metric (AA, AF, BWT, FWT, Last, Avg), value (NaN: not defined); finished cells only.

    With `rule`: computed from the accuracies under that rule, as in `accuracy`.
    """
    matrices: dict[Cell, list[tuple[float | None, ...]]] = {}
    for event in of_kind(events, TaskLearned):
        matrices.setdefault(event.cell, []).append(_row(event, rule))
    return table(
        _CELL | {"metric": "str", "value": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, name, value)
            for event in of_kind(events, CellFinished)
            for name, value in (event.metrics if rule is None else measures.summary(matrices[event.cell])).items()
        ],
    )


def averages(events: Sequence[Event], rule: str | None = None) -> dict[Cell, float | None]:
    """The final average accuracy (AA) of every finished cell, without a table; `rule` as in `metrics`."""
    if rule is None:
        return {event.cell: event.metrics.get("AA") for event in of_kind(events, CellFinished)}
    matrices: dict[Cell, list[tuple[float | None, ...]]] = {}
    for event in of_kind(events, TaskLearned):
        matrices.setdefault(event.cell, []).append(_row(event, rule))
    return {event.cell: measures.summary(matrices[event.cell])["AA"] for event in of_kind(events, CellFinished)}


def cells(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon (requested), seed, accounted_epsilon (inf: no bound), delta, seconds: one row per finished cell."""
    return table(
        _CELL | dict.fromkeys(("accounted_epsilon", "delta", "seconds"), "float64"),
        [
            (event.cell.epsilon, event.cell.seed, event.guarantee.epsilon, event.guarantee.delta, event.seconds)
            for event in of_kind(events, CellFinished)
        ],
    )


def spent(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon (requested), seed, after_task, accounted_epsilon (of the ledger by then; inf: no bound)."""
    return table(
        _CELL | {"after_task": "int64", "accounted_epsilon": "float64"},
        [(event.cell.epsilon, event.cell.seed, event.task, event.epsilon) for event in of_kind(events, TaskLearned)],
    )


def tokens(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, model (base, current), text (its number in the event), label, place, token, kind,
    is_stop, probability (in (0, 1]), commonness (Score2 of PeCL): one row per token of a synthetic or public text.
    """
    return table(
        _CELL
        | {"task": "int64", "model": "str", "text": "int64", "label": "str", "place": "int64", "token": "str", "kind": "str",
           "is_stop": "bool", "probability": "float64", "commonness": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, event.task, event.model, number, text.label, place, *row)
            for event in of_kind(events, TokensScored)
            for number, text in enumerate(event.texts)
            for place, row in enumerate(
                zip(text.tokens, text.kinds, text.is_stop, text.probability, text.commonness, strict=True)
            )
        ],
    )  # fmt: skip


def retained(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, after_task, of_task, ordinary, private: nats per token above the frozen public model.

    `private` is NaN where no private span is marked in the task.
    """
    return table(
        _CELL | {"after_task": "int64", "of_task": "int64", "ordinary": "float64", "private": "float64"},
        [
            (event.cell.epsilon, event.cell.seed, event.task, of_task, ordinary, private)
            for event in of_kind(events, Retained)
            for of_task, (ordinary, private) in enumerate(zip(event.ordinary, event.private, strict=True))
        ],
    )


def leaks(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, after_task (-1: before the first), planted (in how many texts; 0: controls), codes, exposure,
    below (bits), first, extracted (shares), epsilon_at_least (of the whole model, with `confidence`): one row per level.
    """
    return table(
        _CELL
        | dict.fromkeys(("after_task", "planted", "codes"), "int64")
        | dict.fromkeys(("exposure", "below", "first", "extracted", "epsilon_at_least", "confidence"), "float64"),
        [
            (event.cell.epsilon, event.cell.seed, event.task, *level, event.epsilon_at_least, event.confidence)
            for event in of_kind(events, Leaks)
            for level in zip(
                event.levels, event.codes, event.exposure, event.below, event.first, event.extracted, strict=True
            )
        ],
    )


def guarantees(events: Iterable[Event]) -> dict[float, Guarantee]:
    """By requested epsilon: the guarantee of its finished cells, the worst one where seeds spend differently.

    Where there is no bound but a claim, the largest claim: it depends on what was learned.
    """
    of_seeds: dict[float, list[Guarantee]] = {}
    for event in of_kind(events, CellFinished):
        of_seeds.setdefault(event.cell.epsilon, []).append(event.guarantee)
    return {epsilon: max(given, key=_size) for epsilon, given in of_seeds.items()}


def _size(guarantee: Guarantee) -> tuple[float, float]:
    return guarantee.epsilon, guarantee.claim.epsilon if guarantee.claim is not None else 0.0


def _row(event: TaskLearned, rule: str | None) -> tuple[float | None, ...]:
    """Accuracies after a task under a rule; after a task without a model to test, those of the event (all None)."""
    was_tested = any(value is not None for value in event.accuracy)
    return event.by_rule[rule] if rule is not None and was_tested else event.accuracy


def table(columns: dict[str, str], rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """A data frame of the rows with these column types, also when there are no rows."""
    import numpy as np  # imported late, both: a run that only prints its results would start a third of a second later
    import pandas as pd

    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    typed = {
        name: pd.array(of, dtype=kind) if kind == "str" else np.array(of, dtype=kind)
        for (name, kind), of in zip(columns.items(), values, strict=True)
    }
    return pd.DataFrame(typed)
