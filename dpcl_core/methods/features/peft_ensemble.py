"""PEFT ensemble (Tobaben et al., Algorithm 2): a fresh adapter and head for every task; all members vote at test time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.features import params, trainer
from dpcl_core.methods.features.params import MEMBER
from dpcl_core.methods.features.rules import VoteAccumulator
from dpcl_core.methods.features.trainer import Model, Trainer, Work
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class EnsembleParams(params.PeftParams):
    """Settings of each member's training, and of the vote."""

    rule: params.Rule = parameter(
        "argmax", title="Decision rule",
        description="How the members of all tasks vote. Every rule is computed, and can be looked at after the run.")


class PeftEnsemble:
    """The members of every seed, each trained on one task alone and independently of the others."""

    KEPT = ("_members",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._rule, self._one_space = settings_of(spec, EnsembleParams).rule, spec.labels == "prior-const"
        self._trainer, self._size = Trainer(spec, cells, context), context.task_size
        self.kept_records = self._trainer.kept_records
        self._members: dict[int, list[Model]] = {seed: [] for seed in self._trainer.seeds}
        self._votes: dict[tuple[int, int], VoteAccumulator] = {}
        # By (seed, task): the logits of the task's own member on its test set.
        self._member_logits: dict[tuple[int, int], NDArray[np.floating]] = {}

    def prefetch(self, coming: Sequence[Mapping[int, Task]]) -> None:
        """Starts training the next members, which build on no other, while the last ones are evaluated."""
        for tasks in coming:
            self._trainer.begin(self._works(tasks))

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        models = yield from self._trainer.train(self._works(tasks), ledgers)
        for seed, model in models.items():
            self._members[seed].append(model)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Lays the networks under the adapters again; it keeps no example. Votes are counted again when they are needed."""
        self._members = {seed: [self._trainer.completed(one) for one in members] for seed, members in self._members.items()}

    def _works(self, tasks: Mapping[int, Task]) -> dict[int, Work]:
        return {seed: Work(task.train, task.prior, (task.index,), self._size) for seed, task in tasks.items()}

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores by rule. A member's logits on a test set are computed only once.

        The last rule is `MEMBER`: the task's own member alone, as if each test example came with its task.
        """
        place = seed, task.index
        votes = self._votes.setdefault(place, VoteAccumulator(one_space=self._one_space))
        inputs = task.test.inputs
        for index, member in enumerate(self._members[seed][votes.n_members :], start=votes.n_members):
            logits = member.logits(inputs)
            votes.add(logits)
            if index == task.index:
                self._member_logits[place] = logits
        if not votes.n_members:
            return {}
        task_member = {MEMBER: self._member_logits[place]} if place in self._member_logits else {}
        return {**votes.scores(self._rule), **task_member}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The newest member; the others were released with their own tasks."""
        return self._trainer.released(self._members[cell.seed][-1], cell)

    def rule(self, cell: Cell) -> Rule:
        """The vote of all members."""
        return self._trainer.rule(self._members[cell.seed], cell, {"vote": self._rule, "one_space": self._one_space})


make_learner = PeftEnsemble
CARD = params.trained_card(
    name="peft-ensemble",
    title="PEFT ensemble",
    summary="For each task, DP-SGD trains a new last layer, or a small adapter with one, on the same frozen network. All "
    "are kept, and they vote on a test example. No task can overwrite what another has learned.",
    source="Tobaben et al. 2025, Algorithm 2",
    params=EnsembleParams, key_settings=("adapter", "epochs", "rule"), module=__name__, forecast=trainer.forecast,
    planned="dpcl_core.methods.features.trainer:planned",
    printed=params.printed_of_trained(
        {"params.rule": Printed(("argmax", "median", "entropy"), "No other rule is printed.")}
    ),
    table_names=lambda spec: ("PEFT Ensemble", params.variant(spec)),
)
