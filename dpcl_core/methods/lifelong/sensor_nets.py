"""The networks that Lai et al. 2022 train centrally on windows of a sensor (appendix D, table 4).

The paper names them and the channels of three, no more. Ours where it is silent: three convolutions over time with patches
of five samples, each followed by ReLU and pooling of two, then 128 units; one LSTM of 64 units in each direction, whose
largest outputs over time count. Ignatov (2018) has one convolution of 196 filters over twelve samples (his code for WISDM),
pooling of four and 1,024 units, whose inputs his statistics of a window (`statistics`) join; dropout and weight decay are
left out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from dpcl_core.data.windows import AXES, SAMPLES
from dpcl_core.methods.lifelong.cards.joint_network import NetworkName
from dpcl_core.methods.lifelong.nets import Network

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


def build(network: NetworkName, n_classes: int, seed: int) -> SensorNet:
    """One of the networks on the CPU, with torch's own initial weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if network == "bilstm":
            return SensorNet(_Recurrent(64), 2 * 64, 0, n_classes)
        if network in ("cnn-ig", "cnn-ig-featureless"):
            convolution = (nn.ConstantPad1d((5, 6), 0.0), nn.Conv1d(AXES, 196, 12), nn.ReLU())
            body = nn.Sequential(*convolution, nn.MaxPool1d(4), nn.Flatten())
            return SensorNet(body, 196 * (SAMPLES // 4), 1024, n_classes, has_statistics=network == "cnn-ig")
        channels = _CHANNELS[network]
        sizes = (AXES, channels, channels, channels)
        layers = [
            layer
            for n_in, n_out in pairwise(sizes)
            for layer in (nn.Conv1d(n_in, n_out, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2))
        ]
        return SensorNet(nn.Sequential(*layers, nn.Flatten()), channels * (SAMPLES // 8), 128, n_classes)
