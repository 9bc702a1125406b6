"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to earlier tasks are pulled back.

The penalty is (lambda / 2) sum of F_i (theta_i - theta*_i)^2. The one anchor theta* holds the weights after the last task;
the Fisher information F is summed over tasks (online EWC, Schwarz et al. 2018, gamma = 1). The penalty depends on released
numbers only, and is added to a step after its noise. F_i = mean over texts of (d log P(answer | text) / d theta_i)^2, with
the answer drawn from the model itself; it is released with noise or derived from noisy gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd import noise_std
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.language.adapted_model import TrainingInputs
from dpcl_core.methods.language.baseline import Baseline, BaselineParams, Charge, Noises, Plan, Rows, card
from dpcl_core.methods.language.later import causal, kept_states, per_example, per_text, torch
from dpcl_core.methods.language.params import Positive
from dpcl_core.methods.language.public_text import ANSWER, PAD, Answer, Prompted
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, Steps
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class EwcParams(BaselineParams):
    """Settings of EWC: the penalty's strength, and the source of the Fisher information."""

    strength: float = parameter(
        100.0, "Penalty weight λ",
        "How strongly weights are held: half of it times the sum of importance times change squared.", ge=0, le=1e9)
    fisher: Literal["released", "gradients", "public"] = parameter(
        "released", "Fisher information from",
        "Where importance (the Fisher information) comes from. released: measured on the task's texts when it is over, "
        "with noise, which costs. gradients: worked out from the noisy gradients of its last pass, for nothing. public: "
        "measured on public texts, for nothing. With mechanism = fn released measures noisy copies, for nothing.")
    fisher_noise: Positive = parameter(
        20.0, "Noise of Fisher information",
        "Noise on the measured importance over what one text adds to it at most.", ge=0.1, le=1e4)

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """The steps, and the Fisher information that is measured after every task but the last."""
        steps = super().charges(plan, noises, task)
        if self.fisher != "released" or task == plan.facts.n_tasks - 1:
            return steps
        what = f"Fisher information of the task, noise {self.fisher_noise:g} times what one text adds"
        return [*steps, Charge(Steps(1, (1.0,), self.fisher_noise if noises.steps > 0 else 0.0), what, (task,))]


CARD = card(
    "EWC",
    {"strength": "How strongly weights are held is not given."}
    | dict.fromkeys(("fisher", "fisher_noise"), "How importance is made private is not said."),
    name="lm-ewc", title="EWC: elastic weight consolidation",
    summary="Fine-tunes a language model from task to task and pulls each weight towards its value after earlier tasks, "
    "most strongly where it mattered to them. Measuring that reads their texts once more, which costs budget.",
    source="Baseline of PeCL (Zhan et al.); Kirkpatrick et al. 2017, online form of Schwarz et al. 2018",
    params=EwcParams, module=__name__, key_settings=("mechanism", "epochs", "strength"),
)


def _likelihood(log_probs: torch.Tensor, batch: per_text.Batch) -> torch.Tensor:
    return -(log_probs * (batch.role == ANSWER)).sum(dim=1)


def likelihood(forks: per_text.Forks | None = None) -> per_text.TextLoss:
    """-log P(answer | text): the sum over the answer's tokens, or over the choices that lead to it."""
    return per_text.TextLoss(_likelihood, answers_only=True, forks=forks)


def release_fisher(
    net: causal.Adapted, inputs: TrainingInputs, answers: Sequence[Answer], n_nominal: float, clip_norm: float,
    noise_multiplier: float, noise: Noise, *, device: str, forks: per_text.Forks | None = None
) -> list[torch.Tensor]:
    """Noisy Fisher information on these texts, one tensor per parameter; the sum's noise has std noise_multiplier * C^2.

    Each text's gradient is clipped to C, so one text changes the sum of squares by at most C^2 (`Gradients.squares_of`).
    Each answer is drawn independently, from secret randomness. The sum is divided by the nominal number of texts, which is
    public, and cut off below zero. The caller must have written the release to the ledger.

    Args: answers: of each of the task's labels; forks: of these answers, None if they have none;
    clip_norm: C, inf for neither clipping nor noise.
    """
    texts = sampled(net, inputs, answers, noise, device=device, forks=forks)
    gradients, reading = per_text.Gradients(net, clip_norm), texts.reading
    sums, loss = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in gradients.parameters], likelihood(forks)
    for batch in per_text.batches_of(texts.texts, device):
        for running, part in zip(sums, gradients.squares_of(batch, loss, reading), strict=True):
            running += part
    std = noise_std(noise_multiplier, clip_norm**2, n_nominal) if math.isfinite(clip_norm) else 0.0
    means = per_example.noisy_means(sums, n_nominal, std, noise, dtype=gradients.parameters[0].dtype)
    return [mean.clamp(min=0) for mean in means]


def of_noisy_gradients(
    squares: Sequence[torch.Tensor], n_steps: int, expected_batch: float, std: float
) -> list[torch.Tensor]:
    """Fisher information estimated from mean gradients that already have their noise.

    The expected square of a step's noisy mean gradient is F / expected_batch (for Poisson batches and gradients of mean 0)
    plus the known noise variance. Args: squares: summed over the steps; std: of the noise on each coordinate.
    """
    return [((part / n_steps - std**2) * expected_batch).clamp(min=0) for part in squares]


def sampled(
    net: causal.Adapted, inputs: TrainingInputs, answers: Sequence[Answer], noise: Noise, *, device: str,
    forks: per_text.Forks | None = None
) -> TrainingInputs:
    """The same texts, each with an answer drawn from the model's distribution over these answers."""
    if not len(inputs):
        return inputs
    likelihoods = np.stack([_of_answer(net, answered(inputs, [answer] * len(inputs)), forks, device) for answer in answers])
    chances = np.exp(likelihoods - likelihoods.max(axis=0))
    chances /= chances.sum(axis=0)
    uniform = noise.words(len(inputs)).astype(np.float64) / 2.0**64
    chosen = np.minimum((chances.cumsum(axis=0) < uniform).sum(axis=0), len(answers) - 1)
    return answered(inputs, [answers[place] for place in chosen.tolist()])


def answered(inputs: TrainingInputs, answers: Sequence[Answer]) -> TrainingInputs:
    """The same texts with these answers after their prompts, one for each text."""
    texts = inputs.texts
    prompt_role = np.where(texts.role == ANSWER, PAD, texts.role)
    lengths = (prompt_role != PAD).sum(axis=1)
    width = int(max(length + len(tokens) for length, (tokens, _) in zip(lengths.tolist(), answers, strict=True)))
    found = Prompted(texts.ids, prompt_role, texts.stop, texts.fork).resized(width)
    for row, (start, (tokens, forks)) in enumerate(zip(lengths.tolist(), answers, strict=True)):
        found.ids[row, start:], found.role[row, start:], found.fork[row, start:] = 0, PAD, 0
        answer = slice(start, start + len(tokens))
        found.ids[row, answer], found.role[row, answer], found.fork[row, answer] = tokens, ANSWER, forks
    return TrainingInputs(found, inputs.copies)


def _of_answer(
    net: causal.Adapted, inputs: TrainingInputs, forks: per_text.Forks | None, device: str
) -> NDArray[np.float64]:
    """log P(answer | text) of each text, [n], in pieces as for gradients: another draw for others would be another sum."""
    found, size = np.empty(len(inputs)), kept_states.SIDE_BY_SIDE[torch.device(device).type]
    for piece in per_text.pieces_of(inputs.texts, device):
        filled = piece.filled(size)
        with torch.no_grad():
            losses = _likelihood(per_text.log_probs(net, filled, inputs.reading, answers_only=True, forks=forks), filled)
        found[piece.rows] = -losses[: len(piece)].double().cpu().numpy()
    return found


class Consolidation:
    """EWC's anchor and importance for every weight. Reads parameters only."""

    KEPT = ("importance", "_anchor")

    def __init__(self, parameters: Sequence[torch.Tensor], strength: float) -> None:
        self._parameters, self._strength = list(parameters), strength
        self.importance = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._anchor: list[torch.Tensor] = []

    def remember(self, importance: Sequence[torch.Tensor]) -> None:
        """Call after a task: adds its importance and makes the current weights the anchor."""
        self.importance = [old + new for old, new in zip(self.importance, importance, strict=True)]
        self._anchor = [parameter.detach().clone() for parameter in self._parameters]

    def penalty(self) -> torch.Tensor:
        """(lambda / 2) sum of F_i (theta_i - theta*_i)^2; 0 during the first task."""
        if not self._anchor:
            return torch.zeros(())
        anchored = zip(self._parameters, self._anchor, self.importance, strict=True)
        return self._strength / 2 * torch.stack([(f * (now - then).square()).sum() for now, then, f in anchored]).sum()


class Ewc(Baseline):
    """One cell's model and its EWC penalty. Keeps no text."""

    KEPT = (*Baseline.KEPT, "_held")
    params: EwcParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self._held = Consolidation(list(self.net.trainable().values()), self.params.strength)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        n_steps = self.n_steps(task)
        inputs = self.open_task(task, ledger)
        gradient_fn, steps = self.task_gradient_fn(inputs, task), itertools.count(1)
        of_last_pass = n_steps // self.params.epochs
        squares = [torch.zeros_like(part) for part in self._held.importance]

        def watched(rows: Rows) -> list[torch.Tensor]:
            means = gradient_fn(rows)
            if next(steps) > n_steps - of_last_pass:
                squares[:] = [total + mean.square() for total, mean in zip(squares, means, strict=True)]
            return means

        yield from self._train(task, watched, self.batches(inputs, task), self._held.penalty)
        if task.index < self.context.n_tasks - 1:
            self._held.remember(self._importance(inputs, task, squares, of_last_pass))

    def _importance(
        self, inputs: TrainingInputs, task: Task, squares: Sequence[torch.Tensor], n_squares: int
    ) -> list[torch.Tensor]:
        """The task's Fisher information, from the source that `params.fisher` names."""
        source = self.params.fisher
        if source == "gradients":
            std = noise_std(self.noises.steps, self.params.clip_norm, self.expected_batch)
            return of_noisy_gradients(squares, n_squares, self.expected_batch, std)
        size, clip, multiplier = self.plan.facts.task_size, self.clip_norm, 0.0
        if source == "public":
            public = self.public_inputs()  # with the task's prompt and an arbitrary label
            labels = np.full(len(public), self.space(task)[0], np.int64)
            inputs, size, clip = TrainingInputs(self.prompted(public, labels, task.name)), len(public), math.inf
        elif not self.is_local:
            multiplier = self.charges[1].steps.noise_multiplier
        answers, noise = self.answers_of(task), self.noise(f"Fisher information of task {task.index}")
        device, forks = self.context.device, self.forks
        return release_fisher(self.net, inputs, answers, size, clip, multiplier, noise, device=device, forks=forks)


make_learner = Ewc.make_learner
