"""Audits in one training: runs a spec once more on thousands of planted examples, each included by a fair coin."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from dpcl_core.attacks import (
    adapters,
    clients,
    coefficients,
    copies,
    cosine,
    heads,
    inversion_audit,
    networks,
    play,
    rounds,
    texts,
)
from dpcl_core.attacks.play import CONFIDENCE, START, SURELY, Floats, Game, Released, Seen, coins, released
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import PADDING, PLANES, TOKEN, TextForm
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.adapters import Adapted
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.methods.language.adapted_model import AdaptedModel
from dpcl_core.methods.language.baseline_costs import BaselineParams
from dpcl_core.methods.language.pecl import PeclParams
from dpcl_core.methods.language.public_text import planes
from dpcl_core.methods.lifelong.dp_coeff_memory import CoeffMemoryParams
from dpcl_core.methods.lifelong.independent_laplace import IndependentLaplaceParams
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import (
    Area,
    Audited,
    Bound,
    Coins,
    counting_bound,
    epsilon_of,
    gaussian_one_run_bound,
    least_right,
)
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

# Audits of adapters in one training: many planted pictures or texts, and one step of Adam that the attacker inverts.
#
# Adapters start at zero, or with one factor of zero, or below a last layer of zero. So the first step of Adam reveals the
# noisy mean gradient wherever planted examples move it: the step is g / (|g| + 1e-8) long, and the public number that means
# are divided by is so large that their noise is about 1e-8. The whole budget is spent on that one step.
#
# The audit uses the bundled networks, whatever network the run has: noise, clipping and ledger are the same.


_SIDE = 8
_ADAM = 1e-8  # Adam's epsilon, added to the length of a gradient
_GAUSSIAN = 1.4826  # standard deviation of a Gaussian divided by its median absolute value
_LEAST_NOMINAL = 10_000  # smallest nominal size of a task: makes the cost of a released mean score negligible
_LONGEST, _RANK = 6, 8  # most tokens of a planted text, largest rank of adapters: the noise depends on neither
_AT_ONCE = 64  # pictures in one forward pass
_FEWEST = 64  # smallest number of planted texts
_AT_UNIT_NOISE = 1400  # planted texts under noise of one clipping norm; their number grows with the noise variance
Score = Callable[[int, Released], Floats]
_KNOWLEDGE = "sees the adapters after the task, knows those before it and every planted example"
_LAST_LAYER = "the first step moves the last layer alone"
_ALIKE = "their gradients are much alike, so little can be proved at a small budget"
_HOW = "the noisy sum of gradients, read off the first step of Adam"


def pictures(spec: RunSpec, epsilon: float, n_persons: int) -> tuple[RunSpec, Game]:
    """The game of random pictures, each with its own label; under "replace" each gets another unique label instead.

    Last layers start at zero, so the first step moves them alone, and each example moves mostly the row of its label.
    Clipped gradients are therefore nearly orthogonal, and the attacker projects the noisy sum on each. The labels are
    public; learned label lists are attacked through last layers alone.
    """
    assert isinstance(spec.params, PeftParams)
    params = spec.params.model_copy(update={"epochs": 1, "sample_rate": 1.0, "learning_rate": 1.0})
    data = spec.data.model_copy(update={"backbone": adapters.BACKBONE})
    played = spec.model_copy(update={"params": params, "data": data, "labels": "prior"})
    is_replaced = spec.privacy.adjacency == "replace"
    drawn = np.random.default_rng(0).integers(0, 256, (n_persons, _SIDE, _SIDE, 3)).astype(np.uint8)
    labels = np.arange(n_persons, dtype=np.int64)
    n_classes = n_persons * (2 if is_replaced else 1)
    context = _context(spec, epsilon, params.clip_norm, n_classes)

    def score(seed: int, seen: Released) -> Floats:
        inputs = np.column_stack([_features(adapters.fresh(params, n_classes), drawn), np.ones(n_persons)])
        zeros = {"head.weight": np.zeros((n_classes, inputs.shape[1] - 1)), "head.bias": np.zeros(n_classes)}
        noisy = _noisy_sum(zeros, seen[0], context)
        weight, bias = noisy[:-n_classes].reshape(n_classes, -1), noisy[-n_classes:]
        logits = inputs @ np.column_stack([weight, bias]).T
        # The gradient of cross-entropy at zero weights: (1 / n_classes - [own label]) times the last layer's inputs.
        norms = np.sqrt((1 - 1 / n_classes) * np.square(inputs).sum(axis=1))
        along = (logits.mean(axis=1, keepdims=True) - logits) * np.minimum(1, params.clip_norm / norms)[:, None]
        scores: Floats = along[labels, labels] - (along[labels, n_persons + labels] if is_replaced else 0.0)
        return scores[:, None]

    own, instead = Examples(drawn, labels), Examples(drawn, n_persons + labels)
    return played, _game(played, context, own, instead, score, f"{_HOW} (pictures of random pixels; {_LAST_LAYER})")


def sentences(spec: RunSpec, epsilon: float, n_candidates: int) -> tuple[RunSpec, Game]:
    """The game of texts of random tokens with random answers; under "replace" another text instead.

    Their gradients are much alike, so the candidates that differ most are planted, fewer under less noise,
    and the attacker scores all of them jointly (`log_odds`). One of LoRA's two factors starts at zero; the first
    step moves that factor alone.
    """
    params = spec.params
    assert isinstance(params, BaselineParams | PeclParams)
    context = _context(spec, epsilon, params.clip_norm, 0)
    sizes = {"batch_size": int(context.n_people), "length": _LONGEST, "lora_rank": min(_RANK, params.lora_rank)}
    params = params.model_copy(update={"epochs": 1, "learning_rate": 1.0, **sizes})
    data = spec.data.model_copy(update={"backbone": texts.BACKBONE})
    played = spec.model_copy(update={"params": params, "data": data})
    is_replaced = spec.privacy.adjacency == "replace"
    own, others = (_drawn(n_candidates, len(context.classes), seed) for seed in (0, 1))
    gradients = texts.gradients(played, context, planes(own), own.labels)
    instead = texts.gradients(played, context, planes(others), others.labels) if is_replaced else np.zeros_like(gradients)
    gradients -= instead
    is_moved = (gradients != 0).any(axis=0)
    moved, least = np.flatnonzero(is_moved), 1e-3 * params.clip_norm
    noise = gaussian.sigma(epsilon, spec.privacy.delta)
    n_there = int(np.clip(_AT_UNIT_NOISE * noise**2, min(_FEWEST, n_candidates), n_candidates))
    expected = max(least, _noise(spec, epsilon) * params.clip_norm)
    taken = least_alike(gradients[:, moved], n_there, expected) if n_there < n_candidates else np.arange(n_candidates)
    gradients = gradients[np.ix_(taken, moved)]
    usual = instead[np.ix_(taken, moved)].sum(axis=0) + gradients.sum(axis=0) / 2  # with half of them there
    net = AdaptedModel(played, Cell(math.inf, START), context).net
    before = {name: weights.detach().numpy() for name, weights in net.trainable().items()}

    def score(seed: int, seen: Released) -> Floats:
        noisy = _noisy_sum(before, seen[0], context)
        std = _GAUSSIAN * float(np.median(np.abs(noisy[~is_moved])))  # the other factor holds noise alone
        size = max(1.0, float(noisy[moved] @ usual / (usual @ usual)))  # larger where gradients are not clipped
        return log_odds(gradients, noisy[moved] / size, usual, max(least, std / size))[:, None]

    attack = f"{_HOW} (texts of random tokens; {_ALIKE})"
    return played, _game(played, context, own.take(taken), others.take(taken), score, attack)


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
    odds: Floats = inverse @ centred / (std**2 * np.diag(inverse))
    return odds


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


def _game(spec: RunSpec, context: PublicContext, own: Examples, others: Examples, score: Score, attack: str) -> Game:
    """A game of one task with the examples whose coin is heads; under "replace" `others` take the place of the rest."""
    n, table = len(own), np.concatenate([own.inputs, others.inputs])
    all_examples = Examples(table, np.concatenate([own.labels, others.labels]))

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = coins(seed, n) == side
        included = np.arange(n) + n * ~present if spec.privacy.adjacency == "replace" else np.flatnonzero(present)
        return [Task(0, texts.NAMES[0], all_examples.take(included), all_examples.take(included[:0]), context.public)]

    return Game(context, tasks, score, attack, _KNOWLEDGE, takes_part=lambda seed: coins(seed, n), start=START)


def _noise(spec: RunSpec, epsilon: float) -> float:
    """Approximate noise multiplier of a step on which the whole budget is spent."""
    return gaussian.sigma(epsilon, spec.privacy.delta, SENSITIVITY[spec.privacy.adjacency])


def _context(spec: RunSpec, epsilon: float, clip_norm: float, n_classes: int) -> PublicContext:
    """One task of a nominal size at which the noise on a mean is as large as `_ADAM`; n_classes = 0: the texts' classes."""
    n_people = max(_LEAST_NOMINAL, round(_noise(spec, epsilon) * clip_norm / _ADAM))
    names = () if n_classes else texts.words()
    public = tuple(range(n_classes or len(names)))
    return PublicContext(
        n_inputs=0, n_classes=len(public), public=public, n_people=n_people, n_tasks=1,
        recurrence=spec.scenario.recurrence, classes=names, texts=None if n_classes else TextForm(_LONGEST, may_show=False),
    )  # fmt: skip


@torch.no_grad()
def _features(network: Adapted, drawn: NDArray[np.uint8]) -> Floats:
    """Inputs of the last layer [n, dimensions] for pictures [n, side, side, channels]."""
    pieces = [
        network.features(torch.from_numpy(drawn[start : start + _AT_ONCE])) for start in range(0, len(drawn), _AT_ONCE)
    ]
    return torch.cat(pieces).double().numpy()


def _noisy_sum(before: Mapping[str, NDArray[np.generic]], after: Seen, context: PublicContext) -> Floats:
    """The noisy sum of gradients [weights] behind a first step of Adam at learning rate 1.

    The step is u = g / (|g| + e), so g = e u / (1 - |u|); values of |g| above 1e6 e are cut off.
    """
    changes = [np.asarray(before[name], np.float64) - np.asarray(after[name], np.float64) for name in before]
    step = np.clip(np.concatenate([part.ravel() for part in changes]), -1 + 1e-6, 1 - 1e-6)
    sums: Floats = _ADAM * context.n_people * step / (1 - np.abs(step))
    return sums


def _drawn(n: int, n_classes: int, seed: int) -> Examples:
    """Random texts [n, length, planes] of one to `_LONGEST` tokens, with random answers [n]."""
    random = np.random.default_rng(seed)
    rows = np.zeros((n, _LONGEST, PLANES), np.int32)
    rows[:, :, TOKEN] = random.integers(3, plain_language.load_tokenizer(texts.BACKBONE).size, (n, _LONGEST))
    rows[:, :, TOKEN][np.arange(_LONGEST) >= random.integers(1, _LONGEST + 1, (n, 1))] = PADDING
    return Examples(rows, random.integers(0, n_classes, n))


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
        return _Play(*pictures(spec, epsilon, N_PICTURES), planted="pictures")
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
        return _Play(*sentences(spec, epsilon, N_TEXTS), planted="texts")
    played = copies.short(spec)
    n_learners = math.ceil(N_RECORDS / copies.N_PERSONS)
    return _Play(played, copies.game(played, epsilon, is_natural=False), "texts", n_learners)


def _records(spec: RunSpec, epsilon: float) -> _Play:
    """Every record is noised separately, so one learner per record gives the same releases as one learner for all."""
    assert isinstance(spec.params, IndependentLaplaceParams)
    short = spec.model_copy(update={"params": spec.params.model_copy(update={"steps": 1})})
    game = inversion_audit.game(short, spec.params, epsilon, is_natural=False)

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
    if (why := play.refusal(spec)) is not None:
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
        bounds["gaussian"] = epsilon_of(gaussian_one_run_bound(guesses, confidence), delta)
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
    return least_right(n, r, lambda coins: epsilon_of(gaussian_one_run_bound(coins, confidence), delta) > accounted)


def _chance_right(mu: float, share: float) -> float:
    """Probability that a guess is right: scores are N(0, 1) or N(mu, 1) by a fair coin, and the outer `share` is guessed."""
    top = float(brentq(lambda at: (ndtr(-at) + ndtr(mu - at)) / 2 - share / 2, -9.0, mu + 9.0))
    return float(ndtr(mu - top) / (ndtr(-top) + ndtr(mu - top)))
