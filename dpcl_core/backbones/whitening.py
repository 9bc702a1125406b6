"""What the bundled networks have in common: frozen features whitened by constants of the public training pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Whitened(nn.Module):
    """A network of images [b, 3, H, W] with a `head` of classes; `features` [b, feature_dim] is what the head reads.

    `frozen` is what the frozen extractor gives: `pooled`, which each network chooses for itself, whitened.
    """

    centre: Tensor
    whitening: Tensor

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.register_buffer("centre", torch.zeros(feature_dim))
        self.register_buffer("whitening", torch.eye(feature_dim))

    def pooled(self, images: Tensor) -> Tensor:
        """The features that are whitened: float [b, feature_dim]."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """What the head reads: float [b, feature_dim]."""
        raise NotImplementedError

    def frozen(self, images: Tensor) -> Tensor:
        """What the frozen extractor gives [b, feature_dim]: `pooled`, whitened by constants of the training pictures."""
        white: Tensor = (self.pooled(images) - self.centre) @ self.whitening
        return white

    @torch.no_grad()
    def whiten(self, pooled: Tensor) -> None:
        """Fixes centre and whitening from `pooled` [n, feature_dim] of the public training pictures.

        Trained features crowd into few directions, and cosines of such features tell little apart. The spread of a
        direction is raised by 0.3 of the average one, so that quiet directions do not come out as noise.
        """
        spread, directions = torch.linalg.eigh(torch.cov(pooled.T.double()))
        self.centre.copy_(pooled.mean(0))
        self.whitening.copy_(directions / (spread + 0.3 * spread.mean()).sqrt())


class Frozen(nn.Module):
    """A network that gives its frozen features."""

    def __init__(self, network: Whitened) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.frozen(images)


def start_as_identity(out: nn.Linear) -> None:
    """With its last layer at zero a residual block passes its input on unchanged: no warm-up needed, any depth trains."""
    nn.init.zeros_(out.weight)
    nn.init.zeros_(out.bias)
