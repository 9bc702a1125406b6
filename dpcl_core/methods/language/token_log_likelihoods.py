"""Token log-probabilities under a torch causal LM, without prompt or noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from dpcl_core.data.texts import PADDING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_AT_ONCE = 64
_LOGITS = 1 << 26  # numbers in the logits of one pass: 256 MB


@torch.no_grad()
def log_probabilities(model: nn.Module, tokens: NDArray[np.integer], bos: int, device: str) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under a causal model, in nats; 0 at padding."""
    log_probs = np.zeros(tokens.shape, np.float32)
    n_logits = tokens.shape[1] * cast("PreTrainedModel", model).config.vocab_size
    at_once = min(_AT_ONCE, max(1, _LOGITS // max(1, n_logits)))
    for start in range(0, len(tokens), at_once):
        part = torch.from_numpy(tokens[start : start + at_once].astype(np.int64)).to(device)
        ids = functional.pad(part.clamp(min=0), (1, 0), value=bos)
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        steps = -functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        log_probs[start : start + at_once] = (steps.view(part.shape) * (part != PADDING)).cpu().numpy()
    return log_probs
