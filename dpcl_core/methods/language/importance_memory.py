"""PeCL's memory penalty: adapters stay near their values after the last task, by importance (Zhan et al., Eqs. 7 to 11).

Choices where the paper leaves one open: the penalty sums over adapters; ||x|| is the mean norm of a layer's input at one
token, because a norm over all tokens would grow with the data; Omega-bar is a constant without gradient. As printed,
Omega-bar includes the current task, whose Omega grows as the adapters change; otherwise it covers past tasks only, so the
first task has no penalty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.methods.language.gradients import AT_ONCE, Reading, batch_of, clean, recorded, states_of
from dpcl_core.methods.language.prompts import Prompted
from dpcl_core.methods.language.sensitivity import penalty_strength


class Memory:
    """Omega-bar of every adapter, and the products B A after the last task. Reads parameters only."""

    KEPT = ("_totals", "_n_tasks", "_strength", "_snapshots", "_current_norms")

    def __init__(self, net: Adapted, lowest: float, highest: float) -> None:
        self._net, self._lowest, self._highest = net, lowest, highest
        self._totals = torch.zeros(len(net.pairs()), dtype=torch.float64)
        self._n_tasks, self._strength = 0, 0.0
        self._snapshots = [product.detach().clone() for product in self._products()]
        self._current_norms: Tensor | None = None

    @property
    def omega_bar(self) -> tuple[float, ...]:
        """Current Omega-bar (Eq. 9) of each adapter; empty before any task counts."""
        if self._current_norms is None:
            return tuple((self._totals / self._n_tasks).tolist()) if self._n_tasks else ()
        omega = self._changes([product.detach() for product in self._products()]) * self._current_norms
        return tuple(((self._totals + omega) / (self._n_tasks + 1)).tolist())

    def open(self, mean_score: float, input_norms: Sequence[float] | None = None) -> None:
        """Call before a task's steps: sets lambda_dyn (Eq. 11) from the task's mean score, clipped to [0, 1].

        Args: input_norms: mean L2 norm of each adapter's input on the task if Omega-bar includes it; else None.
        """
        self._strength = penalty_strength(min(max(mean_score, 0.0), 1.0), self._lowest, self._highest)
        self._current_norms = None if input_norms is None else torch.tensor(list(input_norms), dtype=torch.float64)

    def remember(self, input_norms: Sequence[float]) -> None:
        """Call after a task: adds Omega_k = ||Delta W||_F ||x|| (Eq. 8) to the mean, then takes a snapshot.

        Delta W is the task's change of the product B A (Eq. 7). Args: input_norms: mean L2 norm of each adapter's input.
        """
        now = [product.detach().clone() for product in self._products()]
        self._totals += self._changes(now) * torch.tensor(list(input_norms), dtype=torch.float64)
        self._n_tasks, self._snapshots = self._n_tasks + 1, now

    def penalty(self) -> Tensor:
        """L_reg = lambda_dyn Omega-bar ||W - W_before||_F^2 (Eq. 10), W = B A; 0 before any task counts."""
        omegas = self.omega_bar
        if not omegas:
            return torch.zeros(())
        adapters = zip(self._products(), self._snapshots, omegas, strict=True)
        return self._strength * torch.stack([omega * (now - then).square().sum() for now, then, omega in adapters]).sum()

    def _changes(self, products: Sequence[Tensor]) -> Tensor:
        """||Delta W||_F of every adapter [adapters], float64."""
        norms = [float((now - before).norm()) for now, before in zip(products, self._snapshots, strict=True)]
        return torch.tensor(norms, dtype=torch.float64)

    def _products(self) -> list[Tensor]:
        return [second @ first for first, second in self._net.pairs()]


@torch.no_grad()
def input_norms(net: Adapted, texts: Prompted, device: str, reading: Reading = clean) -> list[float]:
    """Mean L2 norm of each adapted layer's input (||x|| of Eq. 8), over all tokens of these texts."""
    of_weight = {id(layer.weight): layer for layer in net.modules() if isinstance(layer, nn.Linear)}
    layers = [of_weight[id(first)] for first, _ in net.pairs()]
    totals, n_tokens = torch.zeros(len(layers), dtype=torch.float64), 0
    for rows in np.array_split(np.arange(len(texts)), -(-len(texts) // AT_ONCE)) if len(texts) else ():
        batch = batch_of(texts, rows, device)
        with recorded(layers) as passed:
            last = batch.mask.sum(dim=1, keepdim=True) - 1
            net.split.above(states_of(net, batch, reading, 0), last, whole=True)
        n_tokens += int(batch.mask.sum())
        totals += torch.stack([(passed[layer][0].norm(dim=2) * batch.mask).sum().double().cpu() for layer in layers])
    means: list[float] = (totals / max(1, n_tokens)).tolist()
    return means
