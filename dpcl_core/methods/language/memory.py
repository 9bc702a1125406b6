"""PeCL's memory: how strongly what was learned before is held, from the adapters' products (Zhan et al., Eqs. 7 to 11).

Readings where the paper leaves a choice: adapters add up; Omega-bar is over the tasks before (Omega_k exists only after
training), so that nothing is held while the first is learned; ||x|| is the mean norm of what an adapted layer reads of a
token, for a norm of all of them would grow with the data; Omega-bar is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.methods.language.gradients import AT_ONCE, Reading, batch_of, clean, log_probs, recorded
from dpcl_core.methods.language.prompts import Prompted
from dpcl_core.methods.language.sensitivity import penalty_strength


class Memory:
    """Omega-bar of every adapter, and the products B A as the last task left them. Reads parameters alone."""

    def __init__(self, net: Adapted, lowest: float, highest: float) -> None:
        self._net, self._lowest, self._highest = net, lowest, highest
        self._totals = torch.zeros(len(net.pairs()), dtype=torch.float64)
        self._n_tasks, self._strength = 0, 0.0
        self._snapshots = [product.detach().clone() for product in self._products()]

    @property
    def omega_bar(self) -> tuple[float, ...]:
        """Mean over the tasks so far of Omega (Eq. 9), by adapter; empty before the first task has ended."""
        return tuple((self._totals / self._n_tasks).tolist()) if self._n_tasks else ()

    def open(self, mean_score: float) -> None:
        """To be called before a task's steps: its own mean score, brought into [0, 1], sets lambda_dyn (Eq. 11)."""
        self._strength = penalty_strength(min(max(mean_score, 0.0), 1.0), self._lowest, self._highest)

    def remember(self, input_norms: Sequence[float]) -> None:
        """To be called after a task: takes Omega_k = ||Delta W||_F ||x|| (Eq. 8) into the mean, then the snapshot.

        Delta W is what this task changed of the product B A (Eq. 7). Args: mean L2 norm of what each adapter reads.
        """
        now = [product.detach().clone() for product in self._products()]
        changes = [float((product - before).norm()) for product, before in zip(now, self._snapshots, strict=True)]
        self._totals += torch.tensor(changes, dtype=torch.float64) * torch.tensor(list(input_norms), dtype=torch.float64)
        self._n_tasks, self._snapshots = self._n_tasks + 1, now

    def penalty(self) -> Tensor:
        """L_reg = lambda_dyn Omega-bar ||W - W_before||_F^2 (Eq. 10), W = B A: 0 while the first task is learned."""
        if not self._n_tasks:
            return torch.zeros(())
        held = zip(self._products(), self._snapshots, self.omega_bar, strict=True)
        return self._strength * torch.stack([omega * (now - then).square().sum() for now, then, omega in held]).sum()

    def _products(self) -> list[Tensor]:
        return [second @ first for first, second in self._net.pairs()]


@torch.no_grad()
def input_norms(net: Adapted, texts: Prompted, device: str, reading: Reading = clean) -> list[float]:
    """Mean L2 norm of what each adapted layer reads of a token (||x|| of Eq. 8), over all tokens of these texts."""
    of_weight = {id(layer.weight): layer for layer in net.modules() if isinstance(layer, nn.Linear)}
    layers = [of_weight[id(first)] for first, _ in net.pairs()]
    totals, n_tokens = torch.zeros(len(layers), dtype=torch.float64), 0
    for rows in np.array_split(np.arange(len(texts)), -(-len(texts) // AT_ONCE)) if len(texts) else ():
        batch = batch_of(texts, rows, device)
        with recorded(layers) as passed:
            log_probs(net, batch, reading, answers_only=True)
        n_tokens += int(batch.mask.sum())
        totals += torch.stack([(passed[layer][0].norm(dim=2) * batch.mask).sum().double().cpu() for layer in layers])
    found: list[float] = (totals / max(1, n_tokens)).tolist()
    return found
