"""Token log-probabilities under a torch causal LM, without prompt or noise."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from dpcl_core.data.texts import PADDING

_AT_ONCE = 64


@torch.no_grad()
def log_probabilities(model: nn.Module, tokens: NDArray[np.integer], bos: int, device: str) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under a causal model, in nats; 0 at padding."""
    log_probs = np.zeros(tokens.shape, np.float32)
    for start in range(0, len(tokens), _AT_ONCE):
        part = torch.from_numpy(tokens[start : start + _AT_ONCE].astype(np.int64)).to(device)
        ids = functional.pad(part.clamp(min=0), (1, 0), value=bos)
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        steps = -functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        log_probs[start : start + _AT_ONCE] = (steps.view(part.shape) * (part != PADDING)).cpu().numpy()
    return log_probs
