"""Public substitute texts, from which scores, counts and input norms are computed at no privacy cost."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.language import reader, tokenizer
from dpcl_core.data import anchors
from dpcl_core.data.synthetic import corpus
from dpcl_core.data.texts import TOKEN, Texts
from dpcl_core.methods.language import sensitivity

N_TEXTS, _SEED = 120, 11
N_SENTENCES = 32
N_FAMILIES = 6  # text i belongs to family i mod N_FAMILIES


@lru_cache(maxsize=4)
def encoded(backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded texts of the synthetic corpus's public companion, int32 [N_TEXTS, length, planes]."""
    return reader.read(corpus.companion(N_TEXTS, _SEED), backbone, length)


@lru_cache(maxsize=4)
def sentences(backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded sentences of Wikipedia, or invented ones where those are missing, int32 [N_SENTENCES, length, planes]."""
    all_sentences = anchors.public().content
    assert isinstance(all_sentences, Texts)
    rows = np.linspace(0, len(all_sentences), N_SENTENCES, endpoint=False).astype(np.int64)
    return reader.read(all_sentences.take(rows), backbone, length)


def counts(backbone: str, length: int) -> NDArray[np.int64]:
    """Token counts of each family's texts, int64 [families, size]."""
    tokens, size = encoded(backbone, length)[:, :, TOKEN], tokenizer.load(backbone).size
    return np.stack([sensitivity.counts(tokens[family::N_FAMILIES], size) for family in range(N_FAMILIES)])
