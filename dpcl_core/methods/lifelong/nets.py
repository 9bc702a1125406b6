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

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.data.dataset import Form
from dpcl_core.events import Fact
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.scenarios.stream import generator

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
            Conv(n_in, n_out, 3, stride, bias=False),
            nn.GroupNorm(_GROUPS, n_out),
            nn.ReLU(),
            Conv(n_out, n_out, 3, 1, bias=False),
            nn.GroupNorm(_GROUPS, n_out),
        )
        self.around: nn.Module = nn.Identity()
        if n_in != n_out or stride != 1:
            self.around = nn.Sequential(Conv(n_in, n_out, 1, stride, bias=False), nn.GroupNorm(_GROUPS, n_out))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.way(x) + self.around(x))


class Network(nn.Module):
    """Any network of this family: it maps tensors of `tensor` to logits [b, n_classes], with `head` as its last layer."""

    head: nn.Linear


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
    if len(form.shape) == 1:
        first = Conv(n_channels, 64, 1, bias=False)
        layers: list[nn.Module] = [nn.ReLU()]
        n_hidden = 128
    elif n_channels == 3:
        filters, strides = (64, 64, 128, 128, 160), (2, 1, 1, 2, 2)
        first = Conv(3, filters[0], 4, bias=False)
        layers = [nn.ReLU()]
        for n_in, n_out, stride in zip(filters, filters[1:], strides[1:], strict=False):
            layers += [Block(n_in, n_out, stride), Block(n_out, n_out, 1)]
        n_hidden = 256
    else:
        patch, n_hidden = (2, 128) if len(form.shape) == 2 else (5, 512)
        first = Conv(n_channels, 32, patch, bias=False)
        layers = [nn.ReLU(), Conv(32, 64, patch), nn.ReLU(), Conv(64, 96, patch), nn.ReLU()]
    with torch.no_grad():
        n_flat = nn.Sequential(first, *layers)(torch.zeros(1, n_channels, height, width)).numel()
    rest = nn.Sequential(*layers, nn.Flatten(), nn.Linear(n_flat, n_hidden), nn.ReLU())
    net = Net(first, rest, nn.Linear(n_hidden, n_classes))
    _initialise(net, seed)
    return net


def tensor(inputs: NDArray[np.generic], form: Form, device: str = "cpu") -> Tensor:
    """Rows [n, K] of values in [low, high] as network input: float32 [n, channels, height, width] in [-1, 1].

    A window of a sensor is [n, 1, samples, axes], a row of numbers [n, K, 1, 1].
    """
    rows = torch.from_numpy(np.ascontiguousarray(inputs, dtype=np.float32)).to(device)
    rows = (rows - form.low).mul_(2 / (form.high - form.low)).sub_(1)
    return rows.reshape(-1, *form.planes).permute(0, 3, 1, 2)


def logits(net: Network, inputs: NDArray[np.generic], form: Form, batch: int = _AT_ONCE) -> NDArray[np.float32]:
    """Logits [n, n_classes] of rows [n, K], computed on the network's device, without gradients."""
    device = str(net.head.weight.device)
    with torch.inference_mode():
        parts = [net(tensor(inputs[at : at + batch], form, device)).cpu() for at in range(0, len(inputs), batch)]
        return torch.cat(parts).numpy() if parts else np.zeros((0, net.head.out_features), np.float32)


def released(net: Network) -> dict[str, NDArray[np.generic]]:
    """A copy of all weights by name."""
    return {name: weights.detach().cpu().numpy().copy() for name, weights in net.named_parameters()}


def rule(net: Network, competing: Sequence[int], by_task: Sequence[Sequence[int]], **facts: Fact) -> Rule:
    """The largest logit of a network of one output a class. `by_task`: empty where tasks share the last layer."""
    columns, names = range(net.head.out_features), tuple(name for name, _ in net.named_parameters())
    return Rule("network", names, columns, competing, by_task, facts)


def _initialise(net: Net, seed: int) -> None:
    """Draws normal weights of variance 2 / fan-in (logits: 1 / fan-in), centred to sum 0 per unit; biases are zero."""
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
