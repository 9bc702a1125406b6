"""Orthogonal low-rank adapters (O-LoRA, Wang et al. 2023): a new pair for every task, with earlier pairs frozen and summed.

The penalty is lambda times the sum, over earlier tasks i and adapted layers, of the squared entries of A_i A_t^T; they are
0 where the rows of both are orthogonal. The authors' code takes absolute values instead; the paper's form has a gradient
that fades as the rows become orthogonal. Earlier pairs are outputs of private training: the penalty reads no text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dpcl_core.backbones.causal import Adapted
from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.baseline import Baseline
from dpcl_core.methods.language.cards.lm_params import OloraParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class WithEarlier(nn.Module):
    """A frozen layer plus the frozen pairs of earlier tasks: W x + scale (sum of B_i A_i) x. No part of it is trained."""

    KEPT = ("pairs",)

    def __init__(self, layer: nn.Module, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = layer, scale
        self.pairs: list[tuple[Tensor, Tensor]] = []  # A [rank, inputs], B [outputs, rank]

    def add(self, first: Tensor, second: Tensor) -> None:
        """Adds a copy of a pair."""
        self.pairs.append((first.detach().clone(), second.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        if not self.pairs:
            return out
        first, second = torch.cat([a for a, _ in self.pairs]), torch.cat([b for _, b in self.pairs], dim=1)
        earlier = self.scale * (x.to(first.dtype) @ first.T) @ second.T
        return (out + earlier).to(out.dtype)  # where the layer is in half precision, pairs are not


class Stack:
    """The adapters of a network: the pair in training, and the frozen pairs of earlier tasks beneath it."""

    KEPT = ("frozen",)

    def __init__(self, net: Adapted) -> None:
        self._net = net
        self.frozen: list[WithEarlier] = []
        for layer in net.layers.values():
            below = WithEarlier(layer.base_layer, net.scale)  # type: ignore[arg-type]
            layer.base_layer = below
            self.frozen.append(below)

    def freeze(self, generator: torch.Generator) -> None:
        """Freezes the trained pairs and starts new ones, A random and B = 0: the network's output does not change."""
        for (first, second), below in zip(self._net.pairs(), self.frozen, strict=True):
            below.add(first, second)
            fresh = torch.empty(first.shape)
            nn.init.kaiming_uniform_(fresh, a=math.sqrt(5), generator=generator)
            with torch.no_grad():
                first.copy_(fresh)
                second.zero_()

    def overlap(self) -> Tensor:
        """Sum of the squared entries of A_i A_t^T over earlier tasks and layers; 0 during the first task."""
        pairs = zip(self._net.pairs(), self.frozen, strict=True)
        parts = [(earlier @ first.T).square().sum() for (first, _), below in pairs for earlier, _ in below.pairs]
        return torch.stack(parts).sum() if parts else torch.zeros(())


class Olora(Baseline):
    """One cell's model, with the adapters of every task."""

    KEPT = (*Baseline.KEPT, "_stack")
    params: OloraParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self._stack = Stack(self.net)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        if task.index:
            self._stack.freeze(torch.Generator().manual_seed(self.cell.seed + task.index))
        gradient_fn, batches = self.task_gradient_fn(inputs, task), self.batches(inputs, task)
        yield from self._train(task, gradient_fn, batches, lambda: self.params.strength * self._stack.overlap())
