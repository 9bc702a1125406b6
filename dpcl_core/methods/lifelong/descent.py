"""Gradient descent over a task's fixed batches, held back by the memory's gradient: A-GEM, whatever the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd_plan import LARGEST_WEIGHT
from dpcl_core.methods.lifelong.cards.network_params import BatchParams
from dpcl_core.methods.lifelong.memory import Memory
from dpcl_core.methods.lifelong.projection import projected

Gradients = list[Tensor]  # one tensor for each parameter


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Examples that are always used together: `inputs` float32 [b, channels, height, width] as the network reads them,
    `targets` int64 [b], their classes as places in `columns`: the outputs int64 [k], ascending, that compete for them."""

    inputs: Tensor
    targets: Tensor
    columns: Tensor


def descend(
    parameters: Sequence[Tensor],
    batches: Sequence[Batch],
    memory: Memory[Batch],
    gradients: Callable[[Batch], Gradients],
    n_steps: int,
    params: BatchParams,
    generator: np.random.Generator,
    largest: float = LARGEST_WEIGHT,
) -> Iterator[int]:
    """θ <- θ - ϱ g~ so many times, in place; yields the steps taken. Step i takes batch i modulo their number.

    g~ is the batch's gradient, projected by the mean gradient on stored batches where there are any; the first of the
    parameters is the first block. Plain descent: the papers state no momentum. Raises Diverged where a parameter is larger
    than `largest` or no number any more.
    """
    parameters = [parameter.detach() for parameter in parameters]  # the same numbers, changed without a trace
    for step in range(n_steps):
        grads = gradients(batches[step % len(batches)])
        if len(memory) > 0 and params.projection != "never":
            stored = [gradients(batch) for batch in memory.drawn(params.ref_batches, generator)]
            refs = [torch.stack(parts).mean(0) for parts in zip(*stored, strict=True)] if len(stored) > 1 else stored[0]
            grads = projected(grads, refs, params.projection, params.scope, n_first=1)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.sub_(grad, alpha=params.learning_rate)
        yield step + 1
        # Now, as the caller may have scaled weights back to norms that it holds.
        found = torch.stack([parameter.abs().max() for parameter in parameters]).max()  # no number where a weight is none
        if not found <= largest:
            raise Diverged(
                f"training diverged at step {step + 1} of {n_steps} with params.learning_rate = {params.learning_rate:g}: "
                "a smaller learning rate may help"
            )
