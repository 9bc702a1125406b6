"""all-MiniLM-L6-v2: a text is the mean of its pieces' vectors, a word the vector of its first piece, of unit length.

Its cache keys use the SHA-256 of the original files: cached features need no weights and no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import vector_cache, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.encoders import files, reading
from dpcl_core.backbones.encoders.reading import Floats
from dpcl_core.data.dataset import Content

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dpcl_core.backbones.encoders.bert import Bert

FEATURE_DIM = 384
_TEXT, _SENTENCE = 256, 512  # pieces read: of a text as published, of words up to the model's number of positions


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The encoder on one device."""

    device: str
    feature_dim: int = FEATURE_DIM
    identity: str = "|".join((files.MINILM, *files.MINILM_SHA256.values(), str(_TEXT), str(_SENTENCE)))

    def batches(self, content: Content) -> Iterator[Floats]:
        """float32 [b, 384] of unit length; a word without a piece, or past the 512th, is a row of zeros.

        Raises BadInput for anything but text and for files that are not the original's, DataMissing where there are none.
        """
        return reading.in_batches(content, files.MINILM, FEATURE_DIM, self._cached, self._of_words)

    def _cached(self, strings: Sequence[str]) -> Floats:
        return vector_cache.of_texts(self.identity, FEATURE_DIM, strings, self._of_texts)

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        tokenizer, network = _opened(self.device)
        tokenizer.enable_truncation(_TEXT)
        ids = [one.ids for one in tokenizer.encode_batch(list(strings))]
        features = np.empty((len(ids), FEATURE_DIM), np.float32)
        for rows, states, mask in _states(network, ids, self.device):
            features[rows] = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return features

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        tokenizer, network = _opened(self.device)
        tokenizer.enable_truncation(_SENTENCE)
        encoded = tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True)
        first = np.cumsum([0] + [len(words) for words in sentences])
        features = np.zeros((int(first[-1]), FEATURE_DIM), np.float32)
        for rows, states, _ in _states(network, [one.ids for one in encoded], self.device):
            for row, pieces in zip(rows.tolist(), states, strict=True):
                places = reading.first_pieces(encoded[row].word_ids, len(sentences[row]))
                starts = np.flatnonzero(places >= 0)
                features[first[row] + starts] = pieces[places[starts]]
        return features


def make(card: BackboneCard, device: str) -> MiniLM:
    """The encoder; it opens its files when it first computes features."""
    return MiniLM(device)


def _states(
    network: Bert, ids: Sequence[Sequence[int]], device: str
) -> Iterator[tuple[NDArray[np.int64], Floats, NDArray[np.float32]]]:
    """Batches of similar length: rows [b], last hidden states [b, S, 384] and mask [b, S]; every row once."""
    import torch

    for rows in reading.by_length([len(one) for one in ids]):
        size = max(len(ids[row]) for row in rows)
        padded = np.zeros((len(rows), size), np.int64)
        mask = np.zeros((len(rows), size), np.float32)
        for place, row in enumerate(rows):
            padded[place, : len(ids[row])] = ids[row]
            mask[place, : len(ids[row])] = 1
        states = network(torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device))
        yield rows, states.cpu().numpy(), mask


@lru_cache(maxsize=1)
def _opened(device: str) -> tuple[Tokenizer, Bert]:
    """Tokenizer and network, read and checked once per process. Raises BadInput, DataMissing."""
    from safetensors.torch import load
    from tokenizers import Tokenizer

    from dpcl_core.backbones.encoders.bert import Bert

    place = files.minilm()
    content = files.read_minilm(place, files.WEIGHTS)
    tokenizer = Tokenizer.from_str(files.read_minilm(place, files.TOKENIZER).decode("utf-8"))
    tokenizer.no_padding()
    try:
        return tokenizer, Bert.of(load(content), device)
    except KeyError as error:
        raise weights.damaged(files.MINILM, place / files.WEIGHTS, error) from error
