"""Common base of the bundled networks: frozen features whitened by constants of the public training pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Whitened(nn.Module):
    """A network of images [b, 3, H, W] with a classification `head`; `features` [b, feature_dim] are the head's inputs.

    `frozen`: the outputs of the frozen extractor, which are `pooled` (defined by each network), whitened.
    """

    centre: Tensor
    whitening: Tensor

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.register_buffer("centre", torch.zeros(feature_dim))
        self.register_buffer("whitening", torch.eye(feature_dim))

    def pooled(self, images: Tensor) -> Tensor:
        """The features to be whitened: float [b, feature_dim]."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """The inputs of the head: float [b, feature_dim]."""
        raise NotImplementedError

    def frozen(self, images: Tensor) -> Tensor:
        """The frozen features [b, feature_dim]: `pooled`, whitened by constants of the training pictures."""
        white: Tensor = (self.pooled(images) - self.centre) @ self.whitening
        return white

    @torch.no_grad()
    def whiten(self, pooled: Tensor) -> None:
        """Fixes centre and whitening from `pooled` [n, feature_dim] of the public training pictures.

        Trained features concentrate on few directions, and their cosines separate little. The variance of each direction is
        increased by 0.3 of the mean variance, so that directions of small variance are not blown up to noise.
        """
        spread, directions = torch.linalg.eigh(torch.cov(pooled.T.double()))
        self.centre.copy_(pooled.mean(0))
        self.whitening.copy_(directions / (spread + 0.3 * spread.mean()).sqrt())


class Frozen(nn.Module):
    """A module whose output is the network's frozen features."""

    def __init__(self, network: Whitened) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.frozen(images)


def start_as_identity(out: nn.Linear) -> None:
    """Sets a residual block's last layer to zero: the block starts as the identity, and any depth trains without warm-up."""
    nn.init.zeros_(out.weight)
    nn.init.zeros_(out.bias)
