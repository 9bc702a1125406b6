"""Gradient descent over a task's fixed batches, projected against the memory's gradient (A-GEM), for any loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpcl_core.errors import Diverged
from dpcl_core.methods.common.dpsgd_plan import LARGEST_WEIGHT
from dpcl_core.methods.lifelong.batches import drawn
from dpcl_core.methods.lifelong.cards.network_params import BatchParams
from dpcl_core.methods.lifelong.projection import projected

Gradients = list[Tensor]  # one tensor for each parameter


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Examples that are always used together: `inputs` float32 [b, channels, height, width]; `targets` int64 [b], classes as
    positions in `columns`; `columns` int64 [k], ascending: the outputs that compete."""

    inputs: Tensor
    targets: Tensor
    columns: Tensor


def descend(
    parameters: Sequence[Tensor],
    batches: Sequence[Batch],
    stored: Sequence[Batch],
    gradients: Callable[[Batch], Gradients],
    n_steps: int,
    params: BatchParams,
    generator: np.random.Generator,
    largest: float = LARGEST_WEIGHT,
) -> Iterator[int]:
    """Updates θ <- θ - ϱ g~ in place `n_steps` times; yields the number of steps taken. Step i takes batch i modulo their
    number.

    g~ is the batch's gradient, projected against the mean gradient on stored batches if there are any; the first parameter
    is the first block. Plain descent: the papers state no momentum. Raises Diverged where a parameter is larger than
    `largest` or not finite.
    """
    parameters = [parameter.detach() for parameter in parameters]  # shared storage, updated outside autograd
    for step in range(n_steps):
        grads = gradients(batches[step % len(batches)])
        if stored and params.projection != "never":
            of_stored = [gradients(batch) for batch in drawn(stored, params.ref_batches, generator)]
            refs = (
                [torch.stack(parts).mean(0) for parts in zip(*of_stored, strict=True)]
                if len(of_stored) > 1
                else of_stored[0]
            )
            grads = projected(grads, refs, params.projection, params.scope)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.sub_(grad, alpha=params.learning_rate)
        yield step + 1
        # Checked after the yield, since the caller may have rescaled weights to its norm caps.
        peak = torch.stack([parameter.abs().max() for parameter in parameters]).max()  # NaN if any weight is
        if not peak <= largest:
            raise Diverged(
                f"training diverged at step {step + 1} of {n_steps} with params.learning_rate = {params.learning_rate:g}: "
                "a smaller learning rate may help"
            )
