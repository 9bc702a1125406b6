"""Gradients of a language model's low-rank adapters, text by text, clipped and summed.

LoRA's two factors are plain linear maps. For one text such a map's gradient is deltaᵀ X, with rows of X what it read of each
token and rows of delta the loss's gradient at what it gave. One forward and one backward pass give both for all texts of a
batch; the rank is small, so that every text's own gradient is cheaper than its norm by any detour. Measured beside Opacus'
hooks, its ghost clipping and functorch in tests/benchmarks/test_language.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.language.causal import Adapted
from dpcl_core.methods.language.prompts import ANSWER, PAD, Prompted
from dpcl_core.methods.lifelong.per_example import clip_weights

AT_ONCE = 64  # texts computed at once: a public number


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts of one step, on the device. `rows` int64 [b]: their places in the task; the rest as in `Prompted`."""

    rows: NDArray[np.int64]
    ids: Tensor
    role: Tensor
    stop: Tensor
    kind: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def mask(self) -> Tensor:
        """bool [b, S]: not padding."""
        return self.role != PAD

    def take(self, places: Tensor) -> Batch:
        """The texts at these places, int64 [k]."""
        rows = self.rows[places.cpu().numpy()]
        return Batch(rows, self.ids[places], self.role[places], self.stop[places], self.kind[places])


@dataclass(frozen=True, slots=True)
class TextLoss:
    """A loss for every text: log-probabilities of a batch's tokens [b, S] and the batch in, losses [b] out.

    `answers_only`: it looks at the answers' tokens alone, so that the others' log-probabilities need not be computed.
    """

    of: Callable[[Tensor, Batch], Tensor]
    answers_only: bool = False


Reading = Callable[[Tensor, Batch, int], Tensor]  # embeddings [b, S, d], whose, in which epoch -> what the network reads


def clean(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
    """The reading without noise."""
    return embeddings


def batch_of(texts: Prompted, rows: NDArray[np.int64], device: str) -> Batch:
    """The texts of these rows, padded to the longest of them."""
    used = int((texts.role[rows] != PAD).sum(axis=1).max(initial=1))
    ids, role, stop, kind = (
        torch.from_numpy(plane[rows, :used]).to(device) for plane in (texts.ids, texts.role, texts.stop, texts.kind)
    )
    return Batch(rows, ids, role, stop, kind)


def log_probs(net: Adapted, batch: Batch, reading: Reading = clean, epoch: int = 0, *, answers_only: bool = False) -> Tensor:
    """log P(token | tokens before it) [b, S]; 0 in the first column, where padded, and off the answers if these are all.

    Computes gradients where they are enabled.
    """
    wanted = batch.role[:, 1:] == ANSWER if answers_only else batch.mask[:, 1:]
    logits = _logits(net, reading(net.embed(batch.ids), batch, epoch), wanted)
    found = -functional.cross_entropy(logits, batch.ids[:, 1:][wanted], reduction="none")
    whole = torch.zeros(batch.ids.shape, dtype=found.dtype, device=found.device)
    return whole.masked_scatter(functional.pad(wanted, (1, 0)), found)


def _logits(net: Adapted, embeddings: Tensor, wanted: Tensor) -> Tensor:
    """Logits [m, size] of the tokens that come behind the m places that are `wanted`, bool [b, S - 1].

    Only these are handed to the last layer, which in a small model costs as much as all others. No mask is needed: padding
    is at the end, where a causal model does not look from what stands before it.
    """

    def chosen(layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0][:, :-1][wanted][None], *args[1:])

    last = net.model.get_output_embeddings()  # type: ignore[operator]  # a module's attributes have no types
    hook = last.register_forward_pre_hook(chosen)
    try:
        logits: Tensor = net.model(inputs_embeds=embeddings, use_cache=False).logits
    finally:
        hook.remove()
    return logits[0]


class Gradients:
    """Gradients of per-text losses by the adapters' parameters, each text's clipped to `clip_norm` over all of them, summed.

    inf: no clipping, and plain autograd sums. `parameters`: in the order of the sums. Every trained parameter must be the
    weight of a `Linear` without bias that is used once in a pass; raises TypeError otherwise.
    """

    def __init__(self, net: Adapted, clip_norm: float) -> None:
        self._net, self._clip_norm = net, clip_norm
        self.parameters: list[nn.Parameter] = list(net.trainable().values())
        of_weight = {id(layer.weight): layer for layer in net.modules() if isinstance(layer, nn.Linear)}
        if not all(id(parameter) in of_weight for parameter in self.parameters):
            raise TypeError("there is a rule for the per-text gradients of Linear layers' weights only")
        self._layers = [of_weight[id(parameter)] for parameter in self.parameters]

    def of(self, batch: Batch, loss: TextLoss, reading: Reading = clean, epoch: int = 0) -> list[Tensor]:
        """The sums, one for each parameter; zeros for an empty batch.

        Adding a text changes the sums, taken together, by at most `clip_norm` in L2, replacing one by twice that. A text
        whose gradient is not finite counts zero.
        """
        return self._summed(batch, lambda piece: self._piece(piece, loss, reading, epoch))

    def squares_of(self, batch: Batch, loss: TextLoss, reading: Reading = clean) -> list[Tensor]:
        """Sums of the squares of every entry of each text's clipped gradient, as in the Fisher information's diagonal.

        Adding a text changes them, taken together, by at most `clip_norm` squared in L2: for a gradient g no longer than C
        the vector of g_i^2 has length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2.
        """
        return self._summed(batch, lambda piece: self._clipped(piece, loss, reading, 0, squared=True))

    def _summed(self, batch: Batch, sums_of: Callable[[Batch], Sequence[Tensor]]) -> list[Tensor]:
        """Added up over pieces of a batch."""
        sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        for start in range(0, len(batch), AT_ONCE):
            places = torch.arange(start, min(start + AT_ONCE, len(batch)), device=batch.ids.device)
            piece = batch if len(places) == len(batch) else batch.take(places)
            for whole, part in zip(sums, sums_of(piece), strict=True):
                whole += part
        return sums

    def _piece(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int) -> Sequence[Tensor]:
        if math.isinf(self._clip_norm):
            return torch.autograd.grad(self._total(batch, loss, reading, epoch), self.parameters)
        return self._clipped(batch, loss, reading, epoch)

    def _clipped(
        self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int, *, squared: bool = False
    ) -> Sequence[Tensor]:
        """Sums of each text's clipped gradient, entry by entry, or of its squares."""
        with recorded(self._layers) as passed:
            total = self._total(batch, loss, reading, epoch)
        deltas = torch.autograd.grad(total, [passed[layer][1] for layer in self._layers])
        own = [
            torch.bmm(delta.transpose(1, 2), passed[layer][0]).flatten(1)
            for layer, delta in zip(self._layers, deltas, strict=True)
        ]
        squares = torch.stack([part.square().sum(1) for part in own]).sum(0)
        finite = squares.isfinite()
        if not finite.all():  # zero times infinity is no zero: they have to go
            if not finite.any():
                return [torch.zeros_like(parameter) for parameter in self.parameters]
            return self._clipped(batch.take(finite.nonzero()[:, 0]), loss, reading, epoch, squared=squared)
        weights = clip_weights(squares.sqrt(), self._clip_norm)
        if squared:
            weights, own = weights.square(), [part.square() for part in own]
        return [(weights @ part).view_as(parameter) for part, parameter in zip(own, self.parameters, strict=True)]

    def _total(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int) -> Tensor:
        found = log_probs(self._net, batch, reading, epoch, answers_only=loss.answers_only)
        return loss.of(found, batch).sum()


@contextmanager
def recorded(layers: Sequence[nn.Module]) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """What each layer reads and gives in the forward pass made inside."""
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def note(layer: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        passed[layer] = (args[0].detach(), out)

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()
