"""What PeCL as published and its repair share: settings of scores, unlearning and memory, and the model that has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import PADDING, STOP, TOKEN
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.language import public_text, sensitivity
from dpcl_core.methods.language.adapted_model import AdaptedModel
from dpcl_core.methods.language.later import training
from dpcl_core.methods.language.params import LanguageParams, Length, Positive
from dpcl_core.methods.language.public_text import Planes, answer_ids, planes, template
from dpcl_core.methods.language.sensitivity import Form, Scope
from dpcl_core.published import Printed, PrintedPart
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter

Share = Annotated[float, Interval(ge=0, le=1)]
Strength = Annotated[float, Interval(ge=0, le=1000)]


@dataclass(frozen=True, kw_only=True)
class SculptingParams(LanguageParams):
    """Settings of the token score, the unlearning term and the memory penalty."""

    alpha: Share = parameter(
        0.5, "Weight of surprise α",
        "What a token's surprise counts in its score; its commonness counts one minus that (Eq. 1).")
    tau: Share = parameter(
        0.2, "Temperature τ", "How common a token must be in a task to count as one of that task (Eq. 3).")
    score_model: Literal["base", "current"] = parameter(
        "base", "Scoring model",
        "Whose surprise it is. base: the public model's, which never changes. current: that of the model being trained, "
        "which finds what it has memorised no longer sensitive.")
    theta: Share = parameter(0.6, "Threshold θ", "Tokens with a higher score are unlearned (Eq. 12).")
    lambda_unlearn: Strength = parameter(
        1.0, "Unlearning weight λ", "Weight of the term that unlearns (Eq. 13); 0: no such term.")
    margin: Strength = parameter(
        1.0, "", "The hinge ends once a token is so many nats less likely than the public model has it.")
    beta: Positive = parameter(
        0.5, "Stability weight β", "Beta of NPO, which unlearns more slowly the less likely a token is.", le=100)
    stability: bool = parameter(
        True, "Stability term", "Hold the adapters near where the task before left them (L_reg, Eq. 10).")
    lambda_min: Strength = parameter(
        1.0, "Smallest stability weight", "How strongly they are held after a task of sensitive tokens (Eq. 11).")
    lambda_max: Strength = parameter(
        10.0, "Largest stability weight", "How strongly they are held after a task without any (Eq. 11).")
    embedding_clip: Length | None = parameter(
        None, "Embedding norm bound",
        "Longest embedding of a token that gets noise; empty: the median of the model's table.")


def check_lambdas(spec: RunSpec) -> None:
    """Raises BadInput if lambda_min exceeds lambda_max."""
    params = settings_of(spec, SculptingParams)
    if params.lambda_min > params.lambda_max:
        raise BadInput("params.lambda_min", params.lambda_min, f"must be at most params.lambda_max = {params.lambda_max:g}")


PRINTED_SCORES: PrintedPart = {
    "params.alpha": Printed((0.2, 0.3, 0.5, 0.7, 0.8), "No other weight of surprise is printed."),
    "params.tau": Printed((0.2,), "Another threshold of commonness."),
    "params.theta": Printed((0.3, 0.6, 0.9), "No other threshold of unlearning is printed."),
    "params.lambda_unlearn": Printed((0.0, 1.0, 3.0, 5.0, 7.0, 10.0), "No other weight of unlearning is printed."),
    "params.lambda_min": Printed((1.0,), "Adapters are held by another strength."),
    "params.lambda_max": Printed((10.0,), "Adapters are held by another strength."),
    "params.score_model": "Which model scores a token is not said.",
    "params.embedding_clip": "C is not given, nor whether prompts and answers get noise; ours get none and no clip.",
    "params.stability": "Which norm of a task's activations ‖x‖ is, is not said; ours is the mean over tokens.",
    "params.margin": "The paper has no hinge.",
    "params.beta": "The paper has no NPO.",
}


class Scorer:
    """Score2 of the task being learned, and token scores from it. `printed`: keeps negative scores, as published."""

    KEPT = ("_counts",)

    def __init__(self, params: SculptingParams, scope: Scope, backbone: str, printed: bool) -> None:
        self._params, self._scope, self._backbone, self._printed = params, scope, backbone, printed
        self._size = plain_language.load_tokenizer(backbone).size
        self._counts: list[NDArray[np.int64]] = []
        self.score2 = np.zeros(self._size)
        self.reads_ahead = scope == "all"  # whether texts of later tasks are counted before they arrive

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
        ready = plain_language.load_tokenizer(self._backbone)
        counts = sensitivity.counts(planes(task.train)[:, :, TOKEN], self._size)
        np.add.at(counts, np.array(ready.encode(template(task.name))[0], np.int64), len(task.train))
        for label, n in zip(*np.unique(task.train.labels, return_counts=True), strict=True):
            np.add.at(counts, np.array(answer_ids(ready, classes[label]), np.int64), n)
        return counts

    def scores(self, inputs: Planes, log_probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Score (Eq. 1) of every token [n, length]; 0 in stop words and at padding."""
        tokens = inputs[:, :, TOKEN]
        is_token = tokens != PADDING
        log_p, score2 = np.where(is_token, log_probabilities, 0.0), self.score2[np.where(is_token, tokens, 0)]
        is_stop, alpha = (inputs[:, :, STOP] != 0) | ~is_token, self._params.alpha
        return sensitivity.scores(log_p, score2, is_stop, alpha=alpha, clamped=not self._printed)


def means(scores: NDArray[np.float64], inputs: Planes) -> NDArray[np.float64]:
    """Mean score of each text's tokens [n], stop words included; 0 for a text without tokens."""
    is_token = inputs[:, :, TOKEN] != PADDING
    return np.asarray(np.where(is_token, scores, 0.0).sum(axis=1) / np.maximum(is_token.sum(axis=1), 1))


class Sculpted(AdaptedModel):
    """One cell's model with PeCL's memory penalty; base of PeCL as published and repaired. Keeps no text."""

    KEPT = (*AdaptedModel.KEPT, "_memory")
    params: SculptingParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext, scorer: Scorer) -> None:
        super().__init__(spec, cell, context)
        self._scorer, self._memory = scorer, training.Memory(self.net, self.params.lambda_min, self.params.lambda_max)
        self._penalty = self._memory.penalty if self.params.stability else None

    def token_scores(self, inputs: Planes) -> NDArray[np.float64]:
        """Score of every token [n, length], under the model that `params.score_model` names."""
        log_probs = self.public_log_probs if self.params.score_model == "base" else self.current_log_probs
        return self._scorer.scores(inputs, log_probs(inputs))
