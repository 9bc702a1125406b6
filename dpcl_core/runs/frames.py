"""Data frames of a run's events, one row per number, for figures and exports.

Those of how client lists were matched (`entries` to `statistics`) are of simulations only: the server never sees this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

from dpcl_core import metrics as measures
from dpcl_core.events import CellFinished, Event, Guarantee, Leaks, Retained, Signatures, TaskLearned, TokensScored, of_kind
from dpcl_core.later import pd
from dpcl_core.spec import Cell

# What is in a column of each name; all others have numbers with a fraction.
_KINDS = {
    **dict.fromkeys(("metric", "model", "label", "token", "kind", "name", "matcher", "statistic"), "str"),
    **dict.fromkeys(("is_stop", "is_right", "is_own"), "bool"),
    **dict.fromkeys(
        ("seed", "task", "after_task", "on_task", "of_task", "text", "place", "planted", "codes", "round", "client", "group",
         "mode", "n_entries", "m"), "int64",
    ),
}  # fmt: skip


def _table(columns: str, rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """A data frame of these columns after epsilon and seed, also of no rows; each row begins with an event of their cell."""
    import numpy as np  # late, as pandas: a run that only prints its results would start a third of a second later

    names = ["epsilon", "seed", *columns.split()]
    values = list(zip(*((one.cell.epsilon, one.cell.seed, *rest) for one, *rest in rows), strict=True)) or [()] * len(names)
    kinds = [_KINDS.get(name, "float64") for name in names]
    typed = (pd.array(of, kind) if kind == "str" else np.array(of, kind) for kind, of in zip(kinds, values, strict=True))
    return pd.DataFrame(dict(zip(names, typed, strict=True)))


P = ParamSpec("P")
_Rows = Iterator[tuple[Any, ...]]


def _framed(columns: str) -> Callable[[Callable[P, _Rows]], Callable[P, pd.DataFrame]]:
    """Makes a table with these columns after epsilon and seed (`_table`) of a function that yields its rows."""

    def made(rows: Callable[P, _Rows]) -> Callable[P, pd.DataFrame]:
        return wraps(rows)(lambda *of, **named: _table(columns, rows(*of, **named)))

    return made


def rules(events: Iterable[Event]) -> tuple[str, ...]:
    """The prediction rules that a run reports accuracies for, its own first; empty where its method has only one rule."""
    return next((tuple(event.by_rule) for event in of_kind(events, TaskLearned) if event.by_rule), ())


@_framed("after_task on_task accuracy pooled")
def accuracy(events: Iterable[Event], rule: str | None = None) -> _Rows:
    """Columns epsilon, seed, after_task, on_task, accuracy (in [0, 1]), pooled (over all tasks seen, one per after_task).

    Without an evaluation there is no row. With `rule`: as if the run had predicted by that rule (pooled NaN: it is counted
    for the run's own rule only). Raises KeyError where the run has no accuracies under the rule.
    """
    for event in of_kind(events, TaskLearned):
        for on_task, value in enumerate(_row(event, rule)):
            if value is not None:
                yield event, event.task, on_task, value, event.pooled if rule is None else None


def metrics(events: Sequence[Event], rule: str | None = None) -> pd.DataFrame:
    """Columns epsilon, seed, metric (AA, AF, BWT, FWT, Last, Avg), value (NaN: not defined); finished cells only.

    With `rule`: computed from the accuracies under that rule, as in `accuracy`.
    """
    found = _metrics(events, rule)
    finished = of_kind(events, CellFinished)
    return _table("metric value", ((event, *one) for event in finished for one in found[event.cell].items()))


def averages(events: Sequence[Event], rule: str | None = None) -> dict[Cell, float | None]:
    """The final average accuracy (AA) of every finished cell, without a table; `rule` as in `metrics`."""
    return {cell: found.get("AA") for cell, found in _metrics(events, rule).items()}


def _metrics(events: Sequence[Event], rule: str | None) -> dict[Cell, Mapping[str, float | None]]:
    finished = {event.cell: event.metrics for event in of_kind(events, CellFinished)}
    if rule is None:
        return finished
    rows = measures.grouped((event.cell, _row(event, rule)) for event in of_kind(events, TaskLearned))
    return {cell: measures.summary(rows[cell]) for cell in finished}


def cells(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon (requested), seed, accounted_epsilon (inf: no bound), delta, seconds: one row per finished cell."""
    of_cells = ((one, one.guarantee.epsilon, one.guarantee.delta, one.seconds) for one in of_kind(events, CellFinished))
    return _table("accounted_epsilon delta seconds", of_cells)


def spent(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon (requested), seed, after_task, accounted_epsilon (of the ledger by then; inf: no bound)."""
    return _table(
        "after_task accounted_epsilon", ((event, event.task, event.epsilon) for event in of_kind(events, TaskLearned))
    )


@_framed("task model text label place token kind is_stop probability commonness")
def tokens(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, model (base, current), text (its number in the event), label, place, token, kind,
    is_stop, probability (in (0, 1]), commonness (Score2 of PeCL): one row per token of a synthetic or public text.
    """
    for event in of_kind(events, TokensScored):
        for number, text in enumerate(event.texts):
            columns = text.tokens, text.kinds, text.is_stop, text.probability, text.commonness
            for place, row in enumerate(zip(*columns, strict=True)):
                yield event, event.task, event.model, number, text.label, place, *row


@_framed("after_task of_task ordinary private")
def retained(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, after_task, of_task, ordinary, private: nats per token above the frozen public model.

    `private` is NaN where no private span is marked in the task.
    """
    for event in of_kind(events, Retained):
        for of_task, (ordinary, private) in enumerate(zip(event.ordinary, event.private, strict=True)):
            yield event, event.task, of_task, ordinary, private


@_framed("after_task planted codes exposure below first extracted epsilon_at_least confidence")
def leaks(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, after_task (-1: before the first), planted (in how many texts; 0: controls), codes, exposure,
    below (bits), first, extracted (shares), epsilon_at_least (of the whole model, with `confidence`): one row per level.
    """
    for event in of_kind(events, Leaks):
        for level in zip(event.levels, event.codes, event.exposure, event.below, event.first, event.extracted, strict=True):
            yield event, event.task, *level, event.epsilon_at_least, event.confidence


def guarantees(events: Iterable[Event]) -> dict[float, Guarantee]:
    """By requested epsilon: the guarantee of its finished cells, the worst one where seeds spend differently.

    Where there is no bound but a claim, the largest claim: it depends on what was learned.
    """
    of_seeds = measures.grouped((event.cell.epsilon, event.guarantee) for event in of_kind(events, CellFinished))

    def size(one: Guarantee) -> tuple[float, float]:
        return one.epsilon, one.claim.epsilon if one.claim is not None else 0.0

    return {epsilon: max(given, key=size) for epsilon, given in of_seeds.items()}


def _row(event: TaskLearned, rule: str | None) -> tuple[float | None, ...]:
    """Accuracies after a task under a rule; after a task without a model to test, those of the event (all None)."""
    was_tested = any(value is not None for value in event.accuracy)
    return event.by_rule[rule] if rule is not None and was_tested else event.accuracy


@_framed("task round client weight mean_x mean_y signature_x signature_y group name margin regret mode is_right")
def entries(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, round, client, weight, mean_x, mean_y, signature_x, signature_y, group (-1: none), name
    (of the group), margin, regret (NaN: not one to one), mode (-1: unknown), is_right (in the group assigned to its
    mode, one group per mode; False where the mode is unknown): one row per entry.
    """
    import numpy as np

    from dpcl_core.explorers import matching as agreeing

    for event in of_kind(events, Signatures):
        of, names = event.entries, event.prototypes.name
        groups, modes = np.array(of.group, dtype=np.int64), np.array(of.mode, dtype=np.int64)
        is_right = agreeing.is_correct(groups, modes, len(names), int(modes.max(initial=-1)) + 1)
        columns = of.client, of.weight, of.mean, of.signature, of.group, of.margin, of.regret, of.mode, is_right
        for client, weight, mean, signature, group, *rest in zip(*columns, strict=True):
            name = names[group] if group >= 0 else ""
            yield event, event.task, event.round, client, weight, *mean, *signature, group, name, *rest


@_framed(
    "task round group name mean_x mean_y mean_xx mean_xy mean_yy "
    "signature_x signature_y signature_xx signature_xy signature_yy"
)
def prototypes(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, round, group, name, and for the spaces mean and signature each SPACE_x, SPACE_y, and the
    covariance of the privacy noise there, SPACE_xx, SPACE_xy, SPACE_yy: one row per group.
    """
    for event in of_kind(events, Signatures):
        of = event.prototypes
        columns = zip(of.name, of.mean, of.mean_spread, of.signature, of.signature_spread, strict=True)
        for group, (name, mean, mean_spread, signature, signature_spread) in enumerate(columns):
            yield event, event.task, event.round, group, name, *mean, *mean_spread, *signature, *signature_spread


@_framed("task round matcher is_own noise agreement n_entries")
def agreement(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, round, matcher, is_own (the run's), noise (standard deviation added to each coordinate
    of every entry's mean; NaN: none added), agreement (adjusted Rand index with the truth), n_entries (compared;
    a subsample of long lists).
    """
    for event in of_kind(events, Signatures):
        values = [(matcher, math.nan, value) for matcher, value in event.agreement.items()]
        for matcher, at_levels in event.agreement_at.items():
            values += [(matcher, level, value) for level, value in zip(event.noise_levels, at_levels, strict=True)]
        place, n = (event, event.task, event.round), _n_compared(event)
        yield from ((*place, name, name == event.matcher, *rest, n) for name, *rest in values)


@_framed("task round m gap mean_rate least_rate least_gap needed agreement n_entries")
def anchors(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, round, gap, m, mean_rate, least_rate, least_gap, needed (inf: no number would do),
    agreement, n_entries (compared): one row per number of anchors.
    """
    for event in of_kind(events, Signatures):
        if (of := event.anchors) is not None:
            for m, *rest in zip(of.m, of.mean_rate, of.least_rate, of.least_gap, of.needed, of.agreement, strict=True):
                yield event, event.task, event.round, m, of.gap, *rest, _n_compared(event)


@_framed("task round statistic signal noise")
def statistics(events: Iterable[Event]) -> _Rows:
    """Columns epsilon, seed, task, round, statistic, signal, noise (lengths): one row per released statistic."""
    for event in of_kind(events, Signatures):
        for name, signal in event.signal.items():
            yield event, event.task, event.round, name, signal, event.noise.get(name, math.nan)


def _n_compared(event: Signatures) -> int:
    """Number of entries that matchers were compared on: those of known mode, or a subsample of them."""
    return event.n_compared if event.n_compared is not None else sum(mode >= 0 for mode in event.entries.mode)
