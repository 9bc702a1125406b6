"""The learner of every language method: it trains one cell's model, and first reports on texts without loading torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.backbones.language.files import BUNDLED
from dpcl_core.events import Fact, Note, Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import LearnerEvent, PublicContext
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.run_reports import Reports
from dpcl_core.methods.language.scoring import Scorer
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    from dpcl_core.backbones.language.causal import Adapted

# By method: the module in this folder, and the class of its models, made from a spec, a cell, public facts and any scorer.
MODELS: Mapping[str, tuple[str, str]] = {
    "pecl": ("pecl_training", "Repaired"),
    "pecl-published": ("pecl_published_training", "Published"),
    "lm-seqft": ("baseline", "Baseline"),
    "lm-er": ("er", "Er"),
    "lm-ewc": ("ewc", "Ewc"),
    "lm-gem": ("gem", "Gem"),
    "lm-olora": ("olora", "Olora"),
    "lm-mtl": ("mtl", "Mtl"),
}


class Model(Protocol):
    """One cell's model, as a language method provides it."""

    @property
    def net(self) -> Adapted: ...

    def space(self, task: Task) -> tuple[int, ...]:
        """The task's label space."""
        ...

    @property
    def copies(self) -> Mapping[str, NDArray[np.generic]]:
        """Noisy copies of the last task's texts, by name; empty for methods that release none."""
        ...

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress | Note]:
        """Learns a task; every use of private data enters the ledger before its output leaves."""
        ...

    def answers(self, task: Task) -> NDArray[np.float32]:
        """Scores [n, classes] of `task.test`; -inf for labels outside the task's label space."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """A model that keeps texts."""

    def recall(self, learned: Sequence[Task]) -> None:
        """Reads again the texts that it had kept of these tasks."""
        ...


class LazyLearner:
    """Scores the tokens of each task if there is a scorer, lets the model learn it and reports.

    Loads torch with the first task, after the first report on its texts.
    """

    KEPT = ("_scorer", "_model", "_learned", "_waits")

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext, scorer: Scorer | None = None) -> None:
        assert isinstance(spec.params, LanguageParams)
        self._spec, self._cell, self._context = spec, cell, context
        self._rule = spec.params.eval
        self._scorer = scorer
        self._waits = spec.method == "lm-mtl"  # its model exists only after the last task
        self._reports = Reports(spec, cell, context)
        self._model: Model | None = None
        self._learned: dict[str, tuple[int, ...]] = {}  # the labels of each task, by its name

    def survey(self, streams: Mapping[int, Sequence[Task]], ledgers: Mapping[Cell, Ledger]) -> None:
        """Counts the tokens of all tasks if the scores need them. Records in the ledger whose texts are read."""
        if self._scorer is None or not self._scorer.reads_ahead:
            return
        tasks = streams[self._cell.seed]
        all_tasks = tuple(task.index for task in tasks)
        what = "counts of the tokens of all tasks, later ones too"
        ledgers[self._cell].spend(dp.NonPrivateDpEvent(), task=0, what=what, people_of=all_tasks)
        self._scorer.survey(tasks, self._context.classes)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[LearnerEvent]:
        task = tasks[self._cell.seed]
        score2 = None
        if self._scorer is not None:
            self._scorer.open(task, self._context.classes)
            score2 = self._scorer.score2
        yield from self._reports.before(task, score2)
        if self._model is None:
            yield Progress("backbone", 0, 1, task.index, "loading the language model")
            self._model = self._open_model()
            yield from self._reports.at_start(self._model.net)
        # Of so small a network threads that share a product wait for each other: a fifth longer even on an idle computer.
        with threadpool_limits(1 if self._spec.data.backbone == BUNDLED else None):
            yield from self._model.learn(task, ledgers[self._cell])
            self._waits &= task.index + 1 < self._context.n_tasks
            self._learned[task.name] = self._model.space(task)
            self._reports.remember(task)
            if not self._waits:
                yield from self._reports.after(task, self._model.net, score2)

    def reopen(self) -> None:
        """Opens the model."""
        self._model = self._open_model()

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads again the texts that are kept of the tasks so far: by the model, and by the reports."""
        tasks = [of_seeds[self._cell.seed] for of_seeds in learned]
        if isinstance(self._model, Recalling):
            self._model.recall(tasks)
        for task in tasks:
            self._reports.remember(task)

    def _open_model(self) -> Model:
        module, name = MODELS[self._spec.method]
        made = getattr(import_module(f"dpcl_core.methods.language.{module}"), name)
        scorers = () if self._scorer is None else (self._scorer,)
        return cast(Model, made(self._spec, self._cell, self._context, *scorers))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores by the one rule of `params.eval`."""
        return {} if self._model is None or self._waits else {self._rule: self._model.answers(task)[None]}

    def untrained(self, task: Task) -> NDArray[np.floating]:
        """Scores [n, classes] of the frozen public model, which new adapters leave as it is."""
        if self._model is None:
            self._model = self._open_model()
        return self._model.answers(task)

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """Adapter weights and the noisy copies of the task's texts, by name; empty before there is a model."""
        if self._model is None:
            return {}
        parameters = () if self._waits else self._model.net.trainable().items()
        return {**{name: weights.detach().cpu().numpy().copy() for name, weights in parameters}, **self._model.copies}

    def rule(self, cell: Cell) -> Rule | None:
        """The most likely label of an example's task; None before there is a model."""
        if self._model is None or self._waits:
            return None
        params, backbone = self._spec.params, self._spec.data.backbone
        assert isinstance(params, LanguageParams)
        competing = tuple(sorted(set().union(*self._learned.values())))
        facts: dict[str, Fact] = {
            "rank": params.lora_rank,
            "alpha": params.lora_alpha,
            "layers": params.n_layers(backbone),
            "every_map": params.adapts == "all",
            "reading": params.reading_rule(backbone),
            "length": params.length,
            "loss": params.loss,
            "task_names": tuple(self._learned),
        }
        names, columns = tuple(self._model.net.trainable()), range(self._context.n_classes)
        by_task, stacked = list(self._learned.values()), self._spec.method == "lm-olora"
        return Rule("language", names, columns, competing, by_task, facts, uses_all=stacked)
