"""The ledger: every mechanism that one cell applied to private data, in order, and what it costs, alone and with others."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Claim, JsonValue, Mechanism, Spending, Written
from dpcl_core.privacy import accounting, budgets, noise
from dpcl_core.privacy.accounting import LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.privacy.dp_events import dp
from dpcl_core.spec import Adjacency, Cell, Recurrence

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
    privacy unit has at most; every entry is the mechanism for one row, and `privacy.budgets` gives the unit's epsilon.
    """

    delta: float
    adjacency: Adjacency
    recurrence: Recurrence
    accountant: budgets.Accountant = field(default_factory=accounting.Pld)
    entries: list[Entry] = field(default_factory=list)
    claimed: Claim | None = None
    rows_per_unit: int = 1

    def spend(
        self, event: dp.DpEvent | noise.Steps, *, task: int, what: str, people_of: tuple[int, ...] | None = None,
        shares_batches: bool = False, channels: Mapping[str, dp.DpEvent] | None = None,
    ) -> None:  # fmt: skip
        """Records a mechanism. Call it before the mechanism's output leaves the mechanism.

        `event`: where batches are drawn, the `Steps` that draw them. `people_of`: the tasks whose data it read, where not
        `task` alone. `channels`: its releases (`REPLAY`, `HEAD`), each as the event that it would be alone. Two that share
        one sample of people are one `event` of their joint noise, because one draw decides both; a release that costs
        nothing is a `NoOpDpEvent`.
        """
        people = (task,) if people_of is None else people_of
        charged = accounting.of_steps(event) if isinstance(event, noise.Steps) else event
        self.entries.append(Entry(charged, task, what, people, shares_batches, channels or {}))

    def epsilon(self) -> float:
        """Epsilon of all entries for any one person (inf: no bound)."""
        return max(self.by_people().values(), default=0.0)

    def by_channel(self) -> dict[str, float]:
        """Epsilon of each channel alone, computed as `epsilon` is; empty where no entry has channels.

        They do not sum to the total: privacy losses add up, epsilons do not.
        """
        alone = {
            name: [replace(entry, event=entry.channels[name]) for entry in self.entries if name in entry.channels]
            for name in dict.fromkeys(name for entry in self.entries for name in entry.channels)
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
                groups.setdefault(f"people of task {task + 1}", []).append(accounting.of_part(entry.event, place))
        return groups

    def by_task(self) -> dict[int, float]:
        """Epsilon that each task's own people spend while it is learned, without replays of other tasks."""
        groups: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if entry.task in entry.people_of:
                groups.setdefault(entry.task, []).append(accounting.of_part(entry.event, entry.people_of.index(entry.task)))
        return {task: self._composed(events) for task, events in groups.items()}

    def if_in_every_task(self) -> float:
        """Epsilon of a person whose data are in every task, whatever the recurrence assumed.

        In a mechanism that read several tasks together such a person has an example for each of them.
        """
        return self._composed(self._if_in_every_task())

    def _if_in_every_task(self) -> list[dp.DpEvent]:
        return [accounting.of_group(entry.event, len(entry.people_of)) for entry in self.entries]

    def lists_alone(self) -> float:
        """Epsilon of the learned lists of labels alone, for a person of one task (the worst one)."""
        by_task: dict[int, list[dp.DpEvent]] = {}
        for entry in self.entries:
            if isinstance(entry.event, LabelListDpEvent | dp.NonPrivateDpEvent):
                by_task.setdefault(entry.task, []).append(entry.event)
        return max(map(self._composed, by_task.values()), default=0.0)

    def composed(self, events: Sequence[dp.DpEvent], delta: float) -> float:
        """Epsilon of these events for one privacy unit, at this delta."""
        return budgets.epsilon_of(self.accountant, events, delta, self.adjacency, self.rows_per_unit)

    def _composed(self, events: Sequence[dp.DpEvent]) -> float:
        return self.composed(events, self.delta)


# A ledger as plain numbers, for the store and for privacy cards.


def ledger_entries(ledger: Ledger) -> Written:
    """The ledger's entries in order, equal consecutive ones counted. Raises Unaccountable for an unknown mechanism."""
    spendings = (
        Spending(
            entry.what, entry.task, entry.people_of, 1, mechanism(entry.event), entry.shares_batches,
            {name: mechanism(event) for name, event in entry.channels.items()},
        )
        for entry in ledger.entries
    )  # fmt: skip
    counted = tuple(replace(one, count=len(list(equal))) for one, equal in groupby(spendings))
    return Written(ledger.adjacency, ledger.recurrence, counted, ledger.rows_per_unit)


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
# `written` is for readers and merges equal entries; here every event comes back as the object that it was.


_KINDS: Mapping[str, type[dp.DpEvent]] = {
    kind.__name__: kind
    for kind in (
        dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent, dp.NonPrivateDpEvent, dp.NoOpDpEvent,
        LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent,
    )
}  # fmt: skip


def document(ledger: Ledger) -> dict[str, JsonValue]:
    """The ledger's entries and claim. Raises Unaccountable for an unknown kind of event."""
    entries = [{one.name: _written(getattr(entry, one.name)) for one in fields(Entry)} for entry in ledger.entries]
    return {"entries": cast(JsonValue, entries), "claimed": cast(JsonValue, ledger.claimed and asdict(ledger.claimed))}


def refill(ledger: Ledger, kept: Mapping[str, JsonValue]) -> None:
    """Gives a new ledger of the same cell the entries and the claim of a `document`."""
    entries = cast("list[dict[str, JsonValue]]", kept["entries"])
    ledger.entries = [Entry(**{name: _read(value) for name, value in one.items()}) for one in entries]
    claim = cast("dict[str, Any] | None", kept["claimed"])
    ledger.claimed = None if claim is None else Claim(**claim)


def _written(value: object) -> JsonValue:
    if isinstance(value, dp.DpEvent):
        kind = type(value)
        if _KINDS.get(kind.__name__) is not kind:
            raise Unaccountable(f"{value} cannot be kept in a checkpoint")
        return {"kind": kind.__name__, "of": [_written(getattr(value, name)) for name in kind.__match_args__]}
    if isinstance(value, Mapping):
        return {name: _written(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else cast(JsonValue, value)


def _read(value: JsonValue) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return _KINDS[cast(str, value["kind"])](*map(_read, cast("list[JsonValue]", value["of"])))
    if isinstance(value, dict):
        return {name: _read(one) for name, one in value.items()}
    return tuple(value) if isinstance(value, list) else value


# Joint privacy cost of all models of a run: each has its own ledger, and an attacker may see them all.


def joint_release(learners: Iterable[Mapping[Cell, Ledger]]) -> tuple[float, float]:
    """(epsilon, delta) of the release of all models of these learners, for any one person.

    Models of one learner and seed that were trained on the same batches are one training with several noises
    (`joint_training`);
    all others compose in sequence: each learner draws its own batches and noise. Another seed may put a person into another
    task, so each seed counts, for every kind of entry, the largest number that any of its people has. Each list of labels
    costs a delta of its own, so with lists delta is the sum of the models' deltas. Where that sum has no bound (a person of
    many rows, `privacy.budgets`), the models' own bounds add up, epsilons and deltas, unless some share batches: such models
    are not independent.
    """
    groups = list(learners)
    ledgers = [ledger for group in groups for ledger in group.values()]
    any_one, events = ledgers[0], Counter[dp.DpEvent]()
    for seed in sorted({cell.seed for group in groups for cell in group}):
        events += _worst([[ledger for cell, ledger in group.items() if cell.seed == seed] for group in groups])
    delta = any_one.delta
    if accounting.has_lists(events):
        delta = min(0.5, delta * len(ledgers))
    together = any_one.composed(tuple(events.elements()), delta)
    if math.isinf(together) and not any(entry.shares_batches for ledger in ledgers for entry in ledger.entries):
        added, of_all = math.fsum(ledger.epsilon() for ledger in ledgers), any_one.delta * len(ledgers)
        if math.isfinite(added) and of_all < 1:
            return added, of_all
    return together, delta


def _worst(learners: Sequence[Sequence[Ledger]]) -> Counter[dp.DpEvent]:
    """For each event, the largest count of any person, over the models of one seed, by learner."""
    ledgers = [ledger for group in learners for ledger in group]
    merged = Ledger(ledgers[0].delta, ledgers[0].adjacency, ledgers[0].recurrence)
    merged.entries += [entry for ledger in ledgers for entry in ledger.entries if not entry.shares_batches]
    for group in learners:
        # A model without any, such as one whose plan has no bound, is among the others.
        trainings = ([entry for entry in ledger.entries if entry.shares_batches] for ledger in group)
        shared = [entries for entries in trainings if entries]
        if len({len(entries) for entries in shared}) > 1:
            raise Unaccountable("models trained on the same batches must have as many trainings")
        for same in zip(*shared, strict=True):
            event, first = joint_training([entry.event for entry in same]), same[0]
            merged.spend(event, task=first.task, what=first.what, people_of=first.people_of)
    worst: Counter[dp.DpEvent] = Counter()
    for events in merged.events_by_people().values():
        worst |= Counter(events)
    return worst


def joint_training(events: Iterable[dp.DpEvent]) -> dp.DpEvent:
    """One event for trainings with different noise on the same Poisson batches.

    In each step the models' clipped sums, each divided by its noise sigma_e, are one vector with noise of standard
    deviation 1, and a person in the batch moves it by at most sqrt(sum of 1/sigma_e^2): a sampled Gaussian whose noise
    multiplier is the inverse of that. Models may depend on one another's earlier steps: composition is adaptive.
    """
    trainings = [_as_training(event) for event in events]
    if any(one is None for one in trainings):
        return dp.NonPrivateDpEvent()
    noisy = [one for one in trainings if one is not None]
    (rate, count), *others = {(rate, count) for rate, _, count in noisy}
    if others:
        raise Unaccountable("trainings on the same batches must have the same steps")
    sigma = 1 / math.sqrt(sum(sigma**-2 for _, sigma, _ in noisy))
    return dp.SelfComposedDpEvent(accounting.gaussian_step(sigma, rate), count)


def _as_training(event: dp.DpEvent) -> tuple[float, float, int] | None:
    """Sampling rate, noise multiplier and steps of a training; None for one without noise."""
    match event:
        case dp.NonPrivateDpEvent():
            return None
        case dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), count):
            return rate, sigma, count
        case dp.SelfComposedDpEvent(dp.GaussianDpEvent(sigma), count):
            return 1.0, sigma, count
    raise Unaccountable(f"nothing is known of other trainings on the batches of {event}")


# What no attack on a ledger exceeds: trade-off of false alarms and hits, from the privacy loss distribution.
#
# Epsilon at one delta allows more than most mechanisms reveal. The whole curve delta(epsilon) bounds every test of "took
# part" against "did not". Of Gaussian steps it is exact, and some test attains the bound; of a learned list of labels and of
# local copies only an (epsilon, delta) is known, and none may. At a false alarm rate a, its hit rate is at most the minimum,
# over epsilon, of a e^epsilon + delta(epsilon) and of 1 - e^-epsilon (1 - a - delta(epsilon)) (Dong, Roth and Su 2022,
# Proposition 6).


RARE = 1e-3  # the false alarm rate at which hits are reported
# Beyond ln(1 / RARE) the first of the two bounds is 1. Each point bounds the hits, so a finer grid only lowers the bound:
# it is worth its time only around the lowest point of the coarse grid.
_EPSILONS, _FINER = np.linspace(0.0, np.log(1 / RARE), 41), 50


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Bounds on the best attack: `advantage`, hit rate minus false alarm rate; `hits`, hit rate at false alarms `RARE`."""

    advantage: float
    hits: float


def best_attack(ledger: Ledger) -> TradeOff | None:
    """Bounds for the people with the largest loss; None where there is no bound, and where a person has several
    rows: only the epsilon of a group is computed. Raises Unaccountable."""
    if ledger.rows_per_unit > 1:
        return None
    groups = {tuple(sorted(events, key=repr)) for events in ledger.events_by_people().values()}
    if any(isinstance(event, dp.NonPrivateDpEvent) for events in groups for event in events):
        return None
    best = [best_attack_on(events, ledger.delta, ledger.adjacency) for events in groups]
    return TradeOff(max((one.advantage for one in best), default=0.0), max((one.hits for one in best), default=RARE))


def best_attack_on(events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> TradeOff:
    """Bounds for a person who is in all these events. Raises Unaccountable."""
    return _trade_off(tuple(sorted(events, key=repr)), delta, adjacency)


@lru_cache(maxsize=512)
def _trade_off(events: tuple[dp.DpEvent, ...], delta: float, adjacency: Adjacency) -> TradeOff:
    (advantage,) = accounting.deltas(events, [0.0], adjacency, delta=delta)

    def hits(at: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = accounting.deltas(events, at.tolist(), adjacency, delta=delta)
        return np.minimum(RARE * np.exp(at) + excess, 1 - np.exp(-at) * (1 - RARE - excess))

    coarse = hits(_EPSILONS)
    lowest, step = _EPSILONS[coarse.argmin()], _EPSILONS[1]
    around = np.linspace(max(0.0, lowest - step), lowest + step, 2 * _FINER + 1)
    return TradeOff(float(advantage), float(min(1.0, coarse.min(), hits(around).min())))
