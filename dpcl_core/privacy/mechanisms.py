"""Mechanisms: the only functions whose output from private examples may be released."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import gaussian_step
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.gaussian import SENSITIVITY, sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise
from dpcl_core.privacy.sums import STEP, ExactSum, UnitRows, clipped_rows, coarse_unit_rows, on_grid, row_blocks, unit_rows
from dpcl_core.spec import Adjacency


def class_sums_std(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Standard deviation of the noise on each coordinate of every class sum; 0 for epsilon = inf."""
    return sigma(epsilon, delta, SENSITIVITY[adjacency])


def noisy_class_sums(
    features: NDArray[np.generic] | UnitRows, labels: NDArray[np.int64], space: Sequence[int], n_classes: int,
    stds: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Sum of unit-length features of each class of `space`, with independent Gaussian noise on every one of them.

    Several releases are made from one clean sum, which does not leave this function: release e has noise of standard
    deviation `stds[e]` from `noises[e]` and is recorded in `ledgers[e]`. Classes of the space without data get noise
    too, and an empty task runs the same procedure (Tobaben et al., Algorithm 1, and the repair of appendix F.1).

    Sensitivity: a person is one row, so adding or removing one changes one class sum by a vector of length at most 1 and
    no other sum: 1 for the stacked sums, whatever the number of classes. Replacing a row is a removal and an addition: at
    most 2, reached by opposite features of one class. That holds to the last digit: rows are on a grid, none longer than 1,
    and their sums are exact (`privacy.sums`); sums and noise are rounded together (`privacy.gaussian`).

    Args: features [n, K], or these rows scaled; labels [n], all in `space` (the caller filters); space: the label list,
    ascending.
    Returns: [releases, n_classes, K] float64; rows outside `space` are zero.
    """
    chosen = np.asarray(space, dtype=np.int64)
    sums, order = ExactSum((len(chosen), features.shape[1]), STEP), np.argsort(labels, kind="stable")
    for part in row_blocks(*features.shape):
        places = order[part]
        present, starts = np.unique(labels[places], return_index=True)
        units = features.of(places) if isinstance(features, UnitRows) else unit_rows(features[places])
        of_class = np.split(units, starts[1:])  # their sums are exact in any order
        sums.add(np.stack([rows.sum(axis=0) for rows in of_class]), np.searchsorted(chosen, present))
    clean = sums.value()
    released = np.zeros((len(stds), n_classes, features.shape[1]))
    for release, (std, noise, ledger) in enumerate(zip(stds, noises, ledgers, strict=True)):
        # The recorded multiplier is the one that scales the noise; the accountant applies the adjacency.
        event = dp.GaussianDpEvent(std / SENSITIVITY["add-remove"]) if std > 0 else dp.NonPrivateDpEvent()
        ledger.spend(event, task=task, what="sums of unit features, one of each class on its list")
        released[release, chosen] = noise.added(clean, std) if std > 0 else clean
    return released


def noisy_mean(
    values: NDArray[np.floating], n_nominal: float, std: float, noise: Noise, ledger: Ledger, *, task: int, what: str
) -> float:
    """Mean of one number in [0, 1] for each person, with Gaussian noise of standard deviation `std`, in [0, 1].

    The noisy sum is divided by the public nominal number of people, not by the actual number. A person changes the sum by
    at most 1, whether added, removed or replaced: all numbers are clipped to [0, 1], brought onto a grid, and added exactly.
    Non-finite ones count zero. Clipping the result to [0, 1] is post-processing.
    """
    of_sum = std * n_nominal
    # The accountant multiplies the sensitivity, 1, by that of the adjacency.
    event = dp.GaussianDpEvent(of_sum * SENSITIVITY[ledger.adjacency]) if std > 0 else dp.NonPrivateDpEvent()
    ledger.spend(event, task=task, what=what)
    numbers = np.asarray(values, dtype=np.float64)
    shares = np.clip(np.where(np.isfinite(numbers), numbers, 0.0), 0.0, 1.0)
    sums = ExactSum((1,), STEP)
    for part in row_blocks(len(shares), 1):
        sums.add(on_grid(shares[part], STEP).sum(keepdims=True))
    total = noise.added(sums.value(), of_sum) if std > 0 else sums.value()
    return min(1.0, max(0.0, float(total[0]) / n_nominal))


@dataclass(frozen=True, slots=True, eq=False)
class ClientVectors:
    """One statistic of the clients in a round: `vectors` [n, D], or [E, n, D] where each release has its own.

    `bound`: each is clipped to this length, the most by which the sum changes when a client's contribution becomes zero.
    `stds`: standard deviation of the noise on each coordinate, one per release; 0 releases the clean sum and records that in
    the ledger. `channel`: the release it belongs to (`ledger.REPLAY`, `ledger.HEAD`).
    """

    channel: str
    vectors: NDArray[np.floating]
    bound: float
    stds: Sequence[float]


def noisy_client_sums(
    parts: Sequence[ClientVectors], noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int, what: str,
    batches: Batches | None = None,
) -> list[NDArray[np.float64]]:  # fmt: skip
    """Sums over a round's clients of every part, each with its own Gaussian noise: [E, D] for each part.

    The privacy unit is the client; in a neighbouring dataset one client's contribution is zero (add-remove), and under
    "replace" the accountant doubles the change. A client's vector must depend only on its own data, public facts and earlier
    releases, so that no other client's vector changes with it: then the sum changes by at most `bound`, after clipping here.
    Clipped vectors are on a grid, and their sums are exact (`privacy.sums`).

    All parts share the round's sample of clients: they are one Gaussian vector, part j scaled by 1 / std_j, and one event of
    multiplier (sum of (bound_j / std_j)²)^-1/2. `batches`: the coins that drew the round's clients, each independently;
    None: all are there. One draw decides for all parts, so the event is amplified once, by the rate of these very coins. A
    round without clients runs the same way.
    """
    rate = 1.0 if batches is None else batches.rate
    for release, ledger in enumerate(ledgers):
        names = dict.fromkeys(part.channel for part in parts)
        channels = {name: _joint([part for part in parts if part.channel == name], release, rate) for name in names}
        ledger.spend(_joint(parts, release, rate), task=task, what=what, channels=channels)
    return [_noised(part, clipped_rows(part.vectors, part.bound).sum(axis=-2), noises) for part in parts]


def noisy_client_vectors(
    part: ClientVectors, noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int, what: str
) -> NDArray[np.float64]:
    """Every client's own clipped vector with noise that the client adds itself: [E, n, D]. Requires no trusted party.

    The receiver sees which client sent which vector: there is no averaging, and sampling clients would amplify nothing. A
    client's vector changes by at most `bound` when its contribution becomes zero, and no other client's changes: one
    Gaussian for each.
    """
    for release, ledger in enumerate(ledgers):
        event = _joint([part], release, 1.0)
        ledger.spend(event, task=task, what=what, channels={part.channel: event})
    return _noised(part, clipped_rows(part.vectors, part.bound), noises)


def _joint(parts: Sequence[ClientVectors], release: int, sample_rate: float) -> dp.DpEvent:
    """The event of one release of all these parts together; without noise on one of them there is no bound."""
    if any(part.stds[release] == 0 for part in parts):
        return dp.NonPrivateDpEvent()
    # hypot of a single part is that part itself: the recorded multiplier is the one that scaled the noise.
    return gaussian_step(1 / math.hypot(*(part.bound / part.stds[release] for part in parts)), sample_rate)


def _noised(part: ClientVectors, clean: NDArray[np.float64], noises: Sequence[Noise]) -> NDArray[np.float64]:
    """The noisy releases [E, ...], from one clean value or from one for each release."""
    pairs = zip(clean if part.vectors.ndim == 3 else [clean] * len(noises), part.stds, noises, strict=True)
    return np.stack([noise.added(value, std) if std > 0 else value for value, std, noise in pairs])


# Coefficients of the second-order loss: three sums over a task's features, released once (Lai et al.'s idea, repaired).


_COARSE_STEP = 2.0**-18  # of features: a product of two has 36 binary places, and sums of 130,000 such products are exact


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """The sums of n examples with features phi [K], for several releases e, float64.

    `features` [e, K]: sum of phi. `products` [e, K, K]: sum of phi phi^T, symmetric. `by_class` [e, classes, K]: sum of phi
    over the examples of each class.
    """

    features: NDArray[np.float64]
    products: NDArray[np.float64]
    by_class: NDArray[np.float64]

    def of(self, release: int) -> dict[str, NDArray[np.generic]]:
        """One release's sums by name."""
        return {"features": self.features[release], "products": self.products[release], "by_class": self.by_class[release]}


def coefficients_sensitivity(adjacency: Adjacency, *, is_non_negative: bool) -> float:
    """L2 sensitivity of the three sums together to one example.

    The products count as a symmetric matrix in the Frobenius norm: as one number each on the diagonal and sqrt(2) times
    each number above it. So ||phi phi^T|| = ||phi||^2, and with a = ||phi||, b = ||phi'||, both at most 1, and c = phi.phi':

    * add/remove: a^2 + a^4 + a^2 <= 3, reached at a = 1.
    * replace, same label: 2 (a^2 + b^2 - 2c) + a^4 + b^4 - 2c^2. For c <= 0 it grows with a and with b (for a fixed angle,
      c = a b t, half its derivative by a is 2a - 2bt + 2a^3 - 2ab^2t^2 >= 2a^3), so it is largest for a = b = 1, where it is
      4 (1-c) + 2 (1-c^2): at most 8, at c = -1. For c >= 0 it is at most 2 + 2 + 1 + 1 = 6.
    * replace, another label: 2 (a^2 + b^2) - 2c + a^4 + b^4 - 2c^2. For c <= 0 it grows likewise, so it is at most
      6 - 2c - 2c^2 <= 6.5; for c >= 0 it is at most 6.

    Hence sqrt(3) and sqrt(8); sqrt(6) for features without negative values, where c >= 0, reached at c = 0. An example
    replaced by one of another task moves two releases by sqrt(3) each: sqrt(6) together, no more.
    """
    return math.sqrt(3) if adjacency == "add-remove" else math.sqrt(6 if is_non_negative else 8)


def coefficients_std(
    epsilon: float, delta: float, adjacency: Adjacency, *, is_non_negative: bool, n_releases: int = 1
) -> float:
    """Standard deviation of the noise on each coordinate for which `n_releases` are within (epsilon, delta); 0 for inf.

    n Gaussian releases are one whose sensitivity is sqrt(n) times as large.
    """
    of_one = coefficients_sensitivity(adjacency, is_non_negative=is_non_negative)
    return sigma(epsilon, delta, of_one * math.sqrt(n_releases))


def noisy_coefficients(
    features: NDArray[np.generic], labels: NDArray[np.int64], space: Sequence[int], n_classes: int,
    stds: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int, is_non_negative: bool,
) -> Coefficients:  # fmt: skip
    """The three sums of unit-length features, with independent Gaussian noise on every coordinate.

    Several releases are made from one clean sum, which does not leave this function: release e has noise of standard
    deviation `stds[e]` from `noises[e]`, and is written into `ledgers[e]`. The coordinates are those of
    `coefficients_sensitivity`, which bounds them: a product off the diagonal is noised as sqrt(2) times itself, and its
    mirror image is the same number. Classes of the space without data get noise too, and an empty task runs the same
    procedure. Features are on a grid of 2^-18, none longer than 1, so that all sums are exact (`privacy.sums`).

    Args: features [n, K], brought to length 1 here (rows that are not finite count zero, and so do negative values where
    `is_non_negative` says that there are none); labels [n], all in `space` (the caller filters); space: the label list,
    ascending. Rows of `by_class` outside it are zero.
    """
    size, chosen = features.shape[1], np.asarray(space, dtype=np.int64)
    of_features, of_products = ExactSum((1, size), _COARSE_STEP), ExactSum((size, size), _COARSE_STEP**2)
    of_classes = ExactSum((len(chosen), size), _COARSE_STEP)
    for part in row_blocks(*features.shape):
        rows = coarse_unit_rows(np.maximum(features[part], 0) if is_non_negative else features[part], _COARSE_STEP)
        of_features.add(rows.sum(axis=0))
        of_products.add(rows.T @ rows)  # products of numbers on a grid are on a grid
        of_classes.add((labels[None, part] == chosen[:, None]).astype(np.float64) @ rows)
    clean, products = of_features.value()[0], of_products.value()
    by_class = np.zeros((n_classes, size))
    by_class[chosen] = of_classes.value()
    released = Coefficients(*(np.repeat(part[None], len(stds), axis=0) for part in (clean, products, by_class)))
    above, diagonal = np.triu_indices(size, 1), np.diag_indices(size)
    for release, (std, noise, ledger) in enumerate(zip(stds, noises, ledgers, strict=True)):
        ratio = coefficients_sensitivity(ledger.adjacency, is_non_negative=is_non_negative) / SENSITIVITY[ledger.adjacency]
        # The multiplier written down is the one that scales the noise; the accountant applies the adjacency.
        event = dp.GaussianDpEvent(std / ratio) if std > 0 else dp.NonPrivateDpEvent()
        ledger.spend(event, task=task, what=f"sums of features, of their products and of {len(space)} classes")
        if std > 0:
            released.features[release] = noise.added(clean, std)
            noisy = np.zeros_like(products)
            noisy[above] = noise.added(products[above], std / math.sqrt(2))
            noisy += noisy.T
            noisy[diagonal] = noise.added(np.diagonal(products), std)
            released.products[release] = noisy
            released.by_class[release, chosen] = noise.added(by_class[chosen], std)
    return released
