"""Audits in one training: a run's settings played once more, with thousands of examples that each take part by a coin."""

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

from dpcl_core.attacks import auditable, clients, copies, cosine, crowds, heads, one_step, records, rounds
from dpcl_core.attacks.play import CONFIDENCE, SURELY, Floats, Game, coins, released
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

N_CLIENTS = 1000  # clients of the audit's own, each with a label that nobody else has
N_LABELS = 512  # examples for a whole network, each with a label that nobody else has
N_IN_ROUNDS = 200  # clients in rounds of training
N_RECORDS = 2000  # records or texts that are noised one by one
N_PERSONS = 2048  # examples of the audit's own, each along an axis that nobody else's features have
N_PICTURES = 2048  # pictures for adapters, each with a label that nobody else has
N_TEXTS = 4096  # texts for adapters, of which those are taken that differ most
_CHOOSING, _GUESSED = 0.1, 0.2  # shares: of coins that are told to choose a statistic, and of the others that are guessed
_POWER = 0.9  # how often the smallest fault that is named would have been caught
_ADVERSARY = (
    "sees everything that is released, and knows everything planted; which of it took part he guesses. The run's settings "
    "are played once more with these plants: they were not in its data, so what it released cannot be audited afterwards"
)


@dataclass(frozen=True, slots=True)
class _Play:
    """The settings that are played, the game, what is planted, and how many learners are played: one, but where nothing
    joins what each planted record leaves, one a record.
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
    return _Play(*clients.game(spec, is_natural=False, n_asked=N_CLIENTS), planted="clients")


def _coefficients(spec: RunSpec, epsilon: float) -> _Play:
    assert isinstance(spec.params, CoeffMemoryParams)
    params = spec.params.model_copy(update={"steps": 1, "features": crowds.N_FEATURES, "solution": "steps"})
    return _Play(spec.model_copy(update={"params": params}), crowds.coefficients(spec))


def _network(spec: RunSpec, epsilon: float) -> _Play:
    return _Play(spec, crowds.labels_apart(spec, N_LABELS))


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
    """Every record is noised alone, whoever else is there: a learner for each is what one for all would be."""
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
    """For every budget of a run's settings, what one training with coins proves about epsilon.

    Raises: BadInput for a method whose examples cannot be told apart so.
    """
    return [audited(spec, epsilon) for epsilon in spec.privacy.epsilons]


def audited(spec: RunSpec, epsilon: float) -> Audited:
    """The same at one budget.

    A proof of more than the ledger says is tried once more with fresh coins and noise, more strictly, so that a method that
    keeps its word is called wrong with a chance of at most 0.05 times 0.001.

    Raises: BadInput for a method whose examples cannot be told apart so.
    """
    if (why := auditable.refusal(spec)) is not None:
        raise BadInput("method", spec.method, why)
    first = _played(spec, epsilon, CONFIDENCE)
    return _played(spec, epsilon, SURELY) if first.exceeds else first


def _with_coins(game: Game, seed: int) -> Sequence[Task]:
    return game.tasks(seed, True)


def _played(spec: RunSpec, epsilon: float, confidence: float) -> Audited:
    play = GAMES[spec.method](spec, epsilon)
    game, first = play.game, secrets.randbelow(2**31)
    scores, took_part, accounted = [], [], math.nan
    seeds = range(first, first + play.n_learners)
    streams = partial(_with_coins, game)
    for seed, seen, ledger in released(play.spec, epsilon, seeds, game.known, streams, game.start):
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
    """What it proves to guess these coins from scores [n, statistics], high where they speak for taking part.

    Where there are several statistics a tenth of the coins is told, and chooses one. Of the others a fifth is guessed: those
    with the highest scores to have taken part, as many with the lowest not to. Both bounds hold together, for each has half
    of the error.
    """
    is_gaussian = is_gaussian and math.isfinite(accounted)
    cut = int(_CHOOSING * len(scores)) if scores.shape[1] > 1 else 0
    told, chosen = took_part[:cut], 0
    if min(told.sum(), (~told).sum()) > 1:
        chosen = max(range(scores.shape[1]), key=lambda k: Area.of(scores[:cut, k][told], scores[:cut, k][~told]).value)
    order, coins = np.argsort(scores[cut:, chosen], kind="stable"), took_part[cut:]
    half = int(_GUESSED * len(coins)) // 2
    right = int((~coins[order[:half]]).sum() + coins[order[-half:]].sum())
    guesses = Coins(len(coins), 2 * half, right)
    each = 1 - (1 - confidence) / 2 if is_gaussian else confidence
    bounds = dict(_bounds(guesses, delta, each, is_gaussian))
    best: Bound = max(bounds, key=lambda name: bounds[name])
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, len(coins),
        f"{attack}; {right} of {2 * half} coins guessed rightly", _ADVERSARY, unit=f"{planted}, each there by a coin",
        guessed=2 * half, right=right,
        through="run", bound=best, bounds=bounds,
        detects=_detects(guesses, accounted, delta, each) if is_gaussian else None,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _bounds(guesses: Coins, delta: float, confidence: float, is_gaussian: bool) -> Mapping[Bound, float]:
    found: dict[Bound, float] = {"counting": counting_bound(guesses, delta, confidence)}
    if is_gaussian:
        found["gaussian"] = epsilon_of(gaussian_bound(guesses, confidence), delta)
    return found


def _detects(found: Coins, accounted: float, delta: float, confidence: float) -> str | None:
    """The smallest fault of the noise that would have been shown as one nine times in ten, for Gaussian scores.

    How far these are apart follows from the guesses themselves, and is at most what is accounted.
    """
    n, r = found.n, found.guessed
    if 2 * found.right <= r:
        return None  # this attack told nobody apart
    needed = _needed(n, r, accounted, delta, confidence)
    mu = 1 / gaussian.sigma(accounted, delta)
    if _rightly(mu, r / n) > found.right / r:
        mu = float(brentq(lambda apart: _rightly(apart, r / n) - found.right / r, 0.0, mu))

    def excess(factor: float) -> float:
        return float(binom.ppf(1 - _POWER, r, _rightly(mu / factor, r / n))) - needed

    if needed > r or excess(0.01) < 0:
        return None
    largest = 1.0 if excess(1.0) >= 0 else float(brentq(lambda factor: excess(factor) + 0.5, 0.01, 1.0, xtol=1e-3))
    return f"noise × {math.floor(100 * largest) / 100:g}"


@lru_cache(maxsize=1024)
def _needed(n: int, r: int, accounted: float, delta: float, confidence: float) -> int:
    """The fewest right guesses, of r among n coins, that prove more than is accounted."""
    return least_right(n, r, lambda coins: epsilon_of(gaussian_bound(coins, confidence), delta) > accounted)


def _rightly(mu: float, share: float) -> float:
    """Chance that a guess is right: scores are N(0, 1) or N(mu, 1) by a fair coin, and the outer `share` is guessed."""
    top = float(brentq(lambda at: (ndtr(-at) + ndtr(mu - at)) / 2 - share / 2, -9.0, mu + 9.0))
    return float(ndtr(mu - top) / (ndtr(-top) + ndtr(mu - top)))
