"""Training loops for a language model's low-rank adapters, with DP-SGD or without privacy.

Built from parts that other methods combine differently: `gradients.Gradients` sums a batch's clipped gradients,
`noisy_means` makes a sum private, `Descent` takes steps. `private_steps` and `plain_steps` are the two standard loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import causal
from dpcl_core.backbones.causal import Adapted
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language.gradients import Batch, Gradients, Reading, TextLoss, batch_of, clean
from dpcl_core.methods.language.public_text import FIRST, TEXT, Prompted
from dpcl_core.privacy.noise import Batches, Noise

Penalty = Callable[[], Tensor]  # a function of the parameters alone; its gradient is added to a step after the noise
Change = Callable[[list[Tensor]], list[Tensor]]  # maps a step's mean gradients to those it takes


class Descent:
    """AdamW with cosine decay: at step t = 0, 1, ... of T the rate is plan.learning_rate (1 + cos(pi t / T)) / 2."""

    def __init__(self, parameters: Sequence[nn.Parameter], plan: Schedule) -> None:
        self._parameters, self._plan, self._step = list(parameters), plan, 0
        self._adam = torch.optim.AdamW(self._parameters, lr=plan.learning_rate)

    def step(self, means: Sequence[Tensor], penalty: Penalty | None = None) -> None:
        """One step along mean gradients that already have their noise. Adds the penalty's gradient to them.

        Raises Diverged if a weight is not finite or exceeds `LARGEST_WEIGHT`.
        """
        for parameter, mean in zip(self._parameters, means, strict=True):
            parameter.grad = mean
        if penalty is not None:
            value = penalty()
            if value.requires_grad:  # a constant during the first task
                for parameter, more in zip(self._parameters, _gradients(value, self._parameters), strict=True):
                    if more is not None:
                        parameter.grad = more if parameter.grad is None else parameter.grad + more
        for group in self._adam.param_groups:
            group["lr"] = self._plan.learning_rate * (1 + math.cos(math.pi * self._step / self._plan.n_steps)) / 2
        self._adam.step()
        if not torch.stack([(parameter.abs() <= LARGEST_WEIGHT).all() for parameter in self._parameters]).all():
            raise diverged(self._step, self._plan)
        self._step += 1


def _gradients(value: Tensor, parameters: Sequence[nn.Parameter]) -> Sequence[Tensor | None]:
    grads: Sequence[Tensor | None] = torch.autograd.grad(value, parameters, allow_unused=True)
    return grads


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
) -> Iterator[int]:
    """DP-SGD: yields the number of steps taken so far. The caller must have written the training to the ledger.

    Each step sums the clipped gradients of a Poisson batch, adds noise and divides by the expected batch size; the
    penalty and the optimiser come after and read no text. An empty batch takes the same noisy step. A noise multiplier of
    0 trains without noise and without clipping. Raises Diverged.
    """
    gradients = Gradients(net, plan.clip_norm if noise_multiplier > 0 else math.inf)
    descent, std = Descent(gradients.parameters, plan), plan.noise_std(noise_multiplier)
    for step in range(plan.n_steps):
        sums = gradients.of(batch_of(texts, batches.draw(len(texts)), device), loss)
        means = noisy_means(sums, plan.expected_batch, std, noise, dtype=gradients.parameters[0].dtype)
        descent.step(means, penalty)
        yield step + 1


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
    """Training on shuffled passes without clipping or noise: yields the number of steps taken so far.

    The last batch of a pass may be smaller. Without texts there are no steps. Raises Diverged.
    """
    gradients = Gradients(net, math.inf)
    descent = Descent(gradients.parameters, plan)
    step = epoch = 0
    while len(texts) and step < plan.n_steps:
        shuffled = order.permutation(len(texts))
        for start in range(0, len(shuffled), batch_size):
            rows = shuffled[start : start + batch_size]
            sums = gradients.of(batch_of(texts, rows, device), loss, reading, epoch)
            means = [part / len(rows) for part in sums]
            descent.step(means if change is None else change(means), penalty)
            step += 1
            yield step
            if step == plan.n_steps:
                return
        epoch += 1


def gather_batch(table: Tensor, batch: Batch) -> Tensor:
    """The batch's rows [b, S, ...] of per-token values [n, length, ...]; 0 outside the texts."""
    values = table[torch.from_numpy(batch.rows).to(table.device), : batch.ids.shape[1] - FIRST]
    missing = batch.ids.shape[1] - FIRST - values.shape[1]
    inner = [0, 0] * (values.dim() - 2)
    values = functional.pad(values, [*inner, FIRST, missing])
    is_text = batch.role == TEXT
    return values * is_text.view(*is_text.shape, *([1] * (values.dim() - 2)))


def replace_text_embeddings(embeddings: Tensor, stored: Tensor, batch: Batch) -> Tensor:
    """Embeddings [b, S, d] in which the texts' tokens take theirs from `stored` [n, length, d]; prompts keep their own."""
    return torch.where((batch.role == TEXT)[..., None], gather_batch(stored, batch).to(embeddings.dtype), embeddings)


def embedding_table(net: causal.Adapted) -> NDArray[np.float32]:
    """The network's input embedding of each token [size, d]: a public table."""
    layer = net.model.get_input_embeddings()  # type: ignore[operator]  # a module's attributes have no types
    size, device = len(layer.weight), layer.weight.device
    with torch.no_grad():
        table: NDArray[np.float32] = net.embed(torch.arange(size, device=device)).float().cpu().numpy()
    return table
