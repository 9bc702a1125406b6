"""Audits of adapters in one training: many planted pictures or texts, and one step of Adam that the attacker inverts.

Adapters start at zero, or with one factor of zero, or below a last layer of zero. So the first step of Adam reveals the
noisy mean gradient wherever planted examples move it: the step is g / (|g| + 1e-8) long, and the public number that means
are divided by is so large that their noise is about 1e-8. The whole budget is spent on that one step.

The audit uses the bundled networks, whatever network the run has: noise, clipping and ledger are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import adapters, texts
from dpcl_core.attacks.play import START, Floats, Game, Released, Seen, coins
from dpcl_core.backbones.language import tokenizer
from dpcl_core.data.texts import PADDING, PLANES, TOKEN, TextForm
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.adapted_network import Adapted
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.language.adapted_model import AdaptedModel
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.scoring import planes
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

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
    rows[:, :, TOKEN] = random.integers(3, tokenizer.load(texts.BACKBONE).size, (n, _LONGEST))
    rows[:, :, TOKEN][np.arange(_LONGEST) >= random.integers(1, _LONGEST + 1, (n, 1))] = PADDING
    return Examples(rows, random.integers(0, n_classes, n))
