"""Audits in one training: runs a spec once more on thousands of planted examples, each included by a fair coin.

Adapters are attacked by one step of Adam that the attacker inverts. They start at zero, or with one factor of zero, or below
a last layer of zero. So the first step reveals the noisy mean gradient wherever planted examples move it: the step is
g / (|g| + 1e-8) times the learning rate, and means are divided by so large a public number that their noise is about 1e-8.
A task has that one step. Bundled networks stand for the run's own: noise, clipping and ledger are the same.
"""

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import CONFIDENCE, START, SURELY, Floats, Game, Released, Seen, released
from dpcl_core.data.texts import TextForm
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.privacy import audit_bounds, gaussian
from dpcl_core.privacy.audit_bounds import Area, Audited, Bound, Coins
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import RunSpec

FIRST = "first"  # name of the first task: a language model reads it in its prompts
_ADAM = 1e-8  # Adam's epsilon, added to the length of a gradient
_LEAST_NOMINAL = 10_000  # smallest nominal size of a task: makes the cost of a released mean score negligible
_CHOOSING, _GUESSED = 0.1, 0.2  # shares: of coins revealed to choose a statistic, and of the rest, the coins guessed
_POWER = 0.9  # chance of detecting the smallest fault that is reported


def audited(spec: RunSpec, epsilon: float) -> Audited:
    """The lower bound on epsilon at one budget.

    If the bound exceeds the ledger's epsilon, the audit is repeated with fresh coins and noise at a higher confidence, so
    that a correct method is called wrong with probability at most 0.05 times 0.001.

    Raises BadInput if the method cannot be audited in one training; see `play.refusal`.
    """
    if (why := play.refusal(spec)) is not None:
        raise BadInput("method", spec.method, why)
    planted = catalog.audit_of(spec.method).planted
    assert planted is not None
    first = _played(planted(spec, epsilon), epsilon, CONFIDENCE)
    return _played(planted(spec, epsilon), epsilon, SURELY) if first.exceeds else first


def _played(game: Game, epsilon: float, confidence: float) -> Audited:
    first = secrets.randbelow(2**31)
    scores, took_part, accounted = [], [], math.nan
    seeds, tasks = range(first, first + game.n_learners), lambda seed: game.tasks(seed, True)
    for seed, seen, ledger in released(game.spec, epsilon, seeds, game.known, tasks, game.start):
        scores.append(game.judging(game.score(seed, seen)))
        took_part.append(game.takes_part(seed))
        accounted = ledger.epsilon() if math.isnan(accounted) else accounted
    return judged(
        np.concatenate(scores), np.concatenate(took_part), epsilon, accounted, game.spec.privacy.delta, game.attack,
        confidence, is_gaussian=game.is_gaussian, planted=game.planted,
    )  # fmt: skip


def judged(
    scores: Floats, took_part: NDArray[np.bool_], claimed: float, accounted: float, delta: float, attack: str,
    confidence: float, *, is_gaussian: bool, planted: str = "examples",
) -> Audited:  # fmt: skip
    """The lower bound on epsilon from guessing who took part; `scores` [n, statistics] are high for examples that did.

    With several statistics, a tenth of the coins is revealed and chooses the best one. Of the rest, a fifth is guessed: the
    highest scores as included, equally many of the lowest as left out. Each of the two bounds has half of the error
    probability, so both hold together.
    """
    is_gaussian = is_gaussian and math.isfinite(accounted)
    cut = int(_CHOOSING * len(scores)) if scores.shape[1] > 1 else 0
    revealed, chosen = took_part[:cut], 0
    if min(revealed.sum(), (~revealed).sum()) > 1:
        chosen = int(np.argmax([Area.of(column[revealed], column[~revealed]).value for column in scores[:cut].T]))
    order, coins = np.argsort(scores[cut:, chosen], kind="stable"), took_part[cut:]
    half = int(_GUESSED * len(coins)) // 2
    right = int((~coins[order[:half]]).sum() + coins[order[-half:]].sum())
    guesses = Coins(len(coins), 2 * half, right)
    level = 1 - (1 - confidence) / 2 if is_gaussian else confidence
    bounds = dict(_bounds(guesses, delta, level, is_gaussian))
    best: Bound = max(bounds, key=lambda name: bounds[name])
    return Audited(
        claimed, accounted, bounds[best], delta, confidence, len(coins),
        f"{attack}; {right} of {2 * half} coins guessed rightly",
        "sees everything that is released, and knows everything planted; which of it took part he guesses. The run's "
        "settings are played once more with these plants: they were not in its data, so what it released cannot be audited "
        "afterwards", unit=f"{planted}, each there by a coin", guessed=2 * half, right=right, through="run", bound=best,
        bounds=bounds, detects=_detects(guesses, accounted, delta, level) if is_gaussian else None,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _bounds(guesses: Coins, delta: float, confidence: float, is_gaussian: bool) -> Mapping[Bound, float]:
    bounds: dict[Bound, float] = {"counting": audit_bounds.counting_bound(guesses, delta, confidence)}
    if is_gaussian:
        bounds["gaussian"] = audit_bounds.epsilon_of(audit_bounds.gaussian_one_run_bound(guesses, confidence), delta)
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
    bound = audit_bounds.gaussian_one_run_bound
    return audit_bounds.least_right(n, r, lambda coins: audit_bounds.epsilon_of(bound(coins, confidence), delta) > accounted)


def _chance_right(mu: float, share: float) -> float:
    """Probability that a guess is right: scores are N(0, 1) or N(mu, 1) by a fair coin, and the outer `share` is guessed."""
    top = float(brentq(lambda at: (ndtr(-at) + ndtr(mu - at)) / 2 - share / 2, -9.0, mu + 9.0))
    return float(ndtr(mu - top) / (ndtr(-top) + ndtr(mu - top)))


# One step of Adam, read backwards.


def one_step_game(
    spec: RunSpec, known: PublicContext, own: Examples, others: Examples, score: Callable[[int, Released], Floats],
    attack: str, planted: str,
) -> Game:  # fmt: skip
    """A game with the examples whose coin is heads; under "replace" `others` take the place of the rest.

    They are in the first task, or in every task where people recur: one coin decides about all that there is of a person.
    """
    takes_part = partial(play.coins, n=len(own))
    names = [FIRST, *(f"{task + 1}" for task in range(1, known.n_tasks))]
    return Game(
        spec, known, play.many_persons(spec, known, own, others, takes_part, names=names), score,
        f"the noisy sum of gradients, read off the first step of Adam ({attack})",
        "sees the adapters after each task, knows those before it and every planted example",
        takes_part=takes_part, start=START, planted=planted,
    )  # fmt: skip


def step_noise(spec: RunSpec, epsilon: float) -> float:
    """Approximate noise multiplier of a step on which the whole budget is spent."""
    return gaussian.sigma(epsilon, spec.privacy.delta, gaussian.SENSITIVITY[spec.privacy.adjacency])


def one_step_context(
    spec: RunSpec, epsilon: float, clip_norm: float, n_classes: int, names: tuple[str, ...] = (), longest: int = 0,
    n_tasks: int = 1,
) -> PublicContext:  # fmt: skip
    """Tasks of a nominal size at which the noise on a mean is as large as `_ADAM`.

    `names`: of the classes of texts of at most `longest` tokens; empty for pictures. `n_tasks`: more than one where later
    tasks read planted examples again.
    """
    n_people = max(_LEAST_NOMINAL, round(step_noise(spec, epsilon) * clip_norm / _ADAM))
    n_people *= 1 if spec.scenario.recurrence == "every" else n_tasks
    known = play.context(spec, n_inputs=0, n_classes=n_classes, n_people=n_people, n_tasks=n_tasks)
    return replace(known, classes=names, texts=TextForm(longest, may_show=False) if names else None)


def noisy_sum(before: Mapping[str, NDArray[np.generic]], after: Seen, size: float, rate: float = 1.0) -> Floats:
    """The noisy sum of gradients [weights] behind a first step of Adam at a learning rate, of a mean over this size.

    The step is u = g / (|g| + e) times the rate, so g = e u / (1 - |u|); values of |g| above 1e6 e are cut off.
    """
    changes = [np.asarray(before[name], np.float64) - np.asarray(after[name], np.float64) for name in before]
    step = np.clip(np.concatenate([part.ravel() for part in changes]) / rate, -1 + 1e-6, 1 - 1e-6)
    return np.asarray(_ADAM * size * step / (1 - np.abs(step)))


def log_odds(gradients: Floats, seen: Floats, usual: Floats, std: float) -> Floats:
    """Log-odds of each coin [n], given a noisy sum of `gradients` [n, weights] that takes each by a fair coin.

    Gaussian noise has standard deviation `std`; all other coins are approximated by Gaussians of the same variance. `usual`
    is the mean of the sum up to a factor that is fitted here, so that sums of unclipped gradients can be read, too.

    With G the gradients, K = G G^T, M = (std^2 + K / 4)^-1 and c = seen - factor * usual, the log-odds of coin i are
    (M G c)_i / (std^2 M_ii). Derivation: the other coins and the noise have covariance R_i = std^2 + the sum over j != i of
    g_j g_j^T / 4, and g_i^T R_i^-1 equals g_i^T R^-1 divided by 1 - g_i^T R^-1 g_i / 4 = std^2 M_ii. The factor is the
    least-squares one under R^-1 = (1 - G^T M G / 4) / std^2.
    """
    inverse = np.linalg.inv(gradients @ gradients.T / 4 + std**2 * np.eye(len(gradients)))
    along, along_usual = gradients @ seen, gradients @ usual
    weighed = usual - gradients.T @ (inverse @ along_usual) / 4
    centred = along - float(weighed @ seen) / float(weighed @ usual) * along_usual
    return inverse @ centred / (std**2 * np.diag(inverse))


def least_alike(gradients: Floats, n: int, std: float) -> NDArray[np.int64]:
    """Indices [n] of n rows of `gradients` [m, weights], chosen greedily by variance left given noisy sums of those chosen.

    These are the pivots of a Cholesky decomposition of the inner products.
    """
    left, is_free = np.square(gradients).sum(axis=1), np.ones(len(gradients), np.bool_)
    taken, columns = np.zeros(n, np.int64), np.zeros((n, len(gradients)))
    for k in range(n):
        taken[k] = place = int(np.where(is_free, left, -np.inf).argmax())
        is_free[place] = False
        column = gradients @ gradients[place] - columns[:k].T @ columns[:k, place]
        columns[k] = column / math.sqrt(4 * std**2 + column[place])
        left = left - columns[k] ** 2
    return taken
