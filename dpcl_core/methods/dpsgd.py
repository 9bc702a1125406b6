"""The steps of DP-SGD that every trained method takes: how many, on whom, with how much noise, and what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.errors import Diverged
from dpcl_core.methods.cards.peft import PeftParams
from dpcl_core.privacy import accounting
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    """Public numbers of one training (Tobaben et al., Algorithm A1).

    `expected_batch` is what sums of gradients are divided by: sampling rate times the nominal size of the data. The printed
    algorithm divides by the realised batch, whose size is private and unaccounted for.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rate: float
    expected_batch: float

    def noise_std(self, noise_multiplier: float) -> float:
        """Standard deviation of the noise on each coordinate of a step's mean gradient."""
        return noise_multiplier * self.clip_norm / self.expected_batch

    def event(self, noise_multiplier: float) -> dp.DpEvent:
        """What the whole training costs; a noise multiplier of 0 has no bound."""
        if noise_multiplier == 0:
            return dp.NonPrivateDpEvent()
        return accounting.subsampled_gaussian(noise_multiplier, self.sample_rate, self.n_steps)

    @property
    def words(self) -> str:
        """The training in the ledger's words."""
        return f"DP-SGD, {self.n_steps} steps, sampling rate {self.sample_rate:g}, clipping norm {self.clip_norm:g}"


def schedule(params: PeftParams, nominal_size: float) -> Schedule:
    """The steps for data of this public nominal size."""
    return Schedule(
        params.sample_rate, params.n_steps, params.clip_norm, params.learning_rate, params.sample_rate * nominal_size
    )


def noise_multiplier(spec: RunSpec, params: PeftParams, epsilon: float) -> float:
    """The noise multiplier with which one training stays within what the cell's budget leaves for it; 0 for inf."""
    if math.isinf(epsilon):
        return 0.0
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return accounting.noise_multiplier(left, delta, params.sample_rate, params.n_steps, spec.privacy.adjacency)


def diverged(step: int, plan: Schedule) -> Diverged:
    """What to say, and stop, when a weight is not finite any more. Steps count from 0."""
    return Diverged(
        f"training diverged at step {step + 1} of {plan.n_steps} with params.learning_rate = {plan.learning_rate:g}: "
        "a smaller learning rate or clipping norm may help"
    )
