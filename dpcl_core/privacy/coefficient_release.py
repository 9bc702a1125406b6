"""Coefficients of the second-order loss: three sums over a task's features, released once (Lai et al.'s idea, repaired)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import Unaccountable, gaussian_step, has_lists
from dpcl_core.privacy.gaussian import SENSITIVITY, sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import ExactSum, coarse_unit_rows, row_blocks
from dpcl_core.spec import Adjacency, Cell

_STEP = 2.0**-18  # grid of the features: a product of two has 36 binary places, and sums of 130,000 such products are exact


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


def sensitivity(adjacency: Adjacency, *, is_non_negative: bool) -> float:
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
    if adjacency == "add-remove":
        return math.sqrt(3)
    return math.sqrt(6 if is_non_negative else 8)


def coefficients_std(
    epsilon: float, delta: float, adjacency: Adjacency, *, is_non_negative: bool, n_releases: int = 1
) -> float:
    """Standard deviation of the noise on each coordinate for which `n_releases` are within (epsilon, delta); 0 for inf.

    n Gaussian releases are one whose sensitivity is sqrt(n) times as large.
    """
    return sigma(epsilon, delta, sensitivity(adjacency, is_non_negative=is_non_negative) * math.sqrt(n_releases))


def noisy_coefficients(
    features: NDArray[np.generic],
    labels: NDArray[np.int64],
    space: Sequence[int],
    n_classes: int,
    stds: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
    is_non_negative: bool,
) -> Coefficients:
    """The three sums of unit-length features, with independent Gaussian noise on every coordinate.

    Several releases are made from one clean sum, which does not leave this function: release e has noise of standard
    deviation `stds[e]` from `noises[e]`, and is written into `ledgers[e]`. The coordinates are those of `sensitivity`, which
    bounds them: a product off the diagonal is noised as sqrt(2) times itself, and its mirror image is the same number.
    Classes of the space without data get noise too, and an empty task runs the same procedure. Features are on a grid of
    2^-18, none longer than 1, so that all sums are exact (`privacy.sums`).

    Args: features [n, K], brought to length 1 here (rows that are not finite count zero, and so do negative values where
    `is_non_negative` says that there are none); labels [n], all in `space` (the caller filters); space: the label list,
    ascending. Rows of `by_class` outside it are zero.
    """
    clean = _sums(features, labels, space, n_classes, is_non_negative)
    chosen = np.asarray(space, dtype=np.int64)
    above = np.triu_indices(features.shape[1], 1)
    parts = (clean.features, clean.products, clean.by_class)
    released = Coefficients(*(np.repeat(part, len(stds), axis=0) for part in parts))
    for release, (std, noise, ledger) in enumerate(zip(stds, noises, ledgers, strict=True)):
        ratio = sensitivity(ledger.adjacency, is_non_negative=is_non_negative) / SENSITIVITY[ledger.adjacency]
        # The multiplier written down is the one that scales the noise; the accountant applies the adjacency.
        event = dp.GaussianDpEvent(std / ratio) if std > 0 else dp.NonPrivateDpEvent()
        ledger.spend(event, task=task, what=f"sums of features, of their products and of {len(space)} classes")
        if std > 0:
            released.features[release] = noise.added(clean.features[0], std)
            released.products[release] = _noisy_symmetric(clean.products[0], std, noise, above)
            released.by_class[release, chosen] = noise.added(clean.by_class[0, chosen], std)
    return released


def _noisy_symmetric(
    clean: NDArray[np.float64], std: float, noise: Noise, above: tuple[NDArray[np.intp], NDArray[np.intp]]
) -> NDArray[np.float64]:
    """A symmetric matrix [K, K] with noise on its coordinates, which off the diagonal are sqrt(2) times the entries."""
    noisy = np.zeros_like(clean)
    noisy[above] = noise.added(clean[above], std / math.sqrt(2))
    noisy += noisy.T
    noisy[np.diag_indices(len(clean))] = noise.added(np.diagonal(clean), std)
    return noisy


def _sums(
    features: NDArray[np.generic], labels: NDArray[np.int64], space: Sequence[int], n_classes: int, is_non_negative: bool
) -> Coefficients:
    """The clean sums, as one release; only for use in this module. Exact: products of numbers on a grid are on a grid."""
    size, chosen = features.shape[1], np.asarray(space, dtype=np.int64)
    of_features, of_products = ExactSum((1, size), _STEP), ExactSum((1, size, size), _STEP**2)
    of_classes = ExactSum((len(chosen), size), _STEP)
    for part in row_blocks(*features.shape):
        rows = coarse_unit_rows(np.maximum(features[part], 0) if is_non_negative else features[part], _STEP)
        of_features.add(rows.sum(axis=0))
        of_products.add(rows.T @ rows)
        of_classes.add((labels[None, part] == chosen[:, None]).astype(np.float64) @ rows)
    by_class = np.zeros((1, n_classes, size))
    by_class[0, chosen] = of_classes.value()
    return Coefficients(of_features.value(), of_products.value(), by_class)


# Joint privacy cost of all models of a run: each has its own ledger, and an attacker may see them all.


def joint_release(learners: Iterable[Mapping[Cell, Ledger]]) -> tuple[float, float]:
    """(epsilon, delta) of the release of all models of these learners, for any one person.

    Models of one learner and seed that were trained on the same batches are one training with several noises (see `joint`);
    all others compose in sequence: each learner draws its own batches and noise. Another seed may put a person into another
    task, so each seed counts, for every kind of entry, the largest number that any of its people has. Each list of labels
    costs a delta of its own, so with lists delta is the sum of the models' deltas. Where that sum has no bound (a person of
    many rows, `privacy.group`), the models' own bounds add up, epsilons and deltas, unless some share batches: such models
    are not independent.
    """
    groups = list(learners)
    ledgers = [ledger for group in groups for ledger in group.values()]
    any_one, events = ledgers[0], Counter[dp.DpEvent]()
    for seed in sorted({cell.seed for group in groups for cell in group}):
        events += _worst([[ledger for cell, ledger in group.items() if cell.seed == seed] for group in groups])
    delta = any_one.delta
    if has_lists(events):
        delta = min(0.5, delta * len(ledgers))
    together = any_one.composed(tuple(events.elements()), delta)
    if math.isinf(together) and not any(entry.shares_batches for ledger in ledgers for entry in ledger.entries):
        added, of_all = math.fsum(ledger.epsilon() for ledger in ledgers), any_one.delta * len(ledgers)
        if math.isfinite(added) and of_all < 1:
            return added, of_all
    return together, delta


def _worst(learners: Sequence[Sequence[Ledger]]) -> Counter[dp.DpEvent]:
    """For each event, the largest count of any person, over the models of one seed, by learner."""
    ledgers = [ledger for group in learners for ledger in group]
    merged = Ledger(ledgers[0].delta, ledgers[0].adjacency, ledgers[0].recurrence)
    merged.entries += [entry for ledger in ledgers for entry in ledger.entries if not entry.shares_batches]
    for group in learners:
        # A model without any, such as one whose plan has no bound, is among the others.
        trainings = ([entry for entry in ledger.entries if entry.shares_batches] for ledger in group)
        shared = [entries for entries in trainings if entries]
        if len({len(entries) for entries in shared}) > 1:
            raise Unaccountable("models trained on the same batches must have as many trainings")
        for same in zip(*shared, strict=True):
            merged.spend(
                joint([entry.event for entry in same]), task=same[0].task, what=same[0].what, people_of=same[0].people_of
            )
    worst: Counter[dp.DpEvent] = Counter()
    for events in merged.events_by_people().values():
        worst |= Counter(events)
    return worst


def joint(events: Iterable[dp.DpEvent]) -> dp.DpEvent:
    """One event for trainings with different noise on the same Poisson batches.

    In each step the models' clipped sums, each divided by its noise sigma_e, are one vector with noise of standard
    deviation 1, and a person in the batch moves it by at most sqrt(sum of 1/sigma_e^2): a sampled Gaussian whose noise
    multiplier is the inverse of that. Models may depend on one another's earlier steps: composition is adaptive.
    """
    trainings = [_as_training(event) for event in events]
    if any(one is None for one in trainings):
        return dp.NonPrivateDpEvent()
    noisy = [one for one in trainings if one is not None]
    (rate, count), *others = {(rate, count) for rate, _, count in noisy}
    if others:
        raise Unaccountable("trainings on the same batches must have the same steps")
    return dp.SelfComposedDpEvent(gaussian_step(1 / math.sqrt(sum(sigma**-2 for _, sigma, _ in noisy)), rate), count)


def _as_training(event: dp.DpEvent) -> tuple[float, float, int] | None:
    """Sampling rate, noise multiplier and steps of a training; None for one without noise."""
    match event:
        case dp.NonPrivateDpEvent():
            return None
        case dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), count):
            return rate, sigma, count
        case dp.SelfComposedDpEvent(dp.GaussianDpEvent(sigma), count):
            return 1.0, sigma, count
    raise Unaccountable(f"nothing is known of other trainings on the batches of {event}")
