"""Texts as a language model reads them: tokens, and beside each whether it lies in a stop word or a marked span."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.texts import Texts


def read(texts: Texts, backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded texts [n, length, 3], planes as `data.texts` numbers them; what comes after `length` tokens is cut off."""
    raise NotImplementedError
