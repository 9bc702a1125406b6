"""Audits in one training: runs a spec once more on thousands of planted examples, each included by a fair coin."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from dpcl_core.attacks import auditable, clients, coefficients, copies, cosine, heads, networks, one_step, records, rounds
from dpcl_core.attacks.named import CONFIDENCE
from dpcl_core.attacks.play import SURELY, Floats, Game, coins, released
from dpcl_core.errors import BadInput
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.lifelong.cards.coefficient_params import CoeffMemoryParams, IndependentLaplaceParams
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.lower_bound import Area, Audited, Bound
from dpcl_core.privacy.one_run import Coins, counting_bound, epsilon_of, gaussian_bound, least_right
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import RunSpec

N_CLIENTS = 1000  # planted clients, each with a label that no other client has
N_LABELS = 512  # planted examples for a whole network, each with a label that no other example has
N_IN_ROUNDS = 200  # planted clients in rounds of training
N_RECORDS = 2000  # planted records or texts if each is noised by itself
N_PERSONS = 2048  # planted examples, each along an axis that no other features use
N_PICTURES = 2048  # pictures for adapters, each with a label that nobody else has
N_TEXTS = 4096  # texts for adapters, of which those are taken that differ most
_CHOOSING, _GUESSED = 0.1, 0.2  # shares: of coins revealed to choose a statistic, and of the rest, the coins guessed
_POWER = 0.9  # chance of detecting the smallest fault that is reported
_ADVERSARY = (
    "sees everything that is released, and knows everything planted; which of it took part he guesses. The run's settings "
    "are played once more with these plants: they were not in its data, so what it released cannot be audited afterwards"
)


@dataclass(frozen=True, slots=True)
class _Play:
    """The settings that are played, the game, the planted unit, and the number of learners.

    One learner, unless each planted record is released separately; then one per record or group of records.
    """

    spec: RunSpec
    game: Game
    planted: str = "examples"
    n_learners: int = 1


def _cosine(spec: RunSpec, epsilon: float) -> _Play:
    return _Play(spec, cosine.axes(spec, epsilon, N_PERSONS))


def _heads(spec: RunSpec, epsilon: float) -> _Play:
    assert isinstance(spec.params, PeftParams)
    if spec.params.adapter != "head":
        return _Play(*one_step.pictures(spec, epsilon, N_PICTURES), planted="pictures")
    return _Play(spec, heads.axes(spec, spec.params, epsilon, N_PERSONS))


def _clients(spec: RunSpec, epsilon: float) -> _Play:
    return _Play(*clients.game(spec, is_natural=False, n_targets=N_CLIENTS), planted="clients")


def _coefficients(spec: RunSpec, epsilon: float) -> _Play:
    assert isinstance(spec.params, CoeffMemoryParams)
    params = spec.params.model_copy(update={"steps": 1, "features": coefficients.N_ONE_HOT, "solution": "steps"})
    return _Play(spec.model_copy(update={"params": params}), coefficients.one_hot(spec))


def _network(spec: RunSpec, epsilon: float) -> _Play:
    attack = "how far the weights moved along the example's gradient (examples with labels of their own)"
    game = networks.distinct_labels(spec, N_LABELS, partial(coins, n=N_LABELS))  # its bound needs independent coins
    return _Play(spec, replace(game, attack=attack))


def _rounds(spec: RunSpec, epsilon: float) -> _Play:
    played = rounds.short(spec)
    return _Play(played, rounds.game(played, N_IN_ROUNDS), planted="clients")


def _texts(spec: RunSpec, epsilon: float) -> _Play:
    """Noisy copies are made of every text alone, as in `_records`; DP-SGD sums over all of them."""
    assert isinstance(spec.params, BaselineParams | PeclParams)
    if not spec.params.is_local:
        return _Play(*one_step.sentences(spec, epsilon, N_TEXTS), planted="texts")
    played = copies.short(spec)
    n_learners = math.ceil(N_RECORDS / copies.N_PERSONS)
    return _Play(played, copies.game(played, epsilon, is_natural=False), "texts", n_learners)


def _records(spec: RunSpec, epsilon: float) -> _Play:
    """Every record is noised separately, so one learner per record gives the same releases as one learner for all."""
    assert isinstance(spec.params, IndependentLaplaceParams)
    short = spec.model_copy(update={"params": spec.params.model_copy(update={"steps": 1})})
    game = records.game(short, spec.params, epsilon, is_natural=False)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        return game.tasks(seed, bool(coins(seed, 1)[0]) == side)

    return _Play(short, replace(game, tasks=tasks, takes_part=lambda seed: coins(seed, 1)), "records", N_RECORDS)


GAMES: Mapping[str, Callable[[RunSpec, float], _Play]] = {
    "cosine": _cosine,
    "peft-ensemble": _heads,
    "naive": _heads,
    "non-cl": _heads,
    "dp-agem": _network,
    "dp-coeff-memory": _coefficients,
    "independent-laplace": _records,
    "dp-fedavg": _rounds,
    **dict.fromkeys(("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl"), _texts),
    "cslr-server-head": _clients,
    "cslr-central": _clients,
    "dp-stat-share": _clients,
    "label-means": _clients,
    "local-list": _clients,
}


def audit(spec: RunSpec) -> list[Audited]:
    """Lower bounds on epsilon for every budget of the spec, each from one training with randomly included examples.

    Raises: BadInput if the method cannot be audited in one training; see `auditable.refusal`.
    """
    return [audited(spec, epsilon) for epsilon in spec.privacy.epsilons]


def audited(spec: RunSpec, epsilon: float) -> Audited:
    """The lower bound on epsilon at one budget.

    If the bound exceeds the ledger's epsilon, the audit is repeated with fresh coins and noise at a higher confidence, so
    that a correct method is called wrong with probability at most 0.05 times 0.001.

    Raises: BadInput if the method cannot be audited in one training; see `auditable.refusal`.
    """
    if (why := auditable.refusal(spec)) is not None:
        raise BadInput("method", spec.method, why)
    first = _played(spec, epsilon, CONFIDENCE)
    return _played(spec, epsilon, SURELY) if first.exceeds else first


def _played(spec: RunSpec, epsilon: float, confidence: float) -> Audited:
    play = GAMES[spec.method](spec, epsilon)
    game, first = play.game, secrets.randbelow(2**31)
    scores, took_part, accounted = [], [], math.nan
    seeds = range(first, first + play.n_learners)
    for seed, seen, ledger in released(
        play.spec, epsilon, seeds, game.known, lambda seed: game.tasks(seed, True), game.start
    ):
        scores.append(game.score(seed, seen))
        took_part.append(game.takes_part(seed))
        accounted = ledger.epsilon() if math.isnan(accounted) else accounted
    return judged(
        np.concatenate(scores), np.concatenate(took_part), epsilon, accounted, spec.privacy.delta, game.attack, confidence,
        is_gaussian=game.is_gaussian, planted=play.planted,
    )  # fmt: skip


def judged(
    scores: Floats,
    took_part: NDArray[np.bool_],
    claimed: float,
    accounted: float,
    delta: float,
    attack: str,
    confidence: float,
    *,
    is_gaussian: bool,
    planted: str = "examples",
) -> Audited:
    """The lower bound on epsilon from guessing who took part; `scores` [n, statistics] are high for examples that did.

    With several statistics, a tenth of the coins is revealed and chooses the best one. Of the rest, a fifth is guessed: the
    highest scores as included, equally many of the lowest as left out. Each of the two bounds has half of the error
    probability, so both hold together.
    """
    is_gaussian = is_gaussian and math.isfinite(accounted)
    cut = int(_CHOOSING * len(scores)) if scores.shape[1] > 1 else 0
    revealed, chosen = took_part[:cut], 0
    if min(revealed.sum(), (~revealed).sum()) > 1:
        areas = [Area.of(column[revealed], column[~revealed]).value for column in scores[:cut].T]
        chosen = int(np.argmax(areas))
    order, coins = np.argsort(scores[cut:, chosen], kind="stable"), took_part[cut:]
    half = int(_GUESSED * len(coins)) // 2
    right = int((~coins[order[:half]]).sum() + coins[order[-half:]].sum())
    guesses = Coins(len(coins), 2 * half, right)
    level = 1 - (1 - confidence) / 2 if is_gaussian else confidence
    bounds = dict(_bounds(guesses, delta, level, is_gaussian))
    best: Bound = max(bounds, key=lambda name: bounds[name])
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, len(coins),
        f"{attack}; {right} of {2 * half} coins guessed rightly", _ADVERSARY, unit=f"{planted}, each there by a coin",
        guessed=2 * half, right=right,
        through="run", bound=best, bounds=bounds,
        detects=_detects(guesses, accounted, delta, level) if is_gaussian else None,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _bounds(guesses: Coins, delta: float, confidence: float, is_gaussian: bool) -> Mapping[Bound, float]:
    bounds: dict[Bound, float] = {"counting": counting_bound(guesses, delta, confidence)}
    if is_gaussian:
        bounds["gaussian"] = epsilon_of(gaussian_bound(guesses, confidence), delta)
    return bounds


def _detects(guesses: Coins, accounted: float, delta: float, confidence: float) -> str | None:
    """The smallest fault of the noise that this audit would detect with probability 0.9, assuming Gaussian scores.

    The separation of the scores is estimated from the guesses; it is at most what the accounted epsilon allows.
    """
    n, r = guesses.n, guesses.guessed
    if 2 * guesses.right <= r:
        return None  # no better than chance
    needed = _right_needed(n, r, accounted, delta, confidence)
    mu = 1 / gaussian.sigma(accounted, delta)
    if _chance_right(mu, r / n) > guesses.right / r:
        mu = float(brentq(lambda apart: _chance_right(apart, r / n) - guesses.right / r, 0.0, mu))

    def excess(factor: float) -> float:
        return float(binom.ppf(1 - _POWER, r, _chance_right(mu / factor, r / n))) - needed

    if needed > r or excess(0.01) < 0:
        return None
    largest = 1.0 if excess(1.0) >= 0 else float(brentq(lambda factor: excess(factor) + 0.5, 0.01, 1.0, xtol=1e-3))
    return f"noise × {math.floor(100 * largest) / 100:g}"


@lru_cache(maxsize=1024)
def _right_needed(n: int, r: int, accounted: float, delta: float, confidence: float) -> int:
    """The smallest number of right guesses, of r among n coins, that proves more than the accounted epsilon."""
    return least_right(n, r, lambda coins: epsilon_of(gaussian_bound(coins, confidence), delta) > accounted)


def _chance_right(mu: float, share: float) -> float:
    """Probability that a guess is right: scores are N(0, 1) or N(mu, 1) by a fair coin, and the outer `share` is guessed."""
    top = float(brentq(lambda at: (ndtr(-at) + ndtr(mu - at)) / 2 - share / 2, -9.0, mu + 9.0))
    return float(ndtr(mu - top) / (ndtr(-top) + ndtr(mu - top)))
