"""A frozen BERT in plain torch, enough for all-MiniLM-L6-v2, without a library that takes seconds to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

_EPSILON = 1e-12
_N_HEADS = 12


@dataclass(frozen=True, slots=True)
class Bert:
    """Weights of a BERT encoder, by their names in the weights file (Devlin et al. 2019)."""

    weights: Mapping[str, Tensor]
    n_blocks: int

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], device: str) -> Bert:
        """The encoder of these weights on a device. Raises KeyError where a weight is missing."""
        n_blocks = len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})
        floats = {name: tensor.to(device, torch.float32) for name, tensor in weights.items() if tensor.is_floating_point()}
        return cls(floats, n_blocks)

    @torch.inference_mode()
    def __call__(self, ids: Tensor) -> Tensor:
        """Last hidden states float32 [b, S, K] of pieces int64 [b, S], without padding."""
        table = "embeddings.{}_embeddings.weight".format
        hidden = functional.embedding(ids, self.weights[table("word")])
        hidden = hidden + self.weights[table("position")][: ids.shape[1]] + self.weights[table("token_type")][0]
        hidden = self._normalised(hidden, "embeddings.LayerNorm")
        for block in range(self.n_blocks):
            name = f"encoder.layer.{block}"
            query, key, value = (
                self._linear(hidden, f"{name}.attention.self.{part}").view(*ids.shape, _N_HEADS, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = functional.scaled_dot_product_attention(query, key, value)
            change = self._linear(mixed.transpose(1, 2).flatten(2), f"{name}.attention.output.dense")
            hidden = self._normalised(hidden + change, f"{name}.attention.output.LayerNorm")
            inner = functional.gelu(self._linear(hidden, f"{name}.intermediate.dense"))
            hidden = self._normalised(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return hidden

    def _linear(self, rows: Tensor, name: str) -> Tensor:
        return functional.linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _normalised(self, rows: Tensor, name: str) -> Tensor:
        size = (rows.shape[-1],)
        return functional.layer_norm(rows, size, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], _EPSILON)
