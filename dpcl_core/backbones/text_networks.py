"""Networks of texts whose layers adapters change: the last blocks of MiniLM or of a causal language model.

The blocks below are frozen. What they make of a text is computed once and kept. Every text has the same public number of
pieces, filled up or cut: what is computed for it depends on no other text, and costs the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.adaptable import Inside, Network, filled, of_rows
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput

PIECES = 64  # that are read of a text; those after them are left out
BLOCKS = 2  # the last ones, which adapters change
_HEADS = 12  # of BERT
_AT_ONCE = 16  # texts, while the blocks below are computed
_LARGEST = float(np.finfo(np.float16).max)
_NUMBERS_A_PIXEL = 20  # of kept states: two blocks on 64 pieces of MiniLM cost about as much as a picture of 50 x 50
Strings = Sequence[str]  # texts


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer


def _norm(weights: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.LayerNorm(len(weight), 1e-12, device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer


class BertBlock(nn.Module):
    """A block of BERT (Devlin et al. 2019) on states [b, S, K]; `mask` bool [b, 1, 1, S]: False at the padding."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            _linear(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        self.mixed, self.normed = (_linear(weights, f"{name}.attention.output.dense"),
                                   _norm(weights, f"{name}.attention.output.LayerNorm"))  # fmt: skip
        self.inner, self.outer = _linear(weights, f"{name}.intermediate.dense"), _linear(weights, f"{name}.output.dense")
        self.last = _norm(weights, f"{name}.output.LayerNorm")

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            layer(hidden).view(*hidden.shape[:2], _HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = self.normed(hidden + self.mixed(attended.transpose(1, 2).flatten(2)))
        out: Tensor = self.last(hidden + self.outer(functional.gelu(self.inner(hidden))))
        return out


class Bert(nn.Module):
    """BERT's states [b, S, K] of ids int64 [b, S], from its published tensors by name."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.tables = {part: weights[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")}
        self.norm = _norm(weights, "embeddings.LayerNorm")
        n_blocks = len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})
        self.blocks = nn.ModuleList(BertBlock(weights, f"encoder.layer.{block}") for block in range(n_blocks))
        self.requires_grad_(False)

    def forward(self, ids: Tensor, mask: Tensor | None = None, *, n_blocks: int | None = None) -> Tensor:
        """After the first `n_blocks` blocks; None: after all."""
        hidden = functional.embedding(ids, self.tables["word"])
        hidden = hidden + self.tables["position"][: ids.shape[1]] + self.tables["token_type"][0]
        hidden = self.norm(hidden)
        for block in list(self.blocks)[:n_blocks]:
            hidden = cast(Tensor, block(hidden, mask))
        return hidden


class OfBert(nn.Module):
    """The last blocks of BERT, which read every piece of the text."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        for block in self.blocks:
            states = block(states, counts[:, None, None, :])
        return states


class OfCausal(nn.Module):
    """The last blocks of a causal model. A piece reads those before it alone: padding at the end needs no mask."""

    def __init__(self, model: nn.Module, path: str) -> None:
        super().__init__()
        self.model, self._path = model, path

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        first = cast(nn.ModuleList, self.model.get_submodule(self._path))[0]
        # The model's own code runs its blocks; whatever it embeds, the first of these reads the kept states.
        with first.register_forward_pre_hook(lambda block, args: (states, *args[1:])):
            out: Tensor = self.model(inputs_embeds=states, use_cache=False).last_hidden_state
        return out


class Tail(Inside):
    """The last blocks, on kept states float16 [b, PIECES, width + 1], up to the mean of a text's pieces, of unit length.

    The last number of a piece is 1 where it counts in that mean, and 0 at the padding and at a mark before the text.
    """

    def __init__(
        self, blocks: nn.Module, kept: Callable[[Strings], Iterator[NDArray[np.float32]]], width: int, n_blocks: int
    ) -> None:
        super().__init__()
        self.blocks, self._kept, self._width, self._n_blocks = blocks, kept, width, n_blocks

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        if not isinstance(content, Texts):
            raise BadInput(FIELD, "this network", "reads texts, one after the other")
        states = np.empty((len(content), PIECES, self._width + 1), np.float16)
        yield from filled(states, self._kept(content.strings))
        return states

    def blank(self) -> Tensor:
        return torch.ones(1, PIECES, self._width + 1, dtype=torch.float16)

    @property
    def side(self) -> int:
        return math.isqrt(PIECES * self._width * self._n_blocks // _NUMBERS_A_PIXEL)

    def forward(self, kept: Tensor) -> Tensor:
        dtype = next(self.parameters()).dtype
        counts = kept[:, :, -1] > 0
        states = self.blocks(kept[:, :, :-1].to(dtype), counts)
        sums = (states * counts[:, :, None]).sum(1)
        return functional.normalize(sums / counts.sum(1, keepdim=True).clamp(min=1), dim=1)


def plain(block: nn.Module) -> nn.Module:
    """The block with `Linear` for GPT-2's own layer, which is one with its weights turned. Shares all other tensors."""
    copy = deepcopy(block, {id(one): one for one in (*block.parameters(), *block.buffers())})
    for name, layer in list(copy.named_modules()):
        if type(layer).__name__ == "Conv1D":
            weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
            copy.set_submodule(name, _linear({".weight": weight.T.contiguous(), ".bias": bias}, ""))
    return copy


def network(
    name: str, blocks: nn.Module, pieces: Callable[[Strings], list[list[int]]], below: Callable[[Tensor, Tensor], Tensor],
    width: int, device: str, n_marks: int = 0,
) -> Network:  # fmt: skip
    """The last blocks as a network for adapters.

    `pieces`: ids of each text, at most `PIECES`, the first `n_marks` of which do not count; `below`: states [b, S, width]
    that the blocks read, of ids int64 [b, S] and of which of these are no padding, bool [b, S].
    """

    def flat(ids: Tensor) -> Tensor:
        is_piece = ids[:, :, 0] >= 0
        counts = is_piece.clone()
        counts[:, :n_marks] = False
        states = below(ids[:, :, 0].clamp(min=0), is_piece).float().clamp(-_LARGEST, _LARGEST)
        return torch.cat([states, counts[:, :, None]], dim=2).flatten(1)

    def kept(strings: Strings) -> Iterator[NDArray[np.float32]]:
        ids = np.full((len(strings), PIECES, 1), -1)
        for row, of_text in enumerate(pieces(strings)):
            ids[row, : len(of_text), 0] = of_text
        return of_rows(flat, ids, _AT_ONCE, device)

    inside = Tail(blocks, kept, width, BLOCKS).requires_grad_(False).eval().to(device)
    return Network(name, inside, width, device)
