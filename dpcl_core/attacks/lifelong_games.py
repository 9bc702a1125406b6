"""Membership games on lifelong methods: networks trained by DP-A-GEM, the coefficient memory, and noise on every record."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import Floats, Game, Released, Seen, digits
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common import dpsgd
from dpcl_core.methods.common.method import PublicContext, PublicSizes, of_spec, settings_of
from dpcl_core.methods.common.per_example_gradients import Gradients, clip_weights, noisy_means
from dpcl_core.methods.lifelong import dp_agem, dp_coeff_memory, nets, odometer, quadratic
from dpcl_core.methods.lifelong.independent_laplace import IndependentLaplaceParams, check, randomiser
from dpcl_core.privacy import audit_bounds
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import RunSpec

N_LABELS = 512  # planted examples for a whole network, each with a label that no other example has
N_ONE_HOT = 1024  # features of the planted one-hot examples
N_RECORDS = 2000  # planted records, each noised by itself
_MOST_TASKS = 4  # most tasks that are played if an example is in each; the budget is for that many


def _n_tasks(spec: RunSpec, otherwise: int) -> int:
    """Number of tasks that are played: of permuted tasks few, else `otherwise`."""
    scenario = spec.scenario
    is_in_every = scenario.recurrence == "every"
    return min(scenario.tasks, _MOST_TASKS) if is_in_every and isinstance(scenario, Permuted) else otherwise


# DP-SGD through its mechanism: log-likelihood ratio over all noisy steps under Poisson sampling.


_MOST_STEPS = 20_000  # further steps are not attacked: a weaker attack, but one that takes seconds


@dataclass(frozen=True, slots=True)
class StepGroup:
    """`count` equal steps that may read the target example."""

    plan: dpsgd.Schedule
    noise_multiplier: float
    count: int


def step_scores(trace: Sequence[StepGroup], sign: float, is_replaced: bool, trials: int) -> Floats:
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


def _log_odds(seen: Floats, shift: float, rate: float, sigma: float) -> Floats:
    """Log of the density with the example, which is in the batch with probability `rate`, over the density without."""
    shifted = (2 * shift * seen - shift**2) / (2 * sigma**2)
    return np.logaddexp(np.log1p(-rate), np.log(rate) + shifted) if rate < 1 else shifted


def audit_of_life(spec: RunSpec, trials: int) -> list[audit_bounds.Audited]:
    """One membership attack per budget of the spec, on the worst-off person's example, through the mechanism alone.

    The neighbours: one example more or less; under "replace" one with the opposite gradient. The attacker sums the
    log-likelihood ratios of all steps and replays that may have read it, the most powerful test if all other examples and
    their coins are known. Args: trials: simulated trainings on each side.
    """
    facts, params = of_spec(spec), settings_of(spec, dp_agem.DpAgemParams)
    plan, is_replaced = params.plan(spec.privacy, facts.n_tasks, facts.recurrence), spec.privacy.adjacency == "replace"
    training, replay = (params.schedule(facts.task_size, is_replay=is_replay) for is_replay in (False, True))
    found = []
    for epsilon in spec.privacy.epsilons:
        noises = odometer.noises(plan, epsilon)
        turns = odometer.capped_schedule(plan, noises, params.memory_epsilon_cap)
        n_uses = [odometer.n_uses(plan, turns, task) for task in range(facts.n_tasks)]
        costs = [plan.epsilon(plan.steps_of(task, noises, n)) for task, n in enumerate(n_uses)]
        accounted = max(costs)
        person = costs.index(accounted)
        tasks = range(facts.n_tasks) if facts.recurrence == "every" else (person,)
        trace = [StepGroup(training, noises.of(task), training.n_steps) for task in tasks]
        trace.append(StepGroup(replay, noises.later, n_uses[person]))
        there, away = (step_scores(trace, sign, is_replaced, trials) for sign in (1.0, -1.0 * is_replaced))
        found.append(play.of_mechanism(
            epsilon, accounted, there, away, spec.privacy.delta, "likelihood ratio of all steps and replays together",
            "sees every noisy gradient and reference, knows all other examples and their coins, and that the example in "
            "question is kept; its gradient is as long as clipping lets it be, at a right angle to all others",
        ))  # fmt: skip
    return found


# DP-A-GEM through its learner: many examples with distinct labels at once, and a real digit.


_N_PERSONS = 64  # targets in one training, each with a label of its own
_MOST_NATURAL = 40  # trainings on each side with the digit in question: each has only one target
_N_CROWD = 20
_N_NOMINAL = 100_000  # public divisor of sums: large enough for the weights, and so the gradients, to hardly change
_FORM = Form((8, 8), 0.0, 1.0)  # digits encoded like sensor windows, for the smallest network
_HOW = "how far the weights moved along the example's gradient"


def random_half(seed: int) -> NDArray[np.bool_]:
    """Who takes part, bool [_N_PERSONS]: a random half, as a fixed number adds no variance to the scores."""
    return generator(seed, "who takes part").permutation(np.arange(_N_PERSONS) % 2 == 0)


def distinct_label_game(
    spec: RunSpec, epsilon: float, n_persons: int = _N_PERSONS, takes_part: Callable[[int], NDArray[np.bool_]] = random_half
) -> Game:
    """A game with many persons of distinct labels. The two sides swap who takes part.

    Where people recur, each is in every task, and the attacker adds up what the weights after each say. Elsewhere the stream
    has one task, so that the whole budget is spent on it: a replay only turns a noisy gradient, and `audit_of_life` attacks
    what it reads. Examples with distinct labels have
    nearly orthogonal gradients, mostly in their own rows of the last layer, and all are clipped. So one training tests many
    persons, each of whom takes part by a coin of the audit; under "replace" a person who does not take part has another
    label instead. The attacker projects the change of the weights on the difference of the two clipped gradients at the
    initial weights.
    """
    assert isinstance(spec.params, dp_agem.DpAgemParams)
    features = np.random.default_rng(0).standard_normal((n_persons, 64)) * 8 * max(1.0, spec.params.clip_norm)
    rows, labels = features.astype(np.float32), np.arange(n_persons, dtype=np.int64)
    own, instead, known = Examples(rows, labels), Examples(rows, np.roll(labels, 1)), _agem_context(spec, n_persons)

    def score(seed: int, seen: Released) -> Floats:
        along = _projections(spec, seed, seen, rows, labels, n_persons)
        if spec.privacy.adjacency == "replace":
            along = along - _projections(spec, seed, seen, rows, instead.labels, n_persons)
        return _with_total(along)

    return Game(
        spec, known, play.many_persons(spec, known, own, instead, takes_part), score, f"{_HOW} (worst-case examples)",
        "sees the weights after each task, knows those before it, every other example and the example in question, which "
        "has a label of its own", takes_part=takes_part,
    )  # fmt: skip


def real_digit_game(spec: RunSpec, epsilon: float) -> Game:
    """A game on one real digit among others; under "replace" a digit of the next class takes its place."""
    pixels, classes = digits()
    n_classes = int(classes.max()) + 1
    known, crowd = _agem_context(spec, n_classes), Examples(pixels[1 : 1 + _N_CROWD], classes[1 : 1 + _N_CROWD])
    other = int(np.flatnonzero(classes == (classes[0] + 1) % n_classes)[-1])
    pair = Examples(pixels[[0, other]], classes[[0, other]])

    def score(seed: int, seen: Released) -> Floats:
        target, replacement = _projections(spec, seed, seen, pixels[[0, other]], pair.labels, n_classes)
        return _with_total((target - replacement if spec.privacy.adjacency == "replace" else target)[None])

    return Game(
        spec, known, play.one_person(spec, known, crowd, pair), score, f"{_HOW} (a real digit)",
        "sees the weights after each task, knows those before it, every other example and the digit in question",
        most=_MOST_NATURAL,
    )  # fmt: skip


def planted_labels_game(spec: RunSpec, epsilon: float) -> Game:
    """The game of an audit of a network in one training, whose bound needs independent coins."""
    game = distinct_label_game(spec, epsilon, N_LABELS, partial(play.coins, n=N_LABELS))
    return replace(game, attack=f"{_HOW} (examples with labels of their own)")


def _agem_context(spec: RunSpec, n_classes: int) -> PublicContext:
    n_tasks = _n_tasks(spec, 1)
    n_people = _N_NOMINAL * (1 if spec.scenario.recurrence == "every" else n_tasks)
    known = play.context(spec, n_inputs=64, n_classes=n_classes, n_people=n_people, n_tasks=n_tasks)
    return replace(known, form=_FORM)


def _with_total(along: Floats) -> Floats:
    """Each task's evidence [n, tasks], and beside it the sum of several: their noises are independent, of one scale."""
    return np.column_stack([along, along.sum(axis=1)]) if along.shape[1] > 1 else along


def _projections(
    spec: RunSpec, seed: int, seen: Released, rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int
) -> Floats:
    """How far each task moved the weights along every example's clipped gradient at the initial weights [n, tasks]."""
    assert isinstance(spec.params, dp_agem.DpAgemParams)
    start = nets.build(_FORM, n_classes, seed)
    states = [
        np.concatenate([np.asarray(one[name], np.float64).ravel() for name in start.released()])
        for one in (start.released(), *seen)
    ]
    changes = torch.from_numpy(-np.diff(states, axis=0))
    clipped, inputs, columns = Gradients(start, spec.params.clip_norm), nets.tensor(rows, _FORM), torch.arange(n_classes)
    gradients = (clipped.of(inputs[[place]], torch.tensor([label]), columns) for place, label in enumerate(labels))
    return np.stack([(changes @ torch.cat([part.flatten() for part in parts]).double()).numpy() for parts in gradients])


# The coefficient memory: one example in the released sums.


_N_FEATURES = 8  # of examples' own values; the noise does not depend on the number of features
_CLASSES = (0, 1)
_SUMS_ADVERSARY = "sees the released sums of every task, knows every other example and the example in question"


def _on_few_features(spec: RunSpec, n_features: int) -> RunSpec:
    """The settings that are played: few features, and one step on the released sums."""
    params = replace(settings_of(spec, dp_coeff_memory.CoeffMemoryParams), steps=1, features=n_features, solution="steps")
    return replace(spec, params=params)


def sum_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The game on a worst-case example, or on a real digit.

    The neighbours are as far apart as possible: one example more or less; under "replace" one negated or, for features
    without negative values, replaced by an orthogonal one. The attacker projects the releases on the neighbours' difference,
    the most powerful test against Gaussian noise: the first task, all tasks together, and the first minus the second.
    Training steps read the released sums only, so one step suffices.
    """
    spec, own_values = _on_few_features(spec, _N_FEATURES), spec.data.backbone == "pixels"
    crowd, pair = _sum_examples(own_values=own_values, is_natural=is_natural)
    known = _sum_context(spec, crowd.table.shape[1], len(crowd) + 1)
    streams = play.one_person(spec, known, crowd, pair)

    @lru_cache(maxsize=1)
    def difference(seed: int) -> Floats:
        sums = []
        for side in (True, False):
            data = streams(seed, side)[0].train
            public = quadratic.RandomMap("relu", known.n_inputs, _N_FEATURES, seed) if own_values else None
            rows = unit_rows(data.inputs if public is None else public.of(data.inputs))
            by_class = np.stack([rows[data.labels == k].sum(axis=0) for k in _CLASSES])
            sums.append(_coordinates(rows.sum(axis=0), rows.T @ rows, by_class))
        return sums[0] - sums[1]

    def score(seed: int, seen: Released) -> Floats:
        after = [float(_coordinates(*_released_sums(one)) @ difference(seed)) for one in seen]
        return np.array([[after[0], sum(after), after[0] - after[1] if len(after) > 1 else 0.0]])

    attack = f"projection of the sums on the example's own ({'a real digit' if is_natural else 'a worst-case example'})"
    return Game(spec, known, streams, score, attack, _SUMS_ADVERSARY)


def one_hot_game(spec: RunSpec, epsilon: float) -> Game:
    """A game with many one-hot examples in one training, read off the sums of features, products and classes.

    Under "replace" an example of the other label takes the place of one that does not take part. If the learner computes
    random features of the values, these overlap: the attacker solves for all examples at once, by least squares.
    """
    spec = _on_few_features(spec, N_ONE_HOT)
    is_own, is_replaced = spec.data.backbone == "pixels", spec.privacy.adjacency == "replace"
    n_persons = N_ONE_HOT // 2 if is_replaced else N_ONE_HOT  # an axis for each person and each replacement
    axes, labels = np.eye(N_ONE_HOT, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    rows = axes[:n_persons], axes[-n_persons:]
    known, takes_part = _sum_context(spec, N_ONE_HOT, n_persons), partial(play.coins, n=n_persons)

    def score(seed: int, seen: Released) -> Floats:
        read = quadratic.RandomMap("relu", N_ONE_HOT, N_ONE_HOT, seed)
        one, other = (unit_rows(read.of(side) if is_own else side) for side in rows)
        overlap = _kernel(one, one, labels, labels)
        evidence = [_sum_projections(release, one, labels) for release in seen]
        if is_replaced:
            swapped, across = 1 - labels, _kernel(one, other, labels, 1 - labels)
            inner = _kernel(other, other, swapped, swapped)
            # Subtracts the sums of all replacements, which the attacker knows.
            evidence = [
                projection - _sum_projections(release, other, swapped) - (across - inner).sum(axis=1)
                for projection, release in zip(evidence, seen, strict=True)
            ]
            overlap = overlap - across - across.T + inner
        solved = np.linalg.solve(overlap, np.stack(evidence, axis=1))
        first, total = solved[:, 0], solved.sum(axis=1)
        return np.stack([first, total, first - solved[:, 1] if known.n_tasks > 1 else first], axis=1)

    attack = "least squares on the sums of features and of their products (examples with one value each)"
    streams = play.many_persons(spec, known, Examples(rows[0], labels), Examples(rows[1], 1 - labels), takes_part)
    return Game(spec, known, streams, score, attack, _SUMS_ADVERSARY, takes_part=takes_part)


def _sum_context(spec: RunSpec, n_inputs: int, task_size: int) -> PublicContext:
    """The public facts of a game, with few tasks."""
    n_tasks = _n_tasks(spec, 2)
    n_people = task_size * (1 if spec.scenario.recurrence == "every" else n_tasks)
    known = play.context(spec, n_inputs=n_inputs, n_classes=len(_CLASSES), n_people=n_people, n_tasks=n_tasks)
    return replace(known, form=Form((n_inputs,), 0.0, 1.0)) if spec.data.backbone == "pixels" else known


def _kernel(one: Floats, other: Floats, labels: NDArray[np.int64], others: NDArray[np.int64]) -> Floats:
    """Inner products [n, m] of the examples' contributions to the sums of features, products (symmetric) and classes."""
    inner = one @ other.T
    return np.asarray(inner + inner**2 + inner * (labels[:, None] == others))


def _sum_projections(seen: Seen, rows: Floats, labels: NDArray[np.int64]) -> Floats:
    """Inner products [n] of released sums with each example's contribution."""
    features, products, by_class = _released_sums(seen)
    return np.asarray(rows @ features + ((rows @ products) * rows).sum(axis=1) + (by_class[labels] * rows).sum(axis=1))


def _sum_examples(*, own_values: bool, is_natural: bool) -> tuple[Examples, Examples]:
    """The known examples; the person's example and its replacement."""
    zero = np.array([0, 0])
    if is_natural:
        pixels, classes = digits()
        zeros, ones = (pixels[classes == k].astype(np.float64) for k in _CLASSES)
        crowd = Examples(np.stack([zeros[1], ones[1], zeros[2], ones[2]]), np.array([0, 1, 0, 1]))
        return crowd, Examples(np.stack([zeros[0], ones[0]]), zero)
    axes = np.eye(_N_FEATURES)
    pair = np.stack([axes[0], axes[1] if own_values else -axes[0]])
    return Examples(axes[[2, 3]] + 1.0, zero), Examples(pair, zero)


def _released_sums(seen: Seen) -> tuple[Floats, Floats, Floats]:
    """The released sums of features, of products and of each class."""
    features, products, by_class = (np.asarray(seen[name], np.float64) for name in ("features", "products", "by_class"))
    return features, products, by_class


def _coordinates(features: Floats, products: Floats, by_class: Floats) -> Floats:
    """The three sums as one vector; an off-diagonal product enters once, times sqrt 2, so that all noise is equal."""
    above = np.triu_indices(len(features), 1)
    return np.concatenate([features, np.diag(products), np.sqrt(2) * products[above], by_class.ravel()])


# Noise on every record: from which of two records a stored noisy copy was made.


_N_DIGITS = 10
_RECORDS_ADVERSARY = "sees the stored noisy copies of one record and knows the two records that it may have been made from"


def audit_of_records(spec: RunSpec, trials: int) -> Sequence[audit_bounds.Audited]:
    """Two attacks for every budget of the spec: on two worst-case records, and on two digits.

    The worst-case records differ as much as possible, in values and in label. The attacker uses the likelihood ratio of the
    copy, the most powerful test; if a record is in every task, he has a copy from each. A learner whose tasks have one
    record each keeps sums over that one copy, which reveal it. Training reads the copies only, so one step suffices.
    Args: trials: learners on each side. Raises BadInput as the method's card does.
    """
    check(spec, PublicSizes(n_people=trials, n_tasks=1, n_classes=_N_DIGITS))
    return play.worst_and_natural(record_game)(spec, trials)


def record_game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The game on two records, two digits if `is_natural`."""
    params = settings_of(spec, IndependentLaplaceParams)
    spec, n_tasks = replace(spec, params=replace(params, steps=1)), _n_tasks(spec, 1)
    pixels, classes = digits()
    n_values = pixels.shape[1]
    local = randomiser(spec, n_tasks, n_values, epsilon)
    unit = 1 / math.sqrt(n_values) if params.project_to == 0 else math.sqrt(params.project_to) / params.clip
    labels = (0, 1) if not is_natural else (int(classes[0]), int(classes[1]))

    @lru_cache(maxsize=1)
    def pair(seed: int) -> tuple[Floats, Floats]:
        """The values of both records: in [0, 1], or any if they are projected."""
        if is_natural:
            return pixels[0].astype(np.float64), pixels[1].astype(np.float64)
        if params.project_to == 0:
            return np.ones(n_values), np.zeros(n_values)
        drawn = np.random.default_rng(0).standard_normal((64, n_values))
        lengths = np.abs(quadratic.RandomMap("projection", n_values, params.project_to, seed).of(drawn)).sum(axis=1)
        one = drawn[int(lengths.argmax())]  # the projection's L1 norm is nearly maximal
        return one, 1 - one

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        values, label = (pair(seed)[0], labels[0]) if side else (pair(seed)[1], labels[1])
        record = Examples(values[None].astype(np.float32), np.array([label]))
        return play.stream(record, record, known)

    def noised(seed: int, values: Floats) -> Floats:
        """The representation of a record to which noise is added."""
        if params.project_to == 0:
            return 2 * values - 1
        projected = quadratic.RandomMap("projection", n_values, params.project_to, seed).of(values[None])[0].astype(float)
        return np.asarray(projected * min(1.0, params.clip / max(float(np.abs(projected).sum()), 1e-300)))

    def score(seed: int, seen: Released) -> Floats:
        one, other = (noised(seed, values) for values in pair(seed))
        total = 0.0
        for release in seen:
            copy = np.asarray(release["features"], dtype=np.float64)[:-1] / unit
            answer = int(np.argmax(np.asarray(release["by_class"], dtype=np.float64)[:, -1]))
            away, near = np.abs(copy - other).sum(), np.abs(copy - one).sum()
            total += float((away - near) / local.scale) if local.scale > 0 else float(away - near)
            total += play.label_log_odds(local, _N_DIGITS) * ((answer == labels[0]) - (answer == labels[1]))
        return np.array([[total]])

    known = play.context(spec, n_inputs=n_values, n_classes=_N_DIGITS, n_people=1, n_tasks=n_tasks)
    known = replace(known, form=Form((n_values,), 0.0, 1.0))
    how = f"likelihood ratio of one record's copy ({'two real digits' if is_natural else 'worst-case records'})"
    return Game(spec, known, tasks, score, how, _RECORDS_ADVERSARY, is_gaussian=False)


def planted_records_game(spec: RunSpec, epsilon: float) -> Game:
    """Every record is noised separately, so one learner per record gives the same releases as one learner for all."""
    game, takes_part = record_game(spec, epsilon, is_natural=False), partial(play.coins, n=1)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        return game.tasks(seed, bool(takes_part(seed)[0]) == side)

    return replace(game, tasks=tasks, takes_part=takes_part, planted="records", n_learners=N_RECORDS)


_AGEM = {"learner": play.through_learner(distinct_label_game, real_digit_game), "life": audit_of_life}
AUDITS = {
    "dp-agem": catalog.Audit(_AGEM, trials=3200, planted=planted_labels_game),
    "dp-coeff-memory": catalog.Audit({"learner": play.worst_and_natural(sum_game)}, trials=4000, planted=one_hot_game),
    "independent-laplace": catalog.Audit({"learner": audit_of_records}, trials=6000, planted=planted_records_game),
}
