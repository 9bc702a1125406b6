"""Gradients of a language model's low-rank adapters, text by text, clipped and summed.

LoRA's two factors are plain linear maps. For one text such a map's gradient is deltaᵀ X, with rows of X what it read of each
token and rows of delta the loss's gradient at what it gave. One forward and one backward pass give both for all texts of a
batch; the rank is small, so that every text's own gradient is cheaper than its norm by any detour. Measured beside Opacus'
hooks, its ghost clipping and functorch in tests/benchmarks/test_language.py.

What a text adds to a clipped sum must not depend on the texts beside it: where logits are large, a last digit decides which
token wins, and one text more would turn the gradients of others. Kernels choose the order of their additions by the shapes
of what they multiply. So texts are computed in pieces whose shape is a function of each text alone: padded to a whole number
of `STEP` tokens and `ANSWER_STEP` of answer, with others of the same shape, `SIDE_BY_SIDE` at a time, the last piece filled
up. That kernels give the same bits at every place of such a piece is a property of theirs, which
tests/methods/features/test_gradient_sums.py compares on those at hand. What texts add is summed in double precision.
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
from dpcl_core.methods.common.per_example_gradients import clip_weights
from dpcl_core.methods.language.prompts import ANSWER, PAD, Prompted

AT_ONCE = 64  # texts computed at once where none has to be told from the others: a public number
STEP, ANSWER_STEP = 16, 4  # tokens of a text, and of its answer, that shapes are counted in
SIDE_BY_SIDE = {"cpu": 8, "cuda": 64}  # texts of one shape: fewer to fill up on a processor, enough to fill a GPU


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

    def padded(self, width: int) -> Batch:
        """The same in so many columns; no text may be longer."""
        planes = (self.ids, self.role, self.stop, self.kind)
        ids, role, stop, kind = (functional.pad(plane[:, :width], (0, max(0, width - plane.shape[1]))) for plane in planes)
        return Batch(self.rows, ids, role, stop, kind)


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

    Computes gradients where they are enabled. Shapes inside are functions of [b, S] and of `_n_answered`.
    """
    wanted = batch.role == ANSWER if answers_only else batch.mask
    columns = torch.arange(1, batch.ids.shape[1], device=wanted.device).expand(len(batch), -1)
    if answers_only:  # the last k columns of each text hold them
        columns = batch.mask.sum(dim=1, keepdim=True) + torch.arange(-_n_answered(batch), 0, device=wanted.device)
    is_there = columns >= 1
    columns = columns.clamp(min=1)
    logits = _logits(net, reading(net.embed(batch.ids), batch, epoch), columns - 1)
    found = -functional.cross_entropy(logits.flatten(0, 1), batch.ids.gather(1, columns).flatten(), reduction="none")
    kept = found.view(columns.shape).where(is_there & wanted.gather(1, columns), 0)
    return torch.zeros(batch.ids.shape, dtype=kept.dtype, device=kept.device).scatter_add(1, columns, kept)


def _n_answered(batch: Batch) -> int:
    """The most tokens of an answer, rounded up to whole steps."""
    return ANSWER_STEP * -(-int((batch.role == ANSWER).sum(dim=1).max()) // ANSWER_STEP) if len(batch) else 0


def _logits(net: Adapted, embeddings: Tensor, columns: Tensor) -> Tensor:
    """Logits [b, k, size] of the tokens that come behind these columns, int64 [b, k].

    Only these are handed to the last layer, which in a small model costs as much as all others. No mask is needed: padding
    is at the end, where a causal model does not look from what stands before it.
    """

    def chosen(layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0].gather(1, columns[:, :, None].expand(-1, -1, args[0].shape[2])), *args[1:])

    last = net.model.get_output_embeddings()  # type: ignore[operator]  # a module's attributes have no types
    hook = last.register_forward_pre_hook(chosen)
    try:
        logits: Tensor = net.model(inputs_embeds=embeddings, use_cache=False).logits
    finally:
        hook.remove()
    return logits


def _alike(batch: Batch, size: int) -> Iterator[Batch]:
    """The texts in pieces of one shape, padded to it, of at most `size`."""
    lengths, answers = batch.mask.sum(dim=1), (batch.role == ANSWER).sum(dim=1)
    steps, answer_steps = (lengths + STEP - 1) // STEP, (answers + ANSWER_STEP - 1) // ANSWER_STEP
    for n_steps, n_answer_steps in sorted(set(zip(steps.tolist(), answer_steps.tolist(), strict=True))):
        places = ((steps == n_steps) & (answer_steps == n_answer_steps)).nonzero()[:, 0]
        for some in torch.split(places, size):
            yield batch.take(some).padded(STEP * n_steps)


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
        if not math.isinf(self._clip_norm):
            return self._clipped(batch, loss, reading, epoch)
        sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        for places in torch.split(torch.arange(len(batch), device=batch.ids.device), AT_ONCE) if len(batch) else ():
            total = self._total(batch.take(places), loss, reading, epoch)
            for whole, part in zip(sums, torch.autograd.grad(total, self.parameters), strict=True):
                whole += part
        return sums

    def squares_of(self, batch: Batch, loss: TextLoss, reading: Reading = clean) -> list[Tensor]:
        """Sums of the squares of every entry of each text's clipped gradient, as in the Fisher information's diagonal.

        Adding a text changes them, taken together, by at most `clip_norm` squared in L2: for a gradient g no longer than C
        the vector of g_i^2 has length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2.
        """
        return self._clipped(batch, loss, reading, 0, squared=True)

    def each(
        self, batch: Batch, loss: TextLoss, reading: Reading = clean, epoch: int = 0
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Every text's clipped gradient, which `of` sums up: float64 [k, weights] of the texts of these `rows` [k]."""
        for piece, weights, own in self._pieces(batch, loss, reading, epoch):
            yield piece.rows, (weights[:, None] * torch.cat(own, dim=1))[: len(piece)]

    def _clipped(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int, *, squared: bool = False) -> list[Tensor]:
        """Sums of each text's clipped gradient, entry by entry, or of its squares."""
        sums = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in self.parameters]
        for _, weights, own in self._pieces(batch, loss, reading, epoch):
            if squared:
                weights, own = weights.square(), [part.square() for part in own]
            for whole, part in zip(sums, own, strict=True):
                whole += (weights @ part).view_as(whole)
        return [whole.to(parameter.dtype) for whole, parameter in zip(sums, self.parameters, strict=True)]

    def _pieces(
        self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int
    ) -> Iterator[tuple[Batch, Tensor, list[Tensor]]]:
        """Texts of one shape, and of as many as fill a piece up: what clipping leaves of each, 0 of what fills up, and each
        one's gradient [size, entries] by parameter."""
        size = SIDE_BY_SIDE[batch.ids.device.type]
        for piece in _alike(batch, size):
            places = torch.arange(size, device=batch.ids.device)
            filled = piece.take(places.clamp(max=len(piece) - 1))  # with the last, which counts once
            own = self._own(filled, loss, reading, epoch)
            weights = clip_weights(torch.stack([part.square().sum(1) for part in own]).sum(0).sqrt(), self._clip_norm)
            yield piece, weights * (places < len(piece)), own

    def _own(self, batch: Batch, loss: TextLoss, reading: Reading, epoch: int) -> list[Tensor]:
        """Each text's gradient [b, entries], by parameter, in double precision; zeros where it is not finite."""
        with recorded(self._layers) as passed:
            total = self._total(batch, loss, reading, epoch)
        deltas = torch.autograd.grad(total, [passed[layer][1] for layer in self._layers])
        own = [
            torch.bmm(delta.transpose(1, 2), passed[layer][0]).flatten(1).double()
            for layer, delta in zip(self._layers, deltas, strict=True)
        ]
        finite = torch.stack([part.isfinite().all(dim=1) for part in own]).all(dim=0)
        return own if finite.all() else [part.where(finite[:, None], 0) for part in own]

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
