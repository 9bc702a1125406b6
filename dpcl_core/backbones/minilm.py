"""all-MiniLM-L6-v2: a text is the mean of its pieces' vectors, a word the vector of its first piece, of unit length.

Its cache keys use the SHA-256 of the original files: cached features need no weights and no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcl_core.backbones import catalog, encoder_library, extractor, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.encoder_library import Floats
from dpcl_core.data.dataset import Content

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dpcl_core.backbones.bert import Bert


FEATURE_DIM = 384
_TEXT, _SENTENCE = 256, 512  # pieces read: of a text as published, of words up to the model's number of positions


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The encoder on one device."""

    device: str
    feature_dim: int = FEATURE_DIM
    identity: str = "|".join(
        (catalog.MINILM, *catalog.MINILM_SHA256.values(), str(_TEXT), str(_SENTENCE), encoder_library.ALONE)
    )

    def batches(self, content: Content) -> Iterator[Floats]:
        """float32 [b, 384] of unit length; a word without a piece, or past the 512th, is a row of zeros.

        Raises BadInput for anything but text and for files that are not the original's, DataMissing where there are none.
        """
        return encoder_library.in_batches(content, catalog.MINILM, FEATURE_DIM, self._cached, self._of_words)

    def _cached(self, strings: Sequence[str]) -> Floats:
        return extractor.of_texts(self.identity, FEATURE_DIM, strings, self._of_texts)

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        tokenizer, network = _opened(self.device)
        tokenizer.enable_truncation(_TEXT)
        encoded = tokenizer.encode_batch(list(strings))
        return np.stack([_states(network, one.ids, self.device).mean(axis=0) for one in encoded])

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        tokenizer, network = _opened(self.device)
        tokenizer.enable_truncation(_SENTENCE)
        encoded = tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True)
        first = np.cumsum([0] + [len(words) for words in sentences])
        features = np.zeros((int(first[-1]), FEATURE_DIM), np.float32)
        for start, one, words in zip(first[:-1], encoded, sentences, strict=True):
            places = encoder_library.first_pieces(one.word_ids, len(words))
            starts = np.flatnonzero(places >= 0)
            features[start + starts] = _states(network, one.ids, self.device)[places[starts]]
        return features


def make(card: BackboneCard, device: str) -> MiniLM:
    """The encoder; it opens its files when it first computes features."""
    return MiniLM(device)


def _states(network: Bert, ids: Sequence[int], device: str) -> Floats:
    """Last hidden states [S, 384] of one text's pieces, alone and without padding, so that no other text is in any product.

    Batches of similar length took a seventh less time on AG News, but may give a text other last digits at another place.
    """
    import torch

    states: Floats = network(torch.tensor([ids], dtype=torch.int64, device=device))[0].cpu().numpy()
    return states


@lru_cache(maxsize=1)
def _opened(device: str) -> tuple[Tokenizer, Bert]:
    """Tokenizer and network, read and checked once per process. Raises BadInput, DataMissing."""
    from safetensors.torch import load
    from tokenizers import Tokenizer

    from dpcl_core.backbones.bert import Bert

    place = catalog.minilm()
    content = catalog.read_minilm(place, catalog.WEIGHTS)
    tokenizer = Tokenizer.from_str(catalog.read_minilm(place, catalog.TOKENIZER).decode("utf-8"))
    tokenizer.no_padding()
    try:
        return tokenizer, Bert.of(load(content), device)
    except KeyError as error:
        raise weights.damaged(catalog.MINILM, place / catalog.WEIGHTS, error) from error
