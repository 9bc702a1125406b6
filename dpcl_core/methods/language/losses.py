"""What a text's tokens count in the loss, and PeCL's extra term for sensitive ones: as printed, and in bounded forms.

Everything is averaged inside each text: a token mean over the batch would make one text's gradient depend on the lengths of
the others, which no bound on one text's influence covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core.methods.language.cards.network_params import Loss
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.prompts import ANSWER, TEXT

Form = Literal["none", "printed", "flipped", "mask", "unlikelihood", "npo", "hinge"]
_LEARNING: tuple[Form, ...] = ("none", "printed", "flipped")  # these leave sensitive tokens in the task's own loss


@dataclass(frozen=True, slots=True)
class Unlearning:
    """PeCL's term for tokens whose score is above `theta` (Eq. 12), which counts `strength` times (Eq. 13).

    none; printed: learns them harder, as Eq. 12 has it; flipped: its sign turned, without a bound. The others take sensitive
    tokens out of the task's loss as well. mask: nothing else. unlikelihood: -log(1 - p). npo (Zhang et al. 2024, by token):
    (2/beta) log(1 + (p/p_ref)^beta). hinge: until a token is `margin` nats less likely than the public model has it.
    """

    form: Form = "none"
    strength: float = 1.0
    theta: float = 0.6
    margin: float = 1.0
    beta: float = 0.5

    @property
    def needs_reference(self) -> bool:
        """Whether it compares with the frozen public model."""
        return self.form in ("npo", "hinge")


def n_predicted(batch: Batch) -> Tensor:
    """M of every text [b]: its tokens, template and answer included, but for the first of the sequence."""
    return batch.mask[:, 1:].sum(dim=1)


def task_weights(batch: Batch, loss: Loss) -> Tensor:
    """What each token counts in the loss of the task [b, S]; they sum to 1 over a text, 0 where there is nothing to learn.

    answer: all tokens of the answer alike. full: all tokens but the first of the sequence, 1/M each (Eq. 13).
    """
    counted = (batch.role == ANSWER) if loss == "answer" else functional.pad(batch.mask[:, 1:], (1, 0))
    return counted / counted.sum(dim=1, keepdim=True).clamp(min=1)


def task_loss(loss: Loss) -> TextLoss:
    """The loss of a task alone."""
    return TextLoss(lambda log_probs, batch: -(task_weights(batch, loss) * log_probs).sum(dim=1), loss == "answer")


def pecl_loss(
    log_probs: Tensor, batch: Batch, loss: Loss, unlearning: Unlearning, scores: Tensor, reference: Tensor | None = None
) -> Tensor:
    """L_task + lambda L_unlearn of each text [b] (Eqs. 12 and 13). Scores are constants: no gradient flows through them.

    With `printed` a token of the text counts (1 + lambda (s - theta)+) / M under "full", without the 1 under "answer".

    Args: log_probs [b, S]: of each token given those before it; scores [b, S]; reference [b, S]: log-probabilities under
    the frozen public model, for npo and hinge.
    """
    weights = task_weights(batch, loss)
    excess = (scores.detach().to(log_probs.dtype) - unlearning.theta).clamp(min=0) * (batch.role == TEXT)
    if unlearning.form not in _LEARNING:
        weights = weights * (excess == 0)
    of_task = -(weights * log_probs).sum(dim=1)
    term = _term(log_probs, unlearning, reference)
    if term is None:
        return of_task
    return of_task + unlearning.strength * (excess * term).sum(dim=1) / n_predicted(batch).clamp(min=1)


def _term(log_probs: Tensor, unlearning: Unlearning, reference: Tensor | None) -> Tensor | None:
    """What each token adds, before its weight [b, S]; None for nothing."""
    match unlearning.form:
        case "none" | "mask":
            return None
        case "printed":
            return -log_probs
        case "flipped":
            return log_probs
        case "unlikelihood":
            # -log(1 - p); a token that is certain would have no finite gradient
            return -torch.log1p(-log_probs.exp().clamp(max=1 - 1e-6))
        case "npo":
            assert reference is not None
            return (2 / unlearning.beta) * functional.softplus(unlearning.beta * (log_probs - reference))
        case "hinge":
            assert reference is not None
            return (log_probs - reference + unlearning.margin).clamp(min=0)  # l_ref + m - l, where l = -log p
