"""The bundled language model in NumPy: token log-probabilities without torch, for pages and for scores before training.

The same network as in `causal` (GPT-2, Radford et al. 2019), term by term; a test compares the two.

The scores of a private text enter what it adds to a clipped sum, so they must not depend on the other texts, not even in the
last digit (see `methods.language.gradients`). A kernel chooses the order of its additions by the shapes that it multiplies.
So every product here is of one text, padded to a whole number of `STEP` tokens, in one thread: products this small would
have threads wait for each other, six times as long where another process is busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_safetensors
from threadpoolctl import threadpool_limits

from dpcl_core.backbones import weights
from dpcl_core.backbones.language import files, tokenizer
from dpcl_core.data.texts import PADDING

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

    def __init__(self, state: dict[str, Floats], shape: files.Shape, bos: int) -> None:
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
        windows = _windows((tokens != PADDING).sum(axis=1), self.shape.context)
        by_width: dict[int, list[_Window]] = {}
        for window in windows:
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
        made: Floats = states @ self._state[f"{name}.weight"] + self._state[f"{name}.bias"]
        return made

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
    bundle = files.bundled()
    try:
        state = {name: values.astype(np.float32) for name, values in read_safetensors(bundle.read_weights()).items()}
    except SafetensorError as error:
        raise weights.damaged(files.BUNDLED, bundle.weights, error) from error
    return PlainModel(state, bundle.shape, tokenizer.load(files.BUNDLED).bos)


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
