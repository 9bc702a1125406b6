"""Orthogonal low-rank adapters (O-LoRA, Wang et al. 2023): a new pair for every task, with earlier pairs frozen and summed.

The penalty is lambda times the sum, over earlier tasks i and adapted layers, of the squared entries of A_i A_t^T; they are
0 where the rows of both are orthogonal. The authors' code takes absolute values instead; the paper's form has a gradient
that fades as the rows become orthogonal. Earlier pairs are outputs of private training: the penalty reads no text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpcl_core.events import Progress
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.language.baseline import Baseline, BaselineParams, card
from dpcl_core.methods.language.later import causal, torch
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class OloraParams(BaselineParams):
    """Settings of O-LoRA: the strength of the orthogonality penalty."""

    strength: float = parameter(
        0.5, "Penalty weight λ",
        "What the overlap with earlier adapters counts: the sum of the squared entries of their products.", ge=0, le=1e6)


CARD = card(
    "O-LoRA",
    {"strength": "The weight of the overlap is not given."},
    name="lm-olora", title="O-LoRA: orthogonal adapters",
    summary="Gives every task its own low-rank adapters, which are added to those of earlier tasks and kept orthogonal "
    "to them. Earlier adapters are outputs of private training: using them again reads no text and costs no budget.",
    source="Baseline of PeCL (Zhan et al.); Wang et al. 2023",
    params=OloraParams, module=__name__, key_settings=("mechanism", "epochs", "strength"),
)


class Earlier:
    """The frozen pairs of earlier tasks beneath a layer, whose output they are added to: W x + scale (sum of B_i A_i) x."""

    KEPT = ("pairs",)

    def __init__(self, layer: torch.nn.Module, scale: float) -> None:
        self.scale = scale
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []  # A [rank, inputs], B [outputs, rank]
        layer.register_forward_hook(self._added)

    def _added(self, layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor:
        if not self.pairs:
            return out
        first, second = torch.cat([a for a, _ in self.pairs]), torch.cat([b for _, b in self.pairs], dim=1)
        earlier = self.scale * (inputs[0].to(first.dtype) @ first.T) @ second.T
        return (out + earlier).to(out.dtype)  # where the layer is in half precision, pairs are not


class Stack:
    """The adapters of a network: the pair in training, and the frozen pairs of earlier tasks beneath it."""

    KEPT = ("frozen",)

    def __init__(self, net: causal.Adapted) -> None:
        self._net = net
        self.frozen = [Earlier(layer.base_layer, net.scale) for layer in net.layers.values()]  # type: ignore[arg-type]

    def freeze(self, generator: torch.Generator) -> None:
        """Freezes the trained pairs and starts new ones, A random and B = 0: the network's output does not change."""
        for (first, second), below in zip(self._net.pairs(), self.frozen, strict=True):
            below.pairs.append((first.detach().clone(), second.detach().clone()))
            fresh = torch.empty(first.shape)
            torch.nn.init.kaiming_uniform_(fresh, a=math.sqrt(5), generator=generator)
            with torch.no_grad():
                first.copy_(fresh)
                second.zero_()

    def overlap(self) -> torch.Tensor:
        """Sum of the squared entries of A_i A_t^T over earlier tasks and layers; 0 during the first task."""
        pairs = zip(self._net.pairs(), self.frozen, strict=True)
        parts = [(earlier @ first.T).square().sum() for (first, _), below in pairs for earlier, _ in below.pairs]
        return torch.stack(parts).sum() if parts else torch.zeros(())


class Olora(Baseline):
    """One cell's model, with the adapters of every task."""

    KEPT = (*Baseline.KEPT, "_stack")
    stacks = True
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


make_learner = Olora.make_learner
