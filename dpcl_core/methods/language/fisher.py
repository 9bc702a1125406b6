"""The diagonal of the Fisher information: how much the answers depend on each weight, and at what cost it is known.

F_i = mean over texts of (d log P(answer | text) / d theta_i)^2, with the answer drawn from the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.methods.common.dpsgd_plan import noise_std
from dpcl_core.methods.common.noisy_means import noisy_means
from dpcl_core.methods.language.gradients import AT_ONCE, Batch, Gradients, TextLoss, batch_of, log_probs
from dpcl_core.methods.language.prompts import ANSWER, PAD, Prompted
from dpcl_core.methods.language.training_inputs import TrainingInputs
from dpcl_core.privacy.noise import Noise

Kind = TypeVar("Kind", bound=np.generic)


def _likelihood(log_probs: Tensor, batch: Batch) -> Tensor:
    return -(log_probs * (batch.role == ANSWER)).sum(dim=1)


LIKELIHOOD = TextLoss(_likelihood, answers_only=True)  # -log P(answer | text), its tokens added up


def released(
    net: Adapted,
    material: TrainingInputs,
    answers: Sequence[Sequence[int]],
    n_nominal: float,
    clip_norm: float,
    noise_multiplier: float,
    noise: Noise,
    *,
    device: str,
) -> list[Tensor]:
    """The Fisher information on these texts, one tensor a parameter, with noise of multiplier times C^2 on the sum.

    Each text's gradient is clipped to C; `Gradients.squares_of` says why one text then changes the sum of squares by C^2 at
    most. Its answer is drawn by a secret coin of its own. The sum is divided by the nominal number of texts, which is
    public, and cut off at zero. The caller has written it into the ledger.

    Args: answers: tokens of each of the task's labels; clip_norm: C, inf for neither clipping nor noise.
    """
    drawn = sampled(net, material, answers, noise, device=device)
    gradients, reading = Gradients(net, clip_norm), drawn.reading
    sums = [torch.zeros_like(parameter) for parameter in gradients.parameters]
    for start in range(0, len(drawn), AT_ONCE):
        batch = batch_of(drawn.texts, np.arange(start, min(start + AT_ONCE, len(drawn))), device)
        for whole, part in zip(sums, gradients.squares_of(batch, LIKELIHOOD, reading), strict=True):
            whole += part
    std = noise_std(noise_multiplier, clip_norm**2, n_nominal) if math.isfinite(clip_norm) else 0.0
    return [mean.clamp(min=0) for mean in noisy_means(sums, n_nominal, std, noise)]


def of_noisy_gradients(squares: Sequence[Tensor], n_steps: int, expected_batch: float, std: float) -> list[Tensor]:
    """The Fisher information worked out from mean gradients that already have their noise.

    The expected square of a step's noisy mean gradient is F / expected batch (of a Poisson batch, where gradients are 0 on
    average) plus the noise's known variance. Args: squares: sums over the steps; std: of the noise on each coordinate.
    """
    return [((part / n_steps - std**2) * expected_batch).clamp(min=0) for part in squares]


@torch.no_grad()
def sampled(
    net: Adapted, material: TrainingInputs, answers: Sequence[Sequence[int]], noise: Noise, *, device: str
) -> TrainingInputs:
    """The same texts, each with an answer drawn from the model's own likelihoods of these answers."""
    if not len(material):
        return material
    likelihoods = np.stack([_of_answer(net, answered(material, [answer] * len(material)), device) for answer in answers])
    chances = np.exp(likelihoods - likelihoods.max(axis=0))
    chances /= chances.sum(axis=0)
    coins = noise.words(len(material)).astype(np.float64) / 2.0**64
    chosen = np.minimum((chances.cumsum(axis=0) < coins).sum(axis=0), len(answers) - 1)
    return answered(material, [answers[place] for place in chosen.tolist()])


def answered(material: TrainingInputs, answers: Sequence[Sequence[int]]) -> TrainingInputs:
    """The texts with other answers behind their prompts, one for each text."""
    texts = material.texts
    asked = np.where(texts.role == ANSWER, PAD, texts.role)
    lengths = (asked != PAD).sum(axis=1)
    width = int(max(length + len(answer) for length, answer in zip(lengths.tolist(), answers, strict=True)))
    ids, role = _widened(texts.ids, width), _widened(asked, width)
    for row, (start, answer) in enumerate(zip(lengths.tolist(), answers, strict=True)):
        ids[row, start:], role[row, start:] = 0, PAD
        ids[row, start : start + len(answer)], role[row, start : start + len(answer)] = answer, ANSWER
    return TrainingInputs(Prompted(ids, role, _widened(texts.stop, width), _widened(texts.kind, width)), material.copies)


def _widened(plane: NDArray[Kind], width: int) -> NDArray[Kind]:
    """The plane with so many columns; those behind the longest row are cut off."""
    found = np.zeros((len(plane), width), plane.dtype)
    found[:, : plane.shape[1]] = plane[:, :width]
    return found


def _of_answer(net: Adapted, material: TrainingInputs, device: str) -> NDArray[np.float64]:
    """log P(answer | text) of each text."""
    found = []
    for start in range(0, len(material), AT_ONCE):
        batch = batch_of(material.texts, np.arange(start, min(start + AT_ONCE, len(material))), device)
        found.append(-_likelihood(log_probs(net, batch, material.reading, answers_only=True), batch))
    return torch.cat(found).double().cpu().numpy()
