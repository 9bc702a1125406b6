"""Joint privacy cost of all models of a run: each has its own ledger, and an attacker may see them all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import dp_accounting as dp

from dpcl_core.privacy.accounting import Unaccountable, gaussian_step, has_lists
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Cell


def joint_release(learners: Iterable[Mapping[Cell, Ledger]]) -> tuple[float, float]:
    """(epsilon, delta) of the release of all models of these learners, for any one person.

    Models of one learner and seed that were trained on the same batches are one training with several noises (see `joint`);
    all others compose in sequence: each learner draws its own batches and noise. Another seed may put a person into another
    task, so each seed counts, for every kind of entry, the largest number that any of its people has. Each list of labels
    costs a delta of its own, so with lists delta is the sum of the models' deltas. Where that sum has no bound (a person of
    many rows, `privacy.group`), the models' own bounds add up, epsilons and deltas, unless some share batches: such models
    are not independent.
    """
    groups = list(learners)
    ledgers = [ledger for group in groups for ledger in group.values()]
    any_one, events = ledgers[0], Counter[dp.DpEvent]()
    for seed in sorted({cell.seed for group in groups for cell in group}):
        events += _worst([[ledger for cell, ledger in group.items() if cell.seed == seed] for group in groups])
    delta = any_one.delta
    if has_lists(events):
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
            merged.spend(
                joint([entry.event for entry in same]), task=same[0].task, what=same[0].what, people_of=same[0].people_of
            )
    worst: Counter[dp.DpEvent] = Counter()
    for events in merged.events_by_people().values():
        worst |= Counter(events)
    return worst


def joint(events: Iterable[dp.DpEvent]) -> dp.DpEvent:
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
    return dp.SelfComposedDpEvent(gaussian_step(1 / math.sqrt(sum(sigma**-2 for _, sigma, _ in noisy)), rate), count)


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
