"""Mechanisms: the only functions that turn private examples into something that may be released."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.gaussian import SENSITIVITY, sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.spec import Adjacency

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


def clipped_rows(vectors: NDArray[np.floating], bound: float) -> NDArray[np.float64]:
    """Vectors along the last axis, shortened to length `bound` where longer; ones of no finite length become zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    shortened: NDArray[np.float64] = rows * np.divide(bound, lengths, out=np.ones_like(lengths), where=lengths > bound)
    return shortened


@dataclass(frozen=True, slots=True, eq=False)
class ClientVectors:
    """One statistic of the clients in a round: `vectors` [n, D], or [E, n, D] where each release has its own.

    `bound`: each is clipped to this length, so that much the sum moves when a client's contribution becomes zero. `stds`: of
    the noise on each coordinate, one a release; 0 releases the clean sum and says so in the ledger. `channel`: by which way
    it goes out (`ledger.REPLAY`, `ledger.HEAD`).
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
    sample_rate: float = 1.0,
) -> list[NDArray[np.float64]]:
    """Sums over a round's clients of every part, each under Gaussian noise of its own: [E, D] for each part.

    The privacy unit is the client, and the neighbour of a dataset one where a client's contribution is zero (add-remove);
    under "replace" the accountant doubles the change. A client's vector must depend on its own data, public facts and
    earlier releases alone, so that nobody else's moves with it: then the sum moves by `bound` at most, after clipping here.

    All parts share the round's sample of clients: they are one Gaussian vector, part j scaled by 1 / std_j, and one event of
    multiplier (sum of (bound_j / std_j)²)^-1/2. Where clients come by independent coins of chance `sample_rate`, one coin
    decides over all parts, so that the event is amplified once. A round without clients runs the same way.
    """
    for release, ledger in enumerate(ledgers):
        by_channel: dict[str, list[ClientVectors]] = {}
        for part in parts:
            by_channel.setdefault(part.channel, []).append(part)
        ledger.spend(
            _joint(parts, release, sample_rate),
            task=task,
            what=what,
            channels={name: _joint(own, release, sample_rate) for name, own in by_channel.items()},
        )
    return [_noised(part, clipped_rows(part.vectors, part.bound).sum(axis=-2), noises) for part in parts]


def noisy_client_vectors(
    part: ClientVectors, noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int, what: str
) -> NDArray[np.float64]:
    """Every client's own clipped vector under noise that the client adds itself: [E, n, D]. Nobody need be trusted.

    Whoever sees them knows whose they are: nothing is averaged, and a sample of clients would amplify nothing. A client's
    vector changes by `bound` at most when its contribution becomes zero, and no other client's does: one Gaussian for each.
    """
    for release, ledger in enumerate(ledgers):
        event = _joint([part], release, 1.0)
        ledger.spend(event, task=task, what=what, channels={part.channel: event})
    return _noised(part, clipped_rows(part.vectors, part.bound), noises)


def _joint(parts: Sequence[ClientVectors], release: int, sample_rate: float) -> dp.DpEvent:
    """The event of one release of all these parts together; without noise on one of them there is no bound."""
    if any(part.stds[release] == 0 for part in parts):
        return dp.NonPrivateDpEvent()
    # hypot of a single part is that part itself: the multiplier written down is the one that scaled the noise.
    event = dp.GaussianDpEvent(1 / math.hypot(*(part.bound / part.stds[release] for part in parts)))
    return event if sample_rate == 1 else dp.PoissonSampledDpEvent(sample_rate, event)


def _noised(part: ClientVectors, clean: NDArray[np.float64], noises: Sequence[Noise]) -> NDArray[np.float64]:
    """One release after the other [E, ...], of one clean value or of one for each of them."""
    own = clean if part.vectors.ndim == 3 else [clean] * len(noises)
    pairs = zip(own, part.stds, noises, strict=True)
    return np.stack([value + std * noise.normal(value.shape) if std > 0 else value for value, std, noise in pairs])
