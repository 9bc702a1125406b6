"""A small network on the bundled digits: gradients of one example at a time, DP-SGD, and what both give away.

64 pixels, eight hidden units (tanh) and ten classes (softmax), in NumPy. The digits are public and fixed seeds start the
networks, so everything may be shown. Only the noise of DP-SGD comes from the operating system.
"""

import math
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.explorers.tokens import auroc
from dpcl_core.lessons import shared_noise
from dpcl_core.privacy import accounting
from dpcl_core.privacy.noise import ReleaseNoise

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

DELTA = 1e-5
HIDDEN, N_PIXELS, N_CLASSES = 8, 64, 10
N_WEIGHTS = HIDDEN * (N_PIXELS + 1) + N_CLASSES * (HIDDEN + 1)
N_STEPS, BATCH, CLIP, RATE = 300, 64, 1.0, 1.0
N_MEMBERS, N_TIMES = 160, 4
N_EARLY = 30  # steps after which the network knows most digits and not all
_PARTS = np.cumsum([HIDDEN * N_PIXELS, HIDDEN, N_CLASSES * HIDDEN])


def digits(n: int | None = None) -> tuple[Array, Labels]:
    """The first n of the bundled training digits [n, 64], pixels from 0 (paper) to 1 (ink), and their labels [n]."""
    pictures = shared_noise.pictures()
    return (pictures.train[:n] + 1) / 2, pictures.labels[:n]


def untrained() -> Array:
    """The weights [N_WEIGHTS] before the first step: hidden weights, their biases, output weights, their biases."""
    first, biases, second, more = _layers(np.random.default_rng(0).standard_normal(N_WEIGHTS))
    return np.concatenate([first.ravel() / math.sqrt(N_PIXELS), 0 * biases, second.ravel() / math.sqrt(HIDDEN), 0 * more])


def _layers(weights: Array) -> tuple[Array, Array, Array, Array]:
    first, biases, second, more = np.split(weights, _PARTS)
    return first.reshape(HIDDEN, N_PIXELS), biases, second.reshape(N_CLASSES, HIDDEN), more


def _forward(weights: Array, x: Array) -> tuple[Array, Array]:
    """Hidden values [n, HIDDEN], and logarithms of the classes' probabilities [n, N_CLASSES]."""
    first, biases, second, more = _layers(weights)
    hidden = np.tanh(x @ first.T + biases)
    scores = hidden @ second.T + more
    return hidden, scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def losses(weights: Array, x: Array, labels: Labels) -> Array:
    """The cross-entropy of each example [n]."""
    return np.asarray(-_forward(weights, x)[1][np.arange(len(x)), labels], np.float64)


def accuracy(weights: Array) -> float:
    """Share of the test digits that are recognised."""
    pictures = shared_noise.pictures()
    return float((_forward(weights, (pictures.test + 1) / 2)[1].argmax(axis=1) == pictures.test_labels).mean())


def gradients(weights: Array, x: Array, labels: Labels) -> Array:
    """The gradient of each example's loss, one example a row [n, N_WEIGHTS]."""
    hidden, logs = _forward(weights, x)
    output = np.exp(logs) - np.eye(N_CLASSES)[labels]
    inner = (output @ _layers(weights)[2]) * (1 - hidden**2)
    first = (inner[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    second = (output[:, :, None] * hidden[:, None, :]).reshape(len(x), -1)
    return np.concatenate([first, inner, second, output], axis=1)


def lengths(rows: Array) -> Array:
    """The length of each row [n]."""
    return np.asarray(np.linalg.norm(rows, axis=1), np.float64)


def clipped(rows: Array, clip: float) -> Array:
    """Each row, shortened to length `clip` where it is longer: one row more or less moves their sum by at most `clip`."""
    return rows * np.minimum(1, clip / np.maximum(lengths(rows), 1e-300))[:, None]


def trained(x: Array, labels: Labels, sigma: float = 0.0, n_steps: int = N_STEPS) -> Array:
    """The weights after DP-SGD with noise multiplier `sigma`; 0 trains without clipping and noise, on fixed batches.

    Each example is in a batch at the rate BATCH / n, at most 1, and sums are divided by the public number rate x n. One
    example moves a step's sum by at most CLIP; the noise on it has standard deviation sigma x CLIP.
    """
    weights, rate = untrained(), min(1.0, BATCH / len(x))
    batches = np.random.default_rng(None if sigma else 0)
    for _ in range(n_steps):
        drawn = batches.random(len(x)) < rate
        rows = gradients(weights, x[drawn], labels[drawn])
        total = ReleaseNoise().added(clipped(rows, CLIP).sum(axis=0), sigma * CLIP) if sigma else rows.sum(axis=0)
        weights = weights - RATE * total / (rate * len(x))
    return weights


@lru_cache(maxsize=64)
def sigma(epsilon: float, n: int) -> float:
    """The noise multiplier that gives (epsilon, DELTA) to each of n examples over the whole training."""
    return accounting.noise_multiplier(epsilon, DELTA, min(1.0, BATCH / n), N_STEPS, "add-remove")


@lru_cache(maxsize=16)
def plain(n: int) -> Array:
    """A network trained on the first n digits, without clipping and noise."""
    return trained(*digits(n))


def private(n: int, epsilon: float) -> Array:
    """A network trained on them with DP-SGD, with fresh noise at every call."""
    return trained(*digits(n), sigma(epsilon, n))


def members(weights: Array, n: int) -> tuple[Array, Array]:
    """Losses of the first n digits, which the network was trained on, and of as many others; at most 300 of each."""
    x, labels = digits()
    shown = min(n, 300)
    return losses(weights, x[:shown], labels[:shown]), losses(weights, x[-shown:], labels[-shown:])


def pairs_right(inside: Array, outside: Array) -> float:
    """How often a guesser is right who sees a digit that was in and one that was not, and calls the smaller loss “in”."""
    return auroc(-np.concatenate([inside, outside]), np.arange(len(inside) + len(outside)) < len(inside))


def attacked(epsilon: float) -> tuple[float, float]:
    """Mean of `pairs_right`, and of the accuracy, over `N_TIMES` trainings with DP-SGD on `N_MEMBERS` digits."""
    networks = [private(N_MEMBERS, epsilon) for _ in range(N_TIMES)]
    right = [pairs_right(*members(weights, N_MEMBERS)) for weights in networks]
    return float(np.mean(right)), float(np.mean([accuracy(weights) for weights in networks]))


def early_gradients(n: int) -> Array:
    """Gradients [n, N_WEIGHTS] of the first n digits in a network after `N_EARLY` steps without noise."""
    return gradients(_early(), *digits(n))


@cache
def _early() -> Array:
    return trained(*digits(), n_steps=N_EARLY)


def at_unit(rows: Array) -> Array:
    """What each gradient asks of the pixels' weights [n, 64] at the hidden unit that they move most together."""
    first = rows[:, : HIDDEN * N_PIXELS].reshape(-1, HIDDEN, N_PIXELS)
    return np.asarray(first[:, int((first**2).sum(axis=(0, 2)).argmax())], np.float64)


def seen_by_units(gradient: Array) -> Array:
    """What a server computes from a gradient: at each hidden unit, that of the weights over that of the bias [HIDDEN, 64].

    With one example both are the unit's error, times the picture in the first, so each quotient is the picture itself (Phong
    et al., 2018). With several it is their mean, weighted by their errors.
    """
    first, biases, _, _ = _layers(gradient)
    return np.asarray(first / biases[:, None], np.float64)


def seen(gradient: Array) -> Array:
    """The quotient [64] at the unit whose bias moves most, where noise on the gradient does least."""
    return np.asarray(seen_by_units(gradient)[np.abs(_layers(gradient)[1]).argmax()], np.float64)


def error(found: Array, truth: Array) -> float:
    """Root mean square error of a pixel, each first brought between 0 and 1."""
    return float(np.sqrt(((np.clip(found, 0, 1) - truth) ** 2).mean()))


# Choosing ε: what a budget allows the best guesser, for a secret of any size.


def named(epsilon: float, n: int) -> float:
    """The most that anyone who thinks n secrets equally likely can then believe in the right one: e^ε / (e^ε + n - 1).

    epsilon (δ = 0) bounds the ratio of the release's probabilities under any two secrets. By Bayes the belief is the right
    secret's probability over the sum of all n, and each of the others is at least e^-ε times the right one's.
    """
    return 1 / (1 + (n - 1) * math.exp(-epsilon))
