"""Public numbers of one training by DP-SGD. Loads no accountant, which training processes do not need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.privacy import accounting, labels
from dpcl_core.privacy.accounting import list_budget, training_budget
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Steps
from dpcl_core.spec import RunSpec

# A training has diverged when a weight exceeds this. The largest weight of heads trained on digits for 400 steps was 1.9 at
# a learning rate of 0.01 (the end of Table A2's range), 70 at 1, 700 at 10 and 6,000 at 100; that of FiLM on MNIST was 2.0
# at 0.01 (2026-11-21). One step of Adam moves a weight by at most 3.2 learning rates: at 0.01, 30,000 steps do not suffice.
# Beyond the limit every probability is 0 or 1. The order of a head's classes can survive that for a time (digits at a
# learning rate of 1000 were still two thirds right at a noise multiplier of 4), but such settings are a mistake.
#
# At a finite epsilon this stop is post-processing: weights come from noisy sums and public numbers alone, all steps are in
# the ledger before the first is taken, and an interrupted training releases no more than a complete one. At epsilon = inf
# there is no noise and no guarantee to break; if such a model ends a run that has other budgets, the stop
# reveals no more about the data than that model itself would have.
LARGEST_WEIGHT = 1000.0


# Assumed bound on the effect of single precision on the difference of two neighbours' sums of clipped gradients, as a share
# of the clipping norm. Networks in torch compute an example's gradient together with others, those of other models among
# them, in pieces whose shape does not depend on them; a kernel could still give other last digits at another position of a
# piece, and the sum over a piece adds its own rounding. Pieces, however many, are added in double precision. No proof
# bounds this for every kernel: it is an assumption that every guarantee names, and noise is larger by as much, so that the
# multiplier in the ledger holds. tests/methods/common/test_per_example_gradients.py measures the effect on every kind of
# network, on neighbours and with extreme inputs. (Heads need no assumption: methods/features/linear_heads.)
ROUNDING = 2.0**-10
ROUNDING_ASSUMED = (
    "Gradients are computed in single precision. That is taken to move their sum by less than a thousandth of the clipping "
    "norm, and the noise is larger by as much; it is measured, not proved."
)


def noise_std(noise_multiplier: float, bound: float, expected_batch: float) -> float:
    """Standard deviation of the noise on each coordinate of a mean.

    The mean is a single-precision sum of vectors of L2 norm at most `bound`, divided by the expected batch size; the result
    includes the allowance `ROUNDING`.
    """
    return noise_multiplier * bound * (1 + ROUNDING) / expected_batch


@dataclass(frozen=True, slots=True)
class Schedule:
    """Public numbers of one training (Tobaben et al., Algorithm A1).

    Sums of gradients are divided by `expected_batch`: sampling rate times the nominal size of the data. The printed
    algorithm divides by the realised batch size, which is private and not accounted for.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rate: float
    expected_batch: float

    def noise_std(self, noise_multiplier: float) -> float:
        """Standard deviation of the noise on each coordinate of a step's mean gradient."""
        return noise_std(noise_multiplier, self.clip_norm, self.expected_batch)

    def steps(self, noise_multiplier: float) -> Steps:
        """What batches are drawn from and a ledger is charged with, at this noise."""
        return Steps(self.n_steps, (self.sample_rate,), noise_multiplier)

    @property
    def words(self) -> str:
        """Description of the training for the ledger."""
        return f"DP-SGD, {self.n_steps} steps, sampling rate {self.sample_rate:g}, clipping norm {self.clip_norm:g}"


def diverged(step: int, plan: Schedule) -> Diverged:
    """The error to raise when a weight exceeds `LARGEST_WEIGHT` or is not finite. `step` counts from 0."""
    return Diverged(
        f"training diverged at step {step + 1} of {plan.n_steps} with params.learning_rate = {plan.learning_rate:g}: "
        "a smaller learning rate or clipping norm may help"
    )


# Noise of a training by DP-SGD.


def noise_multiplier(spec: RunSpec, sample_rate: float, n_steps: int, epsilon: float) -> float:
    """The noise multiplier that keeps one training within its share of the cell's budget; 0 for epsilon = inf."""
    if math.isinf(epsilon):
        return 0.0
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return accounting.noise_multiplier(left, delta, sample_rate, n_steps, spec.privacy.adjacency)


# Adam on NumPy arrays, for heads trained without torch.


_BETAS, _STABILISER = (0.9, 0.999), 1e-8  # the usual ones (Kingma and Ba 2015)


class Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), in place, with both moments starting at zero.

    Stores both moments without their factors 1 - beta and applies these in the step, which saves passes over the weights.
    """

    def __init__(self, weights: NDArray[np.floating], learning_rate: float) -> None:
        self._rate, self._count = learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, weights: NDArray[np.floating], gradient: NDArray[np.floating]) -> None:
        """Updates the weights by one step; overwrites `gradient`."""
        self._count += 1
        first, second = _BETAS
        self._mean *= first
        self._mean += gradient
        np.multiply(gradient, gradient, out=gradient)
        self._square *= second
        self._square += gradient
        root = math.sqrt((1 - second) / (1 - second**self._count))  # of the second mean's factor and correction
        scale = np.sqrt(self._square, out=gradient)
        scale += _STABILISER / root
        np.divide(self._mean, scale, out=scale)
        scale *= self._rate * (1 - first) / (1 - first**self._count) / root
        weights -= scale


# Parts of methods' plans (`methods.references`).


def each_task(ledger: Ledger, facts: PublicSizes, *events: dp.DpEvent) -> None:
    """Enters these events for the people of every task."""
    for task in range(facts.n_tasks):
        for event in events:
            ledger.spend(event, task=task, what="planned")


def learned_list(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger, tasks: Sequence[int]) -> None:
    """Enters the list of labels that is learned of these tasks' people, where lists are learned."""
    if spec.labels == "dp-learned":
        rows = len(tasks) if ledger.recurrence == "every" else 1
        event = labels.event(*list_budget(spec.privacy, epsilon, facts.n_tasks, rows), ledger.adjacency)
        ledger.spend(event, task=tasks[-1], what="planned list of labels", people_of=tuple(tasks))
