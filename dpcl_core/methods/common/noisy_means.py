"""Noisy mean gradients of a DP-SGD step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpcl_core.privacy.noise import Noise


def noisy_means(
    sums: Sequence[Tensor], expected_batch: float, std: float, noise: Noise, *, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Sums divided by the expected batch size, with noise of standard deviation `std` on every coordinate, in one draw.

    Means and noise are rounded together (`privacy.rounded`), so that the last digits reveal nothing about the sums. Means
    stay in double precision until they have their noise: in single precision a sum over tens of thousands of examples is
    rounded by more than `ROUNDING` of what one of them adds. `dtype`: of the results, single or double precision.
    """
    flat = torch.cat([part.flatten() for part in sums]).double() / expected_batch
    if std > 0:
        clean = flat.cpu().numpy()
        noisy = noise.added(clean, std) if dtype == torch.float64 else noise.added32(clean, std)
        flat = torch.from_numpy(noisy).to(flat.device)
    pieces = torch.split(flat.to(dtype), [part.numel() for part in sums])
    return [piece.reshape(part.shape) for piece, part in zip(pieces, sums, strict=True)]
