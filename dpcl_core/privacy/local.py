"""Local differential privacy: every record gets its own noise, and only the noisy copy is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy.accounting import LocalDpEvent, calibrated
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import finite_rows, row_blocks

# A true label is kept this much more rarely. That covers the error of 64-bit words in a ratio of probabilities (n 2^-64 of
# it by the remainder of n labels, n below 16 million) and the last bits of exp: no answer reveals more than accounted.
_CAUTION = 1 - 1e-12
_WIDER = 1 + 2.0**-50  # Laplace noise is this much wider: more than the rounding of its scale, and of a sum of two epsilons
_WORD = 2.0**64


@dataclass(frozen=True, slots=True)
class Randomiser:
    """The release of one record. `epsilon_values` and `epsilon_labels`: both inf for no noise at all.

    `n_values`: numbers in a record. `l1_clip`: bound on their L1 norm; None where each is in [-1, 1].
    """

    n_values: int
    epsilon_values: float
    epsilon_labels: float
    l1_clip: float | None = None

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise on each value: the largest L1 distance of two records over epsilon.

        The distance is 2 for each value in [-1, 1], or twice the clip (two records of that norm in opposite directions).
        """
        distance = 2.0 * self.n_values if self.l1_clip is None else 2 * self.l1_clip
        return _WIDER * distance / self.epsilon_values if distance > 0 else 0.0

    def chances(self, n_labels: int) -> tuple[float, float]:
        """Probabilities of the true label and of any one other label: e^epsilon to 1 (randomised response)."""
        if n_labels == 1 or math.isinf(self.epsilon_labels):
            return 1.0, 0.0
        of_true = _CAUTION / (1 + (n_labels - 1) * math.exp(-self.epsilon_labels))
        return of_true, (1 - of_true) / (n_labels - 1)

    @property
    def event(self) -> dp.DpEvent:
        """The event of one release: values and label get independent noise, so their epsilons add up."""
        total = self.epsilon_values + self.epsilon_labels
        return dp.NonPrivateDpEvent() if math.isinf(total) else LocalDpEvent(total)


def epsilon_of_each(epsilon: float, delta: float, n_copies: int) -> float:
    """The largest epsilon of each of `n_copies` of one record for which all of them are within (epsilon, delta).

    At least an equal part of epsilon, which needs no delta; more where there are many copies of small epsilon.
    """
    if n_copies == 1 or math.isinf(epsilon):
        return epsilon
    multiplier = calibrated(lambda inverse: [LocalDpEvent(1 / inverse)] * n_copies, epsilon, delta, "replace")
    return max(epsilon / n_copies, 1 / multiplier)


def noisy_records(
    values: NDArray[np.generic],
    labels: NDArray[np.int64],
    space: Sequence[int],
    randomiser: Randomiser,
    noise: Noise,
    ledger: Ledger,
    *,
    task: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Noisy copies of all records, each (epsilon_values + epsilon_labels)-DP towards the record it was made from.

    For any two contents of a record, no copy is more than e^epsilon times as likely under one as under the other: Laplace
    noise contributes at most exp(L1 distance / scale), randomised response e^epsilon_labels. Records get noise
    independently, so replacing one changes only the distribution of its own copy. Their number is not hidden: the ledger
    must use "replace" adjacency, and neighbours have equally many records in each task. A record whose label is not in the
    space is not left out, which would be visible; its copy is zeros plus noise, with a label drawn uniformly.

    Args: values [n, K], brought here into [-1, 1] or to an L1 norm of at most the clip (non-finite rows become zero);
    labels [n]; space: the label list, ascending, at least one.
    Returns: values float32 [n, K]; labels [n], all in the space.
    """
    if ledger.adjacency != "replace":
        raise BadInput("privacy.adjacency", ledger.adjacency, "must be replace where each record leaves a noisy copy")
    ledger.spend(randomiser.event, task=task, what=f"a noisy copy of every record, {len(space)} labels")
    listed = np.isin(labels, np.asarray(space, dtype=np.int64))
    copies = np.empty(values.shape, dtype=np.float32)
    for part in row_blocks(*values.shape):
        rows = _bounded(values[part], randomiser.l1_clip) * listed[part, None]
        if randomiser.scale > 0:
            rows = noise.laplace_added(rows, randomiser.scale)
        copies[part] = rows
    return copies, _answers(labels, listed, np.asarray(space, dtype=np.int64), randomiser, noise)


def noisy_labels(
    labels: NDArray[np.int64], space: Sequence[int], epsilon: float, noise: Noise, ledger: Ledger, *, task: int
) -> NDArray[np.int64]:
    """The label of every record by randomised response: the true one with odds of e^epsilon to 1 against any other, [n].

    Each is epsilon-DP towards its record; the ledger must use "replace". Args: as `noisy_records`; inf: labels unchanged.
    """
    no_values = np.zeros((len(labels), 0))
    return noisy_records(no_values, labels, space, Randomiser(0, 0.0, epsilon), noise, ledger, task=task)[1]


def _bounded(values: NDArray[np.generic], l1_clip: float | None) -> NDArray[np.float64]:
    rows = finite_rows(values)
    if l1_clip is None:
        return np.clip(rows, -1, 1)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    parts = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # sums of large values stay finite
    norms = np.maximum(np.abs(parts).sum(axis=1, keepdims=True), 1.0)  # in units of the largest value
    # Covers one rounding per value, in any order, and a few more: no row comes out longer than the clip.
    shorter = 1 - (values.shape[1] + 8) * 2.0**-52
    cut: NDArray[np.float64] = parts * np.minimum(largest, shorter * l1_clip / norms)
    return cut


def _answers(
    labels: NDArray[np.int64], listed: NDArray[np.bool_], space: NDArray[np.int64], randomiser: Randomiser, noise: Noise
) -> NDArray[np.int64]:
    """Labels by randomised response, drawn with integers, so that probabilities are exact."""
    n_labels = len(space)
    truth = np.where(listed, np.searchsorted(space, labels), 0)
    of_true, _ = randomiser.chances(n_labels)
    others = (noise.words(len(labels)) % np.uint64(max(1, n_labels - 1))).astype(np.int64)
    keeps = np.ones(len(labels), dtype=np.bool_)
    if of_true < 1:
        keeps = noise.words(len(labels)) < np.uint64(int(of_true * _WORD))
    named = np.where(keeps, truth, (truth + 1 + others) % n_labels)
    anything = (noise.words(len(labels)) % np.uint64(n_labels)).astype(np.int64)
    answers: NDArray[np.int64] = space[np.where(listed, named, anything)]
    return answers
