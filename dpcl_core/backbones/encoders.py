"""Encoders of texts: all-MiniLM-L6-v2, any other model of sentence-transformers, and hashed words without weights.

Features in the cache need neither weights nor torch, which each encoder loads when it first computes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import catalog, extractor, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.later import adaptable, torch
from dpcl_core.backbones.plain_language import STOP_WORDS
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer


Floats = NDArray[np.float32]
_ALONE = "one text at a time"  # in identities: features computed beside other texts differ from these in the last digits
_CHUNK = 256  # texts between two progress reports
_FEATURE_DIM = 384  # of hashed words and of MiniLM
_WORD32 = 0xFFFFFFFF


class _Encoder:
    """An encoder as the extractor of its texts, or of the words of its sentences."""

    name: str
    identity: str
    feature_dim: int | None = _FEATURE_DIM

    def batches(self, content: Content) -> Iterator[Floats]:
        """float32 [b, K] of unit length; zeros for a text or a word that the encoder cannot tell.

        Raises BadInput for anything but text, and for weights that cannot be opened; DataMissing where there are none.
        """
        width = self._width()
        yield np.zeros((0, width), np.float32)
        if isinstance(content, Texts):
            for start in range(0, len(content), _CHUNK):
                yield unit(self._kept(content.strings[start : start + _CHUNK], width))
        elif isinstance(content, Sentences):
            for start in range(0, len(content.words), _CHUNK):
                yield unit(self._of_words(content.words[start : start + _CHUNK]))
        else:
            raise BadInput(FIELD, self.name, "reads texts, not pictures or windows of a sensor")

    def _width(self) -> int:
        """Length of a feature vector."""
        return _FEATURE_DIM

    def _kept(self, strings: Sequence[str], width: int) -> Floats:
        """The vectors of texts, from the cache where it has them."""
        return extractor.of_texts(self.identity, width, strings, self._of_texts)

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        """The vectors of texts [n, K]."""
        raise NotImplementedError

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        """A row for each word of these sentences."""
        raise NotImplementedError


def make(card: BackboneCard, device: str) -> _Encoder:
    """The encoder of a card. Raises BadInput for a model unknown to the hub, DataMissing where it is unavailable."""
    if card.name == catalog.HASHED:
        return HashedText()
    if card.name == catalog.MINILM:
        return MiniLM(device)
    folder, content = catalog.FOLDERS.folder(card.name.removeprefix(catalog.LIBRARY)), sha256()
    for path in sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.json")]):
        content.update(f"{path.relative_to(folder)} {weights.digest(path)}\n".encode())
    return OfLibrary(card.name, f"{card.name}|{content.hexdigest()}|{_ALONE}", folder, device)


def make_network(card: BackboneCard, device: str) -> adaptable.Network:
    """The last blocks of MiniLM, for adapting their layers. Raises BadInput for other encoders, and what `make` raises."""
    if card.name != catalog.MINILM:
        allowed = f"must be {catalog.MINILM} or a language model to be adapted"
        raise BadInput(FIELD, card.name, allowed, {FIELD: catalog.MINILM})
    tokenizer, bert = opened_minilm(device)
    cut = max(0, len(bert.blocks) - adaptable.BLOCKS)

    def pieces(strings: Sequence[str]) -> list[list[int]]:
        tokenizer.enable_truncation(adaptable.PIECES)
        return [one.ids for one in tokenizer.encode_batch(list(strings))]

    def below(ids: torch.Tensor, is_piece: torch.Tensor) -> torch.Tensor:
        return cast("torch.Tensor", bert(ids, is_piece[:, None, None, :], n_blocks=cut))

    last = adaptable.OfBert(list(bert.blocks)[cut:])
    return adaptable.text_network(card.name, last, pieces, below, bert.norm.normalized_shape[0], device)


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; zero and non-finite rows become zero."""
    finite_rows = extractor.finite(rows)
    lengths = np.linalg.norm(finite_rows, axis=1, keepdims=True)
    return cast(Floats, np.divide(finite_rows, lengths, out=np.zeros_like(finite_rows), where=lengths > 0))


def of_first_pieces(states: Floats, word_ids: Sequence[int | None], n_words: int) -> Floats:
    """The state of each word's first piece [n_words, K] among those of a sentence's pieces [S, K]; zeros without a piece.

    `word_ids`: the word of each piece, None for the marks at the ends.
    """
    features, seen = np.zeros((n_words, states.shape[1]), np.float32), set[int | None]({None})
    for place, word in enumerate(word_ids):
        if word not in seen:
            features[word] = states[place]
            seen.add(word)
    return features


class HashedText(_Encoder):
    """Hashed word stems under a fixed random projection.

    A text has the stems of its words without stop words, a word its spelling, ends and neighbours. Texts are similar where
    they share words, not where they share meaning. All parts are public constants, so the features of a text depend on that
    text alone. Measured on AG News (500 texts per class, a linear classifier): 69 % of the test texts; with whole words
    65 %, with pairs of words added 54 %, because 384 numbers are too few for them.
    """

    name = catalog.HASHED
    _BUCKETS, _STEM, _SEED = 2**14, 5, 20_250_920
    identity = f"{name}|{_BUCKETS}|{_STEM}|{_SEED}"
    _WORD: ClassVar = re.compile(r"\w\w+")

    def _kept(self, strings: Sequence[str], width: int) -> Floats:
        return self._of_texts(strings)  # quicker than a cache

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        """Approximate stems: the first letters of words of two letters or more that are not stop words."""
        words = [self._WORD.findall(string.lower()) for string in strings]
        return self._projected([[word[: self._STEM] for word in text if word not in STOP_WORDS] for text in words])

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        return self._projected([_description(words, place) for words in sentences for place in range(len(words))])

    def _projected(self, terms: Sequence[list[str]]) -> Floats:
        """Sums of the directions of a text's terms, each times the logarithm of its signed count."""
        directions, found = _directions(self._SEED, self._BUCKETS), np.zeros((len(terms), _FEATURE_DIM), np.float32)
        for row, of_text in enumerate(terms):
            counts: dict[int, int] = {}
            for hashed in map(murmur3, of_text):
                bucket = abs(hashed) % self._BUCKETS
                counts[bucket] = counts.get(bucket, 0) + (1 if hashed >= 0 else -1)
            buckets = sorted(counts)
            weights = np.array([math.copysign(math.log1p(abs(counts[one])), counts[one]) for one in buckets])
            found[row] = (weights[:, None] * directions[buckets]).sum(axis=0)
        return found


@lru_cache(maxsize=1 << 16)
def murmur3(word: str) -> int:
    """MurmurHash3 of a word (Appleby 2011, 32 bits, seed 0), as a signed number, as scikit-learn's vectors have it."""
    data, found = word.encode("utf-8", "surrogatepass"), 0
    for start in range(0, len(data), 4):
        block = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & _WORD32
        block = (block << 15 | block >> 17) & _WORD32
        found ^= block * 0x1B873593 & _WORD32
        if start + 4 <= len(data):  # a last block of fewer bytes is only mixed in
            found = (found << 13 | found >> 19) & _WORD32
            found = found * 5 + 0xE6546B64 & _WORD32
    found ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor & _WORD32
    return found - (found >> 31 << 32)


@cache
def _directions(seed: int, n: int) -> Floats:
    """A fixed direction for each bucket [n, 384], any two nearly orthogonal."""
    return np.random.default_rng(seed).standard_normal((n, _FEATURE_DIM), dtype=np.float32)


def _description(words: tuple[str, ...], place: int) -> list[str]:
    """Terms of a word: spelling, beginnings and ends, letter pattern, and the words beside it."""
    word = words[place]
    low = word.lower()
    before, after = (words[neighbour].lower() if 0 <= neighbour < len(words) else "" for neighbour in (place - 1, place + 1))
    kinds = ("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
    looks = "".join(kind for kind, _ in groupby(kinds))  # "Paris" and "Rome" have one pattern
    ends = [end for n in (2, 3) for end in (f"<{low[:n]}", f">{low[-n:]}")]
    return [f"={low}", f"-{before}", f"+{after}", f"?{looks}", f"!{word[:1].isupper()}{place == 0}", *ends]


@dataclass(frozen=True, slots=True)
class MiniLM(_Encoder):
    """all-MiniLM-L6-v2: a text is the mean of its pieces' vectors, a word the vector of its first piece, of unit length.

    Its network is written out in plain torch (`adaptable.Bert`), without a library that takes seconds to load.
    """

    device: str
    _TEXT, _SENTENCE = 256, 512  # pieces read: of a text as published, of words up to the model's number of positions
    name = catalog.MINILM
    identity = "|".join((name, *catalog.MINILM_SHA256.values(), str(_TEXT), str(_SENTENCE), _ALONE))

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        tokenizer, network = opened_minilm(self.device)
        tokenizer.enable_truncation(self._TEXT)
        encoded = tokenizer.encode_batch(list(strings))
        return np.stack([_states(network, one.ids, self.device).mean(axis=0) for one in encoded])

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        tokenizer, network = opened_minilm(self.device)
        tokenizer.enable_truncation(self._SENTENCE)
        encoded = tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True)
        return np.concatenate([
            of_first_pieces(_states(network, one.ids, self.device), one.word_ids, len(words))
            for one, words in zip(encoded, sentences, strict=True)
        ])  # fmt: skip


def _states(network: adaptable.Bert, ids: Sequence[int], device: str) -> Floats:
    """Last hidden states float32 [S, 384] of one text's pieces.

    One text without padding, so that no other text is in any product. Batches of similar length took a seventh less time
    on AG News, but may give a text other last digits at another place.
    """
    with torch.inference_mode():
        return cast(Floats, network(torch.tensor([ids], dtype=torch.int64, device=device))[0].cpu().numpy())


@lru_cache(maxsize=1)
def opened_minilm(device: str) -> tuple[Tokenizer, adaptable.Bert]:
    """Tokenizer and network, read and checked once per process. Raises BadInput, DataMissing."""
    from safetensors.torch import load
    from tokenizers import Tokenizer

    state, vocabulary = catalog.minilm()
    tokenizer = Tokenizer.from_str(vocabulary.decode("utf-8"))
    tokenizer.no_padding()
    tensors = {name: one.to(device, torch.float32) for name, one in load(state).items() if one.is_floating_point()}
    return tokenizer, adaptable.Bert(tensors)


@dataclass(frozen=True, slots=True)
class OfLibrary(_Encoder):
    """One model of sentence-transformers on one device, with its own pooling, length and further modules."""

    name: str
    identity: str
    folder: Path
    device: str
    feature_dim: int | None = None

    def _width(self) -> int:
        return cast(int, self._model().get_embedding_dimension())

    def _of_texts(self, strings: Sequence[str]) -> Floats:
        # One at a time: beside others, a text's vector would depend on their lengths and its place among them.
        return np.asarray(self._model().encode(list(strings), batch_size=1, show_progress_bar=False), np.float32)

    def _of_words(self, sentences: Sequence[tuple[str, ...]]) -> Floats:
        model, features = self._model(), []
        tokenizer, network = getattr(model, "tokenizer", None), getattr(model[0], "auto_model", None)
        if network is None or tokenizer is None or not getattr(tokenizer, "is_fast", False):
            raise BadInput(FIELD, self.name, "must be a model that gives a vector for every word; take minilm")
        for words in sentences:
            encoded = tokenizer(list(words), is_split_into_words=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                states = network(**encoded.to(self.device)).last_hidden_state[0].float().cpu().numpy()
            features.append(of_first_pieces(states, encoded.word_ids(), len(words)))
        return np.concatenate(features)

    def _model(self) -> SentenceTransformer:
        return _opened_library(self.name, self.folder, self.device)


@lru_cache(maxsize=1)
def _opened_library(name: str, folder: Path, device: str) -> SentenceTransformer:
    weights.ensure_torchvision()  # before the library, which imports it
    from sentence_transformers import SentenceTransformer

    only = {"use_safetensors": True}
    with weights.whole(name, folder, OSError, ValueError, KeyError, RuntimeError):
        return SentenceTransformer(
            str(folder), device=device, trust_remote_code=False, local_files_only=True, model_kwargs=only
        )
