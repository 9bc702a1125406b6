"""Scores of the tokens of a task's texts while it is learned: what noise, unlearning and the memory go by."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import tokenizer
from dpcl_core.data.texts import PADDING, STOP, TOKEN
from dpcl_core.methods.cards.sculpting import SculptingParams
from dpcl_core.methods.language import public_text, sensitivity
from dpcl_core.methods.language.prompts import answer_ids, template
from dpcl_core.scenarios.stream import Examples, Task

Scope = Literal["seen", "public", "off"]
Planes = NDArray[np.int32]


class Scorer:
    """Score2 of the tasks so far, and scores from it. `printed`: negative scores stay as they are, as published."""

    def __init__(self, params: SculptingParams, scope: Scope, backbone: str, *, printed: bool) -> None:
        self._params, self._scope, self._backbone, self._printed = params, scope, backbone, printed
        self._size = tokenizer.load(backbone).size
        self._counts: list[NDArray[np.int64]] = []
        self.score2 = np.zeros(self._size)

    def open(self, task: Task, classes: tuple[str, ...]) -> None:
        """Makes `score2` [size] that of the task that begins, prompts and answers counted under "seen" as Eq. 3 has it."""
        if self._scope == "off":
            return
        if self._scope == "public":
            of_tasks = public_text.counts(self._backbone, self._params.length)
            self.score2 = sensitivity.commonness(of_tasks, "printed" if self._printed else "smoothed", self._params.tau)
            return
        ready, found = tokenizer.load(self._backbone), sensitivity.counts(planes(task.train)[:, :, TOKEN], self._size)
        np.add.at(found, np.array(ready.encode(template(task.name))[0], np.int64), len(task.train))
        for label, n in zip(*np.unique(task.train.labels, return_counts=True), strict=True):
            np.add.at(found, np.array(answer_ids(ready, classes[label]), np.int64), n)
        self._counts.append(found)
        # Of a stream that has only begun the printed logarithm is negative or zero: future tasks are not known.
        form: sensitivity.Form = "clipped" if self._printed else "smoothed"
        self.score2 = sensitivity.commonness(np.stack(self._counts), form, self._params.tau)

    def scores(self, inputs: Planes, log_probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Score (Eq. 1) of every token [n, length]; 0 in stop words and at the padding."""
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
    found: NDArray[np.float64] = np.where(is_token, scores, 0.0).sum(axis=1) / np.maximum(is_token.sum(axis=1), 1)
    return found


def planes(examples: Examples) -> Planes:
    """Encoded texts int32 [n, length, planes]."""
    return examples.inputs.astype(np.int32, copy=False)
