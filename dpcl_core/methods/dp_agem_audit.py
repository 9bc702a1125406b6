"""An attack on DP-A-GEM: a whole life with replays, played out through its own coins, clipping and noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.methods.cards.dp_agem_params import DpAgemParams
from dpcl_core.methods.dp_agem import schedule
from dpcl_core.methods.facts import Facts
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong.per_example import clip_weights
from dpcl_core.methods.noisy_means import noisy_means
from dpcl_core.methods.schedule import Schedule
from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

_MOST_STEPS = 20_000  # of a longer life the rest is not attacked: a weaker attack, in seconds
_ADVERSARY = (
    "sees every noisy gradient and reference, knows all other examples and their coins, and that the example in question is "
    "kept; its gradient is as long as clipping lets it be, at a right angle to all others"
)


@dataclass(frozen=True, slots=True)
class _Phase:
    """So many equal steps that read the person's task."""

    plan: Schedule
    noise_multiplier: float
    count: int


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: is the worst-off person's example in the data, or not?

    The neighbours: one example more or less; under "replace" one whose gradient is turned round. The attacker adds up the
    logarithms of the likelihood ratios of all steps and replays that may have read it, the most powerful test for known
    coins of all others. Args: trials: lives on each side.
    """
    assert isinstance(spec.params, DpAgemParams)
    found = datasets.facts(spec.data.dataset, spec.data.train_per_class, spec.data.test_per_class)
    n_tasks = scenarios.check(spec.scenario, found.n_classes, found.sources)
    facts = Facts(found.n_train, n_tasks, found.n_classes, spec.scenario.recurrence)
    return [_attacked(spec, spec.params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, params: DpAgemParams, facts: Facts, epsilon: float, trials: int) -> Audited:
    plan = odometer.plan(params, spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(params, plan, epsilon)
    turns = odometer.within(plan, noises, params.memory_epsilon_cap)
    person = max(
        range(facts.n_tasks), key=lambda task: plan.epsilon(plan.life(task, noises, odometer.n_uses(plan, turns, task)))
    )
    n_uses = odometer.n_uses(plan, turns, person)
    tasks = range(facts.n_tasks) if facts.recurrence == "every" else (person,)
    own, replay = (schedule(params, facts.task_size, is_replay=is_replay) for is_replay in (False, True))
    life = [_Phase(own, noises.of(task), own.n_steps) for task in tasks]
    life.append(_Phase(replay, noises.later, n_uses))
    turned = spec.privacy.adjacency == "replace"
    return Audited(
        claimed=epsilon,
        accounted=plan.epsilon(plan.life(person, noises, n_uses)),
        lower_bound=lower_bound(
            _scores(life, 1.0, turned, trials), _scores(life, -1.0 * turned, turned, trials), spec.privacy.delta
        ),
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="likelihood ratio of all steps and replays together",
        adversary=_ADVERSARY,
    )


def _scores(life: list[_Phase], sign: float, turned: bool, trials: int) -> NDArray[np.float64]:
    """How strongly each of so many lives speaks for the person, whose gradient points `sign` of the way (0: nobody's).

    One coordinate of a vector is one life: coins and noise of coordinates are independent.
    """
    scores = np.zeros(trials)
    for phase in _steps(life):
        plan, sigma = phase.plan, phase.noise_multiplier
        gradient = torch.tensor([100 * plan.clip_norm])
        clipped = gradient * clip_weights(gradient, plan.clip_norm) if sigma > 0 else gradient
        sums = torch.zeros(trials)
        sums[Batches(plan.sample_rate, None).draw(trials)] = sign * clipped
        (means,) = noisy_means([sums], plan.expected_batch, plan.noise_std(sigma), ReleaseNoise())
        seen = means.numpy().astype(np.float64) * plan.expected_batch / plan.clip_norm
        if sigma == 0:
            scores += seen
            continue
        scores += _log_odds(seen, 1.0, plan.sample_rate, sigma)
        if turned:
            scores -= _log_odds(seen, -1.0, plan.sample_rate, sigma)
    return scores


def _steps(life: list[_Phase]) -> Iterator[_Phase]:
    """One phase for every step, of every kind its share where there are too many."""
    share = min(1.0, _MOST_STEPS / max(1, sum(phase.count for phase in life)))
    for phase in life:
        for _ in range(int(phase.count * share)):
            yield phase


def _log_odds(seen: NDArray[np.float64], shift: float, rate: float, sigma: float) -> NDArray[np.float64]:
    """Logarithm of the density with the example, in the batch with chance `rate`, over the density without."""
    shifted = (2 * shift * seen - shift**2) / (2 * sigma**2)
    odds: NDArray[np.float64] = np.logaddexp(np.log1p(-rate), np.log(rate) + shifted) if rate < 1 else shifted
    return odds
