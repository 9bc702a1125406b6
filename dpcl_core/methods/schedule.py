"""Public numbers of one training by DP-SGD. Loads no accountant: processes that only train need none."""

from __future__ import annotations

from dataclasses import dataclass

from dpcl_core.errors import Diverged


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

    @property
    def words(self) -> str:
        """The training in the ledger's words."""
        return f"DP-SGD, {self.n_steps} steps, sampling rate {self.sample_rate:g}, clipping norm {self.clip_norm:g}"


def diverged(step: int, plan: Schedule) -> Diverged:
    """What to say, and stop, when a weight is not finite any more. Steps count from 0."""
    return Diverged(
        f"training diverged at step {step + 1} of {plan.n_steps} with params.learning_rate = {plan.learning_rate:g}: "
        "a smaller learning rate or clipping norm may help"
    )
