"""PeCL's memory: how strongly what was learned before is held, from the adapters' products (Zhan et al., Eqs. 7 to 11).

Readings where the paper leaves a choice: adapters add up; ||x|| is the mean norm of what an adapted layer reads of a token,
for a norm of all of them would grow with the data; Omega-bar is a constant. As printed it counts the task that is learned,
whose Omega grows as the adapters change; else only the tasks before, so that nothing is held while the first is learned.
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
        self._own_norms: Tensor | None = None

    @property
    def omega_bar(self) -> tuple[float, ...]:
        """Omega-bar (Eq. 9) as it is now, by adapter; empty where no task counts yet."""
        if self._own_norms is None:
            return tuple((self._totals / self._n_tasks).tolist()) if self._n_tasks else ()
        own = self._changes([product.detach() for product in self._products()]) * self._own_norms
        return tuple(((self._totals + own) / (self._n_tasks + 1)).tolist())

    def open(self, mean_score: float, input_norms: Sequence[float] | None = None) -> None:
        """To be called before a task's steps: its own mean score, brought into [0, 1], sets lambda_dyn (Eq. 11).

        Args: input_norms: mean L2 norm of what each adapter reads of the task, where its own Omega counts; else None.
        """
        self._strength = penalty_strength(min(max(mean_score, 0.0), 1.0), self._lowest, self._highest)
        self._own_norms = None if input_norms is None else torch.tensor(list(input_norms), dtype=torch.float64)

    def remember(self, input_norms: Sequence[float]) -> None:
        """To be called after a task: takes Omega_k = ||Delta W||_F ||x|| (Eq. 8) into the mean, then the snapshot.

        Delta W is what this task changed of the product B A (Eq. 7). Args: mean L2 norm of what each adapter reads.
        """
        now = [product.detach().clone() for product in self._products()]
        self._totals += self._changes(now) * torch.tensor(list(input_norms), dtype=torch.float64)
        self._n_tasks, self._snapshots = self._n_tasks + 1, now

    def penalty(self) -> Tensor:
        """L_reg = lambda_dyn Omega-bar ||W - W_before||_F^2 (Eq. 10), W = B A; 0 while no task counts."""
        omegas = self.omega_bar
        if not omegas:
            return torch.zeros(())
        held = zip(self._products(), self._snapshots, omegas, strict=True)
        return self._strength * torch.stack([omega * (now - then).square().sum() for now, then, omega in held]).sum()

    def _changes(self, products: Sequence[Tensor]) -> Tensor:
        """||Delta W||_F of every adapter, float64."""
        norms = [float((now - before).norm()) for now, before in zip(products, self._snapshots, strict=True)]
        return torch.tensor(norms, dtype=torch.float64)

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
