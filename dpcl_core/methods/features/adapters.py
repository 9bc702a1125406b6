"""FiLM and LoRA adapters with a last layer on top, trained by DP-SGD on pictures: one training, one model at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones import gpu
from dpcl_core.backbones.adaptable import Network
from dpcl_core.backbones.axes import Axes
from dpcl_core.backbones.batches import of_rows
from dpcl_core.methods.common.dpsgd_plan import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.noisy_means import noisy_means
from dpcl_core.methods.features.adapted_network import Adapted, Kind
from dpcl_core.methods.features.layer_gradients import Gradients
from dpcl_core.privacy.noise import Batches, Noise

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


def trained(
    start: Adapter,
    pictures: NDArray[np.generic],
    labels: NDArray[np.int64],
    plan: Schedule,
    noise_multiplier: float,
    batches: Batches,
    noise: Noise,
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
