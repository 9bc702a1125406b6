"""Privacy odometer of DP-A-GEM: the public replay schedule and each person's total privacy cost, replays included.

Everything here is public arithmetic, done before any example is read. Proof of the costs (a person is one example of one
task; "add-remove"):

1. A step on the current task. Every example is in the batch with chance `sample_rate`, by an independent secret coin. One
   more example changes the sum of clipped gradients by at most C, for any weights, and the noise has standard deviation zC
   on every coordinate. That is a Poisson-sampled Gaussian of noise multiplier z. A step starts from weights that are earlier
   outputs: composition is adaptive.
2. A replay. An example is kept when its task ends, by one coin tossed once. Fix all these coins, the same ones for both
   neighbouring datasets (the added example has its own). If the example is kept, each use of its sample tosses a fresh
   secret coin for it, of chance `replay_rate`: again a Poisson-sampled Gaussian with multiplier z. If it is not kept, it is
   not read. A bound that holds for every outcome of the coins holds for their mixture, as hockey-stick divergences are
   jointly convex. The proved cost is therefore that of kept examples, even if their identities were published; the chance
   of not being kept is not credited. (Counting a use as sampled with chance `kept` times `replay_rate` would be wrong: one
   coin decides about all uses, which are then not independent.)
3. A use of task i's sample reads only task i's people, and a step's number alone determines which sample it uses. A
   person's events are therefore the steps of their task and the uses of one sample, counted exactly; where one person can
   be in every task, all steps and all uses of all samples.
4. The gradient and its reference are two releases with independent noise; division by public numbers, the projection and
   the step are post-processing of the two.

Under "replace" the coins belong to positions in the data, and the accountant doubles the sensitivity.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpcl_core.privacy import accounting
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.noise import Steps
from dpcl_core.spec import PrivacySpec, Recurrence

Budget = Literal["lifetime", "per-task", "fixed"]
ReplaySchedule = tuple[tuple[int | None, ...], ...]  # per task and step, the task whose sample is replayed; None: none


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise multipliers of steps and of their replays, in the first task and in each later one; 0: none."""

    first: float
    later: float

    def of(self, task: int) -> float:
        return self.first if task == 0 else self.later


@dataclass(frozen=True, slots=True)
class Plan:
    """Public numbers of a stream and its training. `n_steps`: per task; `replays`: whether samples are replayed at all.

    `budget`: what a run's epsilon is for; `noise_multiplier`: that of the "fixed" one.
    """

    n_tasks: int
    n_steps: int
    sample_rate: float
    replay_rate: float
    replays: bool
    recurrence: Recurrence
    privacy: PrivacySpec
    budget: Budget = "lifetime"
    noise_multiplier: float | None = None

    def own_steps(self, task: int, noises: Noises) -> Steps:
        """A task's steps on its own examples."""
        return Steps(self.n_steps, (self.sample_rate,), noises.of(task))

    def uses(self, task: int, noises: Noises, n_uses: int) -> Steps:
        """`n_uses` uses of one sample while `task` is learned."""
        return Steps(n_uses, (self.replay_rate,), noises.of(task))

    def steps_of(self, person: int, noises: Noises, n_uses: int) -> list[Steps]:
        """All steps that may read a person of task `person` whose sample is used `n_uses` times; see `replay_schedule`.

        Where one person can be in every task: all steps of any person, with `n_uses` uses of all samples together.
        """
        tasks = range(self.n_tasks) if self.recurrence == "every" else (person,)
        steps = [self.own_steps(task, noises) for task in tasks]
        return [*steps, self.uses(1, noises, n_uses)] if n_uses else steps  # the first task replays nothing

    def epsilon(self, steps: Sequence[Steps]) -> float:
        """Epsilon of these steps at the run's delta and adjacency."""
        return accounting.Pld().epsilon(_events(steps), self.privacy.delta, self.privacy.adjacency)


def replay_schedule(plan: Plan, most: Sequence[float] | None = None) -> ReplaySchedule:
    """The sample each step replays: all earlier tasks in rotation, newest first, so that newer samples get extra uses.

    `most`: number of uses after which each sample is retired (None: never); where one person can be in every task, the
    number of uses of all samples together.
    """
    left = [math.inf] * plan.n_tasks if most is None else list(most)
    schedule: list[tuple[int | None, ...]] = []
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
            place += left[sample] > 0  # a retired sample's position passes to the next
        schedule.append(tuple(chosen))
    return tuple(schedule)


def n_uses(plan: Plan, schedule: ReplaySchedule, person: int) -> int:
    """Number of uses of the sample that may hold a person of task `person`; of all samples, where it may be in each."""
    counts = Counter(sample for chosen in schedule for sample in chosen if sample is not None)
    return counts.total() if plan.recurrence == "every" else counts[person]


def noises(plan: Plan, epsilon: float) -> Noises:
    """The noise multipliers for a budget.

    "lifetime": one multiplier, the smallest at which the worst-off person's events stay within (epsilon, delta).
    "per-task": NaiveGaussian's split (Lai et al., section 3). Each of the m tasks may spend epsilon/m and delta/m on its
    gradients and references together, which is epsilon and delta in total for every person by basic composition.
    "fixed": as given. An infinite epsilon gives no noise.
    """
    if math.isinf(epsilon):
        return Noises(0.0, 0.0)
    if plan.budget == "fixed":
        assert plan.noise_multiplier is not None
        return Noises(plan.noise_multiplier, plan.noise_multiplier)
    delta, adjacency = plan.privacy.delta, plan.privacy.adjacency
    if plan.budget == "per-task":
        share = epsilon / plan.n_tasks, delta / plan.n_tasks

        def task(value: float, replays: bool) -> list[dp.DpEvent]:
            noise = Noises(value, value)
            return _events([plan.own_steps(1, noise), *([plan.uses(1, noise, plan.n_steps)] if replays else [])])

        first = accounting.calibrated(lambda value: task(value, False), *share, adjacency)
        if not plan.replays or plan.n_tasks == 1:
            return Noises(first, first)
        return Noises(first, accounting.calibrated(lambda value: task(value, True), *share, adjacency))
    uncapped = replay_schedule(plan)
    most = max(n_uses(plan, uncapped, person) for person in range(plan.n_tasks))
    everything = accounting.calibrated(
        lambda value: _events(plan.steps_of(0, Noises(value, value), most)), epsilon, delta, adjacency
    )
    return Noises(everything, everything)


def capped_schedule(plan: Plan, noises: Noises, cap: float | None) -> ReplaySchedule:
    """The schedule in which every sample retires before the use that would take its people's total epsilon above `cap`.

    The total counts all steps on a person's own data, including later ones where one person can be in every task: replays
    then never push a total above the cap that the steps alone would keep. None: no sample retires. Without noise none
    retires either, since no cap could be kept.
    """
    if cap is None or noises.later == 0:
        return replay_schedule(plan)
    return replay_schedule(plan, [_max_uses(plan, noises, person, cap) for person in range(plan.n_tasks)])


def _max_uses(plan: Plan, noises: Noises, person: int, cap: float) -> int:
    """The largest number of uses, at most one per later step, within the cap. Epsilon never falls with more uses."""
    later_tasks = plan.n_tasks - 1 - (person if plan.recurrence == "once" else 0)
    all_steps = later_tasks * plan.n_steps

    def spent(uses: int) -> float:
        return plan.epsilon(plan.steps_of(person, noises, uses))

    if spent(all_steps) <= cap:
        return all_steps
    return max(0, bisect_right(range(all_steps), cap, key=spent) - 1)  # 0 also where the steps alone exceed the cap


def worst_epsilon(plan: Plan, noises: Noises, schedule: ReplaySchedule) -> float:
    """Total epsilon of the worst-off person over the whole run."""
    distinct = {(noises.of(person), n_uses(plan, schedule, person)): person for person in range(plan.n_tasks)}
    return max(plan.epsilon(plan.steps_of(person, noises, uses)) for (_, uses), person in distinct.items())


def _events(steps: Sequence[Steps]) -> list[dp.DpEvent]:
    return [accounting.of_steps(one) for one in steps]
