"""From sums of clipped gradients to what a step of DP-SGD may use."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpcl_core.privacy.noise import Noise


def noisy_means(sums: Sequence[Tensor], expected_batch: float, std: float, noise: Noise) -> list[Tensor]:
    """Sums divided by the expected batch, with noise of that standard deviation on every coordinate, all from one draw.

    Means and noise are rounded together (`privacy.rounded`): the last digits tell nothing of the sums.
    """
    flat = torch.cat([part.flatten() for part in sums]) / expected_batch
    if std > 0:
        clean = flat.cpu().numpy()
        noisy = noise.added(clean, std) if flat.dtype == torch.float64 else noise.added32(clean, std)
        flat = torch.from_numpy(noisy).to(flat.device)
    pieces = torch.split(flat, [part.numel() for part in sums])
    return [piece.reshape(part.shape) for piece, part in zip(pieces, sums, strict=True)]
