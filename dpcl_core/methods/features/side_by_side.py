"""Trained layers of several models side by side, and the gradient of every example.

Each example passes through numbers of its own, copied from its model's: one backward pass then gives every example's
gradient, and examples of all models fill pieces together.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain, groupby
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from dpcl_core.backbones import gpu
from dpcl_core.backbones.adaptable import halved, is_out_of_memory
from dpcl_core.backbones.gpu import mixed_precision, sent
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.per_example_gradients import clip_weights


class Pictures(Protocol):
    """Pictures in the processor's memory."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> NDArray[np.generic]:
        """These rows, uint8 [n, side, side, channels]."""


# Of n examples, [n, ...]; or its two factors, gradients of outputs [n, m] and inputs [n, k].
Gradient = Tensor | tuple[Tensor, Tensor]


class _SideBySide(nn.Module):
    """A trained layer of all models. `stacked`: its parameters [models, ...]."""

    def __init__(self, name: str, stacked: Sequence[Tensor]) -> None:
        super().__init__()
        self._name, self._stacked, self.weight = name, stacked, stacked[0]
        self.begin(torch.zeros(0, dtype=torch.int64))

    def begin(self, models: Tensor) -> None:
        """The next pass is of examples of these models, int64 [n]."""
        self._models, self._leaves = models, list[Tensor]()
        self._inputs: Tensor | None = None

    def leaves(self) -> list[Tensor]:
        """What the loss is to be differentiated by, after the forward pass."""
        if not self._leaves:
            raise self._mixing()
        return self._leaves

    def gradients(self, grads: Sequence[Tensor]) -> list[Gradient]:
        """The examples' gradients of each parameter, from the loss's gradients by `leaves`."""
        return list(grads)

    def _own(self, inputs: Tensor) -> list[Tensor]:
        """Each example's own parameters, [n, ...]."""
        if len(inputs) != len(self._models):
            raise self._mixing()
        self._leaves = self._leaves or [one.index_select(0, self._models).requires_grad_() for one in self._stacked]
        return self._leaves

    def _mixing(self) -> BadInput:
        allowed = f"must keep pictures apart in every layer; {self._name}.weight sees them in pieces or several times"
        return BadInput("data.backbone", "this network", allowed)


class _Scaled(torch.autograd.Function):
    """maps * scale + shift, with each example's own scale and shift. The backward pass writes over `maps`."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(maps, scale)
        return torch.addcmul(shift, maps, scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps, scale = ctx.saved_tensors
        of_scale, of_shift = (part.sum_to_size(scale.shape) for part in (maps.mul_(grad), grad))
        return torch.mul(grad, scale, out=maps), of_scale, of_shift


class _Scale(_SideBySide):
    """`LayerNorm` and `Affine`."""

    def __init__(self, name: str, stacked: Sequence[Tensor], layer: nn.Module) -> None:
        super().__init__(name, stacked if len(stacked) > 1 else [*stacked, torch.zeros_like(stacked[0])])
        self._n_trained = len(stacked)
        self._norm: nn.Module = nn.Identity()
        self._is_of_maps = True
        if isinstance(layer, nn.LayerNorm):
            self._norm = bare = deepcopy(layer)
            bare.weight = bare.bias = None  # type: ignore[assignment]
            self._is_of_maps = not _takes(bare, torch.zeros(1, 2, 2, *layer.normalized_shape))

    def forward(self, inputs: Tensor) -> Tensor:
        scale, shift = self._own(inputs)
        ones = [1] * (inputs.dim() - scale.dim())
        shape = (*scale.shape, *ones) if self._is_of_maps else (len(scale), *ones, *scale.shape[1:])
        maps = self._norm(inputs).to(scale.dtype)
        changed: Tensor = _Scaled.apply(maps, scale.view(shape), shift.view(shape))  # type: ignore[no-untyped-call]
        return changed

    def gradients(self, grads: Sequence[Tensor]) -> list[Gradient]:
        return list(grads[: self._n_trained])


class _Mix(_SideBySide):
    """`Linear`, and the convolution that mixes the channels of a place."""

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.dim() == 2:
            return self._of_rows(inputs)
        weight, *bias = self._own(inputs)
        if weight.dim() == 5:
            mixed = (weight.flatten(2) @ inputs.flatten(2)).view(len(inputs), -1, *inputs.shape[2:])
            return mixed + bias[0][:, :, None, None] if bias else mixed
        mixed = inputs.flatten(1, -2) @ weight.mT
        return (mixed + bias[0][:, None] if bias else mixed).view(*inputs.shape[:-1], -1)

    def _of_rows(self, inputs: Tensor) -> Tensor:
        """One row for each example: its gradient is a product of two rows, which need not be formed."""
        if len(inputs) != len(self._models) or self._leaves:
            raise self._mixing()
        weight, *bias = self._stacked
        of_all = weight @ inputs.T  # [models, outputs, n]: the shape does not depend on whose the examples are
        rows = of_all.gather(0, self._models.expand(1, *of_all.shape[1:]))[0].T
        rows = rows + bias[0].index_select(0, self._models) if bias else rows
        self._inputs, self._leaves = inputs.detach(), [rows if rows.requires_grad else rows.requires_grad_()]
        return rows

    def gradients(self, grads: Sequence[Tensor]) -> list[Gradient]:
        if self._inputs is None:
            return list(grads)
        found: list[Gradient] = [(grads[0], self._inputs), grads[0]]
        return found[: len(self._stacked)]


def _takes(layer: nn.Module, inputs: Tensor) -> bool:
    try:
        layer(inputs)
    except RuntimeError:
        return False
    return True


def _side_by_side(network: nn.Module, stacked: Mapping[int, Tensor]) -> tuple[nn.Module, list[_SideBySide]]:
    """A copy of the network with the trained layers of all models, and these layers.

    `stacked`: the parameters of all models, by the identity of this network's.
    """
    layers, shared = list[_SideBySide](), chain(network.parameters(), network.buffers())
    copy = deepcopy(network, {id(tensor): tensor for tensor in shared})
    for name, layer in list(copy.named_modules()):
        if own := [stacked[id(one)] for one in layer.parameters(recurse=False) if id(one) in stacked]:
            layers.append(_Mix(name, own) if isinstance(layer, nn.Linear | nn.Conv2d) else _Scale(name, own, layer))
            copy.set_submodule(name, layers[-1])
    return copy, layers


class Gradients:
    """Gradients of cross-entropy with respect to all trainable parameters, summed over the examples of a batch.

    Of one network, or of several that differ in their trainable parameters alone: these become views of `weights`
    [models, P], to be changed in place. `clip_norm` bounds each example's gradient over all parameters together, for all
    networks or for each; inf: it is not clipped.

    `limit`: examples computed at once; halved for good whenever memory does not suffice. Kernels choose the order of their
    additions by the shapes that they multiply. The last piece is filled up, so that an example's gradient does not depend
    on the number of examples beside it, of its own model and of others.
    """

    def __init__(
        self, networks: nn.Module | Sequence[nn.Module], clip_norm: float | Sequence[float], limit: int, device: str
    ) -> None:
        alike = [networks] if isinstance(networks, nn.Module) else networks
        clips = clip_norm if isinstance(clip_norm, Sequence) else [clip_norm] * len(alike)
        self.limit, self._device, self._is_filled = limit, device, not all(map(math.isinf, clips))
        self._is_whole = getattr(alike[0], "is_whole", False)
        self._computed = gpu.Replayed(self._piece, device) if self._is_filled and not self._is_whole else self._piece
        trained = [[parameter for _, parameter in _trained(network)] for network in alike]
        self.weights = torch.stack([torch.cat([one.detach().flatten() for one in of_one]) for of_one in trained])
        self._clips = torch.tensor(clips, dtype=self.weights.dtype).to(self.weights.device)
        self._shapes = [parameter.shape for parameter in trained[0]]
        stacked = self._shaped(self.weights)
        for place, of_one in enumerate(trained):
            for parameter, tensor in zip(of_one, stacked, strict=True):
                parameter.data = tensor[place]
        self._network, self.layers = alike[0], list[_SideBySide]()
        self._stacked = {name: tensor for (name, _), tensor in zip(_trained(alike[0]), stacked, strict=True)}
        if not self._is_whole:
            self._network, self.layers = _side_by_side(alike[0], dict(zip(map(id, trained[0]), stacked, strict=True)))

    def _shaped(self, flat: Tensor) -> list[Tensor]:
        """Each parameter's part [models, ...] of numbers [models, P]."""
        parts = torch.split(flat, [shape.numel() for shape in self._shapes], dim=1)
        return [part.view(len(flat), *shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def of(self, pictures: NDArray[np.generic], targets: NDArray[np.int64]) -> list[Tensor]:
        """`sums` of a single network over pictures uint8 [b, side, side, channels], one for each trainable parameter."""
        everyone = np.arange(len(targets))
        return [part[0] for part in self._shaped(self.sums(pictures, everyone, targets, 0 * everyone))]

    def sums(
        self, pictures: Tensor | Pictures, rows: NDArray[np.int64], targets: NDArray[np.int64],
        models: NDArray[np.int64],
    ) -> Tensor:  # fmt: skip
        """The sums of every model in double precision, [models, P].

        Args: rows, targets, models [b]: index of each example's picture, its target, and the model whose example it is.
        Raises MemoryError if not even one picture fits, BadInput for a layer that mixes examples.
        """
        sums, start = torch.zeros_like(self.weights, dtype=torch.float64), 0
        while start < len(rows):
            n = min(self.limit, len(rows) - start)
            places = np.arange(start, start + (self.limit if self._is_filled else n))
            filled = places.clip(max=len(rows) - 1)
            try:
                facts = sent(np.stack([rows[filled], targets[filled], models[filled], places < len(rows)]), self._device)
                here = pictures[facts[0]] if isinstance(pictures, Tensor) else sent(pictures[rows[filled]], self._device)
                sums += self._computed(here, *facts[1:])
            except (RuntimeError, MemoryError) as error:
                # A filled piece has as many places whoever is in the batch; another may have had fewer than it could.
                self.limit = min(halved(self.limit, error, "the gradient of one picture"), max(1, len(places) // 2))
                continue
            start += n
        return sums

    def _piece(self, pixels: Tensor, targets: Tensor, models: Tensor, counts: Tensor) -> Tensor:
        """Sums [models, P] over the examples whose count is 1 rather than 0."""
        own = counts * (models == torch.arange(len(self.weights), device=models.device)[:, None])
        if self._is_whole:
            whole = each_alone(self._network, {name: one[models] for name, one in self._stacked.items()}, pixels, targets)
            return clipped_sums([whole], self._clips.index_select(0, models), own)[0]
        for layer in self.layers:
            layer.begin(models)
        with mixed_precision(self._device):
            logits = self._network(pixels)
        leaves = [layer.leaves() for layer in self.layers]
        grads = iter(torch.autograd.grad(_loss(logits, targets), list(chain(*leaves))))
        pairs = zip(self.layers, leaves, strict=True)
        found: list[Gradient] = []  # few long rows: one product for each, and not for each parameter
        each = chain(*(layer.gradients([next(grads) for _ in own]) for layer, own in pairs))
        for is_product, run in groupby(each, lambda grad: isinstance(grad, tuple)):
            one_by_one = list(run)
            found += one_by_one if is_product else [torch.cat([cast(Tensor, grad).flatten(1) for grad in one_by_one], dim=1)]
        sums = clipped_sums(found, self._clips.index_select(0, models), own)
        return torch.cat([part.flatten(1) for part in sums], dim=1)


def each_alone(network: nn.Module, own: Mapping[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    """Every example's gradient [n, P] of its cross-entropy, in a pass of its own: no layer can mix examples.

    `own` [n, ...]: each example's numbers of the trained parameters, by name. Raises BadInput for a network that cannot be
    computed so.
    """

    def loss(values: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        return _loss(functional_call(network, values, (one[None],)), target[None])

    try:
        with sdpa_kernel(SDPBackend.MATH):  # fused attention takes one example after the other
            grads = vmap(grad(loss))(dict(own), inputs, targets)
    except (RuntimeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        # Without its words: a network of one's own may say what its inputs are, and these are private.
        why = f"has a layer that cannot be computed one example at a time ({type(error).__name__})"
        raise BadInput("data.backbone", "this network", f"{why}: take params.adapter = lora or head") from error
    return torch.cat([grads[name].flatten(1) for name in own], dim=1)


def clipped_sums(grads: Sequence[Gradient], clip_norms: Tensor, own: Tensor) -> list[Tensor]:
    """Each model's sums of its examples' gradients, scaled by min(1, C / (norm + 1e-6)) as in Opacus: [models, ...].

    The norm is taken over all parameters together: adding an example changes all sums together by at most its C in L2,
    replacing one by at most twice that. An example with a non-finite gradient counts zero.

    Args: grads of n examples, one for each parameter; clip_norms [n]: C; own [models, n]: 1 for a model's own examples.
    """
    norms = torch.stack([_squares(grad) for grad in grads]).sum(0).sqrt()
    finite = norms.isfinite()
    factors = own * clip_weights(norms, clip_norms).where(finite, 0)

    def weighted(grad: Gradient) -> Tensor:
        if isinstance(grad, tuple):
            outputs, inputs = (rows.where(finite[:, None], 0) for rows in grad)
            return (factors[:, :, None] * outputs).mT @ inputs
        return (factors @ grad.flatten(1).where(finite[:, None], 0)).view(len(factors), *grad.shape[1:])

    return [weighted(grad) for grad in grads]


def _squares(grad: Gradient) -> Tensor:
    """Squared norms [n]."""
    rows, *others = (part.flatten(1).square().sum(1) for part in (grad if isinstance(grad, tuple) else [grad]))
    return rows * others[0] if others else rows


def _trained(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]


def _loss(logits: Tensor, truth: Tensor) -> Tensor:
    """Cross-entropy summed over the examples, in single precision or better."""
    return functional.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), truth, reduction="sum")
