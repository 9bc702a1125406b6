"""The networks of Lifelong DP (Lai et al. 2022, section 6), trained in full on grey or colour pictures or sensor windows.

The paper gives filters, patches and the units of the last hidden layer. Choices where it is silent: every convolution has
stride 2 and zero padding so that its output is half its input, rounded up ("SAME"); units are ReLU; the first convolution
has no bias, as in L2DP-ML's auto-encoder (h = θ1ᵀx). Batch normalisation is left out: its statistics mix the examples of a
batch, and no claim accounts for them; the residual network normalises each example by groups of channels instead. Initial
weights follow He et al. (2015), minus each unit's mean weight, so that a constant input such as the dark background of
digits does not move a unit. A residual block starts as its shortcut (Goyal et al. 2017). Without these two, larger steps
diverged or left every unit of a layer at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from dpcl_core.data.card import AXES, SAMPLES
from dpcl_core.data.dataset import Form
from dpcl_core.errors import Diverged
from dpcl_core.events import Fact
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT
from dpcl_core.methods.lifelong.claim import Plan, ends
from dpcl_core.methods.lifelong.params import BatchParams, FirstLayer, NetworkName, OutputNoise, Projection, Scope
from dpcl_core.privacy.noise import Noise
from dpcl_core.scenarios.stream import Examples, generator

_GROUPS = 16
_AT_ONCE = 200


class Conv(nn.Conv2d):
    """A convolution whose output size is its input size divided by the stride, rounded up, for any patch size."""

    def __init__(self, n_in: int, n_out: int, patch: int, stride: int = 2, *, bias: bool = True) -> None:
        super().__init__(n_in, n_out, patch, stride, padding=(patch - 1) // 2, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.kernel_size[0] % 2 == 0:  # an even patch would skip the last row or column of an odd picture
            x = functional.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))
        return super().forward(x)


class Block(nn.Module):
    """A residual block of two 3x3 convolutions and a shortcut (He et al. 2016), with group normalisation."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            Conv(n_in, n_out, 3, stride, bias=False), nn.GroupNorm(_GROUPS, n_out), nn.ReLU(),
            Conv(n_out, n_out, 3, 1, bias=False), nn.GroupNorm(_GROUPS, n_out),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if n_in != n_out or stride != 1:
            self.around = nn.Sequential(Conv(n_in, n_out, 1, stride, bias=False), nn.GroupNorm(_GROUPS, n_out))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.way(x) + self.around(x))


class Network(nn.Module):
    """Any network of this family: it maps tensors of `tensor` to logits [b, n_classes], with `head` as its last layer."""

    head: nn.Linear

    def logits(
        self, inputs: NDArray[np.generic], form: Form, batch: int = _AT_ONCE,
        answers: Callable[[Tensor], Tensor] | None = None
    ) -> NDArray[np.float32]:
        """Logits [n, n_classes] of rows [n, K], computed on the network's device, without gradients.

        `answers`: makes logits of a tensor, in place of `forward`.
        """
        device, made = str(self.head.weight.device), answers or self
        with torch.inference_mode():
            parts = [made(tensor(inputs[at : at + batch], form, device)).cpu() for at in range(0, len(inputs), batch)]
            return torch.cat(parts).numpy() if parts else np.zeros((0, self.head.out_features), np.float32)

    def released(self) -> dict[str, NDArray[np.generic]]:
        """A copy of all weights by name."""
        return {name: weights.detach().cpu().numpy().copy() for name, weights in self.named_parameters()}

    def rule(self, competing: Sequence[int], by_task: Sequence[Sequence[int]], **facts: Fact) -> Rule:
        """The largest logit, of one output a class. `by_task`: empty where tasks share the last layer."""
        columns, names = range(self.head.out_features), tuple(name for name, _ in self.named_parameters())
        return Rule("network", names, columns, competing, by_task, facts)


class Net(Network):
    """Maps x float32 [b, channels, height, width] in [-1, 1] to logits [b, n_classes], in three parts usable on their own.

    `first`: one convolution of stride 2 without bias, to the first layer before its ReLU [b, filters, height/2, width/2];
    its weight [filters, channels, patch, patch] is the encoder. `rest`: from there, including the ReLU, to the last hidden
    layer h_π [b, n_hidden], which is nonnegative and not clipped. `head`: from there to the logits.
    """

    def __init__(self, first: Conv, rest: nn.Sequential, head: nn.Linear) -> None:
        super().__init__()
        self.first, self.rest, self.head = first, rest, head

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.rest(self.first(x))))


def build(form: Form, n_classes: int, seed: int) -> Net:
    """A network for examples of this form, on the CPU, with initial weights drawn from the seed.

    Colour: reduced ResNet-18, filters 64, 64, 128, 128, 160, patches 4, 3, 3, 3, 3, strides 2, 1, 1, 2, 2, then 256 units;
    each of the last four is two residual blocks. Grey: convolutions of 32, 64 and 96 filters with 5x5 patches, then 512
    units. Windows of a sensor (samples, axes), read as grey pictures: 32, 64 and 96 with 2x2 patches, then 128 units.
    Rows of numbers, read as one pixel with a channel for each: 64 units, then 128 (ours; the paper has no such data).
    """
    height, width, n_channels = form.planes
    n_filters, patch, n_hidden = ends(form)
    first = Conv(n_channels, n_filters, patch, bias=False)
    layers: list[nn.Module] = [nn.ReLU()]
    if len(form.shape) > 1 and n_channels == 3:
        for (n_in, n_out), stride in zip(pairwise((n_filters, 64, 128, 128, 160)), (1, 1, 2, 2), strict=True):
            layers += [Block(n_in, n_out, stride), Block(n_out, n_out, 1)]
    elif len(form.shape) > 1:
        layers += [Conv(n_filters, 64, patch), nn.ReLU(), Conv(64, 96, patch), nn.ReLU()]
    with torch.no_grad():
        n_flat = nn.Sequential(first, *layers)(torch.zeros(1, n_channels, height, width)).numel()
    rest = nn.Sequential(*layers, nn.Flatten(), nn.Linear(n_flat, n_hidden), nn.ReLU())
    net = Net(first, rest, nn.Linear(n_hidden, n_classes))
    # Normal weights of variance 2 / fan-in (logits: 1 / fan-in), centred to sum 0 per unit; biases are zero.
    random = torch.Generator().manual_seed(int(generator(seed, "initial weights").integers(2**63)))
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                gain = 1 if module is net.head else 2  # a ReLU lets half of the variance through
                module.weight.normal_(0, (gain / module.weight[0].numel()) ** 0.5, generator=random)
                module.weight -= module.weight.mean(dim=tuple(range(1, module.weight.dim())), keepdim=True)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, Block):
                cast(nn.GroupNorm, module.way[-1]).weight.zero_()
    return net


def tensor(inputs: NDArray[np.generic], form: Form, device: str = "cpu") -> Tensor:
    """Rows [n, K] of values in [low, high] as network input: float32 [n, channels, height, width] in [-1, 1].

    A window of a sensor is [n, 1, samples, axes], a row of numbers [n, K, 1, 1]. Features of a frozen network have no range
    (low = high): each row is brought to one length, at which a usual value is 1/2, and cut off at 1. Of one row alone, as
    the sensitivity of all that is trained on it needs.
    """
    rows = torch.from_numpy(np.ascontiguousarray(inputs, dtype=np.float32)).to(device)
    if form.low == form.high:
        rows = (functional.normalize(rows) * (form.shape[0] ** 0.5 / 2)).clamp_(-1, 1)
        return cast(Tensor, rows.reshape(-1, *form.planes).permute(0, 3, 1, 2))
    rows = (rows - form.low).mul_(2 / (form.high - form.low)).sub_(1)
    return rows.reshape(-1, *form.planes).permute(0, 3, 1, 2)


# The networks that Lai et al. 2022 train centrally on windows of a sensor (appendix D, table 4).
#
# The paper names them and the channels of three, no more. Ours where it is silent: three convolutions over time with patches
# of five samples, each followed by ReLU and pooling of two, then 128 units; one LSTM of 64 units in each direction, whose
# largest outputs over time count. Ignatov (2018) has one convolution of 196 filters over twelve samples (his code for
# WISDM), pooling of four and 1,024 units, whose inputs his statistics of a window (`statistics`) join; dropout and weight
# decay are left out.


N_STATISTICS = 40
_BINS = 10
_CHANNELS: dict[NetworkName, int] = {"cnn-32": 32, "cnn-64": 64, "cnn-128": 128}


class SensorNet(Network):
    """Maps windows float32 [b, 1, samples, axes] in [-1, 1] to logits [b, n_classes]: `body` reads [b, axes, samples]."""

    def __init__(self, body: nn.Module, n_out: int, hidden: int, n_classes: int, *, has_statistics: bool = False) -> None:
        super().__init__()
        self.body, self.has_statistics = body, has_statistics
        n_in = n_out + (N_STATISTICS if has_statistics else 0)
        self.units = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU()) if hidden else nn.Identity()
        self.head = nn.Linear(hidden or n_in, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        signals = x[:, 0].transpose(1, 2)
        features = self.body(signals)
        if self.has_statistics:
            features = torch.cat([features, statistics(signals)], dim=1)
        return cast(Tensor, self.head(self.units(features)))


class _Recurrent(nn.Module):
    """The largest output over time of an LSTM's units in both directions [b, 2 hidden]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(AXES, hidden, batch_first=True, bidirectional=True)

    def forward(self, signals: Tensor) -> Tensor:
        outputs, _ = self.lstm(signals.transpose(1, 2))
        return cast(Tensor, outputs.amax(dim=1))


def statistics(signals: Tensor) -> Tensor:
    """Ignatov's 40 statistics of signals [b, 3 axes, samples]: float32 [b, 40].

    Of each axis mean, standard deviation, mean distance from the mean; the mean length of the three together; and of each
    axis the shares of samples in ten equal parts of its own range.
    """
    means, deviations = signals.mean(dim=2), signals.std(dim=2)
    distances = (signals - means[:, :, None]).abs().mean(dim=2)
    lengths = signals.square().sum(dim=1).sqrt().mean(dim=1, keepdim=True)
    low, high = signals.amin(dim=2, keepdim=True), signals.amax(dim=2, keepdim=True)
    width = torch.where(high > low, high - low, torch.ones_like(low))
    bins = ((signals - low) / width * _BINS).long().clamp(max=_BINS - 1)
    shares = nn.functional.one_hot(bins, _BINS).float().mean(dim=2).flatten(1)
    return torch.cat([means, deviations, distances, lengths, shares], dim=1)


def build_named(network: NetworkName, form: Form, n_classes: int, seed: int) -> Network:
    """A network on the CPU: for windows of a sensor one of table 4, with torch's own initial weights; else `build`'s."""
    if network == "lifelong":
        return build(form, n_classes, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if network == "bilstm":
            return SensorNet(_Recurrent(64), 2 * 64, 0, n_classes)
        if network in ("cnn-ig", "cnn-ig-featureless"):
            convolution = (nn.ConstantPad1d((5, 6), 0.0), nn.Conv1d(AXES, 196, 12), nn.ReLU())
            body = nn.Sequential(*convolution, nn.MaxPool1d(4), nn.Flatten())
            return SensorNet(body, 196 * (SAMPLES // 4), 1024, n_classes, has_statistics=network == "cnn-ig")
        channels = _CHANNELS[network]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise((AXES, channels, channels, channels)):
            layers += [nn.Conv1d(n_in, n_out, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2)]
        return SensorNet(nn.Sequential(*layers, nn.Flatten()), channels * (SAMPLES // 8), 128, n_classes)


# A-GEM's projection (Chaudhry et al. 2019, Eq. 11): removes the part of a step that opposes the memory's gradient.


def project(grad: Tensor, ref: Tensor, when: Projection) -> Tensor:
    """g - (g·g_ref / g_ref·g_ref) g_ref for flat vectors of equal length where the projection applies; otherwise g.

    "if-violated": where g·g_ref < 0, as in A-GEM's own code. "always": at every step, as Lai et al. print it (Eq. 2,
    Algorithms 1 and 2), which also keeps a step from helping the memory. g_ref = 0 gives g. Computed on the device without
    synchronisation.
    """
    if when == "never":
        return grad
    along, length = grad @ ref, ref @ ref
    applies = length > 0 if when == "always" else (along < 0) & (length > 0)
    return torch.where(applies, grad - (along / length) * ref, grad)  # where it does not apply, a 0/0 is discarded


def projected(grads: Sequence[Tensor], refs: Sequence[Tensor], when: Projection, scope: Scope) -> list[Tensor]:
    """The projected gradient tensors of a step: as one vector ("joint"), or the first tensor separately from the rest.

    The first tensor is the only one of the first layer. Each block has its own reference (Lai et al., Eqs. 10 and 14).
    """
    result: list[Tensor] = []
    for start, end in pairwise((0, len(grads)) if scope == "joint" else (0, 1, len(grads))):
        block = grads[start:end]
        grad, ref = (torch.cat([part.reshape(-1) for part in parts]) for parts in (block, refs[start:end]))
        pieces = torch.split(project(grad, ref, when), [one.numel() for one in block])
        result += [piece.view_as(one) for piece, one in zip(pieces, block, strict=True)]
    return result


# Gradient descent over a task's fixed batches, projected against the memory's gradient (A-GEM), for any loss.


Gradients = list[Tensor]  # one tensor for each parameter


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Examples that are always used together: `inputs` float32 [b, channels, height, width]; `targets` int64 [b], classes as
    positions in `columns`; `columns` int64 [k], ascending: the outputs that compete."""

    inputs: Tensor
    targets: Tensor
    columns: Tensor


def batch(examples: Examples, classes: Sequence[int], form: Form, device: str) -> Batch:
    """All of these examples as one batch; their labels are among `classes`, which compete."""
    targets = torch.from_numpy(np.searchsorted(classes, examples.labels)).to(device)
    return Batch(tensor(examples.inputs, form, device), targets, torch.tensor(classes, device=device))


def pieces(batch: Batch, size: int) -> list[Batch]:
    """The batch in parts of at most this many examples; one empty part of an empty batch."""
    parts = zip(torch.split(batch.inputs, size), torch.split(batch.targets, size), strict=True)
    return [Batch(inputs, targets, batch.columns) for inputs, targets in parts]


def sample_batches(stored: Sequence[Batch], at_most: int, generator: np.random.Generator) -> Sequence[Batch]:
    """A random sample of `at_most` stored batches without replacement; all of them if fewer are stored."""
    if at_most >= len(stored):
        return stored
    return [stored[place] for place in generator.choice(len(stored), at_most, replace=False)]


def descend(
    parameters: Sequence[Tensor], batches: Sequence[Batch], stored: Sequence[Batch],
    gradients: Callable[[Batch], Gradients], n_steps: int, params: BatchParams, generator: np.random.Generator,
    largest: float = LARGEST_WEIGHT,
) -> Iterator[int]:
    """Updates θ <- θ - ϱ g~ in place `n_steps` times; yields the number of steps taken. Step i takes batch i modulo their
    number.

    g~ is the batch's gradient, projected against the mean gradient on stored batches if there are any; the first parameter
    is the first block. Plain descent: the papers state no momentum. Raises Diverged where a parameter is larger than
    `largest` or not finite.
    """
    parameters = [parameter.detach() for parameter in parameters]  # shared storage, updated outside autograd
    for step in range(n_steps):
        grads = gradients(batches[step % len(batches)])
        if stored and params.projection != "never":
            of_stored = [gradients(batch) for batch in sample_batches(stored, params.ref_batches, generator)]
            refs = of_stored[0]
            if len(of_stored) > 1:
                refs = [torch.stack(parts).mean(0) for parts in zip(*of_stored, strict=True)]
            grads = projected(grads, refs, params.projection, params.scope)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.sub_(grad, alpha=params.learning_rate)
        yield step + 1
        # Checked after the yield, since the caller may have rescaled weights to its norm caps.
        peak = torch.stack([parameter.abs().max() for parameter in parameters]).max()  # NaN if any weight is
        if not peak <= largest:
            where = f"step {step + 1} of {n_steps} with params.learning_rate = {params.learning_rate:g}"
            raise Diverged(f"training diverged at {where}: a smaller learning rate may help")


# L2DP-ML's auto-encoder: the network's first convolution θ1, its noise, and the tied decoder (Lai et al. 2022, section 4).
#
# Noise of 200 to 200,000 times the range of a pixel, added to pixels in single precision, would round the picture away. The
# convolution is linear, so the two are computed separately: θ1ᵀ(x + χ1/λ) is θ1ᵀx, in single precision, plus θ1ᵀχ1/λ, in
# double precision and once for all examples.


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The three noise draws of a run, float64, before division by λ: every record, batch, step and task gets the same noise.

    `inputs`: χ1 [channels, height, width]; `hidden`: χ2 [filters, height/2, width/2]; `output`: χ3 [n_classes, n_last],
    whose rows are equal where the noise is "shared", as printed.
    """

    inputs: Tensor
    hidden: Tensor
    output: Tensor


def draw(plan: Plan, noise: Noise, n_channels: int, height: int, device: str, output: OutputNoise) -> Draws:
    """Draws a run's noise: Laplace of scales Δ_R/ε1, Δ_R/ε1 and Δ_L/ε2. Its ledger entry gives no bound.

    Args: n_channels, height: of an example as the network reads it. output: whether each class draws its own χ3.
    """
    sizes = plan.sizes
    rows = -(-height // 2)

    def laplace(scale: float, *shape: int) -> Tensor:
        zeros = np.zeros(shape)
        return torch.from_numpy(noise.laplace_added(zeros, scale) if scale > 0 else zeros).to(device)

    return Draws(
        laplace(plan.scale1, n_channels, height, sizes.n_inputs // (n_channels * height)),
        laplace(plan.scale1, sizes.n_hidden // sizes.n_positions, rows, sizes.n_positions // rows),
        laplace(plan.scale2, 1 if output == "shared" else sizes.n_classes, sizes.n_last).expand(sizes.n_classes, -1),
    )


def noise_response(first: Conv, inputs: Tensor) -> Tensor:
    """θ1ᵀ applied to a noise [channels, height, width]: its part of each unit before ReLU, float64 [1, filters, ...]."""
    return cast(Tensor, functional_call(first, {"weight": first.weight.detach().double()}, (inputs[None],)))


def shared_hidden(units: Tensor, of_inputs: Tensor, hidden: Tensor) -> Tensor:
    """h̄ = clip(θ1ᵀx̄, -1, 1) + 2χ2/λ, the decoder's input; constant in the losses.

    Args: units: θ1ᵀx [b, filters, ...]; of_inputs: θ1ᵀχ1/λ; hidden: χ2/λ.
    """
    return (units.detach() + of_inputs.to(units.dtype)).clamp_(-1, 1) + (2 * hidden).to(units.dtype)


def transposed(kernel: Tensor, hidden: Tensor, height: int, width: int) -> Tensor:
    """x~ = θ1 h̄ [b, channels, height, width], the decoder as printed: the transpose of x -> θ1ᵀx as a matrix, no ReLU.

    Args: kernel [filters, channels, patch, patch]; hidden [b, filters, rows, columns].
    """
    patch = kernel.shape[2]
    # `Conv` pads so that rows = height / 2, rounded up: the output has 2 * rows rows, the last possibly outside the picture.
    full = functional.conv_transpose2d(hidden, kernel, stride=2, padding=(patch - 1) // 2, output_padding=patch % 2)
    return full[:, :, :height, :width]


def upsampled(kernel: Tensor, hidden: Tensor, height: int, width: int) -> Tensor:
    """x~ [b, channels, height, width] as the predecessor's code decodes: hidden values repeated 2x2, the kernel spatially
    transposed, ReLU.

    Computed without repeating the hidden values: each of the four positions of a 2x2 block is a convolution of the hidden
    values with its own smaller kernel, the sums of the weights that fall on each hidden unit. No bias, as in the encoder.
    Args: kernel [filters, channels, patch, patch]; hidden [b, filters, rows, columns].
    """
    patch = kernel.shape[2]
    left = (patch - 1) // 2
    offsets = [(position + tap - left) // 2 for position in (0, 1) for tap in range(patch)]
    first, last = min(offsets), max(offsets)
    falls = torch.zeros(2, last - first + 1, patch, dtype=kernel.dtype, device=kernel.device)
    for number, offset in enumerate(offsets):
        falls[number // patch, offset - first, number % patch] = 1
    # Positions (a, b) in the block, offsets (t, s) of hidden units, taps (u, v); row u of the transposed kernel is column u.
    blocks = torch.einsum("atu,bsv,fcvu->cabfts", falls, falls, kernel).flatten(0, 2)
    padded = functional.pad(hidden, (-first, last, -first, last))
    return functional.pixel_shuffle(functional.conv2d(padded, blocks), 2)[:, :, :height, :width].relu()


def classifier_input(units: Tensor, offset: Tensor, first_layer: FirstLayer) -> Tensor:
    """Input of the classifier's next layer, ReLU(θ1ᵀx + offset), in the form of `first_layer`; before batch normalisation.

    "recentred" is ReLU(u + c) - ReLU(c) = max(u, -c) - max(0, -c): the unit minus the response to noise alone. For a large
    positive offset it is exactly u, for a large negative one 0: noise of any size only selects units at random. The other
    forms keep the offset, "batch-norm" in double precision until it is divided.
    Args: units: θ1ᵀx float32 [b, filters, ...]; offset: θ1ᵀχ1/λ + 2χ2/λ float64 [1, filters, ...].
    """
    if first_layer == "recentred":
        below = -offset.to(units.dtype)
        return torch.maximum(units, below) - below.clamp(min=0)
    return (units.double() + offset).relu().to(units.dtype if first_layer == "plain" else torch.float64)


@dataclass(slots=True)
class Statistics:
    """Running means and variances of the first layer's filters, as batch normalisation keeps them for test examples."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def fresh(cls, n_filters: int, device: str) -> Statistics:
        """Initial statistics: mean 0 and variance 1."""
        mean = torch.zeros(n_filters, dtype=torch.float64, device=device)
        return cls(mean, torch.ones_like(mean))

    def normalised(self, units: Tensor, *, training: bool) -> Tensor:
        """Units [b, filters, ...] normalised per filter; in training by this batch's statistics, which it then records."""
        return functional.batch_norm(units, self.mean, self.variance, training=training)
