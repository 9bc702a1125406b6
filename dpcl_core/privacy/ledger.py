"""The ledger: every mechanism that one cell applied to private data, in order, and the epsilon of their composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import cast

import dp_accounting as dp

from dpcl_core.events import Claim, JsonValue, Mechanism, Spending, Written
from dpcl_core.privacy.accounting import (
    Accountant,
    LabelListDpEvent,
    LocalDpEvent,
    Pld,
    SampledGroupDpEvent,
    Unaccountable,
    of_group,
    of_part,
    of_steps,
)
from dpcl_core.privacy.group import epsilon_of
from dpcl_core.privacy.noise import Steps
from dpcl_core.spec import Adjacency, Recurrence

REPLAY, HEAD = "replay", "head"  # the two releases of a federated method with replay


@dataclass(frozen=True, slots=True)
class Entry:
    """One access to private data: the mechanism as a DpEvent, the task being learned, the purpose, and whose data it read.

    `people_of`: the tasks whose people's data the mechanism read; a person in all of them has one example for each. A replay
    reads only the data of earlier tasks.
    `shares_batches`: the models of other budgets with the same seed were trained on the same random batches.
    `channels`: the event that each release within `event` would be alone. Empty where there is only one.
    """

    event: dp.DpEvent
    task: int
    what: str
    people_of: tuple[int, ...]
    shares_batches: bool = False
    channels: Mapping[str, dp.DpEvent] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """Every mechanism that one cell applied to private data; the only source of an epsilon on screen.

    One ledger covers all tasks of the people it protects. `recurrence` is public: "once" where no privacy unit is in two
    tasks, so that tasks compose in parallel (the worst one counts); "every" where it may be in all of them, so that they add
    up. `claimed`: the epsilon that the method's publication claims for all this, if any. `rows_per_unit`: how many rows the
    privacy unit has at most; every entry is the mechanism for one row, and `privacy.group` gives the unit's epsilon.
    """

    delta: float
    adjacency: Adjacency
    recurrence: Recurrence
    accountant: Accountant = field(default_factory=Pld)
    entries: list[Entry] = field(default_factory=list)
    claimed: Claim | None = None
    rows_per_unit: int = 1

    def spend(
        self,
        event: dp.DpEvent | Steps,
        *,
        task: int,
        what: str,
        people_of: tuple[int, ...] | None = None,
        shares_batches: bool = False,
        channels: Mapping[str, dp.DpEvent] | None = None,
    ) -> None:
        """Records a mechanism. Call it before the mechanism's output leaves the mechanism.

        `event`: where batches are drawn, the `Steps` that draw them. `people_of`: the tasks whose data it read, where not
        `task` alone. `channels`: its releases (`REPLAY`, `HEAD`), each as the event that it would be alone. Two that share
        one sample of people are one `event` of their joint noise, because one draw decides both; a release that costs
        nothing is a `NoOpDpEvent`.
        """
        people = (task,) if people_of is None else people_of
        charged = of_steps(event) if isinstance(event, Steps) else event
        self.entries.append(Entry(charged, task, what, people, shares_batches, channels or {}))

    def epsilon(self) -> float:
        """Epsilon of all entries for any one person (inf: no bound)."""
        return max(self.by_people().values(), default=0.0)

    def by_channel(self) -> dict[str, float]:
        """Epsilon of each channel alone, computed as `epsilon` is; empty where no entry has channels.

        They do not sum to the total: privacy losses add up, epsilons do not.
        """
        names = dict.fromkeys(name for entry in self.entries for name in entry.channels)
        alone = {
            name: [replace(entry, event=entry.channels[name]) for entry in self.entries if name in entry.channels]
            for name in names
        }
        return {name: replace(self, entries=entries).epsilon() for name, entries in alone.items()}

    def by_people(self) -> dict[str, float]:
        """Epsilon of every group of people; the entries of one group compose in sequence."""
        return {people: self._composed(events) for people, events in self.events_by_people().items()}

    def events_by_people(self) -> dict[str, list[dp.DpEvent]]:
        """The events that read the data of each group of people."""
        if self.recurrence == "every":
            return {"everyone": self._if_in_every_task()} if self.entries else {}
        groups: dict[str, list[dp.DpEvent]] = {}
        for entry in self.entries:
            for place, task in enumerate(entry.people_of):
                groups.setdefault(f"people of task {task + 1}", []).append(of_part(entry.event, place))
        return groups

    def by_task(self) -> dict[int, float]:
        """Epsilon that each task's own people spend while it is learned, without replays of other tasks."""
        groups: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if entry.task in entry.people_of:
                groups.setdefault(entry.task, []).append(of_part(entry.event, entry.people_of.index(entry.task)))
        return {task: self._composed(events) for task, events in groups.items()}

    def if_in_every_task(self) -> float:
        """Epsilon of a person whose data are in every task, whatever the recurrence assumed.

        In a mechanism that read several tasks together such a person has an example for each of them.
        """
        return self._composed(self._if_in_every_task())

    def _if_in_every_task(self) -> list[dp.DpEvent]:
        return [of_group(entry.event, len(entry.people_of)) for entry in self.entries]

    def lists_alone(self) -> float:
        """Epsilon of the learned lists of labels alone, for a person of one task (the worst one)."""
        by_task: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if isinstance(entry.event, LabelListDpEvent | dp.NonPrivateDpEvent):
                by_task.setdefault(entry.task, []).append(entry.event)
        return max(map(self._composed, by_task.values()), default=0.0)

    def composed(self, events: Sequence[dp.DpEvent], delta: float) -> float:
        """Epsilon of these events for one privacy unit, at this delta."""
        return epsilon_of(self.accountant, events, delta, self.adjacency, self.rows_per_unit)

    def _composed(self, events: Sequence[dp.DpEvent]) -> float:
        return self.composed(events, self.delta)


# A ledger as plain numbers, for the store and for privacy cards.


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


# A ledger's entries as JSON and back, exactly: a resumed run's ledger is the unbroken run's, event for event.
#
# `privacy.written` is for readers and merges equal entries; here every event comes back as the object that it was.


_KINDS: Mapping[str, type[dp.DpEvent]] = {
    kind.__name__: kind
    for kind in (
        dp.GaussianDpEvent,
        dp.PoissonSampledDpEvent,
        dp.SelfComposedDpEvent,
        dp.NonPrivateDpEvent,
        dp.NoOpDpEvent,
        LabelListDpEvent,
        LocalDpEvent,
        SampledGroupDpEvent,
    )
}


def document(ledger: Ledger) -> dict[str, JsonValue]:
    """The ledger's entries and claim. Raises Unaccountable for an unknown kind of event."""
    entries: list[JsonValue] = [
        {
            "event": _written(entry.event),
            "task": entry.task,
            "what": entry.what,
            "people_of": list(entry.people_of),
            "shares_batches": entry.shares_batches,
            "channels": {name: _written(event) for name, event in entry.channels.items()},
        }
        for entry in ledger.entries
    ]
    claim = None if ledger.claimed is None else cast(JsonValue, asdict(ledger.claimed))
    return {"entries": entries, "claimed": claim}


def refill(ledger: Ledger, kept: Mapping[str, JsonValue]) -> None:
    """Gives a new ledger of the same cell the entries and the claim of a `document`."""
    ledger.entries = [_entry(cast("dict[str, JsonValue]", one)) for one in cast("list[JsonValue]", kept["entries"])]
    claim = cast("dict[str, JsonValue] | None", kept["claimed"])
    ledger.claimed = None if claim is None else Claim(**claim)  # type: ignore[arg-type]


def _entry(one: dict[str, JsonValue]) -> Entry:
    return Entry(
        _read(one["event"]),
        cast(int, one["task"]),
        cast(str, one["what"]),
        tuple(cast("list[int]", one["people_of"])),
        cast(bool, one["shares_batches"]),
        {name: _read(event) for name, event in cast("dict[str, JsonValue]", one["channels"]).items()},
    )


def _written(value: object) -> JsonValue:
    if isinstance(value, dp.DpEvent):
        kind = type(value)
        if _KINDS.get(kind.__name__) is not kind:
            raise Unaccountable(f"{value} cannot be kept in a checkpoint")
        return {"kind": kind.__name__, "of": [_written(getattr(value, name)) for name in kind.__match_args__]}
    return list(value) if isinstance(value, tuple) else cast(JsonValue, value)


def _read(value: JsonValue) -> object:
    if isinstance(value, dict):
        return _KINDS[cast(str, value["kind"])](*map(_read, cast("list[JsonValue]", value["of"])))
    return tuple(value) if isinstance(value, list) else value
