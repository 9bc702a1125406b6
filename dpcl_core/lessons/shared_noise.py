"""One noise vector for all pictures against a fresh one for each: results of an attacker and of a learner.

L2DP-ML (Lai et al. 2022, Algorithm 2) draws its Laplace noise once and adds it to every record. Everything here is played on
public pictures, with noise from the operating system; nothing of it may be shown of private data. An attacker who already
has one of the pictures uses `attacks.l2dp_games.difference`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpcl_core import paths
from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.data.dataset import Form
from dpcl_core.documents import Document
from dpcl_core.lessons.noise import Duel
from dpcl_core.methods.language import params, sensitivity
from dpcl_core.methods.lifelong import claim
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.spec import DataSpec

Sharing = Literal["shared", "independent"]
_RIDGE = 1.0
_FILTERS = np.random.default_rng(0).standard_normal((9, 16)) / 3  # sixteen of 3 x 3, random and public
_BATCH = 500  # λ; the claim does not depend on it


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Square grey pictures: train and test [n, side * side] float64 in [-1, 1], labels int64 [n].

    `levels`: the grey values that occur in the test pictures, ascending; they are public.
    """

    title: str
    classes: tuple[str, ...]
    train: NDArray[np.float64]
    labels: NDArray[np.int64]
    test: NDArray[np.float64]
    test_labels: NDArray[np.int64]
    levels: NDArray[np.float64]

    @property
    def side(self) -> int:
        return math.isqrt(self.n_pixels)

    @property
    def n_pixels(self) -> int:
        return int(self.train.shape[1])

    def one_of_each(self) -> NDArray[np.int64]:
        """The row of the first training picture of every class."""
        return np.array([np.flatnonzero(self.labels == label)[0] for label in range(len(self.classes))])


@dataclass(frozen=True, slots=True)
class Recovery:
    """How close an attack came to pictures that it had not seen.

    `pixels` and `pictures`: shares (in [0, 1]) of pixels, and of whole pictures, that have exactly their own grey level once
    the result is rounded to the nearest level. `rms_error`: before rounding, where the range of a pixel is 2.
    """

    pixels: float
    pictures: float
    rms_error: float


@cache
def pictures() -> Pictures:
    """The bundled digits as training and test pictures."""
    loaded = load.load_dataset(DataSpec(dataset="digits"))
    train, test = loaded.train, loaded.test
    inputs, tested = (2 * pixels.pixel_rows(part.images).astype(np.float64) - 1 for part in (train, test))
    return Pictures(loaded.title, loaded.classes, inputs, train.labels, tested, test.labels, np.unique(tested))


def perturbed(clean: NDArray[np.float64], scale: float, sharing: Sharing, noise: Noise) -> NDArray[np.float64]:
    """The pictures [n, K] with Laplace noise of this scale: one vector on all of them, or each with its own."""
    return clean + scale * noise.laplace(((1 if sharing == "shared" else len(clean)), clean.shape[1]))


def from_mean(noisy: NDArray[np.float64], public: NDArray[np.float64]) -> NDArray[np.float64]:
    """The attack without knowledge of any of the pictures, from `public` ones [m, K] of the same kind alone.

    Means of many pictures are alike: the mean of `noisy` [n, K] less the public mean is taken for the noise.
    """
    return np.asarray(noisy - (noisy.mean(axis=0) - public.mean(axis=0)), np.float64)


def recovered(attempted: NDArray[np.float64], clean: NDArray[np.float64], levels: NDArray[np.float64]) -> Recovery:
    """How close an attack's result [n, K] is to the truth [n, K], whose values are all among `levels`."""
    between = (levels[1:] + levels[:-1]) / 2
    is_exact = np.searchsorted(between, attempted) == np.searchsorted(between, clean)
    error = float(np.sqrt(((attempted - clean) ** 2).mean()))
    return Recovery(float(is_exact.mean()), float(is_exact.all(axis=1).mean()), error)


def recognised(attempted: NDArray[np.float64], clean: NDArray[np.float64], rows: Sequence[int]) -> float:
    """Share of the rows of `attempted` whose nearest picture among all of `clean` [n, K] is the right one."""
    nearest = ((clean**2).sum(axis=1)[None, :] - 2 * attempted[list(rows)] @ clean.T).argmin(axis=1)
    return float((nearest == np.asarray(rows)).mean())


def accuracies(data: Pictures, scale: float, *, noise: Noise | None = None) -> tuple[float, float, float]:
    """Test accuracies (in [0, 1]) of a learner on pictures with noise of this scale on pixels, twice that on hidden units.

    The first: one noise on all pictures and one on all hidden units, before a ReLU; the second: the same before a clip to
    [-1, 1] with nothing added behind it; the third: fresh noise for every picture, before a ReLU.

    Random filters, a nonlinearity, and a ridge read-out that is fitted on the noisy training pictures and tested on
    noisy test pictures. With shared noise, training and test pictures have the same; the filters are public.
    """
    noise = noise if noise is not None else ReleaseNoise()
    one, two = (_hidden(part) for part in (data.train, data.test))
    # The filters are linear: noise on the pixels moves hidden units by the noise's own response.
    pixels, units = scale * noise.laplace((1, data.n_pixels)), 2 * scale * noise.laplace((1, one.shape[1]))
    offset = _hidden(pixels)
    shared = _read_out(data, *(np.maximum(part + offset + units, 0) for part in (one, two)))
    clipped = _read_out(data, *(np.clip(part + offset, -1, 1) for part in (one, two)))
    fresh = (
        np.maximum(part + _hidden(scale * noise.laplace(raw.shape)) + 2 * scale * noise.laplace(part.shape), 0)
        for raw, part in ((data.train, one), (data.test, two))
    )
    return shared, clipped, _read_out(data, *fresh)


def play(data: Pictures, scale: float, sharing: Sharing, n: int) -> Duel:
    """n releases of noisy pictures in which she brought one picture, and n in which she brought another.

    The attacker has both pictures and one more person's, and sees the noisy pictures. Shared: he subtracts the noise, and
    one of the two pictures fits exactly. Independent: he uses the likelihood ratio of her own row, the best possible test.
    """
    known, first, second = data.train[data.one_of_each()[:3]]
    evidence = []
    for hers in (first, second):
        drawn = scale * ReleaseNoise().laplace((n, (1 if sharing == "shared" else 2), len(hers)))
        noisy_known, noisy_hers = known + drawn[:, 0], hers + drawn[:, -1]
        if sharing == "shared":
            denoised = noisy_hers - (noisy_known - known)
            fits_first = np.abs(denoised - first).max(axis=1) < np.abs(denoised - second).max(axis=1)
            evidence.append(np.where(fits_first, np.inf, -np.inf))
        else:
            evidence.append((np.abs(noisy_hers - second) - np.abs(noisy_hers - first)).sum(axis=1) / scale)
    return Duel(*evidence)


def worst_epsilon(data: Pictures, scale: float) -> float:
    """Epsilon of independent noise for the two most distant pictures: their L1 distance (2 a pixel) over its scale."""
    return 2.0 * data.n_pixels / scale


def claimed_epsilon(data: Pictures, scale: float) -> float:
    """The cost that Theorem 2 of Lai et al. states for pictures with noise of this scale: its term ε1/γ_x.

    The scale is Δ_R/(ε1 λ) and γ_x = Δ_R/λ, so the term is 1/scale, whatever Δ_R, the batch λ and the rest of the budget.
    """
    sizes = claim.sizes(Form((data.side, data.side, 1), -1.0, 1.0), len(data.classes))
    return claim.Plan(sizes, "literal", _BATCH, sizes.delta_r("literal") / (scale * _BATCH), 1.0).terms(1.0)["ε1/γ_x"]


def _hidden(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The filters' responses at every second position [n, positions * filters], without a bias."""
    side = math.isqrt(inputs.shape[1])
    padded = np.pad(inputs.reshape(-1, side, side), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
    return np.asarray(windows.reshape(len(inputs), -1, len(_FILTERS)) @ _FILTERS, np.float64).reshape(len(inputs), -1)


def _read_out(data: Pictures, train: NDArray[np.float64], test: NDArray[np.float64]) -> float:
    """Test accuracy of ridge regression on standardised hidden units; constant units are left out."""
    middle, spread = train.mean(axis=0), train.std(axis=0)
    varies = spread > 1e-9 * (1 + np.abs(middle))
    train, test = ((part[:, varies] - middle[varies]) / spread[varies] for part in (train, test))
    one_hot = np.eye(len(data.classes))[data.labels]
    weights = np.linalg.solve(train.T @ train + _RIDGE * np.eye(train.shape[1]), train.T @ (one_hot - one_hot.mean(axis=0)))
    return float(((test @ weights + one_hot.mean(axis=0)).argmax(axis=1) == data.test_labels).mean())


# PeCL's unlearning term as printed, reversed and bounded: one step, a small model, a recorded training.
#
# Zhan et al., Eqs. 12 and 13. Everything here is about invented secrets. What language models were measured to do is read
# from `assets/lessons/sign.json` (the bundled one) and `sign-smollm2.json`, which `scripts/record_unlearning.py` writes.


FORMS: dict[params.UnlearningForm, str] = {
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


def pull(form: params.UnlearningForm, score: float, strength: float, p: float, p_public: float) -> float:
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


def after_a_step(form: params.UnlearningForm, score: float, strength: float) -> float:
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


def course(form: params.UnlearningForm, score: float, strength: float) -> Course:
    """Trains a small model on one code of four digits and on ordinary words, with the term on the code's digits.

    A softmax on fixed public features of sixteen contexts, which overlap, so that changes to the digits affect the words.
    It begins as the public model, which predicts the words a little and the code not at all. Plain gradient descent on the
    mean over tokens; a gradient longer than 1 is cut to 1. Deterministic: features and code are fixed.
    """
    features, targets, weights = _public()
    rows, is_digit = np.arange(len(targets)), targets < _DIGITS
    p_public = softmax(features @ weights, axis=1)[rows, targets]
    secret, ordinary = [], []
    for _ in range(_N_STEPS + 1):
        chances = softmax(features @ weights, axis=1)
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
    return features, targets, np.asarray(np.linalg.lstsq(features, logits, rcond=None)[0], np.float64)


class ModelResult(Document):
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


class Variant(Document):
    """The minimised loss, and its results with each seed of `at`. `score`: the detector of sensitive tokens."""

    loss: Literal["answer", "full"]
    form: params.UnlearningForm
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


class Record(Document):
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
        by_settings: dict[object, Variant] = {(one.loss, one.form, one.strength, one.score): one for one in self.variants}
        return by_settings[loss, form, strength, score]


@lru_cache(maxsize=2)
def record(*, large: bool = False) -> Record:
    """The last results of `scripts/record_unlearning.py`; `large`: on SmolLM2, which reads."""
    file = paths.assets_dir() / "lessons" / ("sign-smollm2.json" if large else "sign.json")
    return Record.model_validate_json(file.read_text(encoding="utf-8"))
