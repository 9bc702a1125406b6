"""Mechanisms: the only functions whose output from private examples may be released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import gaussian_step
from dpcl_core.privacy.gaussian import SENSITIVITY, sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise
from dpcl_core.privacy.sums import STEP, ExactSum, clipped_rows, on_grid, row_blocks, unit_rows
from dpcl_core.spec import Adjacency


def class_sums_std(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Standard deviation of the noise on each coordinate of every class sum; 0 for epsilon = inf."""
    return sigma(epsilon, delta, SENSITIVITY[adjacency])


def noisy_class_sums(
    features: NDArray[np.generic],
    labels: NDArray[np.int64],
    space: Sequence[int],
    n_classes: int,
    stds: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
) -> NDArray[np.float64]:
    """Sum of unit-length features of each class of `space`, with independent Gaussian noise on every one of them.

    Several releases are made from one clean sum, which does not leave this function: release e has noise of standard
    deviation `stds[e]` from `noises[e]` and is recorded in `ledgers[e]`. Classes of the space without data get noise
    too, and an empty task runs the same procedure (Tobaben et al., Algorithm 1, and the repair of appendix F.1).

    Sensitivity: a person is one row, so adding or removing one changes one class sum by a vector of length at most 1 and
    no other sum: 1 for the stacked sums, whatever the number of classes. Replacing a row is a removal and an addition: at
    most 2, reached by opposite features of one class. That holds to the last digit: rows are on a grid, none longer than 1,
    and their sums are exact (`privacy.sums`); sums and noise are rounded together (`privacy.rounded`).

    Args: features [n, K]; labels [n], all in `space` (the caller filters); space: the label list, ascending.
    Returns: [releases, n_classes, K] float64; rows outside `space` are zero.
    """
    chosen = np.asarray(space, dtype=np.int64)
    sums, order = ExactSum((len(chosen), features.shape[1]), STEP), np.argsort(labels, kind="stable")
    for part in row_blocks(*features.shape):
        present, starts = np.unique(labels[order[part]], return_index=True)
        of_class = np.split(unit_rows(features[order[part]]), starts[1:])  # their sums are exact in any order
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
    parts: Sequence[ClientVectors],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
    what: str,
    batches: Batches | None = None,
) -> list[NDArray[np.float64]]:
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
    values = clean if part.vectors.ndim == 3 else [clean] * len(noises)
    pairs = zip(values, part.stds, noises, strict=True)
    return np.stack([noise.added(value, std) if std > 0 else value for value, std, noise in pairs])
