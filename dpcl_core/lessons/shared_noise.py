"""One noise vector for all pictures against a fresh one for each: results of an attacker and of a learner.

L2DP-ML (Lai et al. 2022, Algorithm 2) draws its Laplace noise once and adds it to every record. Everything here is played on
public pictures, with noise from the operating system; nothing of it may be shown of private data. An attacker who already
has one of the pictures uses `attacks.shared_noise_games.difference`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.data.dataset import Form
from dpcl_core.lessons.duel import Duel
from dpcl_core.methods.lifelong.cards import claim
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.spec import DataSpec

Sharing = Literal["shared", "independent"]
_RIDGE = 1.0
_BATCH = 500  # λ; the claim does not depend on it
_BLOCK = 250  # releases of a duel made at once


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


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Test accuracy (in [0, 1]) of one learner under one noise scale.

    `shared`: one noise on all pictures and one on all hidden units, before a ReLU; `shared_clipped`: the same before a
    clip to [-1, 1] with nothing added behind it; `independent`: fresh noise for every picture, before a ReLU.
    """

    shared: float
    shared_clipped: float
    independent: float


def pictures(dataset: str = "digits", train_per_class: int | None = None, test_per_class: int | None = None) -> Pictures:
    """A dataset of square grey pictures; by default all bundled digits.

    Raises DataMissing where its files are not on this computer.
    """
    loaded = load.load(DataSpec(dataset=dataset, train_per_class=train_per_class, test_per_class=test_per_class))
    train, test = loaded.train, loaded.test
    inputs, tested = (2 * pixels.rows(part.images).astype(np.float64) - 1 for part in (train, test))
    return Pictures(loaded.title, loaded.classes, inputs, train.labels, tested, test.labels, np.unique(tested))


def perturbed(clean: NDArray[np.float64], scale: float, sharing: Sharing, noise: Noise) -> NDArray[np.float64]:
    """The pictures [n, K] with Laplace noise of this scale: one vector on all of them, or each with its own."""
    rows = 1 if sharing == "shared" else len(clean)
    return clean + scale * noise.laplace((rows, clean.shape[1]))


def from_mean(noisy: NDArray[np.float64], public: NDArray[np.float64]) -> NDArray[np.float64]:
    """The attack without knowledge of any of the pictures, from `public` ones [m, K] of the same kind alone.

    Means of many pictures are alike: the mean of `noisy` [n, K] less the public mean is taken for the noise.
    """
    recovered_pictures: NDArray[np.float64] = noisy - (noisy.mean(axis=0) - public.mean(axis=0))
    return recovered_pictures


def recovered(attempted: NDArray[np.float64], clean: NDArray[np.float64], levels: NDArray[np.float64]) -> Recovery:
    """How close an attack's result [n, K] is to the truth [n, K], whose values are all among `levels`."""
    between = (levels[1:] + levels[:-1]) / 2
    is_exact = np.searchsorted(between, attempted) == np.searchsorted(between, clean)
    error = float(np.sqrt(((attempted - clean) ** 2).mean()))
    return Recovery(float(is_exact.mean()), float(is_exact.all(axis=1).mean()), error)


def recognised(attempted: NDArray[np.float64], clean: NDArray[np.float64], rows: Sequence[int]) -> float:
    """Share of the rows of `attempted` whose nearest picture among all of `clean` [n, K] is the right one."""
    lengths = (clean**2).sum(axis=1)
    chosen = attempted[list(rows)]
    nearest = (lengths[None, :] - 2 * chosen @ clean.T).argmin(axis=1)
    return float((nearest == np.asarray(rows)).mean())


def accuracies(data: Pictures, scale: float, *, noise: Noise | None = None, filters_seed: int = 0) -> Accuracies:
    """Test accuracy of a learner on pictures with noise of this scale on pixels and twice that on hidden units.

    Random filters, a nonlinearity, and a ridge read-out that is fitted on the noisy training pictures and tested on
    noisy test pictures. With shared noise, training and test pictures have the same; the filters are public.
    """
    noise = noise if noise is not None else ReleaseNoise()
    filters = _filters(data.side, filters_seed)
    one, two = (_hidden(part, filters) for part in (data.train, data.test))
    # The filters are linear: noise on the pixels moves hidden units by the noise's own response.
    pixels, units = scale * noise.laplace((1, data.n_pixels)), 2 * scale * noise.laplace((1, one.shape[1]))
    offset = _hidden(pixels, filters)
    shared = _read_out(data, *(np.maximum(part + offset + units, 0) for part in (one, two)))
    clipped = _read_out(data, *(np.clip(part + offset, -1, 1) for part in (one, two)))
    fresh = (
        np.maximum(part + _hidden(scale * noise.laplace(raw.shape), filters) + 2 * scale * noise.laplace(part.shape), 0)
        for raw, part in ((data.train, one), (data.test, two))
    )
    return Accuracies(shared, clipped, _read_out(data, *fresh))


def play(data: Pictures, scale: float, sharing: Sharing, n: int, *, noise: Noise | None = None) -> Duel:
    """n releases of noisy pictures in which she brought one picture, and n in which she brought another.

    The attacker has both pictures and one more person's, and sees the noisy pictures. Shared: he subtracts the noise, and
    one of the two pictures fits exactly. Independent: he uses the likelihood ratio of her own row, the best possible test.
    """
    noise = noise if noise is not None else ReleaseNoise()
    known, first, second = data.train[data.one_of_each()[:3]]
    sides = []
    for hers in (first, second):
        evidence = []
        for start in range(0, n, _BLOCK):
            size = min(_BLOCK, n - start)
            rows = 1 if sharing == "shared" else 2
            drawn = scale * noise.laplace((size, rows, len(hers)))
            noisy_known, noisy_hers = known + drawn[:, 0], hers + drawn[:, -1]
            if sharing == "shared":
                denoised = noisy_hers - (noisy_known - known)
                fits_first = np.abs(denoised - first).max(axis=1) < np.abs(denoised - second).max(axis=1)
                evidence.append(np.where(fits_first, np.inf, -np.inf))
            else:
                evidence.append((np.abs(noisy_hers - second) - np.abs(noisy_hers - first)).sum(axis=1) / scale)
        sides.append(np.concatenate(evidence))
    return Duel(*sides)


def worst_epsilon(data: Pictures, scale: float) -> float:
    """Epsilon of independent noise for the two most distant pictures: their L1 distance (2 a pixel) over its scale."""
    return 2.0 * data.n_pixels / scale


def claimed_epsilon(data: Pictures, scale: float) -> float:
    """The cost that Theorem 2 of Lai et al. states for pictures with noise of this scale: its term ε1/γ_x.

    The scale is Δ_R/(ε1 λ) and γ_x = Δ_R/λ, so the term is 1/scale, whatever Δ_R, the batch λ and the rest of the budget.
    """
    sizes = claim.sizes(Form((data.side, data.side, 1), -1.0, 1.0), len(data.classes))
    delta_r = sizes.delta_r("literal")
    return claim.Plan(sizes, "literal", _BATCH, delta_r / (scale * _BATCH), 1.0).terms(1.0)["ε1/γ_x"]


def _filters(side: int, seed: int) -> NDArray[np.float64]:
    """Random filters [width * width, filters]: sixteen of 3x3 for small pictures, eight of 5x5 from 16 pixels a side."""
    width, n_filters = (3, 16) if side < 16 else (5, 8)
    drawn: NDArray[np.float64] = np.random.default_rng(seed).standard_normal((width * width, n_filters)) / width
    return drawn


def _hidden(inputs: NDArray[np.float64], filters: NDArray[np.float64]) -> NDArray[np.float64]:
    """The filters' responses at every second position [n, positions * filters], without a bias."""
    side, width = math.isqrt(inputs.shape[1]), math.isqrt(len(filters))
    edge = width // 2
    padded = np.pad(inputs.reshape(-1, side, side), ((0, 0), (edge, edge), (edge, edge)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (width, width), axis=(1, 2))[:, ::2, ::2]
    seen: NDArray[np.float64] = windows.reshape(len(inputs), -1, width * width) @ filters
    return seen.reshape(len(inputs), -1)


def _read_out(data: Pictures, train: NDArray[np.float64], test: NDArray[np.float64]) -> float:
    """Test accuracy of ridge regression on standardised hidden units; constant units are left out."""
    middle, spread = train.mean(axis=0), train.std(axis=0)
    varies = spread > 1e-9 * (1 + np.abs(middle))
    train, test = ((part[:, varies] - middle[varies]) / spread[varies] for part in (train, test))
    one_hot = np.eye(len(data.classes))[data.labels]
    weights = np.linalg.solve(train.T @ train + _RIDGE * np.eye(train.shape[1]), train.T @ (one_hot - one_hot.mean(axis=0)))
    scores = test @ weights + one_hot.mean(axis=0)
    return float((scores.argmax(axis=1) == data.test_labels).mean())
