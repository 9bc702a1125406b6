"""The ledger: everything one cell did to private data, in order, and what it adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import dp_accounting as dp

from dpcl_core.events import Claim
from dpcl_core.privacy.accounting import Accountant, LabelListDpEvent, Pld, of_group, of_part
from dpcl_core.spec import Adjacency, Recurrence

REPLAY, HEAD = "replay", "head"  # the ways in which a federated method with replay lets private data out


@dataclass(frozen=True, slots=True)
class Entry:
    """One touch of private data: the mechanism as a DpEvent, while learning which task, for what, and on whose data.

    `people_of`: the tasks whose people's data the mechanism read; one of them has an example in it for each. A replay reads
    the data of an earlier task alone.
    `shares_batches`: the models of other budgets with the same seed were trained on the very same random batches.
    `channels`: what each of the ways out that `event` is made of would cost on its own. Empty where it is one alone.
    """

    event: dp.DpEvent
    task: int
    what: str
    people_of: tuple[int, ...]
    shares_batches: bool = False
    channels: Mapping[str, dp.DpEvent] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """Everything one cell did to private data; the only source of an epsilon on screen.

    Lives as long as the people it protects. `recurrence` is public: "once" where no privacy unit is in two tasks, so that
    tasks compose in parallel (the worst one counts); "every" where it may be in all of them, so that they add up.
    `claimed`: what the publication of a method says that all this costs, where the method is known by such a number.
    """

    delta: float
    adjacency: Adjacency
    recurrence: Recurrence
    accountant: Accountant = field(default_factory=Pld)
    entries: list[Entry] = field(default_factory=list)
    claimed: Claim | None = None

    def spend(
        self,
        event: dp.DpEvent,
        *,
        task: int,
        what: str,
        people_of: tuple[int, ...] | None = None,
        shares_batches: bool = False,
        channels: Mapping[str, dp.DpEvent] | None = None,
    ) -> None:
        """Writes a mechanism down. To be called before its output leaves the mechanism.

        `people_of`: the tasks whose data it read, where that is not `task` alone. `channels`: what of it goes out by which
        way (`REPLAY`, `HEAD`), each as the event that it would be alone. Two that share one sample of people are one `event`
        of their joint noise, for one coin decides both; a way that costs nothing is a `NoOpDpEvent`.
        """
        people = (task,) if people_of is None else people_of
        self.entries.append(Entry(event, task, what, people, shares_batches, channels or {}))

    def epsilon(self) -> float:
        """What the entries add up to for any one person (inf: no bound)."""
        return max(self.by_people().values(), default=0.0)

    def by_channel(self) -> dict[str, float]:
        """Epsilon of each way out alone, as `epsilon` would have it; empty where no entry tells them apart.

        They do not add up to the total: losses compose, epsilons do not.
        """
        names = dict.fromkeys(name for entry in self.entries for name in entry.channels)
        return {name: self._of_channel(name).epsilon() for name in names}

    def _of_channel(self, name: str) -> Ledger:
        own = [replace(entry, event=entry.channels[name]) for entry in self.entries if name in entry.channels]
        return Ledger(self.delta, self.adjacency, self.recurrence, self.accountant, own)

    def by_people(self) -> dict[str, float]:
        """Epsilon of every group of people; one group's entries compose in sequence."""
        return {people: self._composed(events) for people, events in self.events_by_people().items()}

    def events_by_people(self) -> dict[str, list[dp.DpEvent]]:
        """What was done to the data of every group of people."""
        if self.recurrence == "every":
            return {"everyone": self._if_in_every_task()} if self.entries else {}
        groups: dict[str, list[dp.DpEvent]] = {}
        for entry in self.entries:
            for place, task in enumerate(entry.people_of):
                groups.setdefault(f"people of task {task + 1}", []).append(of_part(entry.event, place))
        return groups

    def by_task(self) -> dict[int, float]:
        """Epsilon of what each task's own people spent on its being learned; replays of others are not in it."""
        groups: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if entry.task in entry.people_of:
                own = of_part(entry.event, entry.people_of.index(entry.task))
                groups.setdefault(entry.task, []).append(own)
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
        found: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if isinstance(entry.event, LabelListDpEvent | dp.NonPrivateDpEvent):
                found.setdefault(entry.task, []).append(entry.event)
        return max(map(self._composed, found.values()), default=0.0)

    def _composed(self, events: Sequence[dp.DpEvent]) -> float:
        return self.accountant.epsilon(events, self.delta, self.adjacency)
