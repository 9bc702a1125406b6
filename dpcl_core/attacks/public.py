"""Public examples for audits, so that no run's own data are read."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import cache
from dpcl_core.data import load
from dpcl_core.spec import DataSpec


@lru_cache(maxsize=1)
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The bundled handwritten digits: pixels [n, 64] in [0, 1], labels [n]."""
    split = load.load(DataSpec(dataset="digits")).train
    return cache.features("pixels", split.images), split.labels
