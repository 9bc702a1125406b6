"""Public texts that stand in for private ones: what scores, counts and input norms can be taken from at no cost."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import reader, tokenizer
from dpcl_core.data.synthetic import corpus
from dpcl_core.data.texts import TOKEN
from dpcl_core.methods.language import sensitivity

N_TEXTS, _SEED = 120, 11
N_FAMILIES = 6  # texts of the families take turns


@lru_cache(maxsize=4)
def encoded(backbone: str, length: int) -> NDArray[np.int32]:
    """Texts of the synthetic corpus's public companion as a model reads them, int32 [N_TEXTS, length, planes]."""
    return reader.read(corpus.companion(N_TEXTS, _SEED), backbone, length)


def counts(backbone: str, length: int) -> NDArray[np.int64]:
    """How often each token occurs in the texts of each family, [families, size]."""
    tokens, size = encoded(backbone, length)[:, :, TOKEN], tokenizer.load(backbone).size
    return np.stack([sensitivity.counts(tokens[family::N_FAMILIES], size) for family in range(N_FAMILIES)])
