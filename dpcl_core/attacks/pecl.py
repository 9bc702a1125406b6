"""Attacks on the repaired PeCL: on its learner, like its baselines, or on all steps through the mechanisms alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import dpsgd_trace, play, texts
from dpcl_core.attacks.dpsgd_trace import StepGroup
from dpcl_core.methods.common.public_sizes import PublicSizes, of_spec
from dpcl_core.methods.language import pecl_costs
from dpcl_core.methods.language.cards.pecl import PeclParams, check
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.embeddings import noisy_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import Randomiser, noisy_labels
from dpcl_core.privacy.lower_bound import Audited, lower_bound
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import RunSpec

ATTACKS = ("learner", "life")
TRIALS = texts.TRIALS
_CENTRAL = (
    "sees every noisy gradient and mean score, and knows all other texts and their coins; the text's gradient is as long as "
    "clipping lets it be, at a right angle to all others"
)
_LOCAL = "sees the noisy embeddings and the label of one text, and knows two texts that it may be, opposite in every token"
_SPACE = tuple(range(4))


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """The first of the `ATTACKS`. Args: trials: texts on each side."""
    return texts.audit(spec, trials)


def audited(spec: RunSpec, trials: int, attack: str) -> list[Audited]:
    """One of the `ATTACKS`: on the learner itself, or ("life") on all steps and mean scores through its mechanisms.

    "life" makes one attack per budget, by the likelihood ratio of all observations of one text, the most powerful test.
    central: decides whether the text is in the data (under "replace": or one with the opposite gradient). local: decides
    which of two texts that differ in every token it is. Args: trials: simulated trainings on each side. Raises BadInput as
    the method's card does.
    """
    if attack == "learner":
        return audit(spec, trials)
    params, facts = spec.params, of_spec(spec)
    assert isinstance(params, PeclParams)
    check(spec, facts)
    attacked = _noisy_copy if params.is_local else _canary
    return [attacked(spec, params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _canary(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise = pecl_costs.noises(params, spec.privacy, facts, epsilon)
    n_tasks, size = _n_tasks(facts), facts.task_size
    plan, is_replaced = pecl_costs.schedule(params, size), spec.privacy.adjacency == "replace"
    trace = [StepGroup(plan, noise.multiplier, plan.n_steps)] * n_tasks

    def scores(sign: float) -> NDArray[np.float64]:
        ratios = dpsgd_trace.scores(trace, sign, is_replaced, trials)
        if params.releases_mean_score and noise.multiplier > 0:
            for _ in range(n_tasks):
                ratios += _mean_scores(params, size, sign, spec, trials)
        return ratios

    events = pecl_costs.events(params, spec.privacy, size, noise.multiplier) if noise.multiplier > 0 else []
    accounted = Pld().epsilon([*events] * n_tasks, spec.privacy.delta, spec.privacy.adjacency) if events else math.inf
    first, second = scores(1.0), scores(-1.0 * is_replaced)
    return _audited(spec, epsilon, accounted, first, second, "likelihood ratio of all steps and mean scores", _CENTRAL)


def _mean_scores(params: PeclParams, size: float, sign: float, spec: RunSpec, trials: int) -> NDArray[np.float64]:
    """Log-likelihood ratio of a released mean score, with a text of score 1 against without it (or with score 0)."""
    others, book = np.full(int(size) - 1, 0.5), Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")
    values = np.append(others, 1.0) if sign > 0 else others
    shift, std = 1 / size, params.mean_score_std
    means = (noisy_mean(values, size, std, ReleaseNoise(), book, task=0, what="mean score") for _ in range(trials))
    seen = np.fromiter(means, np.float64)
    ratio: NDArray[np.float64] = ((seen - others.sum() / size) * shift - shift**2 / 2) / std**2
    return ratio


def _noisy_copy(spec: RunSpec, params: PeclParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    noise, table = pecl_costs.noises(params, spec.privacy, facts, epsilon), np.array([[1.0], [-1.0]])
    book = Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")

    def scores(which: int) -> NDArray[np.float64]:
        ratios = np.zeros(trials)
        for task in range(_n_tasks(facts)):
            tokens = np.full((trials, params.length), which)
            seen = noisy_embeddings(table, tokens, noise.ratio, 1.0, ReleaseNoise(), book, task=task)
            ratios += 2 * seen.astype(np.float64).sum(axis=(1, 2)) / (noise.ratio**2 if noise.ratio > 0 else 1.0)
            if params.label_share > 0:
                labels = np.full(trials, which, dtype=np.int64)
                answers = noisy_labels(labels, _SPACE, noise.labels, ReleaseNoise(), book, task=task)
                size = play.label_log_odds(Randomiser(0, 0.0, noise.labels), len(_SPACE))
                ratios += size * ((answers == 0) * 1.0 - (answers == 1))
        return ratios

    first = scores(0)
    accounted = book.epsilon()
    return _audited(spec, epsilon, accounted, first, scores(1), "matched filter on the noisy text, and its label", _LOCAL)


def _n_tasks(facts: PublicSizes) -> int:
    """Number of tasks that one person's texts are in."""
    return facts.n_tasks if facts.recurrence == "every" else 1


def _audited(
    spec: RunSpec,
    epsilon: float,
    accounted: float,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    attack: str,
    adversary: str,
) -> Audited:
    delta, n = spec.privacy.delta, len(first) - len(first) // 2
    return Audited(epsilon, accounted, lower_bound(first, second, delta), delta, 0.95, n, attack, adversary)
