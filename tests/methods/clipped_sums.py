"""Every way to sum clipped gradients, and the loop over single examples by autograd that it is held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpcl_core.methods.features.adapters import Adapted
from dpcl_core.methods.features.side_by_side import Gradients


def row(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


@dataclass(frozen=True)
class Sums:
    """`of`: the sum over the examples at these places, each clipped to this length, as one row.

    `alone`: one example's own gradient, by autograd; `n`: how many examples there are.
    """

    n: int
    of: Callable[[NDArray[np.int64], float], Tensor]
    alone: Callable[[int], Tensor]

    @cached_property
    def by_autograd(self) -> Tensor:
        """Every example's own gradient, in its row."""
        return torch.stack([self.alone(place) for place in range(self.n)])

    def loop(self) -> tuple[float, Tensor]:
        """The median length of these gradients, and each clipped to it, with one norm for all parameters."""
        own = self.by_autograd
        norms = own.norm(dim=1)
        clip = float(norms.median())
        assert 0 < int((norms > clip).sum()) < len(norms)
        return clip, own * (clip / (norms + 1e-6)).clamp(max=1)[:, None]

    def equals_loop(self, tolerance: float = 1e-12) -> bool:
        clip, each = self.loop()
        return torch.allclose(self.of(np.arange(self.n), clip), each.sum(0), rtol=0, atol=tolerance)

    def largest_change(self, clip: float) -> float:
        """By how much the sum changes at most where one example is left out."""
        everyone = np.arange(self.n)
        whole = self.of(everyone, clip)
        return max(float((whole - self.of(np.delete(everyone, place), clip)).norm()) for place in everyone)


def of_adapter(module: Adapted, examples: NDArray[np.generic], labels: NDArray[np.int64], limit: int = 64) -> Sums:
    """Of adapters or whole networks on these examples, `limit` of them at once."""

    def alone(place: int) -> Tensor:
        logits = module(torch.from_numpy(examples[place : place + 1]))
        loss = functional.cross_entropy(logits, torch.from_numpy(labels[place : place + 1]))
        return row(torch.autograd.grad(loss, [parameter for _, parameter in module.trainable()]))

    def of(places: NDArray[np.int64], clip: float) -> Tensor:
        return row(Gradients(module, clip, limit, "cpu").of(examples[places], labels[places]))

    return Sums(len(labels), of, alone)
