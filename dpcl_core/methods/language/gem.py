"""Gradient episodic memory (Lopez-Paz and Ranzato 2017): no step points against the gradient on any earlier task's texts.

Every step computes, for each past task, the gradient on all its kept texts. Under DP-SGD these are sums of clipped gradients
with noise of their own (`baseline_costs`, 4): the projection sees noisy gradients only. On noisy copies they are free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.lm_params import GemParams
from dpcl_core.methods.language.private_trainer import Baseline, GradientFn
from dpcl_core.methods.language.training_inputs import TrainingInputs
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Gem(Baseline):
    """One cell's model and the texts it keeps from finished tasks."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, GemParams)
        self._params, self._n_kept = spec.params, spec.params.kept(known.task_size)
        self._share = self._n_kept / known.task_size
        super().__init__(spec, cell, known)
        self._kept: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainer = self._trainer
        inputs = trainer.open_task(task, ledger)
        gradient_fn = trainer.gradient_fn(inputs, trainer.expected_batch, f"task {task.index}")
        descent = trainer.descent(task)
        references = [self._reference(kept, past, task) for past, kept in enumerate(self._kept)]
        for step, rows in enumerate(trainer.batches(inputs, task), start=1):
            past_grads = [reference(np.arange(len(kept))) for reference, kept in zip(references, self._kept, strict=True)]
            descent.step(projected_gradient(gradient_fn(rows), past_grads, self._params.margin))
            yield from trainer.progress(step, task)
        self._kept.append(trainer.replay_buffer(inputs, self._share, task))

    def _reference(self, kept: TrainingInputs, past: int, task: Task) -> GradientFn:
        """A function that gives the gradient on all kept texts of a past task."""
        purpose = f"reference of task {past} in task {task.index}"
        return self._trainer.gradient_fn(kept, self._n_kept, purpose, self._trainer.noises.references)


def projected_gradient(grads: Sequence[Tensor], references: Sequence[Sequence[Tensor]], margin: float) -> list[Tensor]:
    """Projection of a gradient onto the cone that has no negative inner product with any reference: g + G^T v.

    v minimises |G^T v + g| over v >= margin: the dual of GEM's program (its Eq. 11), a non-negative least-squares problem
    with one unknown per reference. Returns the gradient unchanged if it already lies in the cone. Computed in double
    precision.
    """
    if not references:
        return list(grads)
    g = _flat(grads)
    rows = torch.stack([_flat(reference) for reference in references])  # [references, weights]
    if bool((rows @ g >= 0).all()):
        return list(grads)
    lengths = rows.norm(dim=1).clamp(min=torch.finfo(rows.dtype).tiny)
    units = rows / lengths[:, None]  # references may differ in length by orders of magnitude
    q, r = torch.linalg.qr(units.T)  # reduces the problem from the number of weights to the number of references
    least = (margin * lengths).cpu().numpy()
    above_least, _ = nnls(r.cpu().numpy(), -(q.T @ g).cpu().numpy() - r.cpu().numpy() @ least)
    flat = g + torch.from_numpy(above_least + least).to(g) @ units
    pieces = torch.split(flat, [grad.numel() for grad in grads])
    return [piece.view_as(grad).to(grad.dtype) for piece, grad in zip(pieces, grads, strict=True)]


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1).double() for part in parts])
