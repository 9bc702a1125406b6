"""Tables of how a run's client lists were matched, for figures and exports. Simulation only: the server never sees this."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from dpcl_core.events import Event, Signatures, of_kind
from dpcl_core.explorers import rand_index as agreeing
from dpcl_core.runs.frames import table

_ROUND = {"epsilon": "float64", "seed": "int64", "task": "int64", "round": "int64"}


def entries(events: Iterable[Event]) -> pd.DataFrame:
    """Columns epsilon, seed, task, round, client, weight, mean_x, mean_y, signature_x, signature_y, group (-1: none), name
    (of the group), margin, regret (NaN: not one to one), mode (-1: unknown), is_right (in the group assigned to its
    mode, one group per mode; False where the mode is unknown): one row per entry.
    """
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
