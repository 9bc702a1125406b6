"""Token log-probabilities under the frozen public model (NumPy for the bundled one, torch otherwise)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language.files import BUNDLED


def log_probabilities(
    backbone: str, tokens: NDArray[np.integer], device: str, *, single: bool = False, is_filled: bool = True
) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under the frozen model, in nats; 0 at padding.

    `single`: in single precision on every device. `is_filled`: as of `token_log_likelihoods.log_probabilities`.
    """
    if backbone == BUNDLED:
        from dpcl_core.backbones.language import plain

        return plain.load().log_probabilities(tokens)
    from dpcl_core.backbones.language import causal, tokenizer
    from dpcl_core.methods.language import token_log_likelihoods

    return token_log_likelihoods.log_probabilities(
        causal.load(backbone, device, single=single), tokens, tokenizer.load(backbone).bos, device, is_filled=is_filled
    )
