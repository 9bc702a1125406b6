"""Multi-task training: collects all tasks and trains one model on them together after the last has arrived."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.language import params as language
from dpcl_core.methods.language.adapted_model import join_texts
from dpcl_core.methods.language.baseline import Baseline, BaselineParams, Charge, Noises, Plan, card
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task


@dataclass(frozen=True, kw_only=True)
class MtlParams(BaselineParams):
    """Settings of multi-task training: none of its own."""

    trains_once: ClassVar[bool] = True

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """One training on everybody's texts, with the last task."""
        return [plan.steps(noises, tuple(range(plan.facts.n_tasks)))] if task == plan.facts.n_tasks - 1 else []


def derived(params: MtlParams, facts: PublicSizes) -> str:
    """Number of steps on all tasks together that follows from the settings."""
    return f"{facts.n_tasks * params.n_steps(facts.task_size):,} steps on all tasks together, after the last has come."


def notes(params: MtlParams) -> tuple[str, ...]:
    """Caveats on the texts kept until the model is trained, and on the bound."""
    kept = "A noisy copy of every text" if params.is_local else "Every text"
    return (f"{kept} is kept until the last task has come.", *language.notes(params))


CARD = card(
    "MTL", name="lm-mtl", title="MTL: all tasks together",
    summary="Waits for all tasks and trains the language model on their texts together. No continual learning: there is one "
    "model, at the end, so forgetting is not defined.",
    source="Upper bound of PeCL (Zhan et al.), DP-SGD or noisy embeddings",
    params=MtlParams, module=__name__, key_settings=("mechanism", "epochs", "length"), at_once={"mechanism": "dp-sgd"},
    trains_on="all", derived=derived, notes=notes,
)


class Mtl(Baseline):
    """One cell's model, and the texts of all tasks until it is trained."""

    waits = True

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        self.keep(inputs, np.arange(len(inputs)))
        if task.index < self.context.n_tasks - 1:
            return
        together = join_texts(self.kept)
        self.kept.clear()
        gradient_fn = self.gradient_fn(together, self.expected_batch, "all tasks")
        yield from self._train(task, gradient_fn, self.batches(together, task))


make_learner = Mtl.make_learner
