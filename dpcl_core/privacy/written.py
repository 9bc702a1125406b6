"""A ledger as plain numbers and back, for the store and for privacy cards."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import dp_accounting as dp

from dpcl_core.events import Mechanism, Spending, Written
from dpcl_core.privacy.accounting import (
    Accountant,
    LabelListDpEvent,
    LocalDpEvent,
    SampledGroupDpEvent,
    Unaccountable,
    gaussian_step,
)
from dpcl_core.privacy.ledger import Entry, Ledger


def written(ledger: Ledger) -> Written:
    """The ledger's entries in order, equal consecutive ones counted. Raises Unaccountable for an unknown mechanism."""
    spendings = tuple(replace(one, count=len(list(equal))) for one, equal in groupby(map(_spending, ledger.entries)))
    return Written(ledger.adjacency, ledger.recurrence, spendings, ledger.rows_per_unit)


def _spending(entry: Entry) -> Spending:
    channels = {name: mechanism(event) for name, event in entry.channels.items()}
    return Spending(entry.what, entry.task, entry.people_of, 1, mechanism(entry.event), entry.shares_batches, channels)


def read(ledger: Written, delta: float, accountant: Accountant) -> Ledger:
    """The ledger of a `Written` record, with this accountant."""
    entries = [_entry(one) for one in ledger.entries for _ in range(one.count)]
    return Ledger(delta, ledger.adjacency, ledger.recurrence, accountant, entries, rows_per_unit=ledger.rows_per_unit)


def _entry(one: Spending) -> Entry:
    channels = {name: event(channel) for name, channel in one.channels.items()}
    return Entry(event(one.mechanism), one.task, one.what, one.people_of, one.shares_batches, channels)


def mechanism(event: dp.DpEvent) -> Mechanism:
    """A ledger's event as plain numbers. Raises Unaccountable for an unknown kind."""
    match event:
        case dp.SelfComposedDpEvent(inner, count):
            one = mechanism(inner)
            return replace(one, steps=one.steps * count)
        case dp.GaussianDpEvent(sigma):
            return Mechanism("gaussian", float(sigma), (1.0,))
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
            return Mechanism("gaussian", float(sigma), (float(rate),))
        case SampledGroupDpEvent(sigma, rates):
            return Mechanism("gaussian", float(sigma), tuple(map(float, rates)))
        case LabelListDpEvent(epsilon, delta):
            return Mechanism("label-list", epsilon=float(epsilon), delta=float(delta))
        case LocalDpEvent(epsilon):
            return Mechanism("local", epsilon=float(epsilon))
        case dp.NonPrivateDpEvent():
            return Mechanism("no-bound")
        case dp.NoOpDpEvent():
            return Mechanism("nothing")
    raise Unaccountable(f"{event} cannot be written down")


def event(given: Mechanism) -> dp.DpEvent:
    """The event of these numbers, the inverse of `mechanism`. Raises Unaccountable where some are missing."""
    single = _once(given)
    # Single steps are counted, too: models that share batches are recognised by their counts (`joint_release.joint`).
    return dp.SelfComposedDpEvent(single, given.steps) if given.kind == "gaussian" else single


def _once(given: Mechanism) -> dp.DpEvent:
    match given:
        case Mechanism("gaussian", float(sigma), (rate,)):
            return gaussian_step(sigma, rate)
        case Mechanism("gaussian", float(sigma), rates) if rates:
            return SampledGroupDpEvent(sigma, rates)
        case Mechanism("label-list", _, _, _, float(epsilon), float(delta)):
            return LabelListDpEvent(epsilon, delta)
        case Mechanism("local", _, _, _, float(epsilon)):
            return LocalDpEvent(epsilon)
        case Mechanism("no-bound"):
            return dp.NonPrivateDpEvent()
        case Mechanism("nothing"):
            return dp.NoOpDpEvent()
    raise Unaccountable(f"a mechanism of kind {given.kind!r} lacks its numbers")
