"""What a life with replays costs each person: which stored sample is used when, how often, and what that adds up to.

Everything here is public arithmetic, known before any example is read. Why the sums are right (a person is one example of
one task; "add-remove"):

1. A step on the task being learned. Every example is in the batch with chance `sample_rate`, by a secret coin of its own;
   one more example changes the sum of clipped gradients by at most C, whatever the weights, and the noise has standard
   deviation zC on every coordinate. That is a Poisson-sampled Gaussian of noise multiplier z. The weights it starts from
   are earlier outputs: composition is adaptive.
2. A replay. An example is kept when its task ends, by one coin tossed once. Fix all these coins, the same ones for both
   neighbouring datasets (the added example brings its own). If it is kept, each use of its sample tosses a fresh secret coin
   for it, of chance `replay_rate`: again a Poisson-sampled Gaussian with multiplier z. If it is not kept, it is not read.
   A bound that holds for every outcome of the coins holds for their mixture, as hockey-stick divergences are jointly convex.
   So what is proved is what those who are kept pay, even if it were published who they are; the chance of not being kept is
   not credited. (To count a use as sampled with chance `kept` times `replay_rate` would be wrong: being kept is decided once
   for all uses, which are then not independent.)
3. A use of task i's sample reads task i's people and nobody else, and which sample a step uses follows from its number
   alone. So a person's life is the own task's steps and the uses of one sample, counted exactly; where one person can be in
   every task, all steps and all uses of all samples.
4. The gradient and its reference are two releases with noise of their own; their division by public numbers, the projection
   and the step are computed from the two.

Under "replace" the coins belong to the place in the data, and the accountant doubles the sensitivity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.privacy import accounting
from dpcl_core.spec import PrivacySpec, Recurrence

Turns = tuple[tuple[int | None, ...], ...]  # for every task and step, the task whose sample is used; None: none


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise multipliers of the steps, and of the replays during them, in the first task and in each later one. 0: none."""

    first: float
    later: float

    def of(self, task: int) -> float:
        return self.first if task == 0 else self.later


@dataclass(frozen=True, slots=True)
class Plan:
    """Public numbers of a stream and of its training. `n_steps`: in every task; replays happen only where `replays`."""

    n_tasks: int
    n_steps: int
    sample_rate: float
    replay_rate: float
    replays: bool
    recurrence: Recurrence
    privacy: PrivacySpec

    def own(self, task: int, noises: Noises) -> dp.DpEvent:
        """The steps of a task on its own examples."""
        return _event(noises.of(task), self.sample_rate, self.n_steps)

    def uses(self, task: int, noises: Noises, n_uses: int) -> dp.DpEvent:
        """So many uses of one sample while `task` is learned."""
        return _event(noises.of(task), self.replay_rate, n_uses)

    def life(self, person: int, noises: Noises, n_uses: int) -> list[dp.DpEvent]:
        """All that happens to someone of task `person` whose sample is used `n_uses` times in all; see `turns`.

        Where one person can be in every task: to anyone, with so many uses of all samples together.
        """
        tasks = range(self.n_tasks) if self.recurrence == "every" else (person,)
        found = [self.own(task, noises) for task in tasks]
        return [*found, self.uses(1, noises, n_uses)] if n_uses else found  # in the first task nothing is replayed

    def epsilon(self, events: Sequence[dp.DpEvent]) -> float:
        """What they add up to."""
        return accounting.Pld().epsilon(events, self.privacy.delta, self.privacy.adjacency)


def plan(params: DpAgemParams, privacy: PrivacySpec, n_tasks: int, recurrence: Recurrence) -> Plan:
    """The plan that a run's settings come to."""
    replays = params.projection != "never"
    return Plan(n_tasks, params.n_steps, params.sample_rate, params.replay_rate, replays, recurrence, privacy)


def turns(plan: Plan, most: Sequence[float] | None = None) -> Turns:
    """Which sample each step uses: those of all earlier tasks in turn, the newest first, so that left-over uses are young.

    `most`: after how many uses each sample is retired (None: never); where one person can be in every task, it is the
    number of uses of all samples together.
    """
    left = [math.inf] * plan.n_tasks if most is None else list(most)
    found: list[tuple[int | None, ...]] = []
    for task in range(plan.n_tasks):
        chosen: list[int | None] = []
        alive = list(range(task - 1, -1, -1)) if plan.replays else []
        place = 0
        while len(chosen) < plan.n_steps:
            alive = [sample for sample in alive if left[sample] > 0]
            if not alive:
                chosen.append(None)
                continue
            place %= len(alive)
            sample = alive[place]
            chosen.append(sample)
            for charged in range(plan.n_tasks) if plan.recurrence == "every" else (sample,):
                left[charged] -= 1
            place += left[sample] > 0  # a sample that retires leaves its place to the next
        found.append(tuple(chosen))
    return tuple(found)


def n_uses(plan: Plan, turns: Turns, person: int) -> int:
    """How often the sample that someone of task `person` may be in is used; all samples where he may be in each."""
    counts = Counter(sample for chosen in turns for sample in chosen if sample is not None)
    return counts.total() if plan.recurrence == "every" else counts[person]


def noises(params: DpAgemParams, plan: Plan, epsilon: float) -> Noises:
    """The noise of a budget.

    "lifetime": one multiplier, the smallest with which the worst-off person's whole life stays within (epsilon, delta).
    "per-task": as NaiveGaussian splits it (Lai et al., section 3). Each of the m tasks may spend epsilon/m and delta/m on
    its gradients and their references together, which add up to epsilon and delta for anyone by basic composition.
    "fixed": as given. An infinite epsilon has no noise.
    """
    if math.isinf(epsilon):
        return Noises(0.0, 0.0)
    if params.budget == "fixed":
        assert params.noise_multiplier is not None
        return Noises(params.noise_multiplier, params.noise_multiplier)
    delta, adjacency = plan.privacy.delta, plan.privacy.adjacency
    if params.budget == "per-task":
        share = epsilon / plan.n_tasks, delta / plan.n_tasks

        def task(value: float, replays: bool) -> list[dp.DpEvent]:
            of_references = [_event(value, plan.replay_rate, plan.n_steps)] if replays else []
            return [_event(value, plan.sample_rate, plan.n_steps), *of_references]

        first = accounting.calibrated(lambda value: task(value, False), *share, adjacency)
        if not plan.replays or plan.n_tasks == 1:
            return Noises(first, first)
        return Noises(first, accounting.calibrated(lambda value: task(value, True), *share, adjacency))
    every_turn = turns(plan)
    most = max(n_uses(plan, every_turn, person) for person in range(plan.n_tasks))
    value = accounting.calibrated(lambda value: plan.life(0, Noises(value, value), most), epsilon, delta, adjacency)
    return Noises(value, value)


def within(plan: Plan, noises: Noises, cap: float | None) -> Turns:
    """The turns with every sample retired before the use that would bring its people's whole life above `cap`.

    A whole life counts all steps on own data from the beginning, those still to come as well, where one person can be in
    every task: replays then never push a total above the cap that steps alone would have kept. None: no sample retires; nor
    where there is no noise, and no cap that could be kept.
    """
    if cap is None or noises.later == 0:
        return turns(plan)
    return turns(plan, [_most(plan, noises, person, cap) for person in range(plan.n_tasks)])


def _most(plan: Plan, noises: Noises, person: int, cap: float) -> int:
    """The largest number of uses, of all steps there are, that keeps a life within the cap. More uses never cost less."""
    later_tasks = plan.n_tasks - 1 - (person if plan.recurrence == "once" else 0)
    all_steps = later_tasks * plan.n_steps
    if plan.epsilon(plan.life(person, noises, all_steps)) <= cap:
        return all_steps
    kept, above = -1, all_steps  # -1: not even the steps alone
    while above - kept > 1:
        middle = (kept + above) // 2
        if plan.epsilon(plan.life(person, noises, middle)) <= cap:
            kept = middle
        else:
            above = middle
    return max(0, kept)


def worst(plan: Plan, noises: Noises, turns: Turns) -> float:
    """Epsilon of the whole life of the worst-off person."""
    lives = {(noises.of(person), n_uses(plan, turns, person)): person for person in range(plan.n_tasks)}
    return max(plan.epsilon(plan.life(person, noises, uses)) for (_, uses), person in lives.items())


def _event(noise_multiplier: float, rate: float, count: int) -> dp.DpEvent:
    if noise_multiplier == 0:
        return dp.NonPrivateDpEvent()
    return accounting.subsampled_gaussian(noise_multiplier, rate, count)
