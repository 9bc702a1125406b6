"""Gradient episodic memory (Lopez-Paz and Ranzato 2017): no step points against the gradient on any earlier task's texts.

Every step takes, of each past task, the gradient on all its kept texts. Under DP-SGD these are sums of clipped gradients
with noise of their own (`costs`, 4), and what is turned, and by what, is noisy already. Noisy copies give them for free.
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
    """The model of one cell, and the texts it keeps of every task that has ended."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, GemParams)
        self._params, self._n_kept = spec.params, spec.params.kept(known.task_size)
        self._share = self._n_kept / known.task_size
        super().__init__(spec, cell, known)
        self._kept: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainee = self._trainee
        own = trainee.opened(task, ledger)
        slope, descent = trainee.slope(own, trainee.expected_batch, f"task {task.index}"), trainee.descent(task)
        references = [self._reference(kept, past, task) for past, kept in enumerate(self._kept)]
        for step, rows in enumerate(trainee.batches(own, task), start=1):
            along = [reference(np.arange(len(kept))) for reference, kept in zip(references, self._kept, strict=True)]
            descent.step(turned(slope(rows), along, self._params.margin))
            yield from trainee.told(step, task)
        self._kept.append(trainee.kept(own, self._share, task))

    def _reference(self, kept: TrainingInputs, past: int, task: Task) -> GradientFn:
        """The gradient on all that is kept of a task."""
        purpose = f"reference of task {past} in task {task.index}"
        return self._trainee.slope(kept, self._n_kept, purpose, self._trainee.noises.references)


def turned(grads: Sequence[Tensor], references: Sequence[Sequence[Tensor]], margin: float) -> list[Tensor]:
    """The gradient nearest to this one that points against none of the references: g + G^T v.

    v minimises |G^T v + g| over v >= margin: the dual of GEM's program (its Eq. 11), a non-negative least-squares problem in
    one unknown a reference. The gradient itself where it points against none. Computed in double precision.
    """
    if not references:
        return list(grads)
    g = _flat(grads)
    rows = torch.stack([_flat(reference) for reference in references])  # [references, weights]
    if bool((rows @ g >= 0).all()):
        return list(grads)
    lengths = rows.norm(dim=1).clamp(min=torch.finfo(rows.dtype).tiny)
    units = rows / lengths[:, None]  # references may differ in length by orders of magnitude
    q, r = torch.linalg.qr(units.T)  # the problem has as many unknowns as references, whatever the number of weights
    least = (margin * lengths).cpu().numpy()
    found, _ = nnls(r.cpu().numpy(), -(q.T @ g).cpu().numpy() - r.cpu().numpy() @ least)
    flat = g + torch.from_numpy(found + least).to(g) @ units
    pieces = torch.split(flat, [grad.numel() for grad in grads])
    return [piece.view_as(grad).to(grad.dtype) for piece, grad in zip(pieces, grads, strict=True)]


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1).double() for part in parts])
