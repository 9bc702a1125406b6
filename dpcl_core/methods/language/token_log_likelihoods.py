"""Token log-probabilities under a torch causal LM, without prompt or noise.

The scores of a private text enter what it adds to a clipped sum, so they must not depend on the other texts, not even in the
last digit (see `gradients`): all passes have the same shape, the last one filled up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.backbones.language.kept_states import SIDE_BY_SIDE
from dpcl_core.data.texts import PADDING

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
