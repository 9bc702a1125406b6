"""A network with FiLM or LoRA adapters, or trained as a whole, under a last layer, by DP-SGD on one example at a time."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcl_core.backbones import gpu
from dpcl_core.backbones.adaptable import Affine, Network, is_out_of_memory, of_rows
from dpcl_core.backbones.bundled import Axes
from dpcl_core.backbones.gpu import at_least_single, full_precision, sent
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.features.side_by_side import Gradients
from dpcl_core.privacy.noise import Batches, Noise

Kind = Literal["film", "lora", "all"]
Floats = NDArray[np.floating]
_ATTENTION = frozenset({"qkv", "q", "k", "v", "q_proj", "k_proj", "v_proj", "query", "key", "value", "c_attn"})
_WITH_LAYERNORM = "must be a network with LayerNorm, such as vit-cifar100 or a ViT of timm"


class Adapted(nn.Module):
    """Inputs of the network, such as pictures uint8 [b, side, side, channels] -> logits [b, n_labels].

    Trains the adapter and the last layer only, under `all` every layer. Shares all frozen weights with `network`: one copy
    serves any number of adapted networks. `seed` sets lora's random initial factor, which is public. `axes`: public axes
    along which the last layer reads the features. `is_whole`: gradients are computed for each example in a pass of its own.
    """

    centre: Tensor
    directions: Tensor

    def __init__(
        self, network: Network, kind: Kind, rank: int, n_labels: int, seed: int = 0, axes: Axes | None = None
    ) -> None:
        super().__init__()
        refuse(network, kind)
        self.is_whole = kind == "all"
        # A copy that shares its tensors: replacing a layer in it leaves the original unchanged.
        tensors = chain(() if kind == "all" else network.features.parameters(), network.features.buffers())
        self.features = deepcopy(network.features, {id(tensor): tensor for tensor in tensors})
        if kind == "all":
            for parameter in self.features.parameters():
                parameter.requires_grad_(True)
        elif kind == "film":
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


# A piece costs about as much as ten pictures beside its own: the bundled ViT took 274 pictures per CPU second in pieces of
# 8, 620 of 32 and 651 of 128, in 40, 65 and 163 MB; a ViT-B/16 took 1.7 in pieces of 2 and 1.8 of 8 or 16, in 0.1 GB a
# picture (one thread, 2026-11-21). The last piece is filled up to the same size. Both networks took about 2 kB a pixel.
_MOST, _MOST_TOGETHER, _MOST_ON_CARD = 32, 128, 256
_BYTES_A_PIXEL = 2048
_STEPS_BETWEEN_LOOKS = 20  # at weights on a card, which the processor waits for
_NUMBERS_AT_ONCE = 1 << 24  # of networks trained as a whole: 64 MB, three times in a step
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

    def widened(self, space: Sequence[int]) -> Adapter:
        """The same model over more labels: the last layer's weights for those of another list are zero."""
        columns = np.union1d(self.columns, np.asarray(space, dtype=np.int64))
        places = torch.from_numpy(np.searchsorted(columns, self.columns))
        last = {name: one for name, one in self.weights.items() if name.startswith("head.")}
        wider = {name: one.new_zeros(len(columns), *one.shape[1:]).index_copy(0, places, one) for name, one in last.items()}
        return replace(self, columns=columns, weights={**self.weights, **wider})

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
    # Parameters that no feature depends on are frozen: features may be read before the network's last layers.
    ready.features(network.features.blank().to(ready.head.weight.device)).sum().backward()
    for name, parameter in ready.trainable():
        if parameter.grad is None and not name.startswith("head."):
            parameter.requires_grad_(False)
        parameter.grad = None
    return Adapter(network, kind, rank, np.asarray(sorted(space), dtype=np.int64), n_classes, ready.state(), axes)


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """One model's training: where it starts, its examples, its batches and its noise.

    `pictures` uint8 [n, side, side, channels]; `labels` int64 [n]. A noise multiplier of 0 trains without noise and without
    clipping.
    """

    start: Adapter
    pictures: NDArray[np.generic]
    labels: NDArray[np.int64]
    noise_multiplier: float
    batches: Batches
    noise: Noise


def train_together(trainings: Sequence[Training], plan: Schedule) -> Generator[int, None, list[Adapter]]:
    """DP-SGD with Adam on cross-entropy: yields the steps taken so far, of all models, and returns the trained ones.

    Models share a network, the number of their labels and of their axes, and pieces of computation; never a batch or noise.
    Each step sums the clipped gradients of each one's Poisson batch over all its parameters jointly, adds noise, divides by
    the expected batch size and takes a step of Adam (betas 0.9 and 0.999, 1e-8). Examples with a label outside the label
    space are left out beforehand (Tobaben et al., Eq. 6); an empty batch, or no example at all, takes the same noisy steps.
    The caller must have written the trainings to the ledgers.

    Raises: Diverged as soon as a weight of any model exceeds `LARGEST_WEIGHT`, on a card up to 19 steps later; MemoryError
    if not even one picture fits.
    """
    network, device = trainings[0].start.network, trainings[0].start.network.device
    multipliers = [one.noise_multiplier for one in trainings]
    modules, limit = [one.start.module() for one in trainings], at_once(network, plan.expected_batch * len(trainings))
    n_trained = sum(one.numel() for one in trainings[0].start.weights.values())
    if trainings[0].start.kind == "all":  # each example passes through numbers of its own
        limit = max(1, min(limit, _NUMBERS_AT_ONCE // n_trained))
    gradients = Gradients(modules, [plan.clip_norm if sigma > 0 else math.inf for sigma in multipliers], limit, device)
    examples, weights = _Examples(trainings), gradients.weights
    pictures = examples.on(device)
    adam = torch.optim.Adam([weights], lr=plan.learning_rate, fused=weights.is_cuda and torch.cuda.is_available())
    n_fine = torch.zeros((), dtype=torch.int64, device=device)
    every = _STEPS_BETWEEN_LOOKS if gpu.is_gpu(device) else 1
    for step in range(plan.n_steps):
        weights.grad = _means(gradients.sums(pictures, *examples.draw()), plan, trainings, weights.dtype)
        adam.step()
        n_fine += (weights.abs().amax() <= LARGEST_WEIGHT) & (n_fine == step)  # false for NaN, too
        if ((step + 1) % every == 0 or step + 1 == plan.n_steps) and (fine := int(n_fine)) <= step:
            raise diverged(fine, plan)
        yield from range(step * len(modules) + 1, (step + 1) * len(modules) + 1)
    return [replace(one.start, weights=module.state()) for one, module in zip(trainings, modules, strict=True)]


class _Examples:
    """The examples of several trainings. Its rows are those of all data sets, one set after the other."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        self._arrays = list({id(one.pictures): one.pictures for one in trainings}.values())
        self._starts = np.cumsum([0, *map(len, self._arrays)])
        starts = {id(array): start for array, start in zip(self._arrays, self._starts, strict=False)}
        columns = [one.start.columns for one in trainings]
        places = [np.flatnonzero(np.isin(one.labels, own)) for one, own in zip(trainings, columns, strict=True)]
        together = list(zip(trainings, columns, places, strict=True))
        self._rows = [starts[id(one.pictures)] + own for one, _, own in together]
        self._targets = [np.searchsorted(own, one.labels[place]) for one, own, place in together]
        self._batches = [one.batches for one in trainings]

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.generic]:
        """Pictures [b, ...] of ascending rows."""
        parts = zip(self._arrays, self._starts, pairwise(np.searchsorted(rows, self._starts)), strict=False)
        return np.concatenate([array[rows[low:high] - start] for array, start, (low, high) in parts])

    def on(self, device: str) -> Tensor | Self:
        """All pictures on a card, where they take no more than half of the room for one piece of work; else itself."""
        size, room = sum(array.nbytes for array in self._arrays), gpu.room(device)
        return self if room is None or size > room / 2 else torch.cat([sent(array, device) for array in self._arrays])

    def draw(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows, targets and models of the next batches."""
        drawn = [batches.draw(len(rows)) for batches, rows in zip(self._batches, self._rows, strict=True)]
        rows, targets = (
            np.concatenate([one[batch] for one, batch in zip(ones, drawn, strict=True)])
            for ones in (self._rows, self._targets)
        )
        return rows, targets, np.repeat(np.arange(len(drawn)), [len(batch) for batch in drawn])


def _means(sums: Tensor, plan: Schedule, trainings: Sequence[Training], dtype: torch.dtype) -> Tensor:
    """The models' noisy means [models, P]. Noise is drawn and rounded on the processor, for which alone a step waits."""
    stds = [plan.noise_std(one.noise_multiplier) for one in trainings]
    rows = [
        noisy_means([row], plan.expected_batch, std, one.noise, dtype=dtype)[0]
        for row, std, one in zip(sums.cpu() if any(stds) else sums, stds, trainings, strict=True)
    ]
    means = torch.stack(rows)
    return sent(means.numpy(), str(sums.device)) if any(stds) else means


def at_once(network: Network, expected: float = 0.0) -> int:
    """Number of pictures computed at once, to begin with; of batches of an `expected` size, where that is above 0.

    On a processor it is the largest number of which such a batch, seldom larger than expected, fills whole pieces.
    """
    pixels = network.features.side**2
    on_processor = max(1, min(_MOST_TOGETHER if expected else _MOST, _PIXELS_AT_ONCE // pixels))
    if expected:
        usual = expected + 1.5 * math.sqrt(expected)
        on_processor = math.ceil(usual / math.ceil(usual / on_processor))
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
