"""Labels as choices, per-text losses, and PeCL's unlearning term for sensitive tokens: as printed and in bounded forms.

All means are taken within a text. A mean over the tokens of a batch would make one text's gradient depend on the lengths of
the others, and no bound on one text's influence would hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.kept_states import SIDE_BY_SIDE
from dpcl_core.data.texts import PADDING
from dpcl_core.methods.language.forks import Forks
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.params import Loss, UnlearningForm
from dpcl_core.methods.language.public_text import ANSWER, TEXT

_LEARNING: tuple[UnlearningForm, ...] = ("none", "printed", "flipped")  # forms that keep sensitive tokens in the task loss


@dataclass(frozen=True, slots=True)
class Unlearning:
    """PeCL's unlearning term for tokens with a score above `theta` (Eq. 12), weighted by `strength` (Eq. 13).

    none; printed: Eq. 12, which learns these tokens harder; flipped: the opposite sign, unbounded. The other forms also drop
    sensitive tokens from the task loss. mask: no further term. unlikelihood: -log(1 - p). npo (Zhang et al. 2024, per
    token): (2/beta) log(1 + (p/p_ref)^beta). hinge: unlearns a token until it is `margin` nats less likely than under the
    public model.
    """

    form: UnlearningForm = "none"
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


# Token log-probabilities under a torch causal LM, without prompt or noise.
#
# The scores of a private text enter what it adds to a clipped sum, so they must not depend on the other texts, not even in
# the last digit (see `gradients`): all passes have the same shape, the last one filled up.


_LOGITS = 60_000_000  # at most in one pass: a quarter of a gigabyte


def log_probabilities(
    model: nn.Module, tokens: NDArray[np.integer], bos: int, device: str, *, is_filled: bool = True
) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under a causal model, in nats; 0 at padding.

    `is_filled`: fills the last pass up. Needless, and slow for a single text, where all texts are public.
    """
    size = len(model.get_input_embeddings().weight)  # type: ignore[operator]  # a module's attributes have no types
    return _log_probabilities(
        lambda ids: model(input_ids=ids, use_cache=False).logits, size, tokens, bos, device, is_filled=is_filled
    )


def of_adapted(net: Adapted, tokens: NDArray[np.integer], bos: int, device: str) -> NDArray[np.float32]:
    """The same under an adapted model, from kept states where there are blocks below its adapters."""
    if not net.split.cut:
        return log_probabilities(net.model, tokens, bos, device)

    def logits(ids: Tensor) -> Tensor:
        states = net.states(ids, torch.ones_like(ids, dtype=torch.bool))
        return net.split.above(states, torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1))

    size = len(net.model.get_input_embeddings().weight)  # type: ignore[operator]
    return _log_probabilities(logits, size, tokens, bos, device)


@torch.no_grad()
def _log_probabilities(
    logits_of: Callable[[Tensor], Tensor], size: int, tokens: NDArray[np.integer], bos: int, device: str,
    *, is_filled: bool = True,
) -> NDArray[np.float32]:  # fmt: skip
    log_probs = np.zeros(tokens.shape, np.float32)
    side_by_side = SIDE_BY_SIDE[torch.device(device).type]
    at_once = min(side_by_side, max(1, _LOGITS // (size * max(1, tokens.shape[1]))))
    for start in range(0, len(tokens), at_once):
        rows = tokens[start : start + at_once].astype(np.int64)
        n_rows = len(rows)
        if is_filled:
            rows = np.concatenate([rows, np.repeat(rows[-1:], at_once - n_rows, axis=0)])
        part = torch.from_numpy(rows).to(device)
        ids = functional.pad(part.clamp(min=0), (1, 0), value=bos)
        logits = logits_of(ids[:, :-1])
        steps = -functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        log_probs[start : start + at_once] = (steps.view(part.shape) * (part != PADDING))[:n_rows].cpu().numpy()
    return log_probs
