"""Token scores of the task being learned; they set PeCL's noise, unlearning and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import tokenizer
from dpcl_core.data.texts import PADDING, STOP, TOKEN
from dpcl_core.methods.language import public_text, sensitivity
from dpcl_core.methods.language.cards.sculpting_params import SculptingParams
from dpcl_core.methods.language.prompts import answer_ids, template
from dpcl_core.methods.language.sensitivity import Form, Scope
from dpcl_core.scenarios.stream import Examples, Task

Planes = NDArray[np.int32]


class Scorer:
    """Score2 of the task being learned, and token scores from it. `printed`: keeps negative scores, as published."""

    KEPT = ("_counts",)

    def __init__(self, params: SculptingParams, scope: Scope, backbone: str, *, printed: bool) -> None:
        self._params, self._scope, self._backbone, self._printed = params, scope, backbone, printed
        self._size = tokenizer.load(backbone).size
        self._counts: list[NDArray[np.int64]] = []
        self.score2 = np.zeros(self._size)

    @property
    def reads_ahead(self) -> bool:
        """Whether texts of later tasks are counted before they arrive."""
        return self._scope == "all"

    def survey(self, tasks: Sequence[Task], classes: tuple[str, ...]) -> None:
        """Counts the tokens of all tasks of the stream if the scope needs them. Call before opening the first task."""
        if self.reads_ahead:
            self._counts = [self._count(task, classes) for task in tasks]

    def open(self, task: Task, classes: tuple[str, ...]) -> None:
        """Sets `score2` [size] for the task that begins. Raises ValueError if it reads ahead without a `survey`."""
        if self.reads_ahead and not self._counts:
            raise ValueError("survey() must count the tokens of all tasks before open() is called")
        if self._scope == "seen":
            self._counts.append(self._count(task, classes))
        public = np.zeros((0, self._size), np.int64)
        if self._scope == "public":
            public = public_text.counts(self._backbone, self._params.length)
        of_tasks, newest = np.array(self._counts, np.int64).reshape(-1, self._size), len(self._counts) - 1
        form: Form = "printed" if self._printed else "smoothed"
        self.score2 = sensitivity.scoped_commonness(self._scope, of_tasks, public, newest, form, self._params.tau)

    def least_score2(self, n_tasks: int) -> float:
        """A public lower bound of Score2 in a stream of `n_tasks` tasks.

        Shares are at most 1 and d <= N, so the printed product, mean share times log(N / (1 + d)), is at least
        log(N / (N + 1)).
        """
        if self._scope == "public":
            return float(min(0.0, self.score2.min()))
        return math.log(n_tasks / (n_tasks + 1)) if self._printed and self._scope == "all" else 0.0

    def _count(self, task: Task, classes: tuple[str, ...]) -> NDArray[np.int64]:
        """How often each token occurs in a task's texts, prompts and answers included, as in Eq. 3, [size]."""
        ready, counts = tokenizer.load(self._backbone), sensitivity.counts(planes(task.train)[:, :, TOKEN], self._size)
        np.add.at(counts, np.array(ready.encode(template(task.name))[0], np.int64), len(task.train))
        for label, n in zip(*np.unique(task.train.labels, return_counts=True), strict=True):
            np.add.at(counts, np.array(answer_ids(ready, classes[label]), np.int64), n)
        return counts

    def scores(self, inputs: Planes, log_probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Score (Eq. 1) of every token [n, length]; 0 in stop words and at padding."""
        tokens = inputs[:, :, TOKEN]
        is_token = tokens != PADDING
        return sensitivity.scores(
            np.where(is_token, log_probabilities, 0.0),
            self.score2[np.where(is_token, tokens, 0)],
            (inputs[:, :, STOP] != 0) | ~is_token,
            alpha=self._params.alpha,
            clamped=not self._printed,
        )


def means(scores: NDArray[np.float64], inputs: Planes) -> NDArray[np.float64]:
    """Mean score of each text's tokens [n], stop words included; 0 for a text without tokens."""
    is_token = inputs[:, :, TOKEN] != PADDING
    averages: NDArray[np.float64] = np.where(is_token, scores, 0.0).sum(axis=1) / np.maximum(is_token.sum(axis=1), 1)
    return averages


def planes(examples: Examples) -> Planes:
    """Encoded texts int32 [n, length, planes]."""
    return examples.inputs.astype(np.int32, copy=False)
