"""Training of a language model's low-rank adapters, plain or by DP-SGD: batches, per-text gradients, steps.

The pieces can be put together anew: `Gradients` sums clipped gradients of a batch, `noisy_means` makes a sum private,
`Descent` takes steps. `private_steps` and `plain_steps` are the two usual ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.methods.language.prompts import Prompted
from dpcl_core.methods.schedule import Schedule
from dpcl_core.privacy.noise import Batches, Noise


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts of one step, on the device. `rows` int64 [b]: their places in the task; the rest as in `Prompted`."""

    rows: NDArray[np.int64]
    ids: Tensor
    role: Tensor
    stop: Tensor
    kind: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def mask(self) -> Tensor:
        """bool [b, S]: not padding."""
        raise NotImplementedError


TextLoss = Callable[[Tensor, Batch], Tensor]  # log-probabilities of a batch's tokens [b, S] -> losses [b]
Reading = Callable[[Tensor, Batch, int], Tensor]  # embeddings [b, S, d], whose, in which epoch -> what the network reads
Penalty = Callable[[], Tensor]  # a number made of parameters alone, whose gradient joins a step after its noise
Change = Callable[[list[Tensor]], list[Tensor]]  # of a step's (noisy) mean gradients


def clean(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
    """The reading without noise."""
    return embeddings


def batch_of(texts: Prompted, rows: NDArray[np.int64], device: str) -> Batch:
    """The texts of these rows, padded to the longest of them."""
    raise NotImplementedError


def log_probs(net: Adapted, batch: Batch, reading: Reading = clean, epoch: int = 0) -> Tensor:
    """log P(token | tokens before it) [b, S]; 0 in the first column and where padded. Computes gradients where enabled."""
    raise NotImplementedError


class Gradients:
    """Gradients of per-text losses by the adapters' parameters, each text's clipped to `clip_norm` over all of them, summed.

    inf: no clipping. Parameters come in the order of `parameters`.
    """

    def __init__(self, net: Adapted, clip_norm: float) -> None:
        self.parameters: list[nn.Parameter] = []
        raise NotImplementedError

    def of(self, batch: Batch, loss: TextLoss, reading: Reading = clean, epoch: int = 0) -> list[Tensor]:
        """The sums, one for each parameter; zeros for an empty batch.

        Adding a text changes the sums, taken together, by at most `clip_norm` in L2, replacing one by twice that. A text
        whose gradient is not finite counts zero.
        """
        raise NotImplementedError


class Descent:
    """AdamW along a cosine: the learning rate of step t of T is plan.learning_rate (1 + cos(pi t / T)) / 2."""

    def __init__(self, parameters: Sequence[nn.Parameter], plan: Schedule) -> None:
        raise NotImplementedError

    def step(self, means: Sequence[Tensor], penalty: Penalty | None = None) -> None:
        """One step along mean gradients, which are final: noise is in them. The penalty's gradient is added to them.

        Raises Diverged as `methods.schedule` says.
        """
        raise NotImplementedError


def private_steps(
    net: Adapted,
    texts: Prompted,
    plan: Schedule,
    noise_multiplier: float,
    batches: Batches,
    noise: Noise,
    loss: TextLoss,
    *,
    device: str,
    penalty: Penalty | None = None,
    change: Change | None = None,
) -> Iterator[int]:
    """DP-SGD: yields the steps taken so far. The caller has written the training into the ledger.

    Each step sums the clipped gradients of a Poisson batch, adds noise, divides by the expected batch; what comes after,
    `change`, `penalty` and the step, reads no text. An empty batch takes the same noisy step. A noise multiplier of 0 trains
    without noise and without clipping. Raises Diverged.
    """
    raise NotImplementedError


def plain_steps(
    net: Adapted,
    texts: Prompted,
    plan: Schedule,
    batch_size: int,
    order: np.random.Generator,
    loss: TextLoss,
    *,
    device: str,
    reading: Reading = clean,
    penalty: Penalty | None = None,
    change: Change | None = None,
) -> Iterator[int]:
    """Steps on batches of a shuffled pass after the other, without clipping or noise: yields the steps taken so far."""
    raise NotImplementedError
