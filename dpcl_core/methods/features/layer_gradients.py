"""Sums of clipped per-example gradients of a network, computed in pieces that fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule, register_grad_sampler
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones.adaptable import Affine
from dpcl_core.backbones.batches import is_out_of_memory
from dpcl_core.backbones.gpu import mixed_precision
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.per_example_gradients import clip_weights

Pictures = NDArray[np.generic]
Targets = NDArray[np.int64]


@register_grad_sampler(Affine)  # type: ignore[untyped-decorator]
def of_affine(layer: Affine, activations: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
    """Gradients of scale and shift of each example [b, C], from maps and gradients of the outputs [b, C, h, w]."""
    return {layer.weight: (backprops * activations[0]).sum((2, 3)), layer.bias: backprops.sum((2, 3))}


class Gradients:
    """Gradients of cross-entropy with respect to all trainable parameters, summed over the examples of a batch.

    `clip_norm` bounds each example's gradient over all parameters together; inf: plain autograd sums without clipping.
    Opacus' hooks give the per-example gradients, layer by layer in one backward pass. Its ghost clipping needs a second
    pass to save the memory of per-example gradients; for adapters, whose gradients are small compared to the activations, it
    was never faster and saved nothing (tests/benchmarks/test_adapters.py), so it is not offered.

    `limit`: examples computed at once; halved for good whenever memory does not suffice. Kernels choose the order of their
    additions by the shapes that they multiply. The last piece is filled up, so that an example's gradient does not depend
    on the number of examples beside it.
    """

    def __init__(self, network: nn.Module, clip_norm: float, limit: int, device: str) -> None:
        self.limit = limit
        self._network, self._clip_norm, self._device = network, clip_norm, device
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        for module in network.modules():
            # Opacus hooks only layers in training mode; the mode has no other effect on the layers that are trained.
            module.training = any(p.requires_grad for p in module.parameters(recurse=False))
        self._hooked: GradSampleModule | None = None

    def of(self, pictures: Pictures, targets: Targets) -> list[Tensor]:
        """The sums in double precision, one per trainable parameter.

        Args: pictures uint8 [b, side, side, channels] with targets int64 [b].

        Raises MemoryError if not even one picture fits, BadInput for a layer that mixes examples.
        """
        sums = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in self._parameters]
        start = 0
        while start < len(targets):
            n = min(self.limit, len(targets) - start)
            places = np.arange(start, start + (n if np.isinf(self._clip_norm) else self.limit))
            filled = places.clip(max=len(targets) - 1)
            try:
                parts = self._piece(pictures[filled], targets[filled], n)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if self.limit == 1:
                    raise MemoryError("the gradient of one picture does not fit into memory") from error
                self.limit = max(1, len(places) // 2)  # a filled piece has as many places whoever is in the batch
                self.close()
                continue
            for running, part in zip(sums, parts, strict=True):
                running += part
            start += n
        return sums

    def _piece(self, pictures: Pictures, targets: Targets, n_counting: int) -> list[Tensor]:
        """Clipped sums over the first `n_counting` examples; without clipping, sums over all."""
        pixels = torch.from_numpy(np.ascontiguousarray(pictures)).to(self._device)
        truth = torch.from_numpy(targets).to(self._device)
        if np.isinf(self._clip_norm):
            with mixed_precision(self._device):
                logits = self._network(pixels)
            return list(torch.autograd.grad(_loss(logits, truth), self._parameters))
        if self._hooked is None:
            self._hooked = GradSampleModule(self._network, loss_reduction="sum")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")  # layers below are frozen
            with mixed_precision(self._device):
                logits = self._hooked(pixels)
            _loss(logits, truth).backward()  # type: ignore[no-untyped-call]
        grads = [self._per_example(parameter, len(targets))[:n_counting] for parameter in self._parameters]
        sums = clipped_sums(grads, self._clip_norm)
        self._hooked.zero_grad(set_to_none=True)
        return sums

    def _per_example(self, parameter: nn.Parameter, n_examples: int) -> Tensor:
        """The per-example gradients [n, ...] that the hooks stored at a parameter."""
        grads = parameter.grad_sample  # type: ignore[attr-defined]
        if not isinstance(grads, Tensor) or len(grads) != n_examples:
            name = next(name for name, other in self._network.named_parameters() if other is parameter)
            allowed = f"must keep pictures apart in every layer; {name} sees them in pieces or several times"
            raise BadInput("data.backbone", type(self._network).__name__, allowed)
        return grads

    def close(self) -> None:
        """Removes the hooks from the network, and anything that an interrupted computation left behind."""
        if self._hooked is not None:
            self._hooked.to_standard_module()
            self._hooked = None
        for module in self._network.modules():
            for leftover in ("activations", "max_batch_len"):
                if hasattr(module, leftover):
                    delattr(module, leftover)
        self._network.zero_grad(set_to_none=True)


def clipped_sums(grads: Sequence[Tensor], clip_norm: float) -> list[Tensor]:
    """Each parameter's sum of per-example gradients, scaled by min(1, C / (norm + 1e-6)) as in Opacus.

    The norm is taken over all parameters together: adding an example changes all sums together by at most `clip_norm` in L2,
    replacing one by at most twice that. An example with a non-finite gradient counts zero.

    Args: grads [n, ...], one tensor for each parameter.
    """
    flat = [grad.flatten(1) if grad.dtype == torch.float64 else grad.flatten(1).float() for grad in grads]
    norms = torch.stack([rows.square().sum(1) for rows in flat]).sum(0).sqrt()
    factors = clip_weights(norms, clip_norm)
    finite = norms.isfinite()
    if not finite.all():
        factors = factors.where(finite, 0)
        flat = [rows.where(finite[:, None], 0) for rows in flat]
    return [(factors @ rows).reshape(grad.shape[1:]) for rows, grad in zip(flat, grads, strict=True)]


def _loss(logits: Tensor, truth: Tensor) -> Tensor:
    """Cross-entropy summed over the examples, in single precision or better."""
    return functional.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), truth, reduction="sum")
