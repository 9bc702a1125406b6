"""Mechanisms: the only functions that turn private examples into something that may be released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.gaussian import SENSITIVITY, sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.spec import Adjacency

Channel = Literal["replay", "head"]  # what travels from clients to the server: for replaying, or for the trained part
_BLOCK = 1 << 17  # numbers: 1 MB in float64


def unit_rows(features: NDArray[np.generic]) -> NDArray[np.float64]:
    """Rows scaled to length 1 in float64 (float32 rows can exceed 1 by 1e-7); rows of zeros or non-finite rows give zero.

    Args: features [n, K].
    """
    rows = np.asarray(features, dtype=np.float64)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # squares of large values stay finite
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units: NDArray[np.float64] = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return units


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Slices of rows small enough that working copies in float64 stay in the processor's cache, whatever the data's size."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, n_rows, step))


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
    deviation `stds[e]` from `noises[e]` and is written into `ledgers[e]`. Classes of the space without data get noise
    too, and an empty task runs the same procedure (Tobaben et al., Algorithm 1, and the repair of appendix F.1).

    Sensitivity: a person is one row, so adding or removing one changes one class sum by a vector of length at most 1 and
    no other sum: 1 for the stacked sums, whatever the number of classes. Replacing a row is a removal and an addition: at
    most 2, reached by opposite features of one class.

    Args: features [n, K]; labels [n], all in `space` (the caller filters); space: the label list, ascending.
    Returns: [releases, n_classes, K] float64; rows outside `space` are zero.
    """
    chosen = np.asarray(space, dtype=np.int64)
    clean = np.zeros((len(chosen), features.shape[1]))
    for part in row_blocks(*features.shape):
        clean += (labels[None, part] == chosen[:, None]).astype(np.float64) @ unit_rows(features[part])
    released = np.zeros((len(stds), n_classes, features.shape[1]))
    for release, (std, noise, ledger) in enumerate(zip(stds, noises, ledgers, strict=True)):
        # The multiplier written down is the one that scales the noise; the accountant applies the adjacency.
        event = dp.GaussianDpEvent(std / SENSITIVITY["add-remove"]) if std > 0 else dp.NonPrivateDpEvent()
        ledger.spend(event, task=task, what=f"sums of unit features of {len(space)} classes")
        released[release, chosen] = clean + std * noise.normal(clean.shape) if std > 0 else clean
    return released


def noisy_mean(
    values: NDArray[np.floating], n_nominal: float, std: float, noise: Noise, ledger: Ledger, *, task: int, what: str
) -> float:
    """Mean of one number in [0, 1] for each person, with Gaussian noise of standard deviation `std`, in [0, 1].

    The sum is divided by the public nominal number of people, not by how many there are. A person moves the sum by 1 at
    most, whether added, removed or replaced (both values lie in [0, 1]), hence the mean by 1 / n_nominal. Numbers that are
    not finite count zero. Bringing the result into [0, 1] is post-processing.
    """
    own = 1 / n_nominal / SENSITIVITY[ledger.adjacency]  # the accountant multiplies by that under "replace"
    event = dp.GaussianDpEvent(std / own) if std > 0 else dp.NonPrivateDpEvent()
    ledger.spend(event, task=task, what=what)
    given = np.asarray(values, dtype=np.float64)
    clean = float(np.clip(np.where(np.isfinite(given), given, 0.0), 0.0, 1.0).sum()) / n_nominal
    drawn = std * float(noise.normal((1,))[0]) if std > 0 else 0.0
    return min(1.0, max(0.0, clean + drawn))


@dataclass(frozen=True, slots=True, eq=False)
class ClientVectors:
    """One statistic of every client in a round: `vectors` [n, D], or [E, n, D] where each release has its own.

    `bound`: each is clipped to this length, so the sum moves by that much when a client's contribution becomes zero; inf where
    no bound is proven (nothing is clipped, and no epsilon follows). `stds`: of the noise on each coordinate, one a release.
    """

    channel: Channel
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
    sample_rate: float = 1.0,
) -> list[NDArray[np.float64]]:
    """Sums over a round's clients of every part, each under Gaussian noise of its own: [E, D] for each part.

    The privacy unit is the client, whose contribution becomes zero (add-remove). All parts share the round's sample of clients,
    so they are one Gaussian event of multiplier (sum of (bound / std)²)^-1/2, amplified once: one coin decides them all.
    Clients come by independent coins of chance `sample_rate`; a round without any runs the same way.
    """
    raise NotImplementedError
