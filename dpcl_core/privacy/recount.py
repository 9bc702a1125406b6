"""Who is charged for what, written a second time: from a card's plain numbers to each person's events, and to every epsilon.

Nothing here uses the ledger, its groups of people or its joint release. A person is the set of tasks that hold an example of
theirs: one task where each is in one only, else all. An event reads some of these examples, at places in its `people_of`;
what these places have in it is the person's cost. The accountants are given these events and nothing else.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpcl_core.events import Mechanism, Spending, Written
from dpcl_core.privacy import accounting, budgets, statement
from dpcl_core.privacy.dp_events import dp
from dpcl_core.spec import Cell

Costs = Counter[dp.DpEvent]
_LEAST = 1e-13  # delta of a row


class Contradiction(ValueError):
    """Events that cannot all be true, whatever they add up to."""


@dataclass(frozen=True, slots=True)
class Recount:
    """Adds up events by one accountant, for a person with at most `ledger.rows_per_unit` rows."""

    accountant: budgets.Accountant
    delta: float
    ledger: Written

    def epsilon(self, costs: Costs, delta: float | None = None) -> float:
        """Epsilon of these events; of m rows m e, for the e at which each row has delta / (1 + exp(e) + ...)."""
        of_all, rows = self.delta if delta is None else delta, self.ledger.rows_per_unit
        events = [dp.SelfComposedDpEvent(event, count) for event, count in costs.items()]
        e = -1.0
        while True:  # from below: what a row needs grows with e, and e with what it needs
            at = of_all / math.fsum(math.exp(min(700.0, place * max(e, 0.0))) for place in range(rows))
            needed = self.accountant.epsilon(events, at, self.ledger.adjacency) if events and at >= _LEAST else 0.0
            needed = needed if at >= _LEAST else math.inf
            if rows == 1 or math.isinf(needed) or needed <= e * (1 + 1e-9) + 1e-12:
                return rows * needed
            e = needed

    def numbers(self, one: str | None, has_list: bool) -> dict[str, float]:
        """The total and all named parts. `one`: who may be in every task, None: nobody; `has_list`: lists are learned."""
        entries = self.ledger.entries
        found = {"epsilon": self._worst(entries)}
        for task in dict.fromkeys(entry.task for entry in entries if entry.task in entry.people_of):
            found[f"task {task + 1}"] = self.epsilon(costs([e for e in entries if e.task == task], {task}))
        if self.ledger.recurrence == "once" and any(entry.people_of != (entry.task,) for entry in entries):
            for task in _tasks(entries):
                found[f"people of task {task + 1}"] = self.epsilon(costs(entries, {task}))
        if any(entry.channels for entry in entries):
            for name, shown in statement.CHANNELS.items():
                alone = [replace(e, mechanism=e.channels[name]) for e in entries if name in e.channels]
                found[shown] = self._worst(alone)
            found[statement.TOTAL] = found["epsilon"]
        if has_list:
            # Of a person with one example in what the list was learned from, whichever task it is of.
            lists = [replace(e, people_of=(e.task,)) for e in entries if e.mechanism.kind in ("label-list", "no-bound")]
            found[statement.LISTS] = max((self.epsilon(costs(lists, {task})) for task in _tasks(lists)), default=0.0)
        if one is not None:
            found[f"the same {one} in every task"] = self.epsilon(costs(entries, set(_tasks(entries))))
        return found

    def _worst(self, entries: Sequence[Spending]) -> float:
        return max((self.epsilon(costs(entries, person)) for person in _persons(self.ledger, entries)), default=0.0)


def joint(
    learners: Iterable[Sequence[Cell]], models: Mapping[float, Written], delta: float, accountant: budgets.Accountant
) -> tuple[float, float]:
    """(epsilon, delta) of all models of these learners together; those of one learner and seed may have the same batches.

    Raises Contradiction where such models cannot have had the same batches.
    """
    groups = [list(learner) for learner in learners]
    cells = [cell for group in groups for cell in group]
    any_one, total = models[cells[0].epsilon], costs_of_all(groups, models)
    at = min(0.5, delta * len(cells)) if any(isinstance(event, accounting.LabelListDpEvent) for event in total) else delta
    epsilon, added = Recount(accountant, delta, any_one).epsilon(total, at), delta * len(cells)
    is_shared = any(entry.shares_batches for model in models.values() for entry in model.entries)
    if math.isinf(epsilon) and not is_shared and added < 1:
        of_each = {name: Recount(accountant, delta, model)._worst(model.entries) for name, model in models.items()}
        summed = math.fsum(of_each[cell.epsilon] for cell in cells)
        return (summed, added) if math.isfinite(summed) else (epsilon, at)
    return epsilon, at


def costs_of_all(learners: Sequence[Sequence[Cell]], models: Mapping[float, Written]) -> Costs:
    """What all models of these learners together cost a person: of each seed, for every event, the most of anybody.

    Another seed may put a person into another task. Raises Contradiction as `joint` does.
    """
    cells = [cell for group in learners for cell in group]
    total: Costs = Counter()
    for seed in {cell.seed for cell in cells}:
        entries: list[Spending] = []
        for group in learners:
            ledgers = [models[cell.epsilon] for cell in group if cell.seed == seed]
            entries += [entry for ledger in ledgers for entry in ledger.entries if not entry.shares_batches]
            entries += _in_one(ledgers)
        most: Costs = Counter()
        for person in _persons(models[cells[0].epsilon], entries):
            for event, count in costs(entries, person).items():
                most[event] = max(most[event], count)
        total += most
    return total


def exceeds(entered: Written, planned: Written) -> bool:
    """Whether somebody is charged for anything that was not planned, or for more of it; a plan without bound allows all."""

    def by_person(ledger: Written) -> dict[tuple[int, str], Counter[object]]:
        counts: dict[tuple[int, str], Counter[object]] = {}
        for entry in ledger.entries:
            for place, task in enumerate(entry.people_of):
                kind = entry.mechanism
                rates = kind.sample_rates if len(kind.sample_rates) < 2 else kind.sample_rates[place : place + 1]
                numbers = (kind.noise_multiplier, *rates, kind.epsilon, kind.delta)
                key = (entry.task, entry.shares_batches, *(f"{number:.9g}" for number in numbers if number is not None))
                counts.setdefault((task, kind.kind), Counter())[key] += entry.count * kind.steps
        return counts

    allowed, found = by_person(planned), by_person(entered)
    return any(
        (task, "no-bound") not in allowed and not counts <= allowed.get((task, kind), Counter())
        for (task, kind), counts in found.items()
        if kind != "nothing"
    )


def _in_one(ledgers: Sequence[Written]) -> list[Spending]:
    """Trainings on the same batches, one of every model, as one: precisions 1/sigma² add up."""
    all_models = ([e for e in ledger.entries if e.shares_batches for _ in range(e.count)] for ledger in ledgers)
    trainings = [entries for entries in all_models if entries]
    if len({len(one) for one in trainings}) > 1:
        raise Contradiction("models that share batches must have as many trainings")
    found = []
    for same in zip(*trainings, strict=True):
        first = same[0]
        if any(one.mechanism.kind == "no-bound" for one in same):
            found.append(replace(first, count=1, mechanism=Mechanism("no-bound")))
            continue
        if len({(e.task, e.people_of, e.mechanism.kind, e.mechanism.sample_rates, e.mechanism.steps) for e in same}) > 1:
            raise Contradiction("models that share batches must have the same steps on the same people")
        precision = math.fsum((one.mechanism.noise_multiplier or math.nan) ** -2 for one in same)
        found.append(replace(first, count=1, mechanism=replace(first.mechanism, noise_multiplier=precision**-0.5)))
    return found


def _persons(ledger: Written, entries: Sequence[Spending]) -> list[set[int]]:
    tasks = _tasks(entries)
    return ([set(tasks)] if tasks else []) if ledger.recurrence == "every" else [{task} for task in tasks]


def _tasks(entries: Sequence[Spending]) -> list[int]:
    return list(dict.fromkeys(task for entry in entries for task in entry.people_of))


def costs(entries: Iterable[Spending], person: set[int]) -> Costs:
    """What a person with an example in each of these tasks pays for."""
    costs: Costs = Counter()
    for entry in entries:
        places = [place for place, task in enumerate(entry.people_of) if task in person]
        if places:
            costs[_cost(entry.mechanism, places)] += entry.count * entry.mechanism.steps
    return costs


def _cost(one: Mechanism, places: Sequence[int]) -> dp.DpEvent:
    """One step of a mechanism for a person whose examples are at these places of it."""
    match one.kind:
        case "gaussian":
            sigma, rates = one.noise_multiplier or math.nan, one.sample_rates
            chances = tuple(rates[place] if len(rates) > 1 else rates[0] for place in places)
            if len(rates) == 1 == rates[0]:  # all examples at once, each moving the sum by as much
                return dp.GaussianDpEvent(sigma / len(places))
            if len(places) > 1:
                return accounting.SampledGroupDpEvent(sigma, chances)
            step = dp.GaussianDpEvent(sigma)
            return step if chances == (1.0,) else dp.PoissonSampledDpEvent(chances[0], step)
        case "label-list":
            # All of a person's examples may have one label: its count moves once for each, and deltas grow on the way.
            epsilon, n = one.epsilon or 0.0, len(places)
            grown = math.fsum((one.delta or 0.0) * math.exp(min(700.0, place * epsilon)) for place in range(n))
            return accounting.LabelListDpEvent(n * epsilon, grown) if grown < 1 else dp.NonPrivateDpEvent()
        case "local" if len(places) == 1:
            return accounting.LocalDpEvent(one.epsilon or 0.0)
        case "no-bound":
            return dp.NonPrivateDpEvent()
        case "nothing":
            return dp.NoOpDpEvent()
    raise accounting.Unaccountable(f"nothing is known of several examples of one person under {one.kind}")
