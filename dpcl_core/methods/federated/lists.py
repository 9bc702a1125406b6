"""Local lists: a client's embeddings as a few weighted Gaussians with targets, fitted on the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.params import SignatureCovariance, SignatureNorm

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Reals = NDArray[np.floating]
Ints = NDArray[np.int64]

# Projections of noisy statistics to valid parameters; all post-processing.


def simplex(values: Reals) -> Floats:
    """The nearest points of the probability simplex, along the last axis of values [..., K].

    With v sorted in descending order, r is the largest index with v_(r) > (v_(1) + ... + v_(r) - 1) / r. That threshold is
    subtracted from every value, and negative results become zero.
    """
    values = np.asarray(values, dtype=np.float64)
    downwards = -np.sort(-values, axis=-1)
    thresholds = (downwards.cumsum(axis=-1) - 1) / np.arange(1, values.shape[-1] + 1)
    last = (downwards > thresholds).sum(axis=-1, keepdims=True) - 1
    return np.maximum(values - np.take_along_axis(thresholds, last, axis=-1), 0)


def psd(matrices: Reals, floor: float) -> Floats:
    """Symmetric matrices [..., d, d] with every eigenvalue raised to at least `floor`; unchanged where all are above it."""
    matrices = np.asarray(matrices, dtype=np.float64)
    symmetric = (matrices + np.swapaxes(matrices, -1, -2)) / 2
    values, vectors = np.linalg.eigh(symmetric)
    raised = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    above = values.min(axis=-1)[..., None, None] >= floor
    return np.where(above, symmetric, (raised + np.swapaxes(raised, -1, -2)) / 2)


# Log-densities of many Gaussians at many points.


def log_densities(points: Reals, means: Reals, covariances: Reals) -> Floats:
    """log N(point; mean, covariance): [L, m] of points [m, d], means [L, d] and covariances [L, d] or [L, d, d].

    Raises BadInput for a covariance that is not positive definite: project noisy ones first.
    """
    points, means, covariances = (np.asarray(values, dtype=np.float64) for values in (points, means, covariances))
    if covariances.ndim == 2:
        if not (covariances > 0).all():
            raise BadInput("covariance", float(covariances.min()), "must be positive definite")
        return diagonal(points, points**2, means, covariances).astype(np.float64)
    densities = [_full(points, mean, covariance) for mean, covariance in zip(means, covariances, strict=True)]
    return np.array(densities).reshape(len(means), len(points))


def diagonal(points: Reals, squares: Reals, means: Reals, variances: Reals) -> Reals:
    """Log-densities [L, m] for variances [L, d], in the precision of the points [m, d]; `squares`: points**2."""
    quadratic = (1 / variances) @ squares.T - 2 * (means / variances) @ points.T
    constant = (means**2 / variances + np.log(variances)).sum(axis=1) + means.shape[1] * np.log(2 * np.pi)
    return np.asarray(-(quadratic + constant[:, None].astype(points.dtype)) / 2)


def _whitened(factor: Reals, rows: Reals) -> Floats:
    """Rows [n, d] in units of a covariance's Cholesky factor."""
    from scipy.linalg import solve_triangular  # takes long to load, and other methods' runs load this module, too

    return np.asarray(solve_triangular(factor, rows.T, lower=True)).T


def cholesky(covariances: Floats) -> Floats:
    """The lower factors [..., d, d]. Raises LinAlgError where there is none, also in a page, whose NumPy then gives NaN."""
    factors = np.linalg.cholesky(covariances)
    if not np.isfinite(factors).all():
        raise np.linalg.LinAlgError("not positive definite")
    return np.asarray(factors)


def _full(points: Floats, mean: Floats, covariance: Floats) -> Floats:
    try:
        factor = cholesky(covariance)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(covariance).min())
        raise BadInput("covariance", smallest, "must be positive definite (this is its smallest eigenvalue)") from None
    white = _whitened(factor, points - mean).T
    constant = 2 * np.log(np.diag(factor)).sum() + len(mean) * np.log(2 * np.pi)
    return np.asarray(-((white**2).sum(axis=0) + constant) / 2)


Form = Literal["diagonal", "full"]
_GAIN = 1e-3  # EM stops when the mean log-likelihood of a row grows by less, as in scikit-learn
# Starts that reach the same optimum differ in the last digits of single precision, which depend on the processor's kernels.
# The first start this close to the best is kept, so that a list's order is the same on every machine.
_SAME = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One entry of a list: share of the client's rows, mean [d], covariance [d] (diagonal) or [d, d], mean target [C].

    An element without rows has weight 0, zero mean and target, and variance 1/d: a list's length reveals nothing.
    """

    weight: float
    mean: Floats
    covariance: Floats
    target: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of n clients stacked, all of L elements.

    `weights` [n, L]; `means` [n, L, d]; `covariances` [n, L, d] or [n, L, d, d]; `targets` [n, L, C]; float64.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    targets: Floats

    @classmethod
    def of(cls, lists: Sequence[Sequence[Element]]) -> Lists:
        """Stacks at least one list; all must have the same length."""
        names = ("weight", "mean", "covariance", "target")
        return cls(*(np.array([[getattr(element, name) for element in entries] for entries in lists]) for name in names))

    @classmethod
    def of_tasks(cls, tasks: Sequence[Lists]) -> Lists:
        """Concatenates every client's lists of several tasks into one, dividing weights by the number of tasks."""
        weights, *others = (np.concatenate(arrays, axis=1) for arrays in zip(*(task._arrays for task in tasks), strict=True))
        return cls(weights / len(tasks), *others)

    @classmethod
    def stacked(cls, groups: Sequence[Lists]) -> Lists:
        """Stacks the lists of several groups of clients; shorter lists are padded with entries of weight zero."""
        entries = np.arange(max(group.weights.shape[1] for group in groups))
        last = [np.minimum(entries, group.weights.shape[1] - 1) for group in groups]
        padded = ([array[:, places] for array in group._arrays] for group, places in zip(groups, last, strict=True))
        weights, *others = (np.concatenate(arrays) for arrays in zip(*padded, strict=True))
        exists = np.concatenate([np.tile(entries < group.weights.shape[1], (len(group), 1)) for group in groups])
        return cls(weights * exists, *others)

    @classmethod
    def of_homes(cls, tasks: Sequence[Lists]) -> tuple[Lists, Ints]:
        """For clients with a list in one task only: these lists, and their clients' numbers int64 [n], ascending."""
        held = np.stack([task.weights.sum(axis=1) > 0 for task in tasks])
        homes = np.where(held.any(axis=0), held.argmax(axis=0), -1)
        of_task = [np.flatnonzero(homes == task) for task in range(len(tasks))]
        clients = np.concatenate(of_task)
        order = np.argsort(clients)
        lists = cls.stacked([task.take(members) for task, members in zip(tasks, of_task, strict=True)])
        return lists.take(order), clients[order]

    @property
    def _arrays(self) -> tuple[Floats, ...]:
        return self.weights, self.means, self.covariances, self.targets

    def __len__(self) -> int:
        return len(self.weights)

    def elements(self, client: int) -> list[Element]:
        """One client's list."""
        columns = (array[client] for array in self._arrays)
        return [Element(float(weight), *others) for weight, *others in zip(*columns, strict=True)]

    def take(self, clients: Ints) -> Lists:
        """The lists of these clients, in this order."""
        return Lists(*(array[clients] for array in self._arrays))

    @property
    def second_moments(self) -> Floats:
        """E[z zᵀ] of every element, [n, L, d, d], or its diagonal [n, L, d], as the covariances are."""
        if self.covariances.ndim == 3:
            return self.covariances + self.means**2
        return self.covariances + self.means[..., :, None] * self.means[..., None, :]


@dataclass(frozen=True, slots=True)
class ListLearner:
    """Fits a Gaussian mixture by EM from several starts and keeps the likeliest.

    `form`: diagonal or full covariances, `ridge` added to their diagonal; at most `n_steps` of EM. The result is not
    private: it must stay on the client until a mechanism releases it.
    """

    n_elements: int = 4
    restarts: int = 3
    n_steps: int = 50
    form: Form = "diagonal"
    ridge: float = 1e-3

    def fit(self, z: Reals, y: Reals, generator: np.random.Generator) -> list[Element]:
        """A list of exactly `n_elements`; with fewer rows than elements some have weight 0.

        Args: z [n, d] embeddings; y [n, C] one-hot, multi-hot or soft labels.
        """
        fitted = min(self.n_elements, len(z))
        variances = np.full(z.shape[1], 1 / z.shape[1])
        covariance = variances if self.form == "diagonal" else np.diag(variances)
        without_rows = Element(0.0, np.zeros(z.shape[1]), covariance, np.zeros(y.shape[1]))
        entries = self._fitted(z, y, fitted, generator) if fitted else []
        found = [entry if entry.weight > 0 else without_rows for entry in entries]
        return found + [without_rows] * (self.n_elements - fitted)

    def _fitted(self, z: Reals, y: Reals, n_elements: int, generator: np.random.Generator) -> list[Element]:
        centre = z.mean(axis=0, dtype=np.float64)
        rows = z - centre.astype(z.dtype)  # centred: E[z²] - E[z]² cancels fewer digits
        squares = rows**2
        starts = np.concatenate([_spread_rows(rows, n_elements, generator) for _ in range(self.restarts)])
        far = (starts**2).sum(axis=1) - 2 * rows @ starts.T  # without the row's square, which is the same for all starts
        nearest = far.reshape(len(z), self.restarts, n_elements).argmin(axis=2)
        belongs = (nearest[:, :, None] == np.arange(n_elements)).astype(rows.dtype)
        likelihood = np.full(self.restarts, -np.inf)
        for _ in range(self.n_steps):
            weights, means, covariances = self._moments(rows, squares, belongs.reshape(len(z), -1))
            is_diagonal = self.form == "diagonal"
            of_rows = diagonal(rows, squares, means, covariances) if is_diagonal else log_densities(rows, means, covariances)
            density = (of_rows.T + np.log(np.maximum(weights, 1e-30))).reshape(belongs.shape).astype(rows.dtype)
            top = density.max(axis=2, keepdims=True)
            belongs = np.exp(density - top)
            total = belongs.sum(axis=2, keepdims=True)
            belongs /= total
            before, likelihood = likelihood, (top + np.log(total))[:, :, 0].mean(axis=0, dtype=np.float64)
            if not (likelihood - before >= _GAIN).any():
                break
        best = belongs[:, int(np.argmax(likelihood >= likelihood.max() - _SAME))]
        weights, means, covariances = self._moments(rows, squares, best)
        targets = best.T @ y / np.maximum(best.sum(axis=0), 1e-30)[:, None]
        return [
            Element(float(weight), mean + centre, covariance.astype(np.float64), target.astype(np.float64))
            for weight, mean, covariance, target in zip(weights, means, covariances, targets, strict=True)
        ]

    def _moments(self, rows: Reals, squares: Reals, belongs: Reals) -> tuple[Reals, Reals, Reals]:
        """Weights [c], means [c, d] and covariances under responsibilities [n, c]; the ridge keeps them invertible."""
        counts = np.maximum(belongs.sum(axis=0), 1e-30)
        means = (belongs.T @ rows) / counts[:, None]
        weights = counts / len(rows) * (counts > 1e-20)
        if self.form == "diagonal":
            return weights, means, np.maximum((belongs.T @ squares) / counts[:, None] - means**2, 0) + self.ridge
        products = np.stack([(rows * share[:, None]).T @ rows for share in belongs.T]) / counts[:, None, None]
        full = products - means[:, :, None] * means[:, None, :]
        return weights, means, full + self.ridge * np.eye(rows.shape[1], dtype=rows.dtype)


def _spread_rows(rows: Reals, count: int, generator: np.random.Generator) -> Reals:
    """k-means++ starts: each row is drawn with chance proportional to its squared distance to the rows chosen before."""
    chosen = [int(generator.integers(len(rows)))]
    far = ((rows - rows[chosen[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(chosen) < count:
        left = far.sum()  # zero where all rows are equal: then any row serves
        chosen.append(int(generator.choice(len(rows), p=far / left if left > 0 else None)))
        far = np.minimum(far, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1, dtype=np.float64))
    return rows[chosen]


# Anchor signatures: a Gaussian's log-density at public sentences (CSLR, Eq 1).


def normalised(signatures: Floats, norm: SignatureNorm) -> Floats:
    """Every row [m] raw, centred, centred and divided by its standard deviation, or as ranks 1..m (ties averaged)."""
    if norm == "raw":
        return signatures
    if norm == "ranked":
        from scipy.stats import rankdata  # takes long to load, for the few who ask

        return np.asarray(rankdata(signatures, axis=-1))
    centred: Floats = signatures - signatures.mean(axis=-1, keepdims=True)
    if norm == "z-scored":
        spread = centred.std(axis=-1, keepdims=True)
        centred = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return centred


@dataclass(frozen=True, eq=False)
class Signature:
    """The feature map "signature": anchors [m, d], the densities' covariance, and the rows' normalisation.

    "shared-spherical": variance tr(`public`)/d for every element; "shared-full": `public` [d, d], the covariance of public
    embeddings; "own": each element's, `public` unused; "own-shrunk": the average of each element's and `public`, no variance
    below tr(`public`)/d, since small noisy variances are mostly noise. With the shared spherical covariance the centred
    signature is linear in the mean, (a_j - mean a)ᵀ mu / s², up to a constant row.
    Raises BadInput for fewer than two anchors: with one the centred signature is constant.
    """

    anchors: Floats
    covariance: SignatureCovariance = "shared-spherical"
    norm: SignatureNorm = "centred"
    public: Floats | None = None

    def __post_init__(self) -> None:
        if len(self.anchors) < 2:
            raise BadInput("anchors", len(self.anchors), "must be at least 2: a signature compares anchors with each other")
        if self.covariance != "own" and self.public is None:
            raise BadInput("signature covariance", self.covariance, "needs the covariance of public embeddings")

    @property
    def is_linear(self) -> bool:
        """Whether signatures are an affine function of the means."""
        return self.covariance in ("shared-spherical", "shared-full") and self.norm == "centred"

    def __call__(self, elements: Sequence[Element]) -> Floats:
        """Signatures [L, m] of a list's elements."""
        return self.of(np.array([entry.mean for entry in elements]), np.array([entry.covariance for entry in elements]))

    def of(self, means: Floats, covariances: Floats | None = None) -> Floats:
        """Signatures [..., m] of means [..., d]; covariances [..., d] or [..., d, d] serve only "own" and "own-shrunk"."""
        flat = means.reshape(-1, means.shape[-1])
        if self.covariance in ("own", "own-shrunk"):
            assert covariances is not None
            by_element = covariances.reshape(len(flat), *covariances.shape[means.ndim - 1 :])
            raw = log_densities(self.anchors, flat, by_element if self.covariance == "own" else self._shrunk(by_element))
        else:
            factor, white, constant = self._shared
            inside = flat / factor if np.ndim(factor) == 0 else _whitened(factor, flat)
            squares = (inside**2).sum(axis=1)[:, None] - 2 * inside @ white.T + (white**2).sum(axis=1)
            raw = -(squares + constant) / 2
        return normalised(raw, self.norm).reshape(*means.shape[:-1], -1)

    def _shrunk(self, covariances: Floats) -> Floats:
        """Covariances [n, d] or [n, d, d] averaged with the public one, with variances raised to its mean variance."""
        assert self.public is not None
        least = float(np.trace(self.public)) / len(self.public)
        if covariances.ndim == 2:
            return np.maximum((covariances + np.diag(self.public)) / 2, least)
        return psd((covariances + self.public) / 2, least)

    @cached_property
    def _shared(self) -> tuple[Floats, Floats, float]:
        """Cholesky factor of the shared covariance (its root if spherical), whitened anchors, the densities' constant."""
        assert self.public is not None
        d = self.anchors.shape[1]
        if self.covariance == "shared-spherical":
            root = np.sqrt(np.trace(self.public) / d)
            return np.asarray(root), self.anchors / root, d * float(np.log(2 * np.pi * root**2))
        factor = np.asarray(np.linalg.cholesky(self.public), dtype=np.float64)
        white = _whitened(factor, self.anchors)
        return factor, white, 2 * float(np.log(np.diag(factor)).sum()) + d * float(np.log(2 * np.pi))
