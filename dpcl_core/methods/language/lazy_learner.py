"""The learner of every language method: it trains one cell's model, and first reports on texts without loading torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core.backbones import plain_language
from dpcl_core.backbones.packaged import BUNDLED
from dpcl_core.data.texts import KIND, KINDS, LOOKALIKE, PADDING, STOP, TOKEN, Canary
from dpcl_core.events import Fact, Leaks, Progress, Retained, ScoredText, TokensScored
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.method import LearnerEvent, PublicContext
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.adapted_model import AdaptedModel, log_probabilities
from dpcl_core.methods.language.later import causal, evaluation, training
from dpcl_core.methods.language.public_text import Planes, planes
from dpcl_core.methods.language.sculpting import Scorer
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

SHOWN = 4  # texts of a task that are shown token by token
REMEMBERED, REMEMBERED_BIG = 48, 8  # texts of a task on which retention is measured; of models that are not bundled
# Codes ranked for each number of repetitions, after each task and after the last. Fifteen can prove large epsilons, see
# `exposure.leaks`.
CODES_PER_TASK, CODES_AT_END = 3, 15


class LazyLearner:
    """Scores the tokens of each task if there is a scorer, lets the model learn it and reports.

    Loads torch with the first task, after the first report on its texts.
    """

    KEPT = ("_scorer", "_model", "_learned", "_waits")

    def __init__(
        self, kind: type[AdaptedModel], spec: RunSpec, cells: Sequence[Cell], context: PublicContext,
        scorer: Scorer | None = None,
    ) -> None:  # fmt: skip
        (self._cell,), self._spec, self._context = cells, spec, context
        self._kind, self._scorer, self._waits = kind, scorer, kind.waits
        self._reports = Reports(spec, self._cell, context)
        self._model: AdaptedModel | None = None
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
        task, score2 = tasks[self._cell.seed], None
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
        if self._model is not None:
            self._model.recall(tasks)
        for task in tasks:
            self._reports.remember(task)

    def _open_model(self) -> AdaptedModel:
        scorers = () if self._scorer is None else (self._scorer,)
        return cast("Callable[..., AdaptedModel]", self._kind)(self._spec, self._cell, self._context, *scorers)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores by the one rule of `params.eval`."""
        return {} if self._model is None or self._waits else {self._model.params.eval: self._model.answers(task)[None]}

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
        params, backbone = self._model.params, self._spec.data.backbone
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
        by_task = list(self._learned.values())
        return Rule("language", names, columns, competing, by_task, facts, uses_all=self._kind.stacks)


class Reports:
    """Reports on one cell's texts during training: scored tokens, retained knowledge, leaked canaries.

    They cover synthetic and public texts only; of other texts nothing is kept. The first report needs no torch.
    """

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        self._spec, self._cell, self._context = spec, cell, context
        self._may_show = context.texts is not None and context.texts.may_show
        self._kinds = () if context.texts is None else context.texts.kinds
        self._inputs: list[NDArray[np.int32]] = []  # of each task so far
        self._base: list[NDArray[np.float32]] = []
        # By canary: number of its texts not read yet.
        self._unread = {canary: canary.repetitions for canary in context.canaries if canary.repetitions}
        self._read: list[Canary] = []  # codes all of whose texts have been read, in that order

    def before(self, task: Task, score2: NDArray[np.float64] | None = None) -> Iterator[TokensScored]:
        """A few texts of the task as the public model scores them. `score2` [size]; None: zeros."""
        if self._may_show and len(task.train):
            yield self._scored(task, "base", self._public, score2)

    def at_start(self, net: causal.Adapted) -> Iterator[Leaks]:
        """How the public model ranks the codes, before any text is read."""
        if self._may_show and self._unread:
            yield self._leaks(net, -1, _first_codes(self._context.canaries, CODES_PER_TASK))

    def remember(self, task: Task) -> None:
        """Keeps a few texts of the task just learned, if they may be shown."""
        if self._may_show:
            most = REMEMBERED if self._spec.data.backbone == BUNDLED else REMEMBERED_BIG
            kept = planes(task.train.take(np.arange(min(most, len(task.train)))))
            self._inputs.append(kept)
            self._base.append(self._public(kept))
            self._count(planes(task.train))

    def _count(self, inputs: NDArray[np.int32]) -> None:
        """Counts which codes were read: a source may be missing from the stream, and truncation may cut off a code."""
        ready = plain_language.load_tokenizer(self._spec.data.backbone)
        strings_of = {token: ready.shown(token) for token in np.unique(inputs[:, :, TOKEN]).tolist() if token != PADDING}
        strings = ["".join(strings_of[token] for token in row if token != PADDING) for row in inputs[:, :, TOKEN].tolist()]
        for canary in list(self._unread):
            line = "".join(map(ready.shown, ready.encode(canary.prefix + canary.code)[0]))
            self._unread[canary] -= sum(line in string for string in strings)
            if self._unread[canary] <= 0:
                del self._unread[canary]
                self._read.append(canary)

    def after(
        self, task: Task, net: causal.Adapted, score2: NDArray[np.float64] | None = None
    ) -> Iterator[TokensScored | Retained | Leaks]:
        """The same texts as the model scores them now, what it retains of each remembered task, and what leaks.

        Ranks the codes read so far and the controls, more of them after the last task; none if no code was read.
        """
        if not self._may_show:
            return
        now = partial(self._now, net)
        if len(task.train):
            yield self._scored(task, "current", now, score2)
        gains = [now(inputs) - base for inputs, base in zip(self._inputs, self._base, strict=True)]
        yield retained(self._cell, task.index, self._inputs, gains, self._kinds)
        if self._read:
            codes = [*self._read, *(canary for canary in self._context.canaries if not canary.repetitions)]
            is_last = task.index + 1 == self._context.n_tasks
            yield self._leaks(net, task.index, _first_codes(codes, CODES_AT_END if is_last else CODES_PER_TASK))

    def _scored(
        self, task: Task, model: Literal["base", "current"], log_probs: Callable[[Planes], NDArray[np.float32]],
        score2: NDArray[np.float64] | None,
    ) -> TokensScored:  # fmt: skip
        # Shown are those with the most marked tokens among the first hundred, in stream order.
        marked = (task.train.take(np.arange(min(100, len(task.train)))).inputs[:, :, KIND] != 0).sum(axis=1)
        examples, texts = task.train.take(np.sort(np.argsort(-marked, kind="stable")[:SHOWN])), []
        inputs = planes(examples)
        ready, kinds = plain_language.load_tokenizer(self._spec.data.backbone), self._kinds
        for row, label, likely in zip(inputs, examples.labels.tolist(), log_probs(inputs), strict=True):
            tokens = row[row[:, TOKEN] != PADDING]
            ids = tokens[:, TOKEN].tolist()
            texts.append(
                ScoredText(
                    tokens=tuple(ready.shown(token) for token in ids),
                    probability=tuple(np.exp(np.minimum(likely[: len(ids)].astype(np.float64), 0.0)).tolist()),
                    commonness=(0.0,) * len(ids) if score2 is None else tuple(score2[ids].tolist()),
                    is_stop=tuple((tokens[:, STOP] != 0).tolist()),
                    kinds=tuple(kinds[kind - 1] if kind else "" for kind in tokens[:, KIND].tolist()),
                    label=self._context.classes[label],
                )
            )
        return TokensScored(self._cell, task.index, model, tuple(texts))

    def _public(self, inputs: NDArray[np.int32]) -> NDArray[np.float32]:
        """log P of every token under the public model."""
        return log_probabilities(self._spec.data.backbone, inputs[:, :, TOKEN], self._context.device)

    def _now(self, net: causal.Adapted, inputs: NDArray[np.int32]) -> NDArray[np.float32]:
        """log P of every token under the current model."""
        bos = plain_language.load_tokenizer(self._spec.data.backbone).bos
        return training.of_adapted(net, inputs[:, :, TOKEN], bos, self._context.device)

    def _leaks(self, net: causal.Adapted, task: int, canaries: Sequence[Canary]) -> Leaks:
        rankings = evaluation.ranks(net.model, plain_language.load_tokenizer(self._spec.data.backbone), canaries)
        return public_text.leaks(rankings, cell=self._cell, task=task, privacy=self._spec.privacy)


def retained(
    cell: Cell, task: int, inputs: Sequence[NDArray[np.int32]], gains: Sequence[NDArray[np.float32]],
    kinds: Sequence[str] = KINDS
) -> Retained:
    """Mean gains for each task's texts, over tokens outside marked spans and over tokens inside private spans.

    Look-alike spans count for neither. Args: inputs, gains: one array [n, length(, planes)] a task.
    """
    is_private = np.array([False, *(not name.startswith(LOOKALIKE) for name in kinds)])
    ordinary, private = [], []
    for row, gain in zip(inputs, gains, strict=True):
        is_text, kind = row[:, :, TOKEN] != PADDING, row[:, :, KIND]
        outside, inside = is_text & (kind == 0), is_text & is_private[kind]
        ordinary.append(float(gain[outside].mean()) if outside.any() else 0.0)
        private.append(float(gain[inside].mean()) if inside.any() else None)
    return Retained(cell, task, tuple(ordinary), tuple(private))


def _first_codes(canaries: Sequence[Canary], most: int) -> list[Canary]:
    """The first `most` codes of each number of repetitions, one of every source before a second of any."""
    by_repetitions: dict[int, list[tuple[int, Canary]]] = {}
    so_far: Counter[tuple[int, str]] = Counter()
    for canary in canaries:
        kind = (canary.repetitions, canary.source)
        by_repetitions.setdefault(canary.repetitions, []).append((so_far[kind], canary))
        so_far[kind] += 1
    in_turn = (sorted(alike, key=lambda one: one[0]) for alike in by_repetitions.values())
    return [canary for alike in in_turn for _, canary in alike[:most]]
