"""Non-CL baseline (Tobaben et al., Algorithm A3): keeps all data seen so far and trains a fresh model on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from dpcl_core.events import Progress
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.features import params, trainer
from dpcl_core.methods.features.trainer import ModelOfSeed, Work
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Examples, Task, join_examples
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class NonClParams(params.PeftParams):
    """Settings of training on all data seen so far, and how often the model is released."""

    release: Literal["every-task", "once"] = parameter(
        "every-task", title="Published",
        description="every-task: trained from scratch and released after each task, so early examples are used many times "
        "and their epsilon adds up. once: trained and released after the last task alone.")


class NonCl(ModelOfSeed):
    """Keeps the examples of all tasks, so it is no continual learner.

    If a model is released after every task, the first task's examples are used in every release, and the ledger composes
    these. If one is released after the last task only, they are used once.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        super().__init__(spec, cells, context)
        chosen = settings_of(spec, NonClParams)
        self._once = chosen.release == "once"
        self._seen: dict[int, list[Task]] = {seed: [] for seed in self._trainer.seeds}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for seed, task in tasks.items():
            self._seen[seed].append(task)
        n_seen = max(map(len, self._seen.values()))
        if self._once and n_seen < self._context.n_tasks:
            return
        works = {seed: self._work(seen) for seed, seen in self._seen.items()}
        self._models = yield from self._trainer.train(works, ledgers)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Keeps the tasks so far again; lays the networks under the adapters."""
        self._seen = {seed: [tasks[seed] for tasks in learned] for seed in self._seen}
        super().recall(learned)

    def _work(self, seen: Sequence[Task]) -> Work:
        examples: Examples = join_examples([task.train for task in seen])
        prior = tuple(sorted({label for task in seen for label in task.prior}))
        return Work(examples, prior, tuple(task.index for task in seen), len(seen) * self._context.task_size)


make_learner = NonCl


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): a training on all tasks so far after each, or one after the last."""
    chosen, so_far = settings_of(spec, NonClParams), [tuple(range(n)) for n in range(1, facts.n_tasks + 1)]
    trainer.planned_on(so_far[-1:] if chosen.release == "once" else so_far, spec, facts, epsilon, ledger)


CARD = params.trained_card(
    name="non-cl",
    title="All data at once",
    summary="Keeps every example and trains a fresh model on all of them together. This is not continual learning, but an "
    "upper bound for it. If it is released after every task, early examples are used again each time, and their guarantee "
    "is weaker.",
    source="Tobaben et al. 2025, Algorithm A3",
    params=NonClParams, key_settings=("adapter", "epochs", "release"), module=__name__, planned=f"{__name__}:planned",
    trains_on="all", at_once={"release": "once"}, forecast=partial(trainer.forecast, on_all=True),
    printed=params.printed_of_trained(
        {"params.release": Printed(("every-task", "once"), "Both are printed, in two versions of the paper.")}
    ),
    table_names=lambda spec: ("Non-CL baseline", params.variant(spec)),
)
