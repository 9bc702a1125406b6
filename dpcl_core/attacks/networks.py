"""Membership attacks on networks trained by DP-A-GEM: many examples with distinct labels at once, and a real digit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released, digits
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.dpsgd import PublicSizes, Schedule, of_spec
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.per_example_gradients import Gradients, clip_weights, noisy_means
from dpcl_core.methods.lifelong import nets, odometer
from dpcl_core.methods.lifelong.dp_agem import DpAgemParams
from dpcl_core.privacy.audit_bounds import Audited, lower_bound
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import RunSpec

# Membership-inference score for DP-SGD: log-likelihood ratio over all noisy steps under Poisson sampling.


_MOST_STEPS = 20_000  # further steps are not attacked: a weaker attack, but one that takes seconds


@dataclass(frozen=True, slots=True)
class StepGroup:
    """`count` equal steps that may read the target example."""

    plan: Schedule
    noise_multiplier: float
    count: int


def scores(trace: Sequence[StepGroup], sign: float, is_replaced: bool, trials: int) -> NDArray[np.float64]:
    """Log-likelihood-ratio scores [trials] of simulated trainings with the target present (`sign` = ±1) or absent (0).

    Sums the log-likelihood ratios of all steps: the most powerful test if all other examples and their coins are known. The
    target's gradient has the clipping norm and direction `sign`. `is_replaced`: the neighbour has the opposite gradient,
    instead of none. One coordinate of a vector simulates one training: coins and noise of coordinates are independent.
    """
    ratios = np.zeros(trials)
    for group in _steps(trace):
        plan, sigma = group.plan, group.noise_multiplier
        gradient = torch.tensor([100 * plan.clip_norm])
        clipped = gradient * clip_weights(gradient, plan.clip_norm) if sigma > 0 else gradient
        sums = torch.zeros(trials)
        sums[Batches(plan.sample_rate, None).draw(trials)] = sign * clipped
        (means,) = noisy_means([sums], plan.expected_batch, plan.noise_std(sigma), ReleaseNoise())
        seen = means.numpy().astype(np.float64) * plan.expected_batch / plan.clip_norm
        if sigma == 0:
            ratios += seen
            continue
        ratios += _log_odds(seen, 1.0, plan.sample_rate, sigma)
        if is_replaced:
            ratios -= _log_odds(seen, -1.0, plan.sample_rate, sigma)
    return ratios


def _steps(trace: Sequence[StepGroup]) -> Iterator[StepGroup]:
    """The group of every step; beyond `_MOST_STEPS` steps, an equal share of each group."""
    share = min(1.0, _MOST_STEPS / max(1, sum(group.count for group in trace)))
    for group in trace:
        for _ in range(int(group.count * share)):
            yield group


def _log_odds(seen: NDArray[np.float64], shift: float, rate: float, sigma: float) -> NDArray[np.float64]:
    """Log of the density with the example, which is in the batch with probability `rate`, over the density without."""
    shifted = (2 * shift * seen - shift**2) / (2 * sigma**2)
    odds: NDArray[np.float64] = np.logaddexp(np.log1p(-rate), np.log(rate) + shifted) if rate < 1 else shifted
    return odds


# Attack on DP-A-GEM: simulates all steps and replays that may read one example, with the method's own mechanisms.


_DP_AGEM_ADVERSARY = (
    "sees every noisy gradient and reference, knows all other examples and their coins, and that the example in question is "
    "kept; its gradient is as long as clipping lets it be, at a right angle to all others"
)


def dp_agem_audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One membership attack per budget of the spec, on the worst-off person's example.

    The neighbours: one example more or less; under "replace" one with the opposite gradient. The attacker sums the
    log-likelihood ratios of all steps and replays that may have read it, the most powerful test if all other examples and
    their coins are known. Args: trials: simulated trainings on each side.
    """
    assert isinstance(spec.params, DpAgemParams)
    facts = of_spec(spec)
    return [_attacked(spec, spec.params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, params: DpAgemParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    plan = params.plan(spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(plan, epsilon)
    turns = odometer.capped_schedule(plan, noises, params.memory_epsilon_cap)
    person = max(
        range(facts.n_tasks), key=lambda task: plan.epsilon(plan.steps_of(task, noises, odometer.n_uses(plan, turns, task)))
    )
    n_uses = odometer.n_uses(plan, turns, person)
    tasks = range(facts.n_tasks) if facts.recurrence == "every" else (person,)
    training, replay = (params.schedule(facts.task_size, is_replay=is_replay) for is_replay in (False, True))
    trace = [StepGroup(training, noises.of(task), training.n_steps) for task in tasks]
    trace.append(StepGroup(replay, noises.later, n_uses))
    is_replaced = spec.privacy.adjacency == "replace"
    return Audited(
        claimed=epsilon,
        accounted=plan.epsilon(plan.steps_of(person, noises, n_uses)),
        lower_bound=lower_bound(
            scores(trace, 1.0, is_replaced, trials),
            scores(trace, -1.0 * is_replaced, is_replaced, trials),
            spec.privacy.delta,
        ),
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="likelihood ratio of all steps and replays together",
        adversary=_DP_AGEM_ADVERSARY,
    )


ATTACKS = ("learner", "life")
TRIALS = 3200
_N_PERSONS = 64  # targets in one training, each with a label of its own
_MOST_NATURAL = 40  # trainings on each side with the digit in question: each has only one target
_N_CROWD = 20
_N_NOMINAL = 100_000  # public divisor of sums: large enough for the weights, and so the gradients, to hardly change
_FORM = Form((8, 8), 0.0, 1.0)  # digits encoded like sensor windows, for the smallest network
_ADVERSARY = (
    "sees the weights after the task, knows those before it, every other example and the example in question, which has a "
    "label of its own"
)
_OF_A_DIGIT = "sees the weights after the task, knows those before it, every other example and the digit in question"
_HOW = "how far the weights moved along the example's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case examples in one training, and on a real digit.

    The stream has one task, so that the whole budget is spent on it without replay. Examples with distinct labels have
    nearly orthogonal gradients, mostly in their own rows of the last layer, and all are clipped. So one training tests many
    persons, each of whom takes part by a coin of the audit; under "replace" a person who does not take part has another
    label instead. The attacker projects the change of the weights on the difference of the two clipped gradients at the
    initial weights. Args: trials: persons on each side.
    """
    return audited(spec, trials, ATTACKS[0])


def audited(spec: RunSpec, trials: int, attack: str) -> list[Audited]:
    """One of the `ATTACKS`: on the learner itself, or ("life") on all steps and replays through the mechanism alone."""
    if attack == "life":
        return dp_agem_audit(spec, trials)
    n_learners = math.ceil(trials / _N_PERSONS)
    results = []
    for epsilon in spec.privacy.epsilons:
        results.append(play.audited(spec, epsilon, n_learners, distinct_labels(spec)))
        results.append(play.audited(spec, epsilon, min(trials, _MOST_NATURAL), digit(spec)))
    return results


def half(seed: int) -> NDArray[np.bool_]:
    """Who takes part, bool [_N_PERSONS]: a random half, as a fixed number adds no variance to the scores."""
    drawn: NDArray[np.bool_] = generator(seed, "who takes part").permutation(np.arange(_N_PERSONS) % 2 == 0)
    return drawn


def distinct_labels(
    spec: RunSpec, n_persons: int = _N_PERSONS, takes_part: Callable[[int], NDArray[np.bool_]] = half
) -> Game:
    """A game with many persons of distinct labels. The two sides swap who takes part."""
    assert isinstance(spec.params, DpAgemParams)
    features = np.random.default_rng(0).standard_normal((n_persons, 64)) * 8 * max(1.0, spec.params.clip_norm)
    rows, labels = features.astype(np.float32), np.arange(n_persons, dtype=np.int64)
    changed, known = np.roll(labels, 1), _known(n_persons)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        targets = play.targets(rows, labels, changed, takes_part(seed) == side, spec)
        return play.tasks_of(targets, targets, known)

    def score(seed: int, seen: Released) -> Floats:
        along = _projections(spec, seed, seen, rows, labels, n_persons)
        if spec.privacy.adjacency == "replace":
            along = along - _projections(spec, seed, seen, rows, changed, n_persons)
        return along[:, None]

    return Game(known, tasks, score, f"{_HOW} (worst-case examples)", _ADVERSARY, takes_part=takes_part)


def digit(spec: RunSpec) -> Game:
    """A game on one real digit among others; under "replace" a digit of the next class takes its place."""
    pixels, classes = digits()
    n_classes = int(classes.max()) + 1
    known, crowd = _known(n_classes), Examples(pixels[1 : 1 + _N_CROWD], classes[1 : 1 + _N_CROWD])
    other = int(np.flatnonzero(classes == (classes[0] + 1) % n_classes)[-1])
    is_replaced = spec.privacy.adjacency == "replace"

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = [0] if side else [other] if is_replaced else []
        train = Examples(np.vstack([crowd.table, pixels[extra]]), np.append(crowd.labels, classes[extra]))
        return play.tasks_of(train, crowd, known)

    def score(seed: int, seen: Released) -> Floats:
        target, replacement = _projections(spec, seed, seen, pixels[[0, other]], classes[[0, other]], n_classes)
        return np.array([[target - replacement if is_replaced else target]])

    return Game(known, tasks, score, f"{_HOW} (a real digit)", _OF_A_DIGIT)


def _known(n_classes: int) -> PublicContext:
    public = tuple(range(n_classes))
    return PublicContext(n_inputs=64, n_classes=n_classes, public=public, n_people=_N_NOMINAL, n_tasks=1, form=_FORM)


def _projections(
    spec: RunSpec, seed: int, seen: Released, rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int
) -> Floats:
    """Initial minus released weights, projected on every example's clipped gradient at the initial weights [n]."""
    assert isinstance(spec.params, DpAgemParams)
    start = nets.build(_FORM, n_classes, seed)
    before = start.released()
    differences = [np.asarray(before[name], np.float64) - np.asarray(seen[0][name], np.float64) for name in before]
    change = torch.from_numpy(np.concatenate([part.ravel() for part in differences]))
    clipped, inputs, columns = Gradients(start, spec.params.clip_norm), nets.tensor(rows, _FORM), torch.arange(n_classes)
    gradients = (clipped.of(inputs[[place]], torch.tensor([label]), columns) for place, label in enumerate(labels))
    return np.array([float(torch.cat([part.flatten() for part in parts]).double() @ change) for parts in gradients])
