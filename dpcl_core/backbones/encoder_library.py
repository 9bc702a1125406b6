"""Any model of sentence-transformers by name, with its own pooling, length and further modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import catalog, extractor, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.extractor import finite
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


# Runs texts and words through an encoder one at a time; gives vectors of unit length. No torch.


Floats = NDArray[np.float32]
OfTexts = Callable[[Sequence[str]], Floats]  # strings -> [n, K]
OfWords = Callable[[Sequence[tuple[str, ...]]], Floats]  # sentences -> a row for each of their words

ALONE = "one text at a time"  # in identities: features computed beside other texts differ from these in the last digits
_CHUNK = 256  # texts between two progress reports


def in_batches(content: Content, name: str, feature_dim: int, texts: OfTexts, words: OfWords) -> Iterator[Floats]:
    """Features [b, feature_dim] of the texts, or of the sentences' words, batch by batch, of length at most 1.

    Rows of zeros stay zero: texts or words unknown to the encoder. Raises BadInput for anything but text.
    """
    yield np.zeros((0, feature_dim), np.float32)
    if isinstance(content, Texts):
        for start in range(0, len(content), _CHUNK):
            yield unit(texts(content.strings[start : start + _CHUNK]))
    elif isinstance(content, Sentences):
        for start in range(0, len(content.words), _CHUNK):
            yield unit(words(content.words[start : start + _CHUNK]))
    else:
        raise BadInput(FIELD, name, "reads texts, not pictures or windows of a sensor")


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; zero and non-finite rows become zero."""
    finite_rows = finite(rows)
    lengths = np.linalg.norm(finite_rows, axis=1, keepdims=True)
    scaled: Floats = np.divide(finite_rows, lengths, out=np.zeros_like(finite_rows), where=lengths > 0)
    return scaled


def first_pieces(word_ids: Sequence[int | None], n_words: int) -> NDArray[np.int64]:
    """Index of each word's first piece among a sentence's pieces, int64 [n_words]; -1 for a word without pieces."""
    places = np.full(n_words, -1, dtype=np.int64)
    for place, word in enumerate(word_ids):
        if word is not None and places[word] < 0:
            places[word] = place
    return places


@dataclass(frozen=True, slots=True)
class OfLibrary:
    """One model of sentence-transformers on one device. `digest`: over its weights and settings."""

    name: str
    folder: Path
    digest: str
    device: str
    feature_dim: int | None = None

    @property
    def identity(self) -> str:
        return f"{self.name}|{self.digest}|{ALONE}"

    def batches(self, content: Content) -> Iterator[Floats]:
        """float32 [b, K] of unit length; a word without a piece, or past the model's length, is a row of zeros.

        Raises BadInput for anything but text, and for a model that cannot be opened or has no vectors of pieces.
        """
        n_features = cast(int, self._model().get_embedding_dimension())

        def texts(strings: Sequence[str]) -> Floats:
            return extractor.of_texts(self.identity, n_features, strings, self._of_texts)

        return in_batches(content, self.name, n_features, texts, self._of_words)

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        # One at a time: beside others, a text's vector would depend on their lengths and its place among them.
        return np.asarray(self._model().encode(list(strings), batch_size=1, show_progress_bar=False), np.float32)

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        import torch

        model, pieces = self._model(), []
        tokenizer, network = getattr(model, "tokenizer", None), getattr(model[0], "auto_model", None)
        if network is None or tokenizer is None or not getattr(tokenizer, "is_fast", False):
            raise BadInput(weights.FIELD, self.name, "must be a model that gives a vector for every word; take minilm")
        for words in sentences:
            encoded = tokenizer(list(words), is_split_into_words=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                states = network(**encoded.to(self.device)).last_hidden_state[0].float().cpu().numpy()
            places = first_pieces(encoded.word_ids(), len(words))
            features = np.zeros((len(words), states.shape[1]), np.float32)
            features[places >= 0] = states[places[places >= 0]]
            pieces.append(features)
        return np.concatenate(pieces)

    def _model(self) -> SentenceTransformer:
        return _opened(self.name, self.folder, self.device)


def make(card: BackboneCard, device: str) -> OfLibrary:
    """The model by name. Raises BadInput for a model unknown to the hub, DataMissing where it is unavailable."""
    place = catalog.folder(card.name.removeprefix(catalog.LIBRARY))
    return OfLibrary(card.name, place, catalog.weights_digest(place), device)


@lru_cache(maxsize=1)
def _opened(name: str, folder: Path, device: str) -> SentenceTransformer:
    from dpcl_core.backbones.weights import ensure_torchvision

    ensure_torchvision()  # before the library, which imports it
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(
            str(folder),
            device=device,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise weights.damaged(name, folder, error) from error
