"""Per-text losses, and PeCL's unlearning term for sensitive tokens: as printed and in bounded forms.

All means are taken within a text. A mean over the tokens of a batch would make one text's gradient depend on the lengths of
the others, and no bound on one text's influence would hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core.methods.language.cards.network_params import Loss
from dpcl_core.methods.language.cards.pecl import Form
from dpcl_core.methods.language.forks import Forks
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.prompts import ANSWER, TEXT

_LEARNING: tuple[Form, ...] = ("none", "printed", "flipped")  # forms that keep sensitive tokens in the task loss


@dataclass(frozen=True, slots=True)
class Unlearning:
    """PeCL's unlearning term for tokens with a score above `theta` (Eq. 12), weighted by `strength` (Eq. 13).

    none; printed: Eq. 12, which learns these tokens harder; flipped: the opposite sign, unbounded. The other forms also drop
    sensitive tokens from the task loss. mask: no further term. unlikelihood: -log(1 - p). npo (Zhang et al. 2024, per
    token): (2/beta) log(1 + (p/p_ref)^beta). hinge: unlearns a token until it is `margin` nats less likely than under the
    public model.
    """

    form: Form = "none"
    strength: float = 1.0
    theta: float = 0.6
    margin: float = 1.0
    beta: float = 0.5


def n_predicted(batch: Batch) -> Tensor:
    """M of every text [b]: all its tokens, template and answer included, except the first of the sequence."""
    return batch.mask[:, 1:].sum(dim=1)


def task_weights(batch: Batch, loss: Loss, forks: Forks | None = None) -> Tensor:
    """Weight of each token in the task loss [b, S]; a text's weights sum to 1, or to 0 if it has nothing to learn.

    answer: equal weights on the answer's tokens. With `forks` each of them counts once: their sum is the log-likelihood of
    the label. full: 1/M on each token except the first of the sequence (Eq. 13).
    """
    if loss == "answer" and forks is not None:
        return (batch.role == ANSWER).float()
    counted = (batch.role == ANSWER) if loss == "answer" else functional.pad(batch.mask[:, 1:], (1, 0))
    return counted / counted.sum(dim=1, keepdim=True).clamp(min=1)


def task_loss(loss: Loss, forks: Forks | None = None) -> TextLoss:
    """The task loss without an unlearning term. `forks`: the answer is a choice among the task's labels."""
    forks = forks if loss == "answer" else None

    def of(log_probs: Tensor, batch: Batch) -> Tensor:
        return -(task_weights(batch, loss, forks) * log_probs).sum(dim=1)

    return TextLoss(of, loss == "answer", forks)


def pecl_loss(
    log_probs: Tensor,
    batch: Batch,
    loss: Loss,
    unlearning: Unlearning,
    scores: Tensor,
    reference: Tensor | None = None,
    forks: Forks | None = None,
) -> Tensor:
    """L_task + lambda L_unlearn of each text [b] (Eqs. 12 and 13). Scores are constants: no gradient flows through them.

    With `printed`, a token of the text has weight (1 + lambda (s - theta)+) / M under "full", without the 1 under "answer".

    Args: log_probs [b, S]: of each token given those before it; scores [b, S]; reference [b, S]: log-probabilities under
    the frozen public model, required by npo and hinge.
    """
    weights = task_weights(batch, loss, forks)
    excess = (scores.detach().to(log_probs.dtype) - unlearning.theta).clamp(min=0) * (batch.role == TEXT)
    if unlearning.form not in _LEARNING:
        weights = weights * (excess == 0)
    task_losses = -(weights * log_probs).sum(dim=1)
    term = _term(log_probs, unlearning, reference)
    if term is None:
        return task_losses
    return task_losses + unlearning.strength * (excess * term).sum(dim=1) / n_predicted(batch).clamp(min=1)


def _term(log_probs: Tensor, unlearning: Unlearning, reference: Tensor | None) -> Tensor | None:
    """The unlearning term of each token before weighting [b, S]; None if the form adds none."""
    match unlearning.form:
        case "none" | "mask":
            return None
        case "printed":
            return -log_probs
        case "flipped":
            return log_probs
        case "unlikelihood":
            # -log(1 - p); at p = 1 the gradient would be infinite
            return -torch.log1p(-log_probs.exp().clamp(max=1 - 1e-6))
        case "npo":
            assert reference is not None
            return (2 / unlearning.beta) * functional.softplus(unlearning.beta * (log_probs - reference))
        case "hinge":
            assert reference is not None
            return (log_probs - reference + unlearning.margin).clamp(min=0)  # l_ref + m - l, where l = -log p
