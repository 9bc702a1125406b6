"""Public numbers of one training by DP-SGD. Loads no accountant: processes that only train need none."""

from __future__ import annotations

from dataclasses import dataclass

from dpcl_core.errors import Diverged

# A training has diverged where a weight is larger than this. The largest weight of heads trained on digits for 400 steps was
# 1.9 at a learning rate of 0.01 (the end of Table A2's range), 70 at 1, 700 at 10 and 6,000 at 100; that of FiLM on MNIST
# 2.0 at 0.01 (2026-11-21). One step of Adam moves a weight by at most 3.2 learning rates: at 0.01 no 30,000 steps get there.
# Beyond it every probability is 0 or 1. The order of a head's classes can survive that for a time (digits at a learning rate
# of 1000 still had two thirds right at a noise multiplier of 4), but such settings are a slip, and nobody's wish.
#
# To stop here is post-processing at a finite epsilon: weights come from noisy sums and public numbers alone, all steps are
# in the ledger before the first is taken, and a training cut short has released no more than the whole one. At epsilon =
# inf there is no noise, and no promise that a stop could break; where such a model ends a run that has others, the stop
# says of the data no more than that model would have.
LARGEST_WEIGHT = 1000.0


# By how much of the clipping norm single precision may move the difference of two neighbours' sums of clipped gradients. In
# networks that train in torch an example's gradient is computed beside others', in pieces whose shape does not depend on
# them; a kernel could still give other last digits at another place of a piece, and sums have some of their own. No proof
# bounds this for every kernel: it is an assumption, which every guarantee names, and noise is larger by as much, so that the
# multiplier in the ledger is what protects. tests/methods/features/test_gradient_sums.py measures it on every kind of
# network, on neighbours and with strange inputs. (Heads need none: methods/features/head_gradients.)
ROUNDING = 2.0**-10
ROUNDING_ASSUMED = (
    "Gradients are computed in single precision. That is taken to move their sum by less than a thousandth of the clipping "
    "norm, and the noise is larger by as much; it is measured, not proved."
)


def noise_std(noise_multiplier: float, bound: float, expected_batch: float) -> float:
    """Standard deviation of the noise on each coordinate of a mean: of a sum, computed in single precision, of vectors of
    length at most `bound`, over the expected batch."""
    return noise_multiplier * bound * (1 + ROUNDING) / expected_batch


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
        return noise_std(noise_multiplier, self.clip_norm, self.expected_batch)

    @property
    def words(self) -> str:
        """The training in the ledger's words."""
        return f"DP-SGD, {self.n_steps} steps, sampling rate {self.sample_rate:g}, clipping norm {self.clip_norm:g}"


def diverged(step: int, plan: Schedule) -> Diverged:
    """What to say, and stop, when a weight is larger than `LARGEST_WEIGHT` or no number any more. Steps count from 0."""
    return Diverged(
        f"training diverged at step {step + 1} of {plan.n_steps} with params.learning_rate = {plan.learning_rate:g}: "
        "a smaller learning rate or clipping norm may help"
    )
