"""Data frames of a run's events, one row per number, for figures and exports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcl_core import metrics as measures
from dpcl_core.events import CellFinished, Event, Guarantee, Leaks, Retained, Signatures, TaskLearned, TokensScored, of_kind
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
    return table(
        _CELL | {"metric": "str", "value": "float64"},
        [(cell.epsilon, cell.seed, *one) for cell, found in _metrics(events, rule).items() for one in found.items()],
    )


def averages(events: Sequence[Event], rule: str | None = None) -> dict[Cell, float | None]:
    """The final average accuracy (AA) of every finished cell, without a table; `rule` as in `metrics`."""
    return {cell: found.get("AA") for cell, found in _metrics(events, rule).items()}


def _metrics(events: Sequence[Event], rule: str | None) -> dict[Cell, Mapping[str, float | None]]:
    finished = {event.cell: event.metrics for event in of_kind(events, CellFinished)}
    if rule is None:
        return finished
    matrices: dict[Cell, list[tuple[float | None, ...]]] = {cell: [] for cell in finished}
    for event in of_kind(events, TaskLearned):
        if event.cell in matrices:
            matrices[event.cell].append(_row(event, rule))
    return {cell: measures.summary(matrix) for cell, matrix in matrices.items()}


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


# Tables of how a run's client lists were matched, for figures and exports. Simulation only: the server never sees this.


_ROUND = {"epsilon": "float64", "seed": "int64", "task": "int64", "round": "int64"}


def entries(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, client, weight, mean_x, mean_y, signature_x, signature_y, group (-1: none), name
    (of the group), margin, regret (NaN: not one to one), mode (-1: unknown), is_right (in the group assigned to its
    mode, one group per mode; False where the mode is unknown): one row per entry.
    """
    from dpcl_core.explorers import matching as agreeing

    rows: list[tuple[object, ...]] = []
    for event in of_kind(events, Signatures):
        of, names = event.entries, event.prototypes.name
        groups, modes = np.array(of.group, dtype=np.int64), np.array(of.mode, dtype=np.int64)
        is_right = agreeing.is_correct(groups, modes, len(names), int(modes.max(initial=-1)) + 1)
        for row in zip(of.client, of.weight, of.mean, of.signature, of.group, of.margin, of.regret, of.mode, is_right,
                       strict=True):  # fmt: skip
            client, weight, mean, signature, group, *rest = row
            name = names[group] if group >= 0 else ""
            rows.append((*_round_key(event), client, weight, *mean, *signature, group, name, *rest))
    return table(
        {**_ROUND, "client": "int64", "weight": "float64", "mean_x": "float64", "mean_y": "float64",
         "signature_x": "float64", "signature_y": "float64", "group": "int64", "name": "str", "margin": "float64",
         "regret": "float64", "mode": "int64", "is_right": "bool"},
        rows,
    )  # fmt: skip


def prototypes(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, group, name, and for the spaces mean and signature each SPACE_x, SPACE_y, and the
    covariance of the privacy noise there, SPACE_xx, SPACE_xy, SPACE_yy: one row per group.
    """
    spaces = {f"{space}_{part}": "float64" for space in ("mean", "signature") for part in ("x", "y", "xx", "xy", "yy")}
    return table(
        {**_ROUND, "group": "int64", "name": "str", **spaces},
        [
            (*_round_key(event), group, name, *mean, *mean_spread, *signature, *signature_spread)
            for event in of_kind(events, Signatures)
            if (of := event.prototypes)
            for group, (name, mean, mean_spread, signature, signature_spread) in enumerate(
                zip(of.name, of.mean, of.mean_spread, of.signature, of.signature_spread, strict=True)
            )
        ],
    )


def agreement(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, matcher, is_own (the run's), noise (standard deviation added to each coordinate
    of every entry's mean; NaN: none added), agreement (adjusted Rand index with the truth), n_entries (compared;
    a subsample of long lists).
    """
    rows: list[tuple[object, ...]] = []
    for event in of_kind(events, Signatures):
        values = [(matcher, math.nan, value) for matcher, value in event.agreement.items()]
        for matcher, at_levels in event.agreement_at.items():
            values += [(matcher, level, value) for level, value in zip(event.noise_levels, at_levels, strict=True)]
        rows += [(*_round_key(event), name, name == event.matcher, *rest, _n_compared(event)) for name, *rest in values]
    columns = {"matcher": "str", "is_own": "bool", "noise": "float64", "agreement": "float64", "n_entries": "int64"}
    return table({**_ROUND, **columns}, rows)


def anchors(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, gap, m, mean_rate, least_rate, least_gap, needed (inf: no number would do),
    agreement, n_entries (compared): one row per number of anchors.
    """
    columns = ("gap", "mean_rate", "least_rate", "least_gap", "needed", "agreement")
    return table(
        {**_ROUND, "m": "int64", **dict.fromkeys(columns, "float64"), "n_entries": "int64"},
        [
            (*_round_key(event), m, of.gap, *rest, _n_compared(event))
            for event in of_kind(events, Signatures)
            if (of := event.anchors) is not None
            for m, *rest in zip(
                of.m, of.mean_rate, of.least_rate, of.least_gap, of.needed, of.agreement, strict=True
            )
        ],
    )  # fmt: skip


def statistics(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, statistic, signal, noise (lengths): one row per released statistic."""
    return table(
        {**_ROUND, "statistic": "str", "signal": "float64", "noise": "float64"},
        [
            (*_round_key(event), name, signal, event.noise.get(name, math.nan))
            for event in of_kind(events, Signatures)
            for name, signal in event.signal.items()
        ],
    )


def _n_compared(event: Signatures) -> int:
    """Number of entries that matchers were compared on: those of known mode, or a subsample of them."""
    return event.n_compared if event.n_compared is not None else sum(mode >= 0 for mode in event.entries.mode)


def _round_key(event: Signatures) -> tuple[float, int, int, int]:
    return event.cell.epsilon, event.cell.seed, event.task, event.round
