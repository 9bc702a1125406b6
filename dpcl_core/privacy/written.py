"""A ledger as plain numbers, for the store and for privacy cards."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import dp_accounting as dp

from dpcl_core.events import Mechanism, Spending, Written
from dpcl_core.privacy.accounting import LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.privacy.ledger import Entry, Ledger


def written(ledger: Ledger) -> Written:
    """The ledger's entries in order, equal consecutive ones counted. Raises Unaccountable for an unknown mechanism."""
    spendings = tuple(replace(one, count=len(list(equal))) for one, equal in groupby(map(_spending, ledger.entries)))
    return Written(ledger.adjacency, ledger.recurrence, spendings, ledger.rows_per_unit)


def _spending(entry: Entry) -> Spending:
    channels = {name: mechanism(event) for name, event in entry.channels.items()}
    return Spending(entry.what, entry.task, entry.people_of, 1, mechanism(entry.event), entry.shares_batches, channels)


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
