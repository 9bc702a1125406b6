"""What a trained model answers: labels by how likely their names are, or by what it writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.backbones.language.tokenizer import Tokenizer


def ranked(
    net: Adapted,
    tokenizer: Tokenizer,
    inputs: NDArray[np.int32],
    labels: Sequence[int],
    classes: Sequence[str],
    name: str,
    *,
    device: str,
) -> NDArray[np.float32]:
    """Log-likelihood of every label's name after each text's prompt, [n, classes]; -inf outside `labels`.

    Args: inputs int32 [n, length, planes]; labels: places in `classes`, the task's own list; name: the task's.
    """
    raise NotImplementedError


def generated(
    net: Adapted,
    tokenizer: Tokenizer,
    inputs: NDArray[np.int32],
    labels: Sequence[int],
    classes: Sequence[str],
    name: str,
    *,
    device: str,
) -> NDArray[np.float32]:
    """0 at the label whose name the model writes after the prompt, taking the likeliest token each time; else -inf.

    Where it writes no label's name the row is -inf throughout, which counts as wrong.
    """
    raise NotImplementedError
