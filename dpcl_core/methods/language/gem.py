"""Gradient episodic memory (Lopez-Paz and Ranzato 2017): no step points against the gradient on any earlier task's texts.

Every step computes, for each past task, the gradient on all its kept texts. Under DP-SGD these are sums of clipped gradients
with noise of their own (`baseline`, 4): the projection sees noisy gradients only. On noisy copies they are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.language.adapted_model import TrainingInputs
from dpcl_core.methods.language.baseline import Baseline, BaselineParams, Charge, Noises, Plan, Rows, card
from dpcl_core.methods.language.later import torch
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Steps
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import parameter


@dataclass(frozen=True, kw_only=True)
class GemParams(BaselineParams):
    """Settings of GEM: the memory of each task, the margin, and the budget of reference gradients."""

    memory_size: int = parameter(256, "", "Texts of each task kept, on average; each is kept by chance.", ge=1, le=10**6)
    margin: float = parameter(
        0.0, "", "Least weight of each earlier task's gradient in a step that is turned; 0: only those it needs.",
        ge=0, le=10)
    reference_share: float = parameter(
        0.5, "Share of ε for the reference",
        "Share of epsilon that gradients on what is kept may use up, with mechanism = dp-sgd, budget = total.",
        ge=0.01, le=0.99)

    keeps_texts: ClassVar[bool] = True

    @property
    def share_of_references(self) -> float:
        return self.reference_share

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return min(float(self.memory_size), task_size)

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """The steps, and in each of them a gradient on the kept texts of every earlier task."""
        what = f"{plan.n_steps} times, clipping norm {self.clip_norm:g}"
        references = Steps(plan.n_steps, (1.0,), noises.references)
        charges = [Charge(references, f"reference gradients of task {past + 1}, {what}", (past,)) for past in range(task)]
        return [*super().charges(plan, noises, task), *charges]


CARD = card(
    "GEM",
    {
        "memory_size": "How much of a task is kept is not given.", "margin": "The margin is not given.",
        "reference_share": "How a budget is split is not said.",
    },
    name="lm-gem", title="GEM: gradient episodic memory",
    summary="Fine-tunes a language model from task to task; no step may point against the gradient on any earlier task's "
    "kept texts. Under DP-SGD each of these gradients gets noise: every step reads all kept texts, which few budgets can "
    "pay for.",
    source="Baseline of PeCL (Zhan et al.); Lopez-Paz and Ranzato 2017",
    params=GemParams, module=__name__, key_settings=("mechanism", "epochs", "memory_size"),
)


class Gem(Baseline):
    """One cell's model and the texts it keeps from finished tasks."""

    params: GemParams

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        gradient_fn = self.task_gradient_fn(inputs, task)
        references = [self._reference(kept, past, task) for past, kept in enumerate(self.kept)]

        def projected(rows: Rows) -> list[torch.Tensor]:
            return projected_gradient(gradient_fn(rows), [reference() for reference in references], self.params.margin)

        yield from self._train(task, projected, self.batches(inputs, task))
        self.keep_some(inputs, self.params.kept(self.context.task_size) / self.context.task_size, task)

    def _reference(self, kept: TrainingInputs, past: int, task: Task) -> Callable[[], list[torch.Tensor]]:
        """A function that gives the gradient on all kept texts of a past task."""
        purpose = f"reference of task {past} in task {task.index}"
        gradient_fn = self.gradient_fn(kept, self.params.kept(self.context.task_size), purpose, 1 + past)
        if self.is_local:
            return lambda: gradient_fn(np.arange(len(kept)))
        everybody = self.batches_of(self.charges[1 + past].steps, purpose)
        return lambda: gradient_fn(everybody.draw(len(kept)))


def projected_gradient(
    grads: Sequence[torch.Tensor], references: Sequence[Sequence[torch.Tensor]], margin: float
) -> list[torch.Tensor]:
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
    from scipy.optimize import nnls  # takes long to load, and other methods' runs load this module, too

    above_least, _ = nnls(r.cpu().numpy(), -(q.T @ g).cpu().numpy() - r.cpu().numpy() @ least)
    pieces = torch.split(g + torch.from_numpy(above_least + least).to(g) @ units, [grad.numel() for grad in grads])
    return [piece.view_as(grad).to(grad.dtype) for piece, grad in zip(pieces, grads, strict=True)]


def _flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([part.reshape(-1).double() for part in parts])


make_learner = Gem.make_learner
