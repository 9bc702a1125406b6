"""What a text's tokens count in the loss, and PeCL's extra term for sensitive ones: as printed, and in bounded forms.

All functions are per text: log-probabilities [b, S] in, losses [b] out, averaged inside each text, so that no text's gradient
depends on another's length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from dpcl_core.methods.cards.language import Loss
from dpcl_core.methods.language.training import Batch

Form = Literal["off", "printed", "flipped", "mask", "unlikelihood", "npo", "hinge"]
REMOVING: tuple[Form, ...] = ("mask", "unlikelihood", "npo", "hinge")  # sensitive tokens are also taken out of the task's loss


@dataclass(frozen=True, slots=True)
class Unlearning:
    """PeCL's term for tokens whose score is above `theta` (Eq. 12), weighted `strength` times in the loss (Eq. 13).

    `margin`: nats above the public model's loss where the hinge ends; `beta`: of NPO (Zhang et al. 2024).
    """

    form: Form = "off"
    strength: float = 1.0
    theta: float = 0.6
    margin: float = 1.0
    beta: float = 0.5


def task_weights(batch: Batch, loss: Loss) -> Tensor:
    """What each token counts in the loss of the task [b, S]; sums to 1 over a text.

    answer: all tokens of the answer alike. full: all tokens but the first of the sequence alike (Eq. 13, M of them).
    """
    raise NotImplementedError


def task_loss(loss: Loss) -> Callable[[Tensor, Batch], Tensor]:
    """The loss of a task alone, for `training`: log-probabilities [b, S] and their batch in, [b] out."""
    raise NotImplementedError


def pecl_loss(
    log_probs: Tensor, batch: Batch, loss: Loss, unlearning: Unlearning, scores: Tensor, reference: Tensor | None
) -> Tensor:
    """L_task + lambda L_unlearn of each text [b] (Eqs. 12 and 13). Scores are taken as they are: no gradient flows through.

    Args: log_probs [b, S]: of each token given those before it; scores [b, S]: 0 outside the text; reference [b, S]: log-
    probabilities under the frozen public model, needed by npo and hinge.
    """
    raise NotImplementedError
