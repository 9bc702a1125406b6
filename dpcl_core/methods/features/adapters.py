"""A frozen network with FiLM or LoRA adapters and a last layer on top, trained by DP-SGD on pictures, one at a time."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule, register_grad_sampler
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import gpu
from dpcl_core.backbones.adaptable import Affine, Network, is_out_of_memory, of_rows
from dpcl_core.backbones.bundled import Axes
from dpcl_core.backbones.gpu import at_least_single, full_precision, mixed_precision
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.per_example_gradients import clip_weights, noisy_means
from dpcl_core.privacy.noise import Batches, Noise

Kind = Literal["film", "lora"]
Floats = NDArray[np.floating]
_ATTENTION = frozenset({"qkv", "q", "k", "v", "q_proj", "k_proj", "v_proj", "query", "key", "value"})
_WITH_LAYERNORM = "must be a network with LayerNorm, such as vit-cifar100 or a ViT of timm"


class Adapted(nn.Module):
    """Pictures uint8 [b, side, side, channels] -> logits [b, n_labels]; trains the adapter and the last layer only.

    Shares all frozen weights with `network`: one copy serves any number of adapted networks. `seed` sets lora's random
    initial factor, which is public. `axes`: public axes along which the last layer reads the features.
    """

    centre: Tensor
    directions: Tensor

    def __init__(
        self, network: Network, kind: Kind, rank: int, n_labels: int, seed: int = 0, axes: Axes | None = None
    ) -> None:
        super().__init__()
        refuse(network, kind)
        self._blank = network.features.blank
        # A copy that shares its tensors: replacing a layer in it leaves the original unchanged.
        tensors = chain(network.features.parameters(), network.features.buffers())
        self.features = deepcopy(network.features, {id(tensor): tensor for tensor in tensors})
        if kind == "film":
            for norm in _norms(self.features):
                norm.weight = nn.Parameter(norm.weight.detach().clone())
                if norm.bias is not None:
                    norm.bias = nn.Parameter(norm.bias.detach().clone())
        else:
            start = torch.Generator().manual_seed(seed)
            for name in targets(self.features):
                parent, _, last = name.rpartition(".")
                frozen = self.features.get_submodule(name)
                assert isinstance(frozen, nn.Linear | nn.Conv2d)
                self.features.get_submodule(parent).add_module(last, LowRank(frozen, rank, start))
        example = next(network.features.parameters())
        dtype = at_least_single(example.dtype)
        self._is_along_axes = axes is not None
        if axes is not None:
            for name, values in (("centre", axes.centre), ("directions", axes.directions)):
                self.register_buffer(name, torch.from_numpy(values).to(example.device, dtype), persistent=False)
        n_features = network.feature_dim if axes is None else axes.directions.shape[1]
        self.head = nn.Linear(n_features, n_labels, device=example.device, dtype=dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.eval()  # dropout stays off: only the accounted noise and sampling are to be random

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.features(pixels)
        with full_precision(features):
            single: Tensor = features.to(self.head.weight.dtype)
            if self._is_along_axes:
                single = (single - self.centre) @ self.directions
            logits: Tensor = self.head(single)
        return logits

    def trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and parameters that are trained."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def state(self) -> dict[str, Tensor]:
        """Copies of the trained parameters on the CPU, by name."""
        return {name: parameter.detach().cpu().clone() for name, parameter in self.trainable()}

    @torch.no_grad()
    def take(self, state: Mapping[str, Tensor]) -> None:
        """Loads the parameters of an earlier `state`; freezes those that it does not contain."""
        for name, parameter in self.trainable():
            if name in state:
                parameter.copy_(state[name])
            else:
                parameter.requires_grad_(False)

    def leave_unused(self) -> None:
        """Freezes parameters that no feature depends on: features may be read before the network's last layers."""
        self.features(self._blank().to(self.head.weight.device)).sum().backward()
        for name, parameter in self.trainable():
            if parameter.grad is None and not name.startswith("head."):
                parameter.requires_grad_(False)
            parameter.grad = None


class LowRank(nn.Module):
    """LoRA (Hu et al. 2022): a frozen Linear plus a product of two narrow ones, x -> W x + b + B A x.

    A convolution that mixes the channels of a place is such a layer at every place.

    B starts at zero, so that the network starts unchanged; A at random, with variance 1 / inputs. There is no scale factor:
    under Adam a constant one only changes the learning rate. A and B compute in single precision, whatever W does.
    """

    def __init__(self, frozen: nn.Linear | nn.Conv2d, rank: int, start: torch.Generator) -> None:
        super().__init__()
        self.frozen = frozen
        n_outputs, n_inputs = frozen.weight.shape[:2]
        self.down, self.up = _narrow(frozen, n_inputs, rank), _narrow(frozen, rank, n_outputs)
        nn.init.normal_(self.down.weight, std=n_inputs**-0.5, generator=start)
        nn.init.zeros_(self.up.weight)
        self.to(frozen.weight.device, at_least_single(frozen.weight.dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.frozen(inputs)
        with full_precision(inputs):
            change: Tensor = self.up(self.down(inputs.to(self.down.weight.dtype)))
        return outputs + change.to(outputs.dtype)


def _narrow(like: nn.Linear | nn.Conv2d, n_inputs: int, n_outputs: int) -> nn.Linear | nn.Conv2d:
    if isinstance(like, nn.Linear):
        return nn.Linear(n_inputs, n_outputs, bias=False)
    return nn.Conv2d(n_inputs, n_outputs, 1, bias=False)


def refuse(network: Network, kind: Kind) -> None:
    """Raises BadInput if the network mixes examples, or has no layers of the kind that the adapter needs."""
    for name, module in network.features.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            # In training mode BatchNorm averages over the batch, so no example has a gradient of its own. Frozen, it would
            # use averages of other pictures; Tobaben et al. use networks without it.
            layer = f"{name.removeprefix('network.')} ({type(module).__name__})"
            allowed = f"mixes examples in its layer {layer}: {_WITH_LAYERNORM}, or one with GroupNorm"
            raise BadInput("data.backbone", network.name, allowed)
    if kind == "film" and not any(_norms(network.features)):
        raise BadInput("data.backbone", network.name, f"has no LayerNorm for film to adapt: {_WITH_LAYERNORM}")
    if kind == "lora" and not targets(network.features):
        raise BadInput("data.backbone", network.name, "has no Linear layers for lora to adapt: take a ViT or a ConvNeXt")


def targets(features: nn.Module) -> list[str]:
    """Names of the Linear layers that lora adapts. Our choice: the paper names lora only as an alternative.

    Query, key and value projections if the network has attention, as in Hu et al.; otherwise every Linear layer, or, in a
    network of convolutions alone, every one that mixes the channels of a place.
    """
    named = dict(features.named_modules())
    linear = [name for name, module in named.items() if isinstance(module, nn.Linear)]
    attention = [name for name in linear if name.rpartition(".")[2] in _ATTENTION]
    mixing = [name for name, m in named.items() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1) and m.groups == 1]
    return attention or linear or mixing


def _norms(features: nn.Module) -> Iterator[nn.LayerNorm | Affine]:
    modules = features.modules()
    return (m for m in modules if isinstance(m, Affine) or (isinstance(m, nn.LayerNorm) and m.elementwise_affine))


# Sums of clipped per-example gradients of a network, computed in pieces that fit into memory.


@register_grad_sampler(Affine)  # type: ignore[untyped-decorator]
def of_affine(layer: Affine, activations: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
    """Gradients of scale and shift of each example [b, C], from maps and gradients of the outputs [b, C, h, w]."""
    return {layer.weight: (backprops * activations[0]).sum((2, 3)), layer.bias: backprops.sum((2, 3))}


class Gradients:
    """Gradients of cross-entropy with respect to all trainable parameters, summed over the examples of a batch.

    `clip_norm` bounds each example's gradient over all parameters together; inf: plain autograd sums without clipping.
    Opacus' hooks give the per-example gradients, layer by layer in one backward pass. Its ghost clipping needs a second
    pass to save the memory of per-example gradients; for adapters, whose gradients are small compared to the activations, it
    was never faster and saved nothing (tests/benchmarks/test_gradients.py), so it is not offered.

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

    def of(self, pictures: NDArray[np.generic], targets: NDArray[np.int64]) -> list[Tensor]:
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

    def _piece(self, pictures: NDArray[np.generic], targets: NDArray[np.int64], n_counting: int) -> list[Tensor]:
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


# Larger pieces were hardly faster: the bundled ViT took 274 pictures per CPU second in pieces of 8, 620 of 32 and 651 of
# 128, in 40, 65 and 163 MB; a ViT-B/16 took 1.7 in pieces of 2 and 1.8 of 8 or 16, in 0.1 GB a picture (one thread,
# 2026-11-21). The last piece of a batch is filled up to the same size. Both networks took about 2 kB a pixel.
_MOST, _MOST_ON_CARD = 32, 256
_BYTES_A_PIXEL = 2048
_PIXELS_AT_ONCE = 1 << 18  # side squared times pictures: five of 224x224


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """A trained model: weights of the adapter and the last layer, on the CPU, and the frozen network that all models share.

    The last layer covers the labels in `columns`, ascending; logits have `n_classes` columns. It reads
    features along `axes`.
    """

    UNKEPT: ClassVar = ("network", "axes")  # public, and laid under it again

    network: Network
    kind: Kind
    rank: int
    columns: NDArray[np.int64]
    n_classes: int
    weights: Mapping[str, Tensor]
    axes: Axes | None = None

    def module(self) -> Adapted:
        """The network with these weights loaded, on the network's device."""
        ready = Adapted(self.network, self.kind, self.rank, len(self.columns), axes=self.axes)
        ready.take(self.weights)
        return ready

    def logits(self, pictures: NDArray[np.generic]) -> NDArray[np.float32]:
        """[n, n_classes] of pictures uint8 [n, side, side, channels]; -inf outside the label space."""
        logits = np.full((len(pictures), self.n_classes), -np.inf, dtype=np.float32)
        done = 0
        for rows in of_rows(self.module(), pictures, 4 * at_once(self.network), self.network.device):
            logits[done : done + len(rows), self.columns] = rows
            done += len(rows)
        return logits

    def released(self) -> Mapping[str, NDArray[np.generic]]:
        """All trained weights by name, and which `labels` [classes] they cover."""
        arrays = {name: tensor.numpy() for name, tensor in self.weights.items()}
        return {**arrays, "labels": np.isin(np.arange(self.n_classes), self.columns)}


def fresh(
    network: Network, kind: Kind, rank: int, space: Sequence[int], n_classes: int, seed: int, axes: Axes | None = None
) -> Adapter:
    """An untrained model: the unchanged network with a last layer of zero weights over a label space.

    `seed` sets lora's random initial factor; `axes`: public axes of the features, if any. Raises BadInput for a network that
    cannot be adapted this way.
    """
    ready = Adapted(network, kind, rank, len(space), seed, axes)
    ready.leave_unused()
    return Adapter(network, kind, rank, np.asarray(sorted(space), dtype=np.int64), n_classes, ready.state(), axes)


def train_adapters(
    start: Adapter, pictures: NDArray[np.generic], labels: NDArray[np.int64], plan: Schedule, noise_multiplier: float,
    batches: Batches, noise: Noise,
) -> Generator[int, None, Adapter]:
    """DP-SGD with Adam on cross-entropy from `start`: yields the steps taken so far, returns the trained model.

    Each step sums the clipped gradients of a Poisson batch over all trained parameters jointly, adds noise, divides by the
    expected batch size and takes a step of Adam (betas 0.9 and 0.999, 1e-8). Examples with a label outside the label space
    are left out beforehand (Tobaben et al., Eq. 6); an empty batch, or no example at all, takes the same noisy steps. A
    noise multiplier of 0 trains without noise and without clipping. The caller must have written the training to the ledger.

    Args: pictures uint8 [n, side, side, channels]; labels int64 [n].
    Raises: Diverged as soon as a weight exceeds `LARGEST_WEIGHT`; MemoryError if not even one picture fits.
    """
    network = start.module()
    weights = dict(network.trainable())
    parameters = list(weights.values())
    places = np.flatnonzero(np.isin(labels, start.columns))
    targets = np.searchsorted(start.columns, labels[places])
    clip_norm, std = plan.clip_norm if noise_multiplier > 0 else np.inf, plan.noise_std(noise_multiplier)
    gradients = Gradients(network, clip_norm, at_once(start.network), start.network.device)
    adam = torch.optim.Adam(parameters, lr=plan.learning_rate)
    try:
        for step in range(plan.n_steps):
            batch = batches.draw(len(places))
            sums = gradients.of(cast("NDArray[np.uint8]", pictures[places[batch]]), targets[batch])
            means = noisy_means(sums, plan.expected_batch, std, noise, dtype=parameters[0].dtype)
            for parameter, mean in zip(parameters, means, strict=True):
                parameter.grad = mean
            adam.step()
            if not torch.stack([(parameter.abs() <= LARGEST_WEIGHT).all() for parameter in parameters]).all():
                raise diverged(step, plan)
            yield step + 1
    finally:
        gradients.close()
    return replace(start, weights=network.state())


def at_once(network: Network) -> int:
    """Number of pictures whose gradients are computed at once, to begin with."""
    pixels = network.features.side**2
    on_processor = max(1, min(_MOST, _PIXELS_AT_ONCE // pixels))
    return gpu.at_once(gpu.room(network.device), on_processor, _BYTES_A_PIXEL * pixels, _MOST_ON_CARD)


# The two products of a last layer's step on a graphics card, without rounding.
#
# `linear_heads` multiplies whole numbers (times powers of two) whose sums of absolute products stay below 2^53 in double
# precision: weights of up to 2^24 / n_x with directions, and residuals of up to 2^9 with directions of up to 2^11, of at
# most 2^33 examples. Double precision holds every such sum, in any order of additions, fused or not, and it has no shorter
# substitute as single precision has in TF32. So a card gives the processor's product bit by bit, and the proof there holds
# as it stands. The rest of a step, noise included, stays on the processor.


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """Directions [n, K+1] on the card: float32 of all examples, float64 of a batch, which alone is multiplied."""

    rows: Tensor

    @classmethod
    def of(cls, directions: Floats, device: str) -> Directions | None:
        """Copies them to the card; None where its memory does not suffice."""
        assert directions.dtype == np.float32
        try:
            return cls(torch.from_numpy(directions).to(device))
        except RuntimeError as error:
            if is_out_of_memory(error):
                return None
            raise

    def take(self, batch: NDArray[np.int64]) -> Directions:
        """The rows of these examples, in double precision."""
        return Directions(self.rows[torch.from_numpy(batch).to(self.rows.device)].double())

    def scores(self, whole: Floats) -> Floats:
        """Whole numbers [m, K+1] times the directions: [m, b] float32, exact because they stay below 2^24 steps."""
        return cast(Floats, (self._here(whole) @ self.rows.T).float().cpu().numpy())

    def sums(self, residuals: Floats) -> Floats:
        """Whole numbers [m, k], k <= b, times the first k directions: [m, K+1] float64."""
        return cast(Floats, (self._here(residuals) @ self.rows[: residuals.shape[1]]).cpu().numpy())

    def _here(self, values: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.rows.device).double()
