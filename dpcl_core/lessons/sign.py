"""PeCL's unlearning term as printed, reversed and bounded: one step, a small model, a recorded training.

Zhan et al., Eqs. 12 and 13. Everything here is about invented secrets. What language models were measured to do is read
from `assets/lessons/sign.json` (the bundled one) and `sign-smollm2.json`, which `scripts/record_unlearning.py` writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.cards.pecl import Form
from dpcl_core.spec import Spec

FORMS: dict[Form, str] = {
    "none": "without the term",
    "printed": "the printed term",
    "flipped": "its sign turned",
    "mask": "left out",
    "unlikelihood": "unlikelihood",
    "npo": "NPO",
    "hinge": "hinge",
}
THETA = sensitivity.THRESHOLD
MARGIN = 1.0  # nats, of the hinge
BETA = 0.5  # of NPO
_DIGITS, _LENGTH = 10, 4
_WORDS, _CONTEXTS, _WIDTH = 20, 12, 12
_N_STEPS, _STEP = 300, 2.0  # of the small model's training


def probability(score: float) -> float:
    """The public model's probability of a token with this Score: (1 - Score)^2, for alpha = 0.5 and Score2 = 0."""
    return (1 - score) ** 2


def pull(form: Form, score: float, strength: float, p: float, p_public: float) -> float:
    """Derivative of a text's total loss by this token's cross-entropy, times the number of tokens (`full` loss).

    Above 0: training makes the token likelier. `p`: the model's probability of it now, `p_public`: the public model's.
    """
    excess = strength * max(0.0, score - THETA)
    if form == "unlikelihood":  # the derivative of -log(1 - p) by -log p
        return -excess * p / max(1e-12, 1 - p) if excess else 1.0
    if form == "npo":
        ratio = (p / p_public) ** BETA
        return -excess * 2 * ratio / (1 + ratio) if excess else 1.0
    gap = np.array([math.log(p_public) - math.log(p)])
    weights = sensitivity.loss_weights(np.array([score]), form, "full", strength=strength, gap=gap, margin=MARGIN)
    return float(weights[0])


def after_a_step(form: Form, score: float, strength: float) -> float:
    """Probability of a token after one gradient step of length 1, from the public model's.

    The token's logit against everything else is what is trained: its cross-entropy falls with slope 1 - p.
    """
    p = probability(score)
    logit = math.log(p) - math.log1p(-p) + pull(form, score, strength, p, p) * (1 - p)
    return 1 / (1 + math.exp(-logit))


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """A small model's training: after each step, nats per digit of the secret code, and per ordinary word."""

    secret: NDArray[np.float64]
    ordinary: NDArray[np.float64]


def course(form: Form, score: float, strength: float) -> Course:
    """Trains a small model on one code of four digits and on ordinary words, with the term on the code's digits.

    A softmax on fixed public features of sixteen contexts, which overlap, so that changes to the digits affect the words.
    It begins as the public model, which predicts the words a little and the code not at all. Plain gradient descent on the
    mean over tokens; a gradient longer than 1 is cut to 1. Deterministic: features and code are fixed.
    """
    features, targets, weights = _public()
    rows, is_digit = np.arange(len(targets)), targets < _DIGITS
    p_public = _softmax(features @ weights)[rows, targets]
    secret, ordinary = [], []
    for _ in range(_N_STEPS + 1):
        chances = _softmax(features @ weights)
        of_targets = np.maximum(chances[rows, targets], 1e-300)
        secret.append(float(-np.log(of_targets[is_digit]).mean()))
        ordinary.append(float(-np.log(of_targets[~is_digit]).mean()))
        pulls = np.ones(len(targets))
        for row in np.flatnonzero(is_digit):
            pulls[row] = pull(form, score, strength, float(of_targets[row]), float(p_public[row]))
        residual = chances.copy()
        residual[rows, targets] -= 1
        gradient = features.T @ (pulls[:, None] * residual) / len(targets)
        weights = weights - _STEP * gradient * min(1.0, 1.0 / max(float(np.linalg.norm(gradient)), 1e-12))
    return Course(np.array(secret), np.array(ordinary))


def _public() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Features [contexts, width], the token that follows each, and the public model's weights [width, tokens]."""
    generator = np.random.default_rng(7)
    n = _LENGTH + _CONTEXTS
    features = generator.standard_normal((n, _WIDTH))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    code = generator.integers(0, _DIGITS, _LENGTH)
    words = _DIGITS + generator.integers(0, _WORDS, _CONTEXTS)
    targets = np.concatenate([code, words]).astype(np.int64)
    # Wanted logits: digits, all alike, behind a code's contexts; words, with a lead for the right one, behind the others.
    logits = np.zeros((n, _DIGITS + _WORDS))
    logits[:_LENGTH, :_DIGITS] = logits[_LENGTH:, _DIGITS:] = 4.0
    logits[np.arange(_LENGTH, n), words] += 2.0
    weights = np.asarray(np.linalg.lstsq(features, logits, rcond=None)[0], np.float64)
    return features, targets, weights


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return chances


class ModelResult(Spec):
    """Results of one trained model: means by how often codes were planted ("0": controls), and its utility.

    `exposure` and `below` in bits; `first`, `extracted`: shares; `nats`: held-out, per token outside marked spans;
    `accuracy`: of labels.
    """

    exposure: Mapping[str, float]
    below: Mapping[str, float]
    first: Mapping[str, float]
    extracted: Mapping[str, float]
    nats: float
    accuracy: float


class Variant(Spec):
    """The minimised loss, and its results with each seed of `at`. `score`: the detector of sensitive tokens."""

    loss: Literal["answer", "full"]
    form: Form
    strength: float
    score: Literal["score", "oracle", "current"]
    at: tuple[int, ...]
    seeds: tuple[ModelResult, ...]

    def mean(self, what: Literal["exposure", "below", "first", "extracted"], level: str) -> float:
        """Mean over seeds."""
        return float(np.mean([getattr(one, what)[level] for one in self.seeds]))

    def exposures(self, level: str) -> list[float]:
        """Exposure of a level with each seed."""
        return [one.exposure[level] for one in self.seeds]

    @property
    def nats(self) -> float:
        return float(np.mean([one.nats for one in self.seeds]))

    @property
    def accuracy(self) -> float:
        return float(np.mean([one.accuracy for one in self.seeds]))


class Record(Spec):
    """A recorded experiment: date, command to reproduce it, settings and results."""

    date: str
    command: str
    minutes: float
    settings: Mapping[str, str | int | float]
    codes: Mapping[str, int]
    base: ModelResult
    variants: tuple[Variant, ...]

    def of(self, loss: str, form: str, strength: float = 1.0, score: str = "score") -> Variant:
        """The variant with these settings. Raises KeyError where it was not recorded."""
        for one in self.variants:
            if (one.loss, one.form, one.strength, one.score) == (loss, form, strength, score):
                return one
        raise KeyError((loss, form, strength, score))


@lru_cache(maxsize=2)
def record(*, large: bool = False) -> Record:
    """The last results of `scripts/record_unlearning.py`; `large`: on SmolLM2, which reads."""
    file = paths.assets_dir() / "lessons" / ("sign-smollm2.json" if large else "sign.json")
    return Record.model_validate_json(file.read_text(encoding="utf-8"))
