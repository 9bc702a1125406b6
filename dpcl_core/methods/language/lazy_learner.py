"""A one-cell learner of a language model that sends its first events before torch is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.learner import LearnerEvent, PublicContext
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.run_reports import Reports
from dpcl_core.methods.language.scoring import Scorer
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    from dpcl_core.backbones.language.causal import Adapted


class Model(Protocol):
    """One cell's model, as a language method provides it."""

    @property
    def net(self) -> Adapted: ...

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


class LazyLearner:
    """Opens the token scores of each task, lets the model learn it and reports. `make` loads torch and builds the model.

    `scorer` None: the method scores no tokens. `once`: the model exists only after the last task.
    """

    def __init__(
        self,
        spec: RunSpec,
        cell: Cell,
        known: PublicContext,
        scorer: Scorer | None,
        make: Callable[[], Model],
        *,
        once: bool = False,
    ) -> None:
        assert isinstance(spec.params, LanguageParams)
        self._rule, self._cell, self._known = spec.params.eval, cell, known
        self._scorer, self._make, self._waits = scorer, make, once
        self._reports = Reports(spec, cell, known)
        self._model: Model | None = None

    def survey(self, streams: Mapping[int, Sequence[Task]], ledgers: Mapping[Cell, Ledger]) -> None:
        """Counts the tokens of all tasks if the scores need them. Records in the ledger whose texts are read."""
        if self._scorer is None or not self._scorer.reads_ahead:
            return
        tasks = streams[self._cell.seed]
        all_tasks = tuple(task.index for task in tasks)
        what = "counts of the tokens of all tasks, later ones too"
        ledgers[self._cell].spend(dp.NonPrivateDpEvent(), task=0, what=what, people_of=all_tasks)
        self._scorer.survey(tasks, self._known.classes)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[LearnerEvent]:
        task = tasks[self._cell.seed]
        if self._scorer is not None:
            self._scorer.open(task, self._known.classes)
        score2 = None if self._scorer is None else self._scorer.score2
        yield from self._reports.before(task, score2)
        if self._model is None:
            yield Progress("backbone", 0, 1, task.index, "loading the language model")
            self._model = self._make()
            yield from self._reports.at_start(self._model.net)
        yield from self._model.learn(task, ledgers[self._cell])
        self._waits &= task.index + 1 < self._known.n_tasks
        self._reports.remember(task)
        if not self._waits:
            yield from self._reports.after(task, self._model.net, score2)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores by the one rule of `params.eval`."""
        return {} if self._model is None or self._waits else {self._rule: self._model.answers(task)[None]}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """Adapter weights and the noisy copies of the task's texts, by name; empty before there is a model."""
        if self._model is None:
            return {}
        parameters = () if self._waits else self._model.net.trainable().items()
        return {**{name: weights.detach().cpu().numpy().copy() for name, weights in parameters}, **self._model.copies}
